"""Layers with rotary positions from value queries: each step against the parameters, and the function at any length."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attention import (
    Outcome,
    ValueOracle,
    make_nice_block,
    make_nice_layer,
    make_nice_rotary_layer,
    rotary_errors,
)
from attention.rotary import rotary_frequencies
from upper import RotaryByQueries
from upper.rotary import Refusal
from upper.rotary.heads import separate_heads
from upper.rotary.keys import read_keys
from upper.rotary.movable import movable_tokens
from upper.rotary.moved_token import EqualTokens, count_heads, positions_show
from upper.rotary.projections import read_projections
from upper.value_queries.queries import linear_part, measure_precision

# The most queries of the specification's prototype, which had the frequencies given.
PROTOTYPE = {(16, 2, 8): 245, (32, 4, 8): 395, (64, 8, 8): 1127, (64, 4, 16): 735}


def relative_gap(fit, truth, length):
    """|F^ - F| / |F - b| on a fresh sequence."""
    x = np.random.default_rng(length).standard_normal((1, length, truth.dim))
    expected = truth(x)
    bias = 0.0 if truth.bias is None else truth.bias
    return np.linalg.norm(fit.layer(x) - expected) / np.linalg.norm(expected - bias)


def asked(layer, seed=0):
    """Sequences of equal tokens of a layer, as the learner asks them."""
    oracle = ValueOracle(layer)
    precision = measure_precision(oracle, np.random.default_rng(seed), noise=None, accuracy=None)
    return EqualTokens(oracle, linear_part(oracle), precision, layer.causal)


@pytest.mark.parametrize(
    ("d", "m", "p", "key_heads"),
    [
        (16, 2, 8, 2),
        (32, 4, 8, 2),
        pytest.param(64, 8, 8, 4, marks=pytest.mark.slow),
        pytest.param(64, 4, 16, 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_function_at_all_lengths_parameters_and_shared_keys(d, m, p, key_heads, causal, biases):
    layer = make_nice_rotary_layer(m, d, p, key_heads=key_heads, causal=causal, biases=biases, rng=d + p)
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=1)
    assert fit.outcome.succeeded
    assert fit.examples_used <= PROTOTYPE[d, m, p]
    assert (fit.layer.heads, fit.layer.key_heads, fit.layer.head_dim) == (m, key_heads, p)
    assert (fit.layer.causal, fit.layer.biased) == (causal, biases)
    assert max(relative_gap(fit, layer, length) for length in (8, 64, 512)) < 1e-8
    errors = rotary_errors(fit.layer, layer)
    assert errors.w.max() < 1e-10
    assert errors.score_maps.max() < 1e-6
    assert errors.frequencies < 1e-6


def test_heads_nearly_as_wide_as_tokens_leave_no_filler_over():
    layer = make_nice_rotary_layer(2, 16, 12, rng=3)
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=1)
    assert fit.outcome.succeeded
    assert relative_gap(fit, layer, 100) < 1e-6


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([2, 8, 16]))
@example(35, 4, 2)  # an eigenvalue of rounding is negative
def test_any_number_of_heads_below_half_the_dimension_and_any_width(seed, m, p):
    layer = make_nice_rotary_layer(m, 16, p, rng=seed)
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=seed + 1)
    if fit.outcome is Outcome.NOT_SEPARATED:  # one in 20 may be; it says so
        assert fit.layer is None or fit.held_out_error > 1e-8
    else:
        assert relative_gap(fit, layer, 100) < 1e-6


def test_frequencies_of_no_base_are_eigenvalues():
    layer = make_nice_rotary_layer(2, 16, 8, rng=3)
    layer = replace(layer, frequencies=np.array([2.9, 0.7, 0.69, 0.0123]))
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=0)
    assert np.abs(np.sort(fit.layer.frequencies)[::-1] - layer.frequencies).max() < 1e-8
    assert relative_gap(fit, layer, 512) < 1e-8


@pytest.mark.parametrize("biases", [True, False])
def test_coordinates_that_do_not_turn_are_one_real_map(biases):
    layer = make_nice_rotary_layer(4, 32, 8, biases=biases, rng=5)
    layer = replace(layer, frequencies=np.array([1.0, 0.01, 0.0, 0.0]))
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=0)
    assert fit.layer.frequencies[2:].tolist() == [0.0, 0.0]
    assert rotary_errors(fit.layer, layer).score_maps.max() < 1e-7
    assert relative_gap(fit, layer, 512) < 1e-8


def test_given_frequencies_are_those_of_the_layer_or_refused():
    layer = make_nice_rotary_layer(2, 16, 8, rng=0)
    right, wrong = (tuple(rotary_frequencies(8, base)) for base in (1e4, 5e5))
    fit = RotaryByQueries(frequencies=right).fit(ValueOracle(layer), rng=1)
    assert tuple(fit.layer.frequencies) == right
    assert relative_gap(fit, layer, 512) < 1e-9
    fit = RotaryByQueries(frequencies=wrong).fit(ValueOracle(layer), rng=1)
    assert fit.details is Refusal.FREQUENCIES
    assert fit.layer is None


def test_equal_heads_are_one_head_with_the_sum_of_projections():
    nice = make_nice_rotary_layer(2, 16, 8, rng=1)
    layer = replace(nice, queries=nice.queries[[0, 0]], keys=nice.keys[[0, 0]])
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=0)
    assert fit.layer.heads == 1
    assert np.allclose(fit.layer.w[0], layer.w.sum(axis=0), atol=1e-12)
    assert relative_gap(fit, layer, 64) < 1e-10


def window(layer, x, width):
    """The causal layer whose rows see `width` tokens only, by loops."""
    out = np.empty_like(x)
    for row in range(x.shape[1]):
        out[:, row] = layer(x[:, max(0, row + 1 - width) : row + 1])[:, -1]
    return out


def slopes(layer, x):
    """Scores that fall with the distance, without rotations."""
    distance = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    logits = (
        np.einsum("nad,mdp,mep,nbe->nmab", x, layer.queries, layer.keys, x, optimize=True) - 0.1 * distance
    )
    logits = np.where(distance >= 0, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.einsum(
        "nmab,nbd,mde->nae", weights / weights.sum(axis=-1, keepdims=True), x, layer.w, optimize=True
    )


@pytest.mark.parametrize(
    "function",
    [
        make_nice_layer(heads=2, dim=16, rng=0),
        replace(make_nice_layer(heads=2, dim=16, rng=0), causal=True),
        make_nice_block(heads=2, dim=16, width=32, rng=0),
        lambda x: np.tanh(make_nice_rotary_layer(2, 16, 8, rng=0)(x)),
        lambda x: slopes(make_nice_rotary_layer(2, 16, 8, rng=0), x),
        lambda x: window(make_nice_rotary_layer(2, 16, 8, rng=0), x, 100),
        lambda x: window(make_nice_rotary_layer(2, 16, 8, rng=0), x, 200),
        lambda x: np.where(
            np.arange(x.shape[1])[:, None] < 300, make_nice_rotary_layer(2, 16, 8, rng=0)(x), 0
        ),
        make_nice_rotary_layer(8, 16, 8, rng=0),
        replace(make_nice_rotary_layer(2, 16, 8, rng=0), frequencies=np.zeros(4)),
        replace(make_nice_rotary_layer(2, 16, 8, rng=0), w=np.array([np.eye(16), np.eye(16)])),
        replace(make_nice_rotary_layer(2, 16, 8, rng=0), w=np.array([np.ones((16, 16)), np.tri(16)])),
    ],
    ids=[
        "no positions",
        "no positions, causal",
        "block",
        "tanh of a layer",
        "slopes of the distance",
        "window of 100",
        "window of 200",
        "zero from row 300 on",
        "half as many heads as coordinates",
        "no frequency",
        "equal projections",
        "rank one",
    ],
)
def test_what_is_no_such_layer_is_no_success(function):
    oracle = ValueOracle.from_callable(function, None, 16)
    fit = RotaryByQueries().fit(oracle, rng=2)
    assert not fit.outcome.succeeded
    assert fit.layer is not None or isinstance(fit.details, Refusal) or fit.outcome is Outcome.NO_LAYER


@pytest.mark.parametrize("budget", [17, 60, 120, 200, 224])
def test_spent_budget_is_an_outcome_and_no_more_is_asked(budget):
    oracle = ValueOracle(make_nice_rotary_layer(2, 16, 8, rng=0))
    fit = RotaryByQueries(examples=budget).fit(oracle, rng=0)
    assert fit.outcome is Outcome.EXAMPLES_SPENT
    assert oracle.drawn <= budget


@pytest.mark.bad_input
def test_bounded_lengths_and_missing_answers_are_refused_in_words():
    layer = make_nice_rotary_layer(2, 16, 8, rng=0)
    with pytest.raises(ValueError, match="Queries have 4 tokens"):
        RotaryByQueries().fit(ValueOracle(layer, tokens=4), rng=0)
    with pytest.raises(ValueError, match="NaN or infinite"):
        RotaryByQueries().fit(ValueOracle.from_callable(lambda x: layer(x) * np.nan, None, 16), rng=0)


@pytest.mark.parametrize("scale", [1e-3, 10.0, 100.0])
def test_scale_of_tokens_is_found(scale):
    nice = make_nice_rotary_layer(2, 16, 8, rng=2)
    layer = replace(nice, queries=nice.queries * scale)
    fit = RotaryByQueries().fit(ValueOracle(layer), rng=0)
    assert rotary_errors(fit.layer, layer).w.max() < 1e-10


def test_answers_in_float32_give_three_digits():
    layer = make_nice_rotary_layer(2, 16, 8, rng=0)
    single = layer.map(lambda a: a.astype(np.float32))
    oracle = ValueOracle.from_callable(lambda x: single(x.astype(np.float32)), None, 16)
    fit = RotaryByQueries().fit(oracle, rng=1)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert relative_gap(fit, layer, 64) < 1e-2
    assert np.abs(fit.layer.frequencies - layer.frequencies).max() < 1e-3


def true_weights(layer, x):
    """The softmax weights of each head, from the definition by complex numbers."""
    half = layer.head_dim // 2
    query, key = (np.repeat(maps, layer.heads // len(maps), axis=0) for maps in (layer.queries, layer.keys))
    alpha, beta = (x @ (maps[:, :, :half] + 1j * maps[:, :, half:]) for maps in (query, key))
    n = len(x)
    distance = np.arange(n)[:, None] - np.arange(n)
    turns = np.exp(1j * distance[..., None] * layer.frequencies)
    logits = np.einsum("maf,abf,mbf->mab", alpha, turns, beta.conj()).real
    weights = np.exp(np.where(distance >= 0, logits, -np.inf) if layer.causal else logits)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
def test_each_step_against_the_parameters(causal):
    layer = make_nice_rotary_layer(3, 24, 8, causal=causal, rng=4)
    equal, rng = asked(layer), np.random.default_rng(0)
    assert positions_show(equal, rng)
    counted = count_heads(equal, rng)
    assert counted.heads == 3
    heads = separate_heads(equal, 3, counted.length, 8, rng)
    n = heads.sums.shape[1]
    true = true_weights(layer, np.tile(heads.token, (n, 1)))
    first = (heads.weights / heads.sums)[:, 1:]  # of token 0 in the rows behind it
    order = [int(np.abs(true[:, 1:, 0] - row).max(axis=1).argmin()) for row in first]
    assert sorted(order) == [0, 1, 2]
    assert np.abs(first - true[order, 1:, 0]).max() < 1e-11
    w = read_projections(equal, heads, counted.length, rng)
    assert np.abs(w - layer.w[order]).max() < 1e-9
    movable = movable_tokens(equal, layer.w, counted.length, rng)
    logs = movable.log_weights(movable.fillers[:12])
    x = np.tile(movable.fillers[5], (movable.places[-1] + 1 + len(movable.distances), 1))
    x[movable.places] = movable.tokens[2]
    weights = true_weights(layer, x)[:, -len(movable.distances) :, movable.places]
    expected = np.log(weights / (1 - weights.sum(axis=-1, keepdims=True)))
    assert np.abs(logs[:, 5, 2] - expected).max() < 1e-8
    keys = read_keys(movable, movable.differences_of(logs), None)
    assert np.abs(keys.frequencies - layer.frequencies).max() < 1e-8
    for own, true_map in zip(keys.maps, layer.keys, strict=True):
        for f in range(4):
            beta, expected = (maps[:, f] + 1j * maps[:, f + 4] for maps in (own, true_map))
            cosine = abs(np.vdot(beta, expected)) / np.linalg.norm(expected)
            assert cosine == pytest.approx(1.0, abs=1e-12)
