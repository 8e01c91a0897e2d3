"""The baselines on NumPy: each against the identity that says what it computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    Outcome,
    make_nice_layer,
)
from upper import LBFGS, KnownComponentBaseline, LinearBaseline, OneGradientStep
from upper.baselines.closed_form import LinearPredictor
from upper.baselines.descent import layer_of_stacked, squared_error_gradient, stack_heads
from upper.six_phase import estimate_projection_sum


def test_one_gradient_step_is_the_crude_sum_of_phase_one():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8)
    x, y = ExampleOracle(layer, inputs, rng=1).draw(500)
    fit = OneGradientStep().fit(ExampleOracle.from_arrays(x, y))
    held = 500 // 20
    phase_one = estimate_projection_sum(ExampleOracle.from_arrays(x[held:], y[held:]), 500 - held)
    np.testing.assert_allclose(fit.layer.w[0], phase_one.w, atol=1e-12)
    assert not np.any(fit.layer.theta)


def _fit(learner, m=2, k=2, d=5, *, scale=1.0):
    """The fit to a nice layer and, in its last step, the errors against it."""
    nice, inputs = make_nice_layer(heads=m, dim=d, rng=0), BooleanInputs(k, d)
    layer = AttentionLayer(nice.theta, scale * nice.w)
    truth = GroundTruth.draw(layer, inputs, 500, rng=1)
    return learner.fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)


@given(m=st.integers(1, 3), k=st.integers(1, 4), d=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_residual_is_the_layers_and_the_gradient_its_finite_difference(m, k, d, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 6, k, d))
    layer = AttentionLayer(*rng.standard_normal((2, m, d, d)))
    here = stack_heads(layer.theta, layer.w)
    again = layer_of_stacked(*here)
    np.testing.assert_array_equal(again.theta, layer.theta)
    np.testing.assert_array_equal(again.w, layer.w)
    residual, *gradients = squared_error_gradient(x, y, *here)
    np.testing.assert_allclose(residual.reshape(x.shape), layer(x) - y, atol=1e-12)

    direction = [rng.standard_normal(part.shape) for part in here]
    ends = [[part + h * along for part, along in zip(here, direction, strict=True)] for h in (1e-5, -1e-5)]
    above, below = (np.sum(squared_error_gradient(x, y, *end)[0] ** 2) / (2 * len(x)) for end in ends)
    slope = sum(np.vdot(one, along) for one, along in zip(gradients, direction, strict=True))
    assert (above - below) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-5 * (1 + above))


def test_no_attention_is_linear_in_the_mean_token():
    w = np.random.default_rng(0).standard_normal((2, 5, 5))
    layer = AttentionLayer(np.zeros((2, 5, 5)), w)
    for learner in (LinearBaseline(), LinearBaseline(examples=LinearBaseline().minimum_examples(3, 5) + 3)):
        fit = learner.fit(ExampleOracle(layer, BooleanInputs(3, 5), rng=1))
        assert fit.outcome is Outcome.EXACT
        np.testing.assert_allclose(fit.predict.mean, w.sum(axis=0), atol=1e-10)
        np.testing.assert_allclose(fit.predict.own, 0, atol=1e-10)


def test_the_linear_baseline_is_the_best_linear_predictor():
    layer, inputs = make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(2, 6)
    fit = LinearBaseline(examples=4000).fit(ExampleOracle(layer, inputs, rng=1))
    truth = GroundTruth.draw(layer, inputs, 4000, rng=2)
    best = truth.measure(predict=fit.predict)["relative_error"]
    rng = np.random.default_rng(3)
    for _ in range(5):
        parts = (u + 0.05 * rng.standard_normal(u.shape) for u in (fit.predict.own, fit.predict.mean))
        assert truth.measure(predict=LinearPredictor(*parts))["relative_error"] > best
    assert fit.outcome is Outcome.BEST_OF_CLASS


@pytest.mark.parametrize("known", [None, LinearPredictor(own=np.eye(4), mean=np.zeros((4, 4)))])
def test_the_known_part_has_error_one_on_the_unknown_part(known):
    layer, inputs = make_nice_layer(heads=2, dim=4, rng=0), BooleanInputs(2, 4)
    truth = GroundTruth.draw(layer, inputs, 50, known=known, rng=1)
    fit = KnownComponentBaseline(known).fit(ExampleOracle(layer, inputs, rng=2), truth=truth)
    assert fit.examples_used == 0
    assert fit.trace[-1].measures["unknown_part_error"] == 1.0


@pytest.mark.parametrize(
    ("m", "k", "d", "scale"),
    [pytest.param(2, 2, 8, 1.0, marks=pytest.mark.slow), (3, 3, 8, 1.0), (1, 3, 6, 1e150)],
)
def test_lbfgs_is_exact_at_eight_times_the_counting_floor(m, k, d, scale):
    fit = _fit(LBFGS(m), m, k, d, scale=scale)
    assert fit.outcome is Outcome.EXACT
    assert fit.trace[-1].measures["relative_error"] < 1e-10
    assert fit.trace[-1].measures["theta_error"] < 1e-8


def test_lbfgs_keeps_to_its_work_and_the_best_layer_it_saw():
    fit = _fit(LBFGS(2, work=101), k=3, d=8)
    assert fit.outcome is Outcome.WORK_SPENT
    assert (
        100 <= fit.trace[-1].measures["passes"] <= 100 + 2 * 20
    )  # a line search has twenty evaluations at most
    residuals = [step.measures["residual"] for step in fit.trace if step.name.startswith("Start 1")]
    assert residuals == sorted(residuals, reverse=True)
    assert fit.trace[-1].measures["residual"] == min(step.measures["residual"] for step in fit.trace)


def test_lbfgs_that_fits_too_few_examples_is_overfitted():
    assert _fit(LBFGS(2, examples=12, starts=1), d=6).outcome is Outcome.OVERFITTED


def test_residuals_of_lbfgs_are_those_of_its_layers_on_the_fitted_examples():
    layer, inputs = make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(3, 5)
    (x, y), held_out = (ExampleOracle(layer, inputs, rng=seed).draw(40) for seed in (1, 2))
    seen = []
    truth = GroundTruth(layer, x)  # measured on what is fitted
    LBFGS(2, work=100).fit(
        ExampleOracle.from_arrays(x, y, held_out=held_out), rng=3, truth=truth, progress=seen.append
    )
    assert len(seen) > 3
    for step in seen:
        assert step.measures["residual"] == pytest.approx(step.measures["relative_error"], rel=1e-9)
