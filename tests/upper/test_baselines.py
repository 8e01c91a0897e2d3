"""The baselines: what they promise and no more."""

from importlib.util import find_spec

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GroundTruth, Outcome, make_nice_layer
from attention.testing import check_learner
from upper import Adam, KnownPart, LinearBaseline, TunedAdam, counting_floor
from upper.baselines.descent import squared_error_gradient, stack_heads
from upper.linear import LinearPredictor

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")


def test_no_attention_is_linear_in_the_mean_token():
    w = np.random.default_rng(0).standard_normal((2, 5, 5))
    layer = AttentionLayer(np.zeros((2, 5, 5)), w)
    fit = LinearBaseline().fit(ExampleOracle(layer, BooleanInputs(3, 5), rng=1))
    assert fit.outcome is Outcome.EXACT
    np.testing.assert_allclose(fit.predict.mean, w.sum(axis=0), atol=1e-10)
    np.testing.assert_allclose(fit.predict.own, 0, atol=1e-10)


def test_linear_baseline_is_the_best_linear_predictor():
    layer, inputs = make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(2, 6)
    fit = LinearBaseline(examples=4000).fit(ExampleOracle(layer, inputs, rng=1))
    truth = GroundTruth.draw(layer, inputs, 4000, rng=2)
    best = truth.measure(predict=fit.predict)["relative_error"]
    rng = np.random.default_rng(3)
    for _ in range(5):
        shaken = LinearPredictor(
            *(u + 0.05 * rng.standard_normal(u.shape) for u in (fit.predict.own, fit.predict.mean))
        )
        assert truth.measure(predict=shaken)["relative_error"] > best
    assert fit.outcome is Outcome.BEST_OF_CLASS


def test_known_part_of_a_nice_layer_is_zero():
    layer, inputs = make_nice_layer(heads=2, dim=4, rng=0), BooleanInputs(2, 4)
    truth = GroundTruth.draw(layer, inputs, 50, rng=1)
    fit = KnownPart().fit(ExampleOracle(layer, inputs, rng=2), truth=truth)
    assert fit.examples_used == 0
    assert fit.trace[-1].measures == {"relative_error": 1.0, "unknown_part_error": 1.0}


def test_known_part_has_error_one_on_the_unknown_part():
    layer, inputs = make_nice_layer(heads=2, dim=4, rng=0), BooleanInputs(2, 4)
    known = LinearPredictor(own=np.eye(4), mean=np.zeros((4, 4)))
    truth = GroundTruth.draw(layer, inputs, 50, known=known, rng=1)
    fit = KnownPart(known).fit(ExampleOracle(layer, inputs, rng=2), truth=truth)
    assert fit.trace[-1].measures["unknown_part_error"] == 1.0


@pytest.mark.slow
@needs_torch
def test_adam_solves_a_nice_layer_to_single_precision():
    layer, inputs = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8)
    truth = GroundTruth.draw(layer, inputs, 200, rng=1)
    fit = Adam(2, work=1500, learning_rate=0.01).fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)
    assert fit.outcome is Outcome.PRECISION_FLOOR
    assert fit.examples_used == 1500 * 256
    assert 1e-9 < fit.trace[-1].measures["relative_error"] < 2e-6


@needs_torch
def test_adam_stops_at_its_tolerance():
    layer, inputs = make_nice_layer(heads=1, dim=8, rng=0), BooleanInputs(3, 8)
    truth = GroundTruth.draw(layer, inputs, 200, rng=1)
    fit = Adam(1, work=3000, tolerance=0.1).fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["relative_error"] < 0.1


