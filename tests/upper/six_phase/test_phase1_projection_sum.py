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
    return ExampleOracle(layer, BooleanInputs(k=k, d=layer.dim), rng=rng)


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


def test_gradient_step_is_minus_the_derivative_of_the_loss():
    rng = np.random.default_rng(0)
    x, y = _oracle(make_nice_layer(heads=2, dim=5, rng=1), 3, 2).draw(40)

    def loss(w):
        head = AttentionLayer(theta=np.zeros((1, 5, 5)), w=w[None])
        return float(np.sum((y - head(x)) ** 2)) / (2 * len(x))

    direction = rng.standard_normal((5, 5))
    # the loss is quadratic in W: its central difference is the derivative, whatever the step
    slope = (loss(direction) - loss(-direction)) / 2
    assert -slope == pytest.approx(np.vdot(one_gradient_step(x, y), direction), rel=1e-12)


@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs, SphereInputs])
def test_without_attention_only_the_standard_error_remains(inputs):
    """error^2 is a mean of d^2 squares with expectation the squared standard error; its spread comes with 100 runs."""
    layer = _without_attention(2, 8, 5)
    total = layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, inputs(k=3, d=8), rng=6)
    ratios = []
    for _ in range(100):
        estimate = estimate_projection_sum(oracle, 400)
        error = estimate.measures["standard_error"] * np.linalg.norm(estimate.w)
        ratios.append(np.sum((estimate.w - total) ** 2) / error**2)
    spread = np.std(ratios) / np.sqrt(len(ratios))
    assert spread < 0.05
    assert abs(np.mean(ratios) - 1) < 4 * spread + 1 / 400


@pytest.mark.parametrize(
    ("d", "k", "bias"),
    [
        (16, 2, 0.12),
        (32, 2, 0.087),
        pytest.param(32, 3, 0.13, marks=pytest.mark.slow),
        pytest.param(32, 4, 0.156, marks=pytest.mark.slow),
    ],
)
def test_bias_is_as_measured(d, k, bias):
    """|error|^2 - (standard error)^2 is an unbiased estimate of the squared bias; targets differ by a few per cent."""
    found = []
    for seed in range(3):
        layer = make_nice_layer(heads=2, dim=d, rng=seed)
        estimate = estimate_projection_sum(_oracle(layer, k, 10 + seed), 40_000)
        size = np.linalg.norm(estimate.w) / np.linalg.norm(layer.w.sum(axis=0))
        noise = estimate.measures["standard_error"] * size
        found.append(estimate.error(layer) ** 2 - noise**2)
    assert np.sqrt(np.mean(found)) == pytest.approx(bias, rel=0.1)


def test_more_examples_do_not_help_beyond_the_bias():
    layer = make_nice_layer(heads=2, dim=16, rng=0)
    few, many = (estimate_projection_sum(_oracle(layer, 2, 1), n) for n in (25_000, 100_000))
    few_error, many_error = (one.measures["standard_error"] for one in (few, many))
    assert many_error == pytest.approx(few_error / 2, rel=0.02)
    assert many.error(layer) > 0.9 * few.error(layer)


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
