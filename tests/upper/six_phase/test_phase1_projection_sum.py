"""Phase 1: the mean of (1/k) X^T J Y is one gradient step from zero attention, exact without attention, else biased."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from upper.six_phase import PhaseFailedError, estimate_projection_sum, one_gradient_step


def _oracle(layer, k, rng):
    return ExampleOracle(layer, BooleanInputs(tokens=k, dim=layer.dim), rng=rng)


def _without_attention(heads, d, rng):
    nice = make_nice_layer(heads=heads, dim=d, rng=rng)
    return AttentionLayer(theta=np.zeros_like(nice.theta), w=nice.w)


@given(
    n=st.integers(1, 60),
    m=st.integers(1, 3),
    k=st.integers(1, 4),
    d=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_is_one_gradient_step_of_a_head_without_attention(n, m, k, d, seed):
    x, y = _oracle(make_nice_layer(heads=m, dim=d, rng=seed), k, seed).draw(n)
    estimate = estimate_projection_sum(ExampleOracle.from_arrays(x, y), n)
    np.testing.assert_allclose(estimate.w, one_gradient_step(x, y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs, SphereInputs])
def test_without_attention_only_the_standard_error_remains(inputs):
    """error^2 is a mean of d^2 squares with expectation the squared standard error; its spread comes with 100 runs."""
    layer = _without_attention(2, 8, 5)
    total = layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, inputs(tokens=3, dim=8), rng=6)
    ratios = []
    for _ in range(100):
        estimate = estimate_projection_sum(oracle, 400)
        error = estimate.standard_error * np.linalg.norm(estimate.w)
        ratios.append(np.sum((estimate.w - total) ** 2) / error**2)
    spread = np.std(ratios) / np.sqrt(len(ratios))
    assert spread < 0.05
    assert abs(np.mean(ratios) - 1) < 4 * spread + 1 / 400


def test_given_examples_are_drawn_once_and_counted():
    layer = make_nice_layer(heads=1, dim=4, rng=9)
    x, y = _oracle(layer, 2, 10).draw(30)
    oracle = ExampleOracle.from_arrays(x, y)
    first = estimate_projection_sum(oracle, 20)
    assert (oracle.drawn, oracle.remaining, first.examples) == (20, 10, 20)
    np.testing.assert_allclose(first.w, one_gradient_step(x[:20], y[:20]), atol=1e-13)
    np.testing.assert_allclose(
        estimate_projection_sum(oracle, 10).w, one_gradient_step(x[20:], y[20:]), atol=1e-13
    )
    with pytest.raises(PhaseFailedError, match="no example is left") as failure:
        estimate_projection_sum(oracle, 1)
    assert failure.value.outcome is Outcome.EXAMPLES_SPENT
