"""Post-norm blocks are read back whole: the norms, the network between them, and the attention before."""

from dataclasses import replace

import numpy as np
import pytest

from attention import Block, Norm, Outcome, ValueOracle, block_errors, make_nice_block, make_nice_network
from upper import BlockByQueries
from upper.blocks.ellipsoid import Ellipsoid, find_ellipsoid, mean_zero
from upper.blocks.mirrored import Mirrored
from upper.blocks.one_token import NoNetwork, one_token
from upper.blocks.own_and_other import attended
from upper.blocks.profiles import curvature, fit_waves
from upper.blocks.projective_fit import fit_directions
from upper.blocks.sphere import on_both_sides
from upper.blocks.summed_map import SummedMap, fit_short
from upper.blocks.token_map import TokenMap


def post_norm(seed, *, dim=16, width=20, heads=2, kind="gelu", eps=1e-5, causal=False):
    block = make_nice_block(heads=heads, dim=dim, width=width, activation=kind, rng=seed)
    rng = np.random.default_rng([seed, 1])
    norms = tuple(
        Norm(1 + 0.2 * rng.standard_normal(dim), 0.1 * rng.standard_normal(dim), eps) for _ in range(2)
    )
    return replace(block, layer=replace(block.layer, causal=causal), norms=norms, norm_first=False)


def token_map(rng, *, dim, width, kind="gelu"):
    net = make_nice_network(dim=dim, width=width, activation=kind, rng=rng)
    return TokenMap(kind, net.w1.T, net.b1, net.w2, np.eye(dim), net.b2)


def on_sphere(rng, count, dim):
    n = rng.standard_normal((count, dim))
    return n * np.sqrt(dim) / np.linalg.norm(n, axis=1, keepdims=True)


def test_gain_and_offset_of_the_last_norm_are_those_of_its_ellipsoid():
    rng = np.random.default_rng(0)
    block = post_norm(1, eps=1e-13)
    last = find_ellipsoid(one_token(ValueOracle(block, tokens=2)), 16, rng)
    norm = block.norms[1]
    np.testing.assert_allclose(last.gain * np.sign(last.gain.sum()), norm.gain, rtol=1e-10)
    np.testing.assert_allclose(last.offset, norm.offset, atol=1e-10)
    np.testing.assert_allclose(np.sum(last.plain(block(np.ones((1, 2, 16)))[0]) ** 2, axis=1), 16, rtol=1e-10)


def test_only_outputs_of_a_norm_lie_on_an_ellipsoid():
    rng = np.random.default_rng(2)
    block = post_norm(3)
    for other in (replace(block, norm_first=True), replace(block, norms=None), np.tanh):
        assert find_ellipsoid(one_token(ValueOracle.from_callable(other, 2, 16)), 16, rng) is None


@pytest.mark.parametrize(
    ("tokens", "causal", "kind"), [(2, False, "gelu"), (3, False, "relu"), (4, True, "gelu")]
)
def test_two_tokens_show_the_attention_s_linear_part_whatever_is_behind_it(tokens, causal, kind):
    block = post_norm(4, causal=causal, kind=kind)
    basis = mean_zero(16)
    linear, bias = attended(ValueOracle(block, tokens=tokens), basis, np.random.default_rng(5))
    np.testing.assert_allclose(linear, (np.eye(16) + block.layer.w.sum(axis=0)) @ basis.T, atol=1e-10)
    np.testing.assert_allclose(bias, block.layer.bias @ basis.T, atol=1e-4)  # up to eps


@pytest.mark.parametrize("kind", ["gelu", "tanh"])
def test_size_and_offset_of_a_wave_are_known_from_the_curvature(kind):
    rng = np.random.default_rng(6)
    angles = 2 * np.pi * np.arange(16) / 16
    waves = rng.standard_normal((10, 2)) @ np.array([np.cos(angles), np.sin(angles)])
    sizes, offsets = rng.uniform(0.5, 1.5, 10), rng.standard_normal(10)
    profiles = -3 * curvature(kind, sizes[:, None] * waves + offsets[:, None])
    s, a, misfit = fit_waves(kind, profiles, waves)
    assert misfit.max() < 1e-6
    sign = np.sign(s)  # act'' is even or odd
    np.testing.assert_allclose(np.stack([sign * s, sign * a]), [sizes, offsets], atol=1e-4)


def test_a_profile_without_curvature_is_explained_by_no_wave():
    profiles = np.array([np.zeros(16), np.full(16, np.inf), np.ones(16)])
    waves = np.cos(2 * np.pi * np.arange(16) / 16) * np.ones((3, 1))
    misfit = fit_waves("gelu", profiles, waves)[2]
    assert np.isinf(misfit).tolist() == [True, True, False]


