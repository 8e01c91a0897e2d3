"""Blocks and networks as values: identities of activations, symmetries, errors of parameters, files, torch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    Block,
    FeedForward,
    FileFormatError,
    GaussianInputs,
    GroundTruth,
    Norm,
    ValueOracle,
    block_errors,
    load_layer,
    make_nice_block,
    make_nice_layer,
    make_nice_network,
    network_errors,
    save_layer,
)
from attention.feed_forward import activation
from attention.files import write_tensors


@given(st.floats(-50, 50), st.sampled_from(["relu", "gelu", "gelu_tanh"]))
def test_an_activation_is_its_argument_plus_its_mirror_image(t, kind):
    t = np.array([t])
    assert activation(kind, t) == pytest.approx(t + activation(kind, -t), abs=1e-13)


@given(st.floats(-8, 8), st.sampled_from(["relu", "gelu", "tanh"]))
def test_the_derivative_is_the_limit_of_differences(t, kind):
    step = 1e-6
    if kind == "relu" and abs(t) < 2 * step:
        return
    both = activation(kind, np.array([t - step, t + step]))
    assert activation(kind, np.array([t]), derivative=True)[0] == pytest.approx(
        (both[1] - both[0]) / (2 * step), abs=1e-8
    )


def test_a_block_is_the_network_of_the_tokens_and_the_attention():
    block = make_nice_block(heads=2, dim=5, width=7, activation="tanh", rng=0)
    x = np.random.default_rng(1).standard_normal((4, 3, 5))
    z = x + block.layer(x)
    net = block.network
    assert np.allclose(block(x), z + np.tanh(z @ net.w1 + net.b1) @ net.w2 + net.b2, atol=1e-14)


@pytest.mark.parametrize("kind", ["ReLU", "GELU", "Tanh"])
def test_three_torch_modules_become_the_network_that_they_compute(kind):
    torch = pytest.importorskip("torch")
    modules = torch.nn.Sequential(
        torch.nn.Linear(6, 12), getattr(torch.nn, kind)(), torch.nn.Linear(12, 6, bias=False)
    ).double()
    net = FeedForward.from_torch(modules, residual=True)
    x = torch.randn(4, 3, 6, dtype=torch.float64)
    assert net.activation == kind.lower()
    assert np.allclose(net(x.numpy()), (x + modules(x)).detach().numpy(), atol=1e-14)
    assert ValueOracle(net).ask(x.numpy()).shape == x.shape


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_torch_encoder_layer_without_norms_becomes_a_block(batch_first, norm_first):
    torch = pytest.importorskip("torch")
    options = {"activation": "gelu", "batch_first": batch_first, "norm_first": norm_first}
    module = torch.nn.TransformerEncoderLayer(6, 2, 12, dropout=0.2, **options)
    module.norm1, module.norm2 = torch.nn.Identity(), torch.nn.Identity()
    torch.nn.init.normal_(module.self_attn.in_proj_bias)
    block = Block.from_torch(module)
    assert (block.heads, block.network.width) == (2, 12)
    x = np.random.default_rng(1).standard_normal((4, 3, 6))
    assert ValueOracle(block).ask(x).shape == x.shape
    module.linear1.weight.data *= 2  # the block has its own parameters
    assert not np.allclose(Block.from_torch(module)(x), block(x))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_torch_encoder_layer_with_norms_becomes_a_block(tmp_path, norm_first):
    torch = pytest.importorskip("torch")
    module = torch.nn.TransformerEncoderLayer(
        6, 2, 12, norm_first=norm_first, batch_first=True, layer_norm_eps=1e-6
    )
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    block = Block.from_torch(module)  # compares a forward pass
    assert (block.norms[0].eps, block.norms[1].centred, block.norm_first) == (1e-6, True, norm_first)
    x = torch.randn(4, 3, 6, dtype=torch.float64)
    np.testing.assert_allclose(block.map(torch.from_numpy)(x).numpy(), block(x.numpy()), atol=1e-12)
    save_layer(tmp_path / "block.safetensors", block)
    np.testing.assert_array_equal(
        load_layer(tmp_path / "block.safetensors").layer(x.numpy()), block(x.numpy())
    )


def post_norm_block(rng, *, centred=(True, True), kind="gelu", dim=6):
    block = make_nice_block(heads=2, dim=dim, width=7, activation=kind, rng=rng)
    norms = tuple(Norm(*rng.standard_normal((2, dim)), 0.1, is_centred) for is_centred in centred)
    return replace(block, norms=norms, norm_first=False)


@pytest.mark.parametrize("centred", [(True, True), (False, False), (True, False), (False, True)])
def test_a_post_norm_block_is_one_function_up_to_the_symmetries_of_its_norms(centred):
    rng = np.random.default_rng(3)
    block = post_norm_block(rng, centred=centred)
    first, second = block.norms
    x = rng.standard_normal((20, 3, 6))
    z = first(x + block.layer(x))
    np.testing.assert_allclose(block(x), second(z + replace(block.network, residual=False)(z)), atol=1e-13)
    np.testing.assert_allclose(block.centred()(x), block(x), atol=1e-12)

    factor = -1.7 * np.ones(6) if second.centred else 1.7 * rng.choice([-1.0, 1.0], 6)
    e, means, taken = rng.standard_normal((3, 6))
    net, layer = block.network, block.layer
    other = Block(
        replace(layer, w=layer.w + first.centred * means[:, None]),
        replace(
            net,
            w1=(net.w1 + first.centred * taken.sum() / first.gain[:, None]) / factor[:, None],
            b1=net.b1 - e @ net.w1,
            w2=(net.w2 + second.centred * rng.standard_normal((7, 1))) * factor,
            b2=(net.b2 - e) * factor,
        ),
        norms=(
            replace(first, gain=first.gain * factor, offset=(first.offset + e) * factor),
            replace(second, gain=second.gain * np.sign(factor), eps=second.eps * 1.7**2),
        ),
        norm_first=False,
    )
    shift = (first.offset + e) @ (other.network.w1 * factor[:, None] - net.w1)
    other = replace(other, network=replace(other.network, b1=other.network.b1 - shift))
    np.testing.assert_allclose(other(x), block(x), atol=1e-12)
    assert block_errors(other, block).worst < 1e-12
    for changed in (
        replace(block, norms=(replace(first, gain=first.gain * (1 + 0.1 * np.arange(6))), second)),
        replace(block, norms=(first, replace(second, offset=second.offset + 0.1))),
        replace(block, network=replace(net, w1=2 * net.w1)),
    ):
        assert block_errors(changed, block).worst > 0.01
    with pytest.raises(ValueError, match="the same are needed"):
        block_errors(replace(block, norm_first=True), block)


def test_norms_need_the_block_s_dimension_and_both_residuals():
    block = make_nice_block(heads=2, dim=6, width=5, rng=0)
    with pytest.raises(ValueError, match="the same are needed"):
        Block(block.layer, block.network, norms=(Norm.plain(6), Norm.plain(5)))
    with pytest.raises(ValueError, match="both residuals"):
        Block(block.layer, block.network, residual=False, norms=(Norm.plain(6), Norm.plain(6)))


def test_norms_of_torch_are_those_of_their_modules():
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 4, dtype=torch.float64)
    for module in (
        torch.nn.LayerNorm(4),
        torch.nn.RMSNorm(4),
        torch.nn.LayerNorm(4, elementwise_affine=False),
    ):
        expected = module.double()(x).detach().numpy()
        np.testing.assert_allclose(Norm.from_torch(module)(x.numpy()), expected, atol=1e-12)
    with pytest.raises(ValueError, match="one axis"):
        Norm.from_torch(torch.nn.BatchNorm1d(4))


def test_torch_modules_that_compute_something_else_are_refused():
    torch = pytest.importorskip("torch")
    first, second = torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)
    with pytest.raises(ValueError, match="none of ReLU"):
        FeedForward.from_torch([first, torch.nn.SiLU(), second], residual=True)
    with pytest.raises(ValueError, match="are needed"):
        FeedForward.from_torch([first, second], residual=True)
    first.register_forward_hook(lambda module, given, output: 2 * output)
    with pytest.raises(ValueError, match="something else"):
        FeedForward.from_torch([first, torch.tanh, second], residual=True)


@pytest.mark.parametrize("residuals", [(True, True), (True, False), (False, True)])
def test_a_centred_block_is_the_same_function_without_a_bias_of_its_layer(residuals):
    nice = make_nice_block(heads=2, dim=5, width=7, rng=0)
    block = Block(nice.layer, replace(nice.network, residual=residuals[1]), residual=residuals[0])
    x = np.random.default_rng(1).standard_normal((4, 3, 5))
    centred = block.centred()
    assert centred.layer.bias is None
    assert np.allclose(centred(x), block(x), atol=1e-13)


@pytest.mark.parametrize("kind", ["relu", "gelu", "tanh"])
def test_errors_are_zero_up_to_the_symmetries_and_see_everything_else(kind):
    rng = np.random.default_rng(3)
    net = make_nice_network(dim=5, width=9, activation=kind, rng=rng)
    order = rng.permutation(9)
    factor = rng.uniform(0.5, 2, 9) if kind == "relu" else np.ones(9)
    if kind == "tanh":
        factor = rng.choice([-1.0, 1.0], 9)
    same = FeedForward(
        net.w1[:, order] * factor, net.b1[order] * factor, net.w2[order] / factor[:, None], net.b2, kind
    )
    errors = network_errors(same, net)
    assert max(errors.w1.max(), errors.w2.max(), errors.b1.max(), errors.b2) < 1e-14
    w1 = np.array(net.w1)
    w1[:, 4] *= 1.0 + 0.01 * np.arange(5)
    moved = network_errors(FeedForward(w1, net.b1, net.w2, net.b2, kind), net)
    assert moved.w1.argmax() == 4
    assert 1e-3 < moved.w1[4] < 0.05


def test_errors_of_a_block_do_not_see_the_bias_that_the_network_takes_back():
    block = make_nice_block(heads=2, dim=5, width=7, rng=0)
    assert block_errors(block.centred(), block).worst < 1e-14
    other = make_nice_block(heads=2, dim=5, width=7, rng=1)
    assert block_errors(other, block).worst > 0.1


def test_a_file_of_a_block_gives_the_same_block(tmp_path):
    block = make_nice_block(heads=2, dim=4, width=6, activation="relu", rng=0)
    block = replace(block, network=replace(block.network, residual=False))
    save_layer(tmp_path / "block.safetensors", block, inputs=GaussianInputs(3, 4), made={"seed": 0})
    stored = load_layer(tmp_path / "block.safetensors")
    read = stored.layer
    assert (stored.kind, stored.inputs, stored.made) == ("block", GaussianInputs(3, 4), {"seed": 0})
    assert (read.network.activation, read.residual, read.network.residual) == ("relu", True, False)
    for part in ("layer", "network"):
        given_arrays = getattr(block, part).parameters
        assert all(
            np.array_equal(getattr(read, part).parameters[name], given_arrays[name]) for name in given_arrays
        )


@pytest.mark.parametrize("residuals", [None, [True], True])
def test_a_file_of_a_block_without_its_network_is_refused(tmp_path, residuals):
    block = make_nice_block(heads=1, dim=3, width=5, rng=0)
    about = {"activation": "gelu", "residuals": residuals}
    write_tensors(
        tmp_path / "block.safetensors", "block", {**block.layer.parameters, **block.network.parameters}, about
    )
    with pytest.raises(FileFormatError, match="make no block"):
        load_layer(tmp_path / "block.safetensors")


def test_a_fit_of_a_block_is_measured_head_by_head_and_neuron_by_neuron():
    block = make_nice_block(heads=2, dim=5, width=7, rng=0)
    truth = GroundTruth.draw(block, GaussianInputs(3, 5), 50, rng=1)
    exact = truth.measure(layer=block.centred())
    assert max(exact.values()) < 1e-13
    net = block.network
    other = Block(block.layer, FeedForward(net.w1, net.b1, 1.5 * net.w2, net.b2))
    errors = truth.measure(layer=other)
    assert errors["network_error"] == pytest.approx(0.5)
    assert errors["theta_error"] == errors["w_error"] == 0
    # a layer is compared with the attention of the block
    assert truth.measure(layer=block.layer)["theta_error"] == 0
    assert "network_error" not in truth.measure(layer=block.layer)


def test_what_does_not_fit_together_is_refused():
    layer, net = make_nice_layer(heads=1, dim=3, rng=0), make_nice_network(dim=4, width=5, rng=0)
    with pytest.raises(ValueError, match="3 coordinates and the network 4"):
        Block(layer, net)
    with pytest.raises(ValueError, match="that of tokens"):
        net(np.ones((2, 5)))
    with pytest.raises(ValueError, match="w2"):
        FeedForward(net.w1, net.b1, net.w2 * np.nan, net.b2)
    with pytest.raises(ValueError, match="one shape and kind"):
        network_errors(net, make_nice_network(dim=4, width=6, rng=0))
    assert isinstance(Block(AttentionLayer(layer.theta, layer.w), make_nice_network(dim=3, width=5)).dim, int)
