"""The study of weightings: patterns, phase 1 and agreement against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer
from studies.weightings import agreement, outputs, pattern, phase_one_bias

WEIGHTINGS = ("softmax", "sparsemax", "sigmoid")
every = pytest.mark.parametrize("weighting", WEIGHTINGS)
seeds = st.integers(0, 2**32)


def logits_of(seed, *shape, scale=2.0):
    return scale * np.random.default_rng(seed).standard_normal(shape)


@every
@given(seed=seeds, k=st.integers(1, 6), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_rows_are_probability_vectors(weighting, seed, k, scale):
    p = pattern(weighting, logits_of(seed, 5, k, scale=scale))
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-14)


@given(seed=seeds, k=st.integers(1, 6), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_sparsemax_is_the_projection_that_bisection_finds(seed, k, scale):
    z = logits_of(seed, k, scale=scale)
    low, high = z.min() - 1.0, z.max()
    for _ in range(200):  # of sum max(z - tau, 0) = 1, decreasing in tau
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(z - middle, 0).sum() > 1 else (low, middle)
    np.testing.assert_allclose(pattern("sparsemax", z), np.maximum(z - low, 0), atol=1e-13)


@pytest.mark.parametrize("weighting", ["softmax", "sparsemax"])
def test_the_bias_of_phase_one_is_that_of_the_mean_over_all_inputs(weighting):
    layer = make_nice_layer(heads=2, dim=2, rng=0)
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=4))).reshape(-1, 2, 2)
    total, y = layer.w.sum(axis=0), outputs(weighting, layer, x)
    exact = np.einsum("nki,nlj->ij", x, y) / (2 * len(x))
    bias = phase_one_bias(
        weighting, layer, BooleanInputs(2, 2), examples=40_000, rng=np.random.default_rng(1)
    )
    assert bias == pytest.approx(np.linalg.norm(exact - total) / np.linalg.norm(total), rel=0.05)


def test_counts_of_agreement_are_those_of_a_loop():
    layer, x = make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(3, 6).sample(200, rng=2)
    p = pattern("sparsemax", layer.logits(x))
    exact = useful = equations = 0
    for n, a in itertools.product(range(200), range(3)):
        first, second = p[n, 0, a], p[n, 1, a]
        exact += bool(np.abs(first - second).max() < 1e-12)
        shared = {*np.flatnonzero(first)} == {*np.flatnonzero(second)} and np.count_nonzero(first) > 1
        large = min(first[first > 0].min(), second[second > 0].min()) >= 0.05
        counts = bool(shared and large and np.abs(first - second).max() <= 0.2)
        useful += counts
        equations += counts * (np.count_nonzero(first) - 1)
    (row,) = agreement("sparsemax", layer, x, [0.2])
    assert (row["useful"], row["equations"], row["rows"]) == (useful, equations, 600)
    assert row["exact"] == pytest.approx(exact / 600)
    assert min(exact, useful) > 0
