"""Gradient descent: what makes its steps, what its settings change, how it ends."""

from importlib.util import find_spec

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GroundTruth, Outcome, make_nice_layer
from attention.layer import read_tokens
from upper import GradientDescent
from upper.baselines.descent import (
    eliminated_gradient,
    layer_of_stacked,
    random_start,
    rate,
    squared_error_gradient,
    stack_heads,
)

pytest.importorskip("torch")
needs_soap = pytest.mark.skipif(find_spec("pytorch_optimizer") is None, reason="it is not installed")
SOAP = pytest.param("soap", marks=needs_soap)


def _fit(learner, m=1, k=2, d=5, *, scale=1.0, measured=True):
    nice, inputs = make_nice_layer(heads=m, dim=d, rng=0), BooleanInputs(k, d)
    layer = AttentionLayer(nice.theta, scale * nice.w)
    truth = GroundTruth.draw(layer, inputs, 300, rng=1) if measured else None
    return learner.fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)


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


def test_the_eliminated_w_is_that_of_least_squares_and_theta_gets_the_derivative_of_what_is_left():
    import torch

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 40, 3, 4))
    start = AttentionLayer(*rng.standard_normal((2, 2, 4, 4)))
    theta, w = stack_heads(start.theta, start.w)

    def least_squares(theta):
        heads = layer_of_stacked(theta, w).theta
        read = read_tokens(x, heads)[1]
        best = np.linalg.lstsq(read, y.reshape(-1, 4), rcond=None)[0]
        return best, np.sum((read @ best - y.reshape(-1, 4)) ** 2) / (2 * len(x))

    tensors = [torch.tensor(part) for part in (x, y, theta, w)]
    for _ in range(4):  # every step nears W to least squares
        residual, tensors[3], gradient = eliminated_gradient(*tensors)
    np.testing.assert_allclose(tensors[3], least_squares(theta)[0], atol=1e-10)
    layer = layer_of_stacked(theta, tensors[3])
    np.testing.assert_allclose(residual.reshape(x.shape), layer(x) - y, atol=1e-10)
    along = rng.standard_normal(theta.shape)
    above, below = (least_squares(theta + h * along)[1] for h in (1e-5, -1e-5))
    assert (above - below) / 2e-5 == pytest.approx(np.vdot(gradient.numpy(), along), rel=1e-6)


def test_sgd_with_w_eliminated_learns_in_a_few_hundred_steps():
    learner = GradientDescent(
        2, optimizer="sgd", eliminates_w=True, work=600, batch=64, power=0.5, reused=2000, tolerance=2e-6
    )
    fit = _fit(learner, m=2, k=3, d=8)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["relative_error"] < 4e-6


@pytest.mark.bad_input
def test_w_is_eliminated_only_with_enough_digits_and_rows():
    with pytest.raises(ValueError, match="bfloat16"):
        GradientDescent(1, eliminates_w=True, dtype="bfloat16")
    with pytest.raises(ValueError, match="its 8 rows are too few for the 10 of W, take at least 10"):
        _fit(GradientDescent(2, eliminates_w=True, batch=4), m=2)


@pytest.mark.parametrize("optimizer", ["adam", "muon", SOAP])
def test_every_optimizer_gets_near_a_nice_layer(optimizer):
    fit = _fit(
        GradientDescent(1, optimizer=optimizer, work=600, batch=64, learning_rate=0.02, tolerance=0.02), d=8
    )
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["relative_error"] < 0.04


def test_it_says_when_the_examples_ran_out():
    layer, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4)
    served = ExampleOracle.from_arrays(*ExampleOracle(layer, inputs, rng=0).draw(600))
    fit = GradientDescent(1, work=100).fit(served, rng=0)
    assert fit.outcome is Outcome.EXAMPLES_RAN_OUT
    assert fit.examples_used == 512
    assert _fit(GradientDescent(1, work=100, examples=600)).outcome is Outcome.EXAMPLES_SPENT


@pytest.mark.parametrize(
    ("optimizer", "rate", "scale", "measured"),
    [
        ("adam", 1e20, 1.0, True),
        ("adam", 1e30, 1.0, False),
        ("sgd", 100.0, 1.0, True),
        *((name, 0.01, 1e160, True) for name in ("adam", "muon")),
        pytest.param("soap", 0.01, 1e160, True, marks=needs_soap),
    ],
)
def test_it_says_when_it_diverged(optimizer, rate, scale, measured):
    learner = GradientDescent(1, optimizer=optimizer, work=200, learning_rate=rate)
    fit = _fit(learner, d=4, scale=scale, measured=measured)
    assert fit.outcome is Outcome.DIVERGED
    assert not np.any(fit.layer.w)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_schedules_begin_at_the_rate_and_end_where_they_say(schedule):
    shares = [rate(schedule, step, 1000) for step in range(1000)]
    assert max(shares) == pytest.approx(1.0, abs=0.03)
    assert shares[0] == pytest.approx(1 / 20)
    assert shares[20:] == sorted(shares[20:], reverse=True)
    assert shares[-1] < 1e-2 if schedule != "constant" else shares[-1] == 1.0
    assert rate(schedule, 700, 1000, 2.0) == pytest.approx(shares[700] ** 2)


@pytest.mark.bad_input
def test_bfloat16_only_where_the_hardware_has_it(monkeypatch):
    monkeypatch.setattr("upper.baselines.gradient_descent.has_bfloat16", lambda device: False)
    with pytest.raises(ValueError, match="bfloat16"):
        _fit(GradientDescent(1, work=10, dtype="bfloat16"))
    monkeypatch.setattr("upper.baselines.gradient_descent.has_bfloat16", lambda device: True)
    fit = _fit(GradientDescent(1, work=200, batch=64, dtype="bfloat16", learning_rate=0.01))
    assert fit.outcome is Outcome.WORK_SPENT
    assert 1e-4 < fit.trace[-1].measures["relative_error"] < 0.5


@pytest.mark.parametrize(("dim", "rate"), [(1, 0.25), (8, 1 / 8)])
def test_the_default_rate_of_sgd_is_one_over_d_and_at_most_a_quarter(dim, rate):
    explicit, default = (
        _fit(GradientDescent(2, optimizer="sgd", work=30, learning_rate=one), d=dim) for one in (rate, None)
    )
    np.testing.assert_array_equal(default.layer.theta, explicit.layer.theta)
    assert default.outcome is not Outcome.DIVERGED  # from one to three dimensions 1/d can


def test_sgd_learns_from_a_set_it_goes_through_again_and_draws_it_once():
    fit = _fit(GradientDescent(1, optimizer="sgd", work=3000, batch=32, reused=600, tolerance=1e-2), m=1)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.examples_used == 600
    assert fit.trace[-1].measures["relative_error"] < 4e-2


def test_sgd_in_float32_levels_off_at_the_precision_and_says_so():
    fit = _fit(GradientDescent(1, optimizer="sgd", work=800, batch=64, dtype="float32"), m=1, d=10)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert 1e-8 < fit.trace[-1].measures["relative_error"] < 1e-6


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e200, 0.0])
def test_labels_beyond_the_numbers_of_float32_are_no_success(scale):
    for reused in (None, 400):
        fit = _fit(GradientDescent(1, work=60, reused=reused), d=4, scale=scale, measured=False)
        assert not (scale and fit.outcome.succeeded)
