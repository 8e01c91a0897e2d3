"""Networks and blocks are read back from value queries alone; what is no block ends with a reason."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from attention import (
    Block,
    FeedForward,
    GaussianInputs,
    Outcome,
    ValueOracle,
    block_errors,
    make_nice_block,
    make_nice_layer,
    make_nice_network,
    network_errors,
    parameter_errors,
    relative_error,
)
from attention.testing import check_learner
from upper import BlockByQueries, FeedForwardByQueries

# Queries for each neuron, as goals have them.
MOST = {"relu": 19, "gelu": 22, "tanh": 60}


def function_error(fit, target, tokens, seed=99):
    x = np.random.default_rng(seed).standard_normal((200, tokens, target.dim))
    return relative_error(fit.predict(x), target(x))


def read_network(net, seed):
    fit = FeedForwardByQueries().fit(ValueOracle(net), rng=seed)
    assert fit.outcome.succeeded, fit.trace
    errors = network_errors(fit.details, net)
    return fit, max(errors.w1.max(), errors.w2.max(), errors.b1.max())


@pytest.mark.parametrize(
    ("dim", "width", "kind"),
    [
        (16, 64, "relu"),
        (16, 64, "gelu"),
        (16, 64, "tanh"),
        *(
            pytest.param(*size, kind, marks=pytest.mark.slow)
            for size, kind in product([(32, 128), (64, 256)], ["relu", "gelu"])
        ),
        pytest.param(32, 128, "tanh", marks=pytest.mark.slow),
    ],
)
def test_all_weights_of_a_network_are_read(dim, width, kind):
    for seed in range(3):
        net = make_nice_network(dim=dim, width=width, activation=kind, rng=seed)
        fit, worst = read_network(net, seed)
        assert fit.details.activation == kind
        assert function_error(fit, net, 1) < 1e-8
        assert worst < 1e-6
        assert fit.examples_used < 1.5 * MOST[kind] * width


def test_a_network_without_residual_is_found_to_have_none():
    net = replace(make_nice_network(dim=16, width=32, rng=1), residual=False)
    fit, worst = read_network(net, 2)
    assert not fit.details.residual
    assert worst < 1e-7


def test_dead_and_equal_neurons_are_left_out_and_merged():
    net = make_nice_network(dim=16, width=20, activation="relu", rng=0)
    w1, b1, w2 = (np.array(array) for array in (net.w1, net.b1, net.w2))
    w1[:, 1], b1[1] = w1[:, 0], b1[0]  # equal
    w2[2] = 0.0  # without output
    fit = FeedForwardByQueries().fit(ValueOracle(FeedForward(w1, b1, w2, net.b2, "relu")), rng=1)
    assert fit.outcome.succeeded
    assert fit.details.width == 18


@pytest.mark.parametrize(
    ("dim", "width", "heads", "tokens", "kind"),
    [
        *((16, 64, 2, 2, kind) for kind in MOST),
        *(pytest.param(32, 128, 4, 3, kind, marks=pytest.mark.slow) for kind in ("relu", "gelu")),
    ],
)
def test_all_of_a_block_is_read_up_to_its_symmetries(dim, width, heads, tokens, kind):
    for seed in range(2):
        block = make_nice_block(heads=heads, dim=dim, width=width, activation=kind, rng=seed)
        fit = BlockByQueries().fit(ValueOracle(block, tokens=tokens), rng=seed)
        assert fit.outcome.succeeded, fit.trace
        assert function_error(fit, block, tokens) < 1e-7
        assert block_errors(fit.details, block).worst < 1e-6


def test_a_block_whose_attention_has_no_residual_is_read_as_a_function():
    nice = make_nice_block(heads=2, dim=16, width=32, rng=3)
    block = Block(nice.layer, nice.network, residual=False)
    fit = BlockByQueries().fit(ValueOracle(block, tokens=2), rng=1)
    assert fit.outcome.succeeded
    assert not fit.details.residual
    assert function_error(fit, block, 2) < 1e-7


@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_a_block_whose_network_has_no_residual_is_read(kind):
    """Its map of one token is not injective."""
    nice = make_nice_block(heads=2, dim=16, width=64, activation=kind, rng=3)
    block = Block(nice.layer, replace(nice.network, residual=False))
    fit = BlockByQueries().fit(ValueOracle(block, tokens=2), rng=1)
    assert fit.outcome.succeeded
    assert not fit.details.network.residual
    assert function_error(fit, block, 2) < 1e-7
    assert block_errors(fit.details, block).worst < 1e-6


def test_attention_is_read_behind_a_map_that_has_several_preimages():
    nice = make_nice_block(heads=2, dim=16, width=64, rng=0)
    block = Block(nice.layer, replace(nice.network, w2=8 * nice.network.w2))
    fit = BlockByQueries().fit(ValueOracle(block), rng=1)
    assert any("no preimage" in step.name for step in fit.trace)
    assert fit.outcome.succeeded
    assert function_error(fit, block, 3) < 1e-6


def test_a_causal_block_is_found_to_be_causal():
    nice = make_nice_block(heads=2, dim=16, width=32, rng=4)
    block = Block(replace(nice.layer, causal=True), nice.network)
    fit = BlockByQueries().fit(ValueOracle(block, tokens=3), rng=1)
    assert fit.outcome.succeeded
    assert fit.details.layer.causal
    assert function_error(fit, block, 3) < 1e-7


def test_a_layer_is_a_block_without_network():
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    fit = BlockByQueries().fit(ValueOracle(layer, tokens=2), rng=0)
    assert fit.outcome.succeeded
    assert parameter_errors(fit.layer, layer).theta.max() < 1e-10


@pytest.mark.parametrize("queries", [60, 600, 900, 1000, 1100])
def test_a_budget_that_does_not_suffice_is_said_at_every_step(queries):
    block = make_nice_block(heads=2, dim=16, width=64, rng=0)
    oracle = ValueOracle(block, tokens=2)
    assert BlockByQueries(examples=queries).fit(oracle, rng=1).outcome is Outcome.EXAMPLES_SPENT
    assert oracle.drawn <= queries


@pytest.mark.parametrize("kind", ["relu", "gelu", "tanh"])
def test_the_learners_keep_the_contract_of_learners(kind):
    net = make_nice_network(dim=8, width=12, activation=kind, rng=0)
    assert check_learner(FeedForwardByQueries(), net, GaussianInputs(1, 8)).outcome.succeeded
    block = make_nice_block(heads=2, dim=8, width=12, activation=kind, rng=0)
    assert check_learner(BlockByQueries(), block, GaussianInputs(2, 8)).outcome.succeeded


@pytest.mark.parametrize("kind", ["relu", "gelu"])
@pytest.mark.parametrize("offset", [20.0, 1000.0])
def test_a_neuron_that_is_nearly_always_on_is_read(kind, offset):
    net = make_nice_network(dim=16, width=20, activation=kind, rng=0)
    b1 = np.array(net.b1)
    b1[3] = offset
    net = replace(net, b1=b1)
    fit = FeedForwardByQueries().fit(ValueOracle(net), rng=1)
    assert fit.outcome.succeeded
    assert function_error(fit, net, 1) < 1e-8
    others = np.delete(network_errors(fit.details, net).w1, 3)
    assert others.max() < 1e-6  # no short token tells the scale of neuron 3


def test_a_neuron_of_tanh_that_is_always_on_is_part_of_the_constant():
    net = make_nice_network(dim=16, width=20, activation="tanh", rng=0)
    net = replace(net, b1=np.append(net.b1[:-1], 30.0))
    fit = FeedForwardByQueries().fit(ValueOracle(net), rng=1)
    assert fit.details.width == 19
    assert function_error(fit, net, 1) < 1e-12


def test_a_network_wider_than_four_times_its_tokens_is_read():
    read_network(make_nice_network(dim=8, width=48, activation="gelu", rng=0), 1)


def normed(x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def no_block(kind):
    """A function that is no block of the three activations, and the sentence that says why."""
    block = make_nice_block(heads=2, dim=8, width=16, rng=0)
    parallel = replace(block.network, w1=np.repeat(block.network.w1[:, :8], 2, axis=1) * ([1, 2] * 8))
    rng = np.random.default_rng(0)
    return {
        "norm of the output": (lambda x: normed(block(x)), ""),
        "silu": (
            lambda x: x + (x @ block.network.w1 / (1 + np.exp(-x @ block.network.w1))) @ block.network.w2,
            "not",
        ),
        "parallel": (Block(block.layer, parallel), "not"),
        "noise": (lambda x: block(x) + 1e-6 * rng.standard_normal(x.shape), "noise"),
        "heads that do not sum to one": (lambda x: block(x) * (1 + x.std(axis=1, keepdims=True)), ""),
    }[kind]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "kind", ["norm of the output", "silu", "parallel", "noise", "heads that do not sum to one"]
)
def test_what_is_no_block_ends_with_a_reason(kind):
    target, reason = no_block(kind)
    oracle = ValueOracle.from_callable(target, 2, 8)
    fit = BlockByQueries().fit(oracle, rng=0)
    assert not fit.outcome.succeeded
    assert reason in fit.trace[-1].name
    assert oracle.drawn < 30_000


def test_answers_in_float32_are_said_to_be_too_coarse():
    block = make_nice_block(heads=2, dim=8, width=16, rng=0).map(lambda array: array.astype(np.float32))
    oracle = ValueOracle.from_callable(lambda x: block(x.astype(np.float32)), 2, 8)
    fit = BlockByQueries().fit(oracle, rng=0)
    assert fit.outcome is Outcome.NO_BLOCK
    assert "float32" in fit.trace[-1].name
    assert oracle.drawn < 12


def test_more_neurons_than_signs_can_be_read_for_are_said_to_be_too_many():
    net = make_nice_network(dim=8, width=100, activation="relu", rng=0)
    fit = FeedForwardByQueries().fit(ValueOracle(net), rng=0)
    assert not fit.outcome.succeeded
    assert "d^2" in fit.trace[-1].name


def test_a_function_that_is_no_network_ends_within_bounded_queries():
    def cubic(x):
        return x + np.abs(x) ** 1.5

    oracle = ValueOracle.from_callable(cubic, 1, 8)
    assert FeedForwardByQueries().fit(oracle, rng=0).outcome is Outcome.NO_BLOCK
    assert oracle.drawn < 50_000


def test_a_budget_is_kept():
    oracle = ValueOracle(make_nice_network(dim=16, width=64, rng=0), budget=300)
    fit = FeedForwardByQueries().fit(oracle, rng=0)
    assert fit.outcome is Outcome.EXAMPLES_SPENT
    assert oracle.drawn <= 300


def test_what_cannot_be_read_is_refused_at_once():
    with pytest.raises(ValueError, match="at least 4"):
        FeedForwardByQueries().fit(ValueOracle(make_nice_network(dim=3, width=4), tokens=1))
    with pytest.raises(ValueError, match="shows no attention"):
        BlockByQueries().fit(ValueOracle(make_nice_block(heads=1, dim=8, width=8), tokens=1))
