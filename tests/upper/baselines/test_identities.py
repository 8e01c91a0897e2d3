"""The baselines on NumPy: each against the identity that says what it computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    make_nice_layer,
)
from attention.layer import read_tokens
from upper import LBFGS, FrozenAttention, GradientDescent, KnownPart, LinearBaseline, OneGradientStep
from upper.baselines.descent import layer_of_stacked, random_start, squared_error_gradient, stack_heads
from upper.baselines.frozen_attention import regress_projections
from upper.linear import LinearPredictor
from upper.six_phase import estimate_projection_sum


def _examples(m, k, d, n, seed=0):
    layer = make_nice_layer(heads=m, dim=d, rng=seed)
    return layer, *ExampleOracle(layer, BooleanInputs(k, d), rng=seed + 100).draw(n)


def test_one_gradient_step_is_the_crude_sum_of_phase_one():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8)
    x, y = ExampleOracle(layer, inputs, rng=1).draw(500)
    fit = OneGradientStep().fit(ExampleOracle.from_arrays(x, y))
    held = 500 // 20
    phase_one = estimate_projection_sum(ExampleOracle.from_arrays(x[held:], y[held:]), 500 - held)
    np.testing.assert_allclose(fit.layer.w[0], phase_one.w, atol=1e-12)
    assert not np.any(fit.layer.theta)


@given(m=st.integers(1, 3), k=st.integers(2, 4), d=st.integers(3, 8), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_frozen_attention_at_the_true_theta_recovers_w(m, k, d, seed):
    layer = make_nice_layer(heads=m, dim=d, rng=seed)
    fit = FrozenAttention(theta=layer.theta, examples=40 * m * d).fit(
        ExampleOracle(layer, GaussianInputs(k, d), rng=seed + 1)
    )
    assert fit.outcome is Outcome.EXACT
    np.testing.assert_allclose(fit.layer.w, layer.w, atol=1e-9)
    np.testing.assert_array_equal(fit.layer.theta, layer.theta)


def test_regressed_projections_solve_the_ridge_equations():
    _, x, y = _examples(2, 3, 5, 80)
    theta = np.random.default_rng(5).standard_normal((3, 5, 5))
    _, read = read_tokens(x, theta)
    gram = read.T @ read
    for ridge, w in zip((0.0, 0.1), regress_projections(x, y, theta, (0.0, 0.1)), strict=True):
        shifted = gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram))
        np.testing.assert_allclose(shifted @ w.reshape(-1, 5), read.T @ y.reshape(-1, 5), atol=1e-9)


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
    fit = KnownPart(known).fit(ExampleOracle(layer, inputs, rng=2), truth=truth)
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
    assert fit.trace[-1].measures["passes"] == 100
    residuals = [step.measures["residual"] for step in fit.trace if step.name.startswith("Start 1")]
    assert residuals == sorted(residuals, reverse=True)
    assert fit.trace[-1].measures["residual"] == min(step.measures["residual"] for step in fit.trace)


@pytest.mark.parametrize("gap", [1e-3, 1e-5])
def test_the_correction_wins_back_the_digits_of_frozen_heads_that_nearly_agree(gap):
    rng = np.random.default_rng(0)
    theta = np.array(make_nice_layer(heads=3, dim=6, rng=0).theta)
    theta[1] = theta[0] + gap * rng.standard_normal((6, 6))  # the Gram matrix has the condition (4 / gap)^2
    x = BooleanInputs(3, 6).sample(300, rng=0)
    y = AttentionLayer(theta, rng.standard_normal((3, 6, 6)))(x)
    (w,) = regress_projections(x, y, theta)
    missed = AttentionLayer(theta, w)(x) - y
    assert np.linalg.norm(missed) < 1e-13 * np.linalg.norm(y)  # without the correction from 9e-13 up


@pytest.mark.parametrize("unit", [1e-300, 1e300])  # whose squares are no numbers
def test_projections_of_tokens_of_any_unit(unit):
    x, y = np.random.default_rng(0).standard_normal((2, 40, 2, 3))
    found, wanted = (
        regress_projections(x * one, y, np.zeros((1, 3, 3)), (0.0, 0.1)) * one for one in (unit, 1)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_more_frozen_heads_explain_more_and_heads_of_another_dimension_are_refused():
    errors = [
        _fit(FrozenAttention(heads, examples=3000), d=8).trace[-1].measures["relative_error"]
        for heads in (1, 8, 64)
    ]
    assert errors[0] > errors[1] > errors[2]
    with pytest.raises(ValueError, match="6 coordinates"):
        _fit(FrozenAttention(theta=np.zeros((1, 6, 6))))


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_one_step_of_sgd_without_momentum_goes_along_the_gradient(rate):
    x, y = ExampleOracle(make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5), rng=1).draw(8)
    learner = GradientDescent(
        2,
        optimizer="sgd",
        learning_rate=rate,
        momentum=0.0,
        schedule="constant",
        work=1,
        batch=8,
        dtype="float64",
    )
    fit = learner.fit(ExampleOracle.from_arrays(x, y), rng=2)
    theta, w = random_start(2, 5, np.random.default_rng(2))
    _, theta_gradient, w_gradient = squared_error_gradient(x, y, theta, w)
    step = layer_of_stacked(theta - rate / 2 * theta_gradient, w - rate / 2 * w_gradient)
    np.testing.assert_allclose(fit.layer.theta, step.theta, atol=1e-14)
    np.testing.assert_allclose(fit.layer.w, step.w, atol=1e-14)
    assert fit.outcome is Outcome.WORK_SPENT


@pytest.mark.parametrize(("dim", "rate"), [(1, 0.25), (2, 0.25), (8, 1 / 8)])
def test_the_default_rate_of_sgd_is_one_over_d_and_at_most_a_quarter(dim, rate):
    explicit, default = (
        _fit(GradientDescent(2, optimizer="sgd", work=100, learning_rate=one), d=dim) for one in (rate, None)
    )
    np.testing.assert_array_equal(default.layer.theta, explicit.layer.theta)
    assert default.outcome is not Outcome.DIVERGED  # from one to three dimensions 1/d can


@pytest.mark.parametrize(
    ("m", "k", "d"),
    [(1, 3, 8), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2, 2, 8), (4, 4, 16)))],
)
def test_sgd_at_its_default_rate_gets_near_nice_layers(m, k, d):
    fit = _fit(GradientDescent(m, optimizer="sgd", work=1000, tolerance=1e-3), m, k, d)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.examples_used < 1000 * 256  # it stops there
    assert fit.trace[-1].measures["relative_error"] < 2e-3


def test_sgd_learns_from_a_set_it_goes_through_again_and_draws_it_once():
    fit = _fit(GradientDescent(1, optimizer="sgd", work=3000, batch=32, reused=600, tolerance=1e-2), m=1)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.examples_used == 600
    assert fit.trace[-1].measures["relative_error"] < 4e-2


def test_sgd_in_float32_levels_off_at_the_precision_and_says_so():
    fit = _fit(GradientDescent(1, optimizer="sgd", work=800, batch=64, dtype="float32"), m=1, d=10)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert 1e-8 < fit.trace[-1].measures["relative_error"] < 1e-6


@pytest.mark.parametrize(
    ("learner", "scale", "outcome"),
    [
        (GradientDescent(1, optimizer="sgd", work=200, learning_rate=100.0), 1.0, Outcome.DIVERGED),
        *((GradientDescent(1, optimizer="sgd", work=60), scale, None) for scale in (1e-200, 1e-150, 1e200)),
        (LBFGS(2, examples=12, starts=1), 1.0, Outcome.OVERFITTED),
    ],
)
def test_what_is_no_success(learner, scale, outcome):
    fit = _fit(learner, m=learner.m, d=6 if learner.m == 2 else 4, scale=scale)
    assert not fit.outcome.succeeded
    assert outcome in (None, fit.outcome)
    assert outcome is not Outcome.DIVERGED or not np.any(fit.layer.w)
