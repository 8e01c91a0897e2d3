"""The other baselines: each against the identity that says what it computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

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
from attention.testing import check_learner
from upper import LBFGS, SGD, FrozenAttention, OneGradientStep
from upper.baselines.descent import layer_of_stacked, random_start, squared_error_gradient, stack_heads
from upper.baselines.frozen_attention import regress_projections
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


def test_the_gradient_in_theta_vanishes_at_zero_projections():
    _, x, y = _examples(2, 3, 5, 20)
    theta, w = random_start(2, 5, np.random.default_rng(0))
    _, theta_gradient, w_gradient = squared_error_gradient(x, y, theta, np.zeros_like(w))
    assert not np.any(theta_gradient)
    assert np.any(w_gradient)


@given(m=st.integers(1, 3), k=st.integers(1, 4), d=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_gradient_of_the_loss_is_its_finite_difference(m, k, d, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 6, k, d))
    flat = rng.standard_normal(2 * m * d * d)

    def loss_and_gradient(p):
        theta, w = p[: m * d * d].reshape(d, -1), p[m * d * d :].reshape(-1, d)
        residual, *gradients = squared_error_gradient(x, y, theta, w)
        return 0.5 * np.sum(residual**2) / len(x), np.concatenate([part.ravel() for part in gradients])

    gradient = loss_and_gradient(flat)[1]
    error = check_grad(lambda p: loss_and_gradient(p)[0], lambda p: loss_and_gradient(p)[1], flat, rng=rng)
    assert error < 1e-5 * max(1.0, float(np.linalg.norm(gradient)))


@given(m=st.integers(1, 3), d=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_stacking_is_undone_by_unstacking_and_keeps_the_function(m, d, seed):
    rng = np.random.default_rng(seed)
    layer = AttentionLayer(*rng.standard_normal((2, m, d, d)))
    again = layer_of_stacked(*stack_heads(layer.theta, layer.w))
    np.testing.assert_array_equal(again.theta, layer.theta)
    np.testing.assert_array_equal(again.w, layer.w)
    x = rng.standard_normal((4, 3, d))
    residual, *_ = squared_error_gradient(x, np.zeros_like(x), *stack_heads(layer.theta, layer.w))
    np.testing.assert_allclose(residual.reshape(x.shape), layer(x), atol=1e-12)


def test_a_start_is_not_the_target_of_the_same_seed():
    target = make_nice_layer(heads=2, dim=16, rng=0)
    start = layer_of_stacked(*random_start(2, 16, np.random.default_rng(0)))
    inner = np.sum(start.theta * target.theta)
    assert abs(inner) < 0.2 * np.linalg.norm(start.theta) * np.linalg.norm(target.theta)


@pytest.mark.parametrize(("m", "k", "d"), [pytest.param(2, 2, 8, marks=pytest.mark.slow), (3, 3, 8)])
def test_lbfgs_is_exact_at_eight_times_the_counting_floor(m, k, d):
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=1), BooleanInputs(k, d)
    truth = GroundTruth.draw(layer, inputs, 200, rng=2)
    fit = LBFGS(m).fit(ExampleOracle(layer, inputs, rng=3), rng=4, truth=truth)
    assert fit.outcome is Outcome.EXACT
    assert fit.trace[-1].measures["relative_error"] < 1e-10
    assert fit.trace[-1].measures["theta_error"] < 1e-8


def test_lbfgs_keeps_to_its_work():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8)
    fit = LBFGS(2, work=21).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert fit.outcome is Outcome.WORK_SPENT
    assert fit.trace[-1].measures["passes"] == 20


def test_lbfgs_never_returns_a_worse_layer_than_it_saw():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8)
    fit = LBFGS(2, work=300).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    residuals = [step.measures["residual"] for step in fit.trace if step.name.startswith("Start 1")]
    assert residuals == sorted(residuals, reverse=True)
    assert fit.trace[-1].measures["residual"] == min(step.measures["residual"] for step in fit.trace)


def test_lbfgs_says_that_it_overfitted():
    layer, inputs = make_nice_layer(heads=2, dim=12, rng=0), BooleanInputs(2, 12)
    fit = LBFGS(2, examples=20, starts=1).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert fit.outcome is Outcome.OVERFITTED


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_lbfgs_does_not_care_for_the_scale_of_the_labels(scale):
    nice = make_nice_layer(heads=1, dim=6, rng=0)
    layer = AttentionLayer(nice.theta, scale * nice.w)
    fit = LBFGS(1).fit(ExampleOracle(layer, BooleanInputs(3, 6), rng=1), rng=2)
    assert fit.outcome is Outcome.EXACT


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


def test_more_frozen_heads_explain_more():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(2, 8)
    truth = GroundTruth.draw(layer, inputs, 500, rng=1)
    errors = [
        FrozenAttention(heads, examples=3000)
        .fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)
        .trace[-1]
        .measures["relative_error"]
        for heads in (1, 8, 64)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_frozen_attention_never_predicts_worse_than_zero_on_noise():
    layer = make_nice_layer(heads=1, dim=6, rng=0)
    noise = ExampleOracle(
        layer, BooleanInputs(2, 6), noise=lambda y, rng: rng.standard_normal(y.shape), rng=1
    )
    fit = FrozenAttention(16, examples=200).fit(noise, rng=2)
    assert fit.trace[-1].measures["held_out_error"] < 1 + 1e-3


def test_sgd_with_rate_zero_stays_put():
    layer, inputs = make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5)
    fit = SGD(2, learning_rate=0.0, work=7, batch=8).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    start = layer_of_stacked(*random_start(2, 5, np.random.default_rng(2)))
    np.testing.assert_array_equal(fit.layer.theta, start.theta)
    np.testing.assert_array_equal(fit.layer.w, start.w)
    assert fit.outcome is Outcome.WORK_SPENT


def test_one_step_of_sgd_without_momentum_goes_along_the_gradient():
    layer, inputs = make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5)
    x, y = ExampleOracle(layer, inputs, rng=1).draw(8)
    learner = SGD(2, learning_rate=0.3, momentum=0.0, schedule="constant", work=1, batch=8)
    fit = learner.fit(ExampleOracle.from_arrays(x, y), rng=2)
    theta, w = random_start(2, 5, np.random.default_rng(2))
    _, theta_gradient, w_gradient = squared_error_gradient(x, y, theta, w)
    step = layer_of_stacked(theta - 0.15 * theta_gradient, w - 0.15 * w_gradient)
    np.testing.assert_allclose(fit.layer.theta, step.theta, atol=1e-14)
    np.testing.assert_allclose(fit.layer.w, step.w, atol=1e-14)


def test_sgd_learns_from_a_set_it_goes_through_again_and_draws_it_once():
    layer, inputs = make_nice_layer(heads=1, dim=5, rng=0), BooleanInputs(2, 5)
    truth = GroundTruth.draw(layer, inputs, 300, rng=1)
    fit = SGD(1, work=3000, batch=32, reused=600, tolerance=1e-2).fit(
        ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth
    )
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.examples_used == 600
    assert fit.trace[-1].measures["relative_error"] < 4e-2


def test_projections_of_tokens_and_labels_of_any_unit():
    rng = np.random.default_rng(0)
    x, y, none = rng.standard_normal((40, 2, 3)), rng.standard_normal((40, 2, 3)), np.zeros((1, 3, 3))
    wanted = regress_projections(x, y, none, (0.0, 0.1))
    for unit in (1e-300, 1e300):  # whose squares are no numbers
        found = regress_projections(x * unit, y, none, (0.0, 0.1)) * unit
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_correction_wins_back_the_digits_of_frozen_heads_that_nearly_agree(gap, seed):
    rng = np.random.default_rng(seed)
    theta = np.array(make_nice_layer(heads=3, dim=6, rng=seed).theta)
    theta[1] = theta[0] + gap * rng.standard_normal((6, 6))  # the Gram matrix has the condition (4 / gap)^2
    x = BooleanInputs(3, 6).sample(300, rng=seed)
    y = AttentionLayer(theta, rng.standard_normal((3, 6, 6)))(x)
    (w,) = regress_projections(x, y, theta)
    missed = AttentionLayer(theta, w)(x) - y
    assert np.linalg.norm(missed) < 1e-13 * np.linalg.norm(y)  # without the correction from 9e-13 up


@pytest.mark.parametrize(
    ("heads", "tokens", "dim"),
    [
        (1, 3, 8),
        pytest.param(2, 2, 8, marks=pytest.mark.slow),
        pytest.param(4, 4, 16, marks=pytest.mark.slow),
    ],
)
def test_sgd_at_its_default_rate_of_one_over_d_gets_near_nice_layers(heads, tokens, dim):
    layer, inputs = make_nice_layer(heads=heads, dim=dim, rng=0), BooleanInputs(tokens, dim)
    truth = GroundTruth.draw(layer, inputs, 300, rng=1)
    fit = SGD(heads, work=1000, tolerance=1e-3).fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["relative_error"] < 2e-3
    explicit = SGD(heads, work=60, learning_rate=1 / dim).fit(ExampleOracle(layer, inputs, rng=2), rng=3)
    default = SGD(heads, work=60).fit(ExampleOracle(layer, inputs, rng=2), rng=3)
    np.testing.assert_array_equal(default.layer.theta, explicit.layer.theta)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("dim", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("tokens", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_sgd_at_its_default_rate_does_not_diverge_in_few_dimensions(dim, tokens, seed):
    layer, inputs = make_nice_layer(heads=2, dim=dim, rng=seed), BooleanInputs(tokens, dim)
    oracle = ExampleOracle(layer, inputs, rng=1)
    fit = SGD(2, work=200).fit(oracle, rng=2)
    assert fit.outcome is not Outcome.DIVERGED
    explicit = SGD(2, work=200, learning_rate=0.25).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    np.testing.assert_array_equal(fit.layer.theta, explicit.layer.theta)


@pytest.mark.slow
def test_sgd_in_float32_levels_off_at_the_precision_and_says_so():
    layer, inputs = make_nice_layer(heads=2, dim=10, rng=0), BooleanInputs(2, 10)
    truth = GroundTruth.draw(layer, inputs, 300, rng=1)
    fit = SGD(2, work=1500, dtype="float32").fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert 1e-8 < fit.trace[-1].measures["relative_error"] < 1e-6


def test_sgd_says_when_it_diverged():
    layer, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4)
    fit = SGD(1, work=200, learning_rate=100.0).fit(ExampleOracle(layer, inputs, rng=1), rng=2)
    assert fit.outcome is Outcome.DIVERGED
    assert not np.any(fit.layer.w)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "learner",
    [
        LBFGS(2, work=200),
        SGD(2, work=60, batch=16),
        SGD(2, work=60, batch=16, reused=100),
        SGD(2, work=60, batch=16, dtype="float32"),
        OneGradientStep(),
        FrozenAttention(6),
    ],
    ids=["lbfgs", "sgd", "sgd-reused", "sgd-float32", "one-step", "frozen"],
)
def test_contract(learner):
    check_learner(learner, make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("learner", "wrong"),
    [
        (LBFGS, {"m": 2, "starts": 0}),
        (SGD, {"m": 2, "momentum": 1.0}),
        (SGD, {"m": 2, "schedule": "sawtooth"}),
        (SGD, {"m": 2, "reused": 1}),
        (SGD, {"m": 2, "dtype": "float16"}),
        (OneGradientStep, {"examples": -1}),
        (FrozenAttention, {"heads": 0}),
        (FrozenAttention, {"theta": np.zeros((2, 3, 4))}),
        (FrozenAttention, {"theta": np.full((2, 3, 3), np.nan)}),
    ],
)
def test_wrong_parameters_are_said(learner, wrong):
    with pytest.raises(ValueError, match=r"needed|allowed|must"):
        learner(**wrong)


def test_frozen_heads_of_another_dimension_are_refused():
    oracle = ExampleOracle(make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4), rng=0)
    with pytest.raises(ValueError, match="5 coordinates"):
        FrozenAttention(theta=np.zeros((1, 5, 5))).fit(oracle)


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e200])
def test_no_labels_are_so_small_or_large_that_a_start_counts_as_exact(scale):
    layer = make_nice_layer(heads=1, dim=4, rng=0)
    target = AttentionLayer(layer.theta, layer.w * scale)
    fit = SGD(1, work=60).fit(ExampleOracle(target, BooleanInputs(2, 4), rng=1), rng=2)
    assert not fit.outcome.succeeded
