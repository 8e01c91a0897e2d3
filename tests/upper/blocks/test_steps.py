"""The steps by which a network is read: kinks, scales, weights, offsets, signs, preimages, pairs."""

import numpy as np
import pytest

from attention import ValueOracle, make_nice_block, make_nice_network
from upper.blocks.far_field import TUBE, directions, tube_scales
from upper.blocks.kinks import find_regions, half_circle
from upper.blocks.peel import Behind, Peeled, pairs
from upper.blocks.row_newton import newton_rows
from upper.blocks.separable_fit import fit_offsets
from upper.blocks.token_map import TokenMap, signs_for, signs_from

DIM, WIDTH, RADIUS = 12, 30, 1e6


def token_map(block):
    """The map of one token of a block: z = x A + b, U = A W1."""
    net = block.network
    linear = np.eye(block.dim) + block.layer.w.sum(axis=0)
    offset = net.b1 + block.layer.bias @ net.w1
    return TokenMap(net.activation, (linear @ net.w1).T, offset, net.w2, linear, block.layer.bias + net.b2)


@pytest.fixture(params=["relu", "gelu"])
def net(request):
    return make_nice_network(dim=DIM, width=WIDTH, activation=request.param, rng=5)


@pytest.fixture
def regions(net):
    rng = np.random.default_rng(0)
    return find_regions(net, half_circle(RADIUS, DIM, rng), rng, least=1.0)


def true_neurons(net, regions):
    """The neuron of every kink of a path, by the places of its planes."""
    points = regions.path.at(regions.segment[regions.left], regions.kinks)
    distance = np.abs(points @ net.w1 + net.b1) / np.linalg.norm(net.w1, axis=0)
    return distance.argmin(axis=1), distance.min(axis=1)


def test_a_half_circle_meets_every_neuron_once(net, regions):
    neurons, distance = true_neurons(net, regions)
    assert sorted(neurons) == list(range(WIDTH))
    assert distance.max() < 1e-3  # of a radius of 1e6


def test_a_slope_jumps_by_the_output_times_the_weight_along_the_path(net, regions):
    neurons, _ = true_neurons(net, regions)
    along = np.sum(regions.path.directions[regions.segment[regions.left]] * net.w1.T[neurons], axis=1)
    expected = np.abs(along)[:, None] * net.w2[neurons]
    assert np.allclose(regions.jumps, expected, atol=1e-6)


def test_a_value_in_the_tube_of_gelu_tells_its_scale():
    net = make_nice_network(dim=DIM, width=WIDTH, rng=5)
    rng = np.random.default_rng(0)
    regions = find_regions(net, half_circle(RADIUS, DIM, rng), rng, least=1.0)
    scales = tube_scales(net, regions, 2.0)
    neurons, _ = true_neurons(net, regions)
    along = np.sum(regions.path.directions[regions.segment[regions.left]] * net.w1.T[neurons], axis=1)
    assert np.allclose(scales, np.abs(along), rtol=1e-5)


def test_jacobians_give_the_weights_of_all_neurons(net, regions):
    neurons, _ = true_neurons(net, regions)
    margin = np.zeros(WIDTH)
    if net.activation == "gelu":
        margin = TUBE / tube_scales(net, regions, 2.0)
    regions = regions.read_again(net, margin)
    u, uncertain = directions(net, regions, margin, np.random.default_rng(1))
    along = np.sum(regions.path.directions[regions.segment[regions.left]] * net.w1.T[neurons], axis=1)
    expected = net.w1.T[neurons] / along[:, None]
    off = np.linalg.norm(u - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert off.max() < 1e-8
    assert np.all(off < 10 * uncertain)  # the bound holds, for each


def test_variable_projection_mends_offsets_scales_and_an_unsure_direction(net):
    rng = np.random.default_rng(0)
    u, a = net.w1.T.copy(), net.b1 + 1e-3 * rng.standard_normal(WIDTH)
    u[3] += 1e-3 * rng.standard_normal(DIM)
    zero = np.zeros((DIM, DIM))
    start = TokenMap(net.activation, u, a, np.zeros((WIDTH, DIM)), zero, zero[0])
    x = 4 * rng.standard_normal((80, DIM))
    g, error = fit_offsets(x, net(x), start, np.array([3]))
    assert error < 1e-13
    assert np.allclose(g(x), net(x), atol=1e-11)
    assert (
        np.linalg.norm(g.u[3] / np.linalg.norm(g.u[3]) - net.w1[:, 3] / np.linalg.norm(net.w1[:, 3])) < 1e-10
    )


def test_turning_neurons_changes_the_linear_part_and_no_value(net):
    g = TokenMap(net.activation, net.w1.T, net.b1, net.w2, np.eye(DIM), net.b2)
    signs = np.arange(WIDTH) % 3 == 0
    turned = g.flipped(signs)
    x = np.random.default_rng(0).standard_normal((20, DIM))
    assert np.allclose(turned(x), net(x), atol=1e-13)
    solved, off = signs_for(turned, np.eye(DIM))
    assert np.array_equal(solved, signs)
    assert off < 1e-10


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_pairs_determine_the_linear_part_and_the_signs_whatever_the_heads(tokens):
    block = make_nice_block(heads=3, dim=DIM, width=WIDTH, rng=tokens)
    g = token_map(block)
    delta, moved = pairs(ValueOracle(block, tokens=tokens), g, 8, 2.0, np.random.default_rng(1))
    assert np.allclose(moved @ g.linear, delta, atol=1e-12)
    signs = np.arange(WIDTH) % 2 == 0
    solved, off = signs_from(g.flipped(signs), delta, moved)
    assert np.array_equal(solved, signs)
    assert off < 1e-6


@pytest.mark.parametrize("length", [0.1, 3.0, 1e5])
def test_a_preimage_is_mapped_to_its_image(length):
    block = make_nice_block(heads=2, dim=DIM, width=WIDTH, rng=0)
    g = token_map(block)
    x = length * np.random.default_rng(2).standard_normal((50, DIM))
    found = g.inverse(g(x), np.zeros_like(x), np.zeros_like(x))
    assert np.allclose(found, x, atol=1e-9 * length + 1e-9)
    alone = newton_rows(g, g.jacobian, g(x), np.zeros_like(x), np.full(50, 1 + length))
    assert np.allclose(alone, x, atol=1e-9 * length + 1e-9)
    off = np.linalg.norm(g(alone) - g(x), axis=1)
    assert np.all(off < 1e-12 * max(1, length))


def test_the_peeled_oracle_is_the_layer_without_its_bias():
    block = make_nice_block(heads=2, dim=DIM, width=WIDTH, rng=0)
    g = token_map(block)
    x = np.random.default_rng(2).standard_normal((5, 3, DIM))
    peeled = Peeled(Behind(ValueOracle(block), g, g.linear, residual=True))
    assert np.allclose(peeled.ask(x), block.layer(x) - block.layer.bias, atol=1e-10)