def test_a_network_is_fitted_to_directions_of_its_outputs():
    rng = np.random.default_rng(7)
    g = token_map(rng, dim=8, width=10)
    n = on_sphere(rng, 80, 8)
    outputs = g(n)
    lengths = np.exp(rng.standard_normal(80))
    start = replace(g, u=g.u + 0.02 * rng.standard_normal((10, 8)), a=g.a + 0.02 * rng.standard_normal(10))
    fitted, found, error = fit_directions(start, n, outputs / lengths[:, None])
    assert error < 1e-12
    np.testing.assert_allclose(fitted.u, g.u, atol=1e-8)
    np.testing.assert_allclose(found / lengths, np.mean(found / lengths), rtol=1e-8)
    np.testing.assert_allclose(fitted(n), outputs * np.mean(found / lengths), rtol=1e-6, atol=1e-8)


def test_the_map_of_sums_has_its_derivative_and_its_inverse():
    rng = np.random.default_rng(8)
    g = SummedMap(0.3, token_map(rng, dim=7, width=9))
    y = rng.standard_normal((5, 7))
    step = 1e-6 * np.eye(7)
    differences = np.stack([(g(y + e) - g(y - e)) / 2e-6 for e in step], axis=1)
    np.testing.assert_allclose(g.slopes(y), differences, atol=1e-8)
    back = g.inverse(g.between(y), np.linalg.norm(y, axis=1), y + 0.05 * rng.standard_normal((5, 7)))
    np.testing.assert_allclose(back, y, atol=1e-10)


def true_parts(block):
    """The last norm, the map of sums and the linear part of a block, as they are looked for."""
    first, second = block.norms
    net, basis = block.network, mean_zero(block.dim)
    w = TokenMap(
        net.activation,
        (first.gain * net.w1.T) @ basis.T,
        net.b1 + first.offset @ net.w1,
        net.w2 @ basis.T,
        (basis * first.gain) @ basis.T,
        (first.offset + net.b2) @ basis.T,
    )
    linear = (np.eye(block.dim) + block.layer.w.sum(axis=0)) @ basis.T
    return (
        Ellipsoid(second.gain, second.offset, basis),
        SummedMap(first.eps, w),
        linear,
        block.layer.bias @ basis.T,
    )


def test_short_tokens_show_the_first_eps_and_the_bias():
    block = post_norm(9, eps=3e-6)
    last, g, linear, bias = true_parts(block)
    ask = one_token(ValueOracle(block, tokens=2))
    g, found, error = fit_short(
        replace(g, eps=0.0), lambda x: last.plain(ask(x)), linear, bias + 1e-6, np.random.default_rng(0)
    )
    assert error < 1e-9
    assert g.eps == pytest.approx(3e-6, rel=1e-7)
    np.testing.assert_allclose(found, bias, atol=1e-10)