@needs_torch
def test_adam_gradient_is_the_derivative_of_the_loss():
    torch = pytest.importorskip("torch")
    layer = make_nice_layer(heads=2, dim=5, rng=0)
    x, y = (torch.from_numpy(part) for part in ExampleOracle(layer, BooleanInputs(3, 5), rng=1).draw(7))
    rng = np.random.default_rng(2)
    theta, w = (torch.from_numpy(rng.standard_normal((2, 5, 5))).requires_grad_() for _ in range(2))
    loss = ((AttentionLayer(theta, w)(x) - y) ** 2).sum() / (2 * len(x))
    expected = torch.autograd.grad(loss, (theta, w))
    stacked = [torch.from_numpy(part) for part in stack_heads(theta.detach().numpy(), w.detach().numpy())]
    _, *gradients = squared_error_gradient(x, y, *stacked)
    for part, gradient in zip(gradients, stack_heads(*(part.numpy() for part in expected)), strict=True):
        torch.testing.assert_close(part, torch.from_numpy(gradient))


@needs_torch
def test_adam_says_when_the_examples_ran_out():
    layer, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4)
    served = ExampleOracle.from_arrays(*ExampleOracle(layer, inputs, rng=0).draw(600))
    fit = Adam(1, work=100).fit(served, rng=0)
    assert fit.outcome is Outcome.EXAMPLES_RAN_OUT
    assert fit.examples_used == 512
    spent = Adam(1, work=100, examples=600).fit(ExampleOracle(layer, inputs, rng=0), rng=0)
    assert spent.outcome is Outcome.EXAMPLES_SPENT


@needs_torch
@pytest.mark.parametrize(("rate", "scale"), [(1e20, 1.0), (1e30, 1.0), (0.01, 1e160)])
@pytest.mark.parametrize("measured", [False, True])
def test_adam_says_when_it_diverged(rate, scale, measured):
    nice, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4)
    layer = AttentionLayer(nice.theta, scale * nice.w)
    truth = GroundTruth.draw(layer, inputs, 50, rng=1) if measured else None
    fit = Adam(1, work=200, learning_rate=rate).fit(ExampleOracle(layer, inputs, rng=0), rng=0, truth=truth)
    assert fit.outcome is Outcome.DIVERGED
    assert not np.any(fit.layer.w)


@needs_torch
@pytest.mark.parametrize("scale", [1e-200, 1e200, 0.0])
def test_tuned_adam_claims_nothing_about_labels_beyond_its_numbers(scale):
    nice, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(2, 4)
    oracle = ExampleOracle(AttentionLayer(nice.theta, scale * nice.w), inputs, rng=1)
    fit = TunedAdam(1, work=200, lengths=(100,), reused=400).fit(oracle, rng=2)
    error = fit.trace[-1].measures["held_out_error"]
    assert np.isfinite(error)
    if scale:
        assert error >= 1
        assert fit.outcome not in (Outcome.EXACT, Outcome.REACHED_TOLERANCE, Outcome.PRECISION_FLOOR)


def test_linear_baseline_is_exact_at_its_minimum_budget():
    layer = AttentionLayer(np.zeros((1, 5, 5)), np.random.default_rng(0).standard_normal((1, 5, 5)))
    learner = LinearBaseline(examples=LinearBaseline().minimum_examples(3, 5) + 3)
    assert learner.fit(ExampleOracle(layer, BooleanInputs(3, 5), rng=1)).outcome is Outcome.EXACT


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "learner",
    [LinearBaseline(), KnownPart(), pytest.param(Adam(2, work=60, batch=16), marks=needs_torch)],
    ids=lambda learner: type(learner).__name__,
)
def test_contract(learner):
    check_learner(learner, make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5))


def test_counting_floor_counts_equations():
    for m, k, d in [(2, 2, 32), (4, 4, 32), (8, 4, 32), (4, 4, 64), (8, 8, 64)]:
        floor = counting_floor(heads=m, tokens=k, dim=d)
        assert floor * k * (k - 1) >= d * d
        assert floor * k >= 2 * m * d
        assert (floor - 1) * k * (k - 1) < d * d or (floor - 1) * k < 2 * m * d
