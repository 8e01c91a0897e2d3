"""Pre-norm blocks are read back whole: their network on the sphere, their attention in the ball."""

from dataclasses import replace

import numpy as np
import pytest

from attention import Norm, Outcome, ValueOracle, block_errors, make_nice_block
from attention.feed_forward import activation
from upper import BlockByQueries
from upper.blocks.ball import Ball
from upper.blocks.normed_fit import fit_normed
from upper.blocks.normed_map import NormedMap
from upper.blocks.one_token import NoNetwork
from upper.blocks.rank_ones import rank_ones, squares, vectors_of
from upper.blocks.sphere import find_sphere
from upper.blocks.token_map import TokenMap


def normed(seed, *, dim=24, width=48, heads=2, kind="gelu", eps=1e-5, centred=True):
    block = make_nice_block(heads=heads, dim=dim, width=width, activation=kind, rng=seed)
    rng = np.random.default_rng([seed, 1])
    norms = tuple(
        Norm(1 + 0.2 * rng.standard_normal(dim), 0.1 * rng.standard_normal(dim), eps, centred)
        for _ in range(2)
    )
    return replace(block, norms=norms)


@pytest.mark.parametrize("centred", [True, False])
def test_gains_offsets_and_means_fold_into_the_next_matrices(centred):
    block = normed(3, dim=6, width=5, centred=centred)
    x = np.random.default_rng(4).standard_normal((20, 3, 6))
    np.testing.assert_allclose(block.centred()(x), block(x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(block.centred().norms[0].gain, 1)
    assert block_errors(block.centred(), block).worst < 1e-14


def test_the_derivative_of_a_norm_is_the_limit_of_differences():
    rng = np.random.default_rng(0)
    x, along = rng.standard_normal((5, 7)), rng.standard_normal((5, 3, 7))
    for centred in (True, False):
        norm = Norm.plain(7, 0.3, centred=centred)
        ahead, behind = norm(x[:, None] + 1e-6 * along), norm(x[:, None] - 1e-6 * along)
        np.testing.assert_allclose(norm.derivative(x, along), (ahead - behind) / 2e-6, atol=1e-9)


def test_the_squares_in_a_span_with_the_identity_are_found():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 12))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    span = np.concatenate([squares(x), vectors_of(np.eye(12)[None])])
    found = rank_ones(np.linalg.qr(span.T)[0].T, 30, rng)
    np.testing.assert_allclose(np.abs(found @ x.T).max(axis=0), 1, atol=1e-9)


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "tanh"])
def test_derivatives_of_activations_are_limits_of_differences(kind):
    t = np.linspace(-4, 4, 82)  # 0 is none of them
    difference = (activation(kind, t + 1e-6) - activation(kind, t - 1e-6)) / 2e-6
    np.testing.assert_allclose(activation(kind, t, derivative=True), difference, atol=1e-8)


def test_only_a_pre_norm_block_is_a_map_of_the_sphere_far_away():
    block = normed(5, dim=8, width=6)

    def ask(target):
        return lambda x: target(x[:, None])[:, 0]

    rng = np.random.default_rng(6)
    assert find_sphere(ask(block), 8, rng).norm.centred
    assert not find_sphere(ask(normed(5, dim=8, width=6, centred=False)), 8, rng).norm.centred
    assert find_sphere(ask(replace(block, norms=None)), 8, rng) is None
    assert find_sphere(ask(lambda x: np.tanh(x)), 8, rng) is None