@pytest.mark.parametrize(("tokens", "causal"), [(2, False), (4, False), (2, True)])
def test_mirror_images_show_the_layer_behind_norms(tokens, causal):
    block = post_norm(10, causal=causal)
    peeled = Mirrored(ValueOracle(block, tokens=tokens), *true_parts(block))
    x = np.random.default_rng(11).standard_normal((20, 2, 16))
    x[0, 1] = x[0, 0]
    outputs = block.layer(x.repeat(tokens // 2, axis=1))[:, [0, -1]]
    np.testing.assert_allclose(peeled.ask(x), outputs - outputs.mean(axis=2, keepdims=True), atol=1e-9)


CASES = [
    {},
    {"kind": "relu", "dim": 8, "width": 12},
    *(
        pytest.param(case, marks=pytest.mark.slow)
        for case in (
            {"kind": "gelu_tanh", "dim": 24, "width": 48},
            {"kind": "tanh", "eps": 1e-12},
            {"kind": "relu", "dim": 24, "width": 48},
            {"kind": "relu", "eps": 1e-12, "causal": True, "tokens": 4},
            {"causal": True, "tokens": 4},
            {"dim": 32, "width": 64, "heads": 3},
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_post_norm_block_is_read_whole(case):
    case = dict(case)
    tokens = case.pop("tokens", 2)
    block = post_norm(0, **case)
    fit = BlockByQueries().fit(ValueOracle(block, tokens=tokens), rng=0)
    assert fit.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR), fit.trace
    assert block_errors(fit.details, block).worst < 1e-8
    assert fit.details.norms[0].eps == pytest.approx(block.norms[0].eps, rel=1e-6)
    x = np.random.default_rng(9).standard_normal((50, 5, block.dim))
    np.testing.assert_allclose(fit.predict(x), block(x), atol=1e-7)


@pytest.mark.parametrize(
    ("activation", "biases"), [("relu", False), pytest.param("gelu", True, marks=pytest.mark.slow)]
)
def test_a_new_layer_of_pytorch_is_read_whole(activation, biases):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.TransformerEncoderLayer(16, 2, 24, activation=activation, batch_first=True)
    module = module.double().eval()
    for name, parameter in module.named_parameters():
        if biases and name.endswith("bias"):
            torch.nn.init.normal_(parameter)

    def answer(x):
        with torch.no_grad():
            return module(torch.from_numpy(x)).numpy()

    fit = BlockByQueries().fit(ValueOracle.from_callable(answer, 2, 16), rng=1)
    assert fit.outcome.succeeded, fit.trace
    assert block_errors(fit.details, Block.from_torch(module)).worst < 1e-6


def test_of_three_tokens_all_but_the_attention_is_found():
    block = post_norm(0)
    fit = BlockByQueries().fit(ValueOracle(block, tokens=3), rng=0)
    assert fit.outcome is Outcome.NOT_SEPARATED
    part = fit.details
    found = Block(block.layer, part.network, norms=(part.first, part.last), norm_first=False)
    assert block_errors(found, block).worst < 1e-8


def some_smooth(seed, count, smooth):
    """A post-norm block of ReLU whose first neurons have another activation."""
    block = post_norm(seed, kind="relu")
    first, second = block.norms

    def answer(x):
        z = first(x + block.layer(x))
        t = z @ block.network.w1 + block.network.b1
        return second(z + np.where(np.arange(20) < count, smooth(t), np.maximum(t, 0)) @ block.network.w2)

    return answer


def elu(t):
    return np.where(t > 0, t, np.expm1(np.minimum(t, 0)))


def hard_swish(t):
    return t * np.clip(t + 3, 0, 6) / 6


def without_biases():
    block = post_norm(3, kind="relu")
    norms = tuple(replace(norm, offset=0 * norm.offset) for norm in block.norms)
    network = replace(block.network, b1=0 * block.network.b1, b2=0 * block.network.b2)
    return replace(block, layer=replace(block.layer, bias=None, key_bias=None), network=network, norms=norms)


def between_two_norms():
    """A block with a norm before its attention and one at its end."""
    block = post_norm(3, kind="relu")
    first, second = block.norms
    return lambda x: second(block.network(x + block.layer(first(x))))


@pytest.mark.parametrize(
    ("function", "dim"),
    [
        pytest.param(some_smooth(0, 1, elu), 16, id="one ELU"),
        pytest.param(some_smooth(3, 5, hard_swish), 16, id="wrong neurons"),
        pytest.param(some_smooth(4, 5, hard_swish), 16, id="infinite neurons"),
        pytest.param(without_biases(), 16, id="no biases"),
        pytest.param(between_two_norms(), 16, id="another first norm"),
        pytest.param(post_norm(0, kind="relu", dim=4, width=6), 4, id="4 coordinates"),
    ],
)
def test_a_network_that_is_not_read_before_a_norm_ends_with_the_reason(function, dim):
    oracle = ValueOracle.from_callable(function, 2, dim)
    fit = BlockByQueries().fit(oracle, rng=1)
    assert fit.details.reason is NoNetwork.NO_NEURONS_BETWEEN_NORMS
    assert oracle.drawn < 50_000


def test_points_beside_planes_that_miss_the_sphere_are_on_it():
    g = token_map(np.random.default_rng(14), dim=15, width=10)
    far = replace(g, a=g.a + 100)
    n = on_both_sides(np.zeros((0, 15)), far, np.eye(15), np.random.default_rng(0))
    np.testing.assert_allclose(np.sum(n**2, axis=1), 15)


def test_of_noisy_answers_the_last_norm_is_found():
    block = post_norm(12, kind="relu")
    fit = BlockByQueries().fit(ValueOracle(block, tokens=2, noise=1e-12, rng=0), rng=0)
    assert fit.outcome is Outcome.NO_BLOCK
    gain = fit.details.last.gain
    np.testing.assert_allclose(gain * np.sign(gain.sum()), block.norms[1].gain, rtol=1e-3)
    assert fit.details.to_json()["last"]["gain"] == pytest.approx(gain)


@pytest.mark.parametrize("queries", [1000, 4000])
def test_of_a_spent_budget_what_was_found_stays(queries):
    block = post_norm(0, kind="relu", dim=16, width=20)
    fit = BlockByQueries(examples=queries).fit(ValueOracle(block, tokens=2), rng=0)
    assert fit.outcome is Outcome.EXAMPLES_SPENT
    np.testing.assert_allclose(np.abs(fit.details.last.gain), block.norms[1].gain, rtol=1e-3)
    assert (fit.details.network is not None) == (queries == 4000)