CASES = [
    {},
    *(
        pytest.param(case, marks=pytest.mark.slow)
        for case in (
            {"kind": "gelu_tanh"},
            {"kind": "tanh"},
            {"centred": False, "eps": 1e-6},
            {"causal": True},
            {"dim": 32, "width": 64},
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_pre_norm_block_is_read_whole(case):
    case = dict(case)
    causal = case.pop("causal", False)
    block = normed(0, **case)
    block = replace(block, layer=replace(block.layer, causal=causal))
    oracle = ValueOracle(block, tokens=3)
    fit = BlockByQueries().fit(oracle, rng=0)
    assert fit.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR), fit.trace
    assert block_errors(fit.details, block).worst < 1e-8
    assert fit.details.norms[0].eps == pytest.approx(block.norms[0].eps, rel=1e-6)
    x = np.random.default_rng(9).standard_normal((50, 3, block.dim))
    np.testing.assert_allclose(fit.predict(x), block(x), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "seed"),
    [
        (24, 5),
        pytest.param(24, 2005, id="answers with several preimages"),
        pytest.param(32, 3006, id="rare neurons"),
    ],
)
def test_a_pre_norm_block_of_relu_is_read_whole(dim, seed):
    norm = Norm.plain(dim)
    nice = make_nice_block(heads=2, dim=dim, width=2 * dim, activation="relu", rng=seed)
    block = replace(nice, norms=(norm, norm))
    fit = BlockByQueries().fit(ValueOracle(block, tokens=3), rng=seed + 1)
    assert fit.outcome.succeeded, fit.trace
    assert block_errors(fit.details, block).worst < 1e-7


def test_noise_that_hides_kinks_ends_the_search_for_them():
    block = normed(5, kind="relu")
    noise = 1e-6 * np.random.default_rng(6).standard_normal(24)

    def answer(x):  # noise that is the same when a query is repeated
        return block(x) + noise * np.sin(1e9 * x)

    oracle = ValueOracle.from_callable(answer, 2, 24)
    fit = BlockByQueries(examples=20_000).fit(oracle, rng=0)
    assert fit.outcome is Outcome.NO_BLOCK
    assert fit.details is NoNetwork.NOISY


def test_a_normed_block_of_four_coordinates_ends_with_a_reason():
    block = normed(7, dim=4, width=4)
    fit = BlockByQueries().fit(ValueOracle(block, tokens=2), rng=0)
    assert (fit.outcome, fit.details) == (Outcome.NO_BLOCK, NoNetwork.NOT_ON_SPHERE)


@pytest.mark.parametrize("causal", [False, True])
def test_preimages_are_followed_from_equal_tokens(causal):
    norm = Norm.plain(24)
    nice = make_nice_block(heads=2, dim=24, width=48, activation="relu", rng=2005)
    layer = replace(nice.layer, causal=causal)
    block = replace(nice, layer=layer, norms=(norm, norm)).centred()
    net = block.network
    network = TokenMap("relu", net.w1.T, net.b1, net.w2, np.zeros((24, 24)), net.b2)
    g = NormedMap(norm, block.layer.w.sum(axis=0), block.layer.bias, network)
    assert not g.amplification(0.9, np.random.default_rng(1), 512)[1]
    y = 15 * np.random.default_rng(2).standard_normal((100, 2, 24)) * np.linspace(0, 0.5, 100)[:, None, None]
    y -= y.mean(axis=2, keepdims=True)

    def wrong(steps):
        off = Ball(ValueOracle(block, tokens=2), g, 0.9, steps).ask(y) - block.layer(y / 10)
        return np.sum(np.linalg.norm(off, axis=(1, 2)) > 1e-6)

    assert wrong(1) > 0
    assert wrong(64) == 0


@pytest.mark.parametrize(("added", "inputs", "outputs"), [(1, 1, 1), (16, 1, 1), (1, 2, 4)])
def test_one_token_is_fitted_to_rounding_whatever_its_parts_add(added, inputs, outputs):
    norm, rng = Norm.plain(16, 1e-5), np.random.default_rng(1)
    block = replace(make_nice_block(heads=2, dim=16, width=32, rng=0), norms=(norm, norm)).centred()
    net = block.network
    network = TokenMap("gelu", inputs * net.w1.T, net.b1, outputs * net.w2, np.zeros((16, 16)), net.b2)
    right = NormedMap(norm, added * block.layer.w.sum(axis=0), added * block.layer.bias, network)
    basis = np.linalg.qr(np.column_stack([np.ones(16), rng.standard_normal((16, 15))]))[0].T[1:]
    turned = network.u + 1e-4 * rng.standard_normal(network.u.shape) @ basis.T @ basis
    b = right.b + 1e-3 * rng.standard_normal(16)
    start = replace(right, norm=Norm.plain(16, 0.0), b=b, network=replace(network, u=turned))
    fitted, error = fit_normed(right, start, basis, rng)
    assert error < 1e-13
    np.testing.assert_allclose(fitted.network.u, network.u, atol=1e-10)
