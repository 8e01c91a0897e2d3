"""Gradient descent: what makes its steps, what its settings change, how it ends; Adam tuned: the cost of tuning."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GroundTruth, Outcome, make_nice_layer
from attention.evaluation import hold_out
from upper import GradientDescent, TunedAdam
from upper.baselines.descent import batches_of, rate, squared_error_gradient, stack_heads
from upper.baselines.optimizers import Momentum, Muon, Soap, TorchAdam

torch = pytest.importorskip("torch")


def _fit(learner, m=1, k=2, d=5, *, scale=1.0, measured=True):
    nice, inputs = make_nice_layer(heads=m, dim=d, rng=0), BooleanInputs(k, d)
    layer = AttentionLayer(nice.theta, scale * nice.w)
    truth = GroundTruth.draw(layer, inputs, 300, rng=1) if measured else None
    return learner.fit(ExampleOracle(layer, inputs, rng=2), rng=3, truth=truth)


def test_the_gradient_is_the_derivative_of_the_loss():
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


def _after(make, gradients):
    """Two heads in three dimensions after a step of each (Theta, W), on copies of both."""
    parameters = [torch.ones(3, 6, dtype=torch.float64), torch.ones(6, 3, dtype=torch.float64)]
    optimizer = make(parameters)
    for theta, w in gradients:
        optimizer.step([theta.clone(), w.clone()], 0.01)
    return [part - 1 for part in parameters]


def _gradients(steps=25):
    rng = torch.Generator().manual_seed(0)
    shapes = ((3, 6), (6, 3))
    return [
        [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes] for _ in range(steps)
    ]


def _soap(heads):
    return pytest.importorskip("pytorch_optimizer").SOAP(heads, lr=0.01, betas=(0.8, 0.9), weight_decay=0.0)


@pytest.mark.extras
@pytest.mark.parametrize(
    ("make", "reference", "within"),
    [
        (
            lambda parts: Momentum(parts, 0.8),
            lambda heads: torch.optim.SGD(heads, lr=0.01, momentum=0.8, nesterov=True),
            1e-12,
        ),
        # its products are in bfloat16
        (
            lambda parts: Muon(parts, 0.8),
            lambda heads: torch.optim.Muon(heads, lr=0.01, momentum=0.8, weight_decay=0.0),
            0.03,
        ),
        (lambda parts: Soap(parts, 0.8, 0.9), _soap, 1e-5),  # its bases are in float32
    ],
    ids=["sgd", "muon", "soap"],
)
def test_the_steps_are_those_of_a_reference(make, reference, within):
    gradients = _gradients()
    expected = [torch.zeros(3, 6, dtype=torch.float64), torch.zeros(6, 3, dtype=torch.float64)]
    heads = [*expected[0].split(3, 1), *expected[1].split(3, 0)]
    optimizer = reference(heads)
    for theta, w in gradients:
        for head, gradient in zip(heads, (*theta.split(3, 1), *w.split(3, 0)), strict=True):
            head.grad = gradient
        optimizer.step()
    for part, other in zip(_after(make, gradients), expected, strict=True):
        assert torch.linalg.norm(part - other) < within * torch.linalg.norm(other)


@pytest.mark.parametrize(
    ("make", "turns"),
    [
        (lambda parts: Muon(parts, 0.8), True),
        (lambda parts: Soap(parts, 0.8, 0.9), True),
        (lambda parts: TorchAdam(parts, 0.8, 0.9), False),
    ],
    ids=["muon", "soap", "adam"],
)
def test_steps_turn_with_the_gradients_of_a_head(make, turns):
    rng = torch.Generator().manual_seed(1)
    left, right = (
        torch.linalg.qr(torch.randn(3, 3, generator=rng, dtype=torch.float64))[0] for _ in range(2)
    )

    def turned(theta, w):
        return [
            torch.cat([left @ head @ right for head in theta.split(3, 1)], 1),
            torch.cat([left @ head @ right for head in w.split(3, 0)], 0),
        ]

    gradients = _gradients()
    there, here = turned(*_after(make, gradients)), _after(make, [turned(*each) for each in gradients])
    for part, other in zip(here, there, strict=True):
        assert torch.allclose(part, other, rtol=0, atol=1e-6) is turns


@pytest.mark.parametrize("optimizer", ["adam", "muon", "soap"])
def test_every_optimizer_gets_near_a_nice_layer(optimizer):
    fit = _fit(
        GradientDescent(1, optimizer=optimizer, work=1200, batch=64, learning_rate=0.02, tolerance=0.01), d=8
    )
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["relative_error"] < 0.02


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
        *((name, 0.01, 1e160, True) for name in ("adam", "muon", "soap")),
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


def test_every_pass_over_a_fixed_set_serves_each_example_once():
    x = np.arange(63.0).reshape(63, 1, 1)
    batches = batches_of(*hold_out(x, x), size=12, rng=np.random.default_rng(0), convert=np.asarray)
    held = set(batches.held_out.x.ravel())
    for _ in range(3):
        served = np.concatenate([batches.next()[0].ravel() for _ in range(5)])
        assert set(served) | held == set(x.ravel())
        assert len(served) + len(held) == 63


@pytest.mark.bad_input
def test_bfloat16_only_where_the_hardware_has_it(monkeypatch):
    monkeypatch.setattr("upper.baselines.gradient_descent.has_bfloat16", lambda device: False)
    with pytest.raises(ValueError, match="bfloat16"):
        _fit(GradientDescent(1, work=10, dtype="bfloat16"))
    monkeypatch.setattr("upper.baselines.gradient_descent.has_bfloat16", lambda device: True)
    fit = _fit(GradientDescent(1, work=200, batch=64, dtype="bfloat16", learning_rate=0.01))
    assert fit.outcome is Outcome.WORK_SPENT
    assert 1e-4 < fit.trace[-1].measures["relative_error"] < 0.5


def test_a_device_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="does not find"):
        _fit(GradientDescent(1, work=10, device="meteor"))


@pytest.mark.parametrize("scale", [1e-200, 1e200, 0.0])
def test_the_grid_claims_nothing_about_labels_beyond_its_numbers(scale):
    fit = _fit(TunedAdam(1, work=200, lengths=(100,), reused=400), d=4, scale=scale, measured=False)
    error = fit.trace[-1].measures["held_out_error"]
    assert np.isfinite(error)
    assert not scale or error >= 1
    assert not (scale and fit.outcome.succeeded)


def test_the_grid_keeps_the_best_setting_and_counts_the_whole():
    rates = (1e-5, 0.01)
    tuned = TunedAdam(
        1, lengths=(100, 150), schedules=("cosine",), learning_rates=rates, batch=32, reused=500
    )
    fit = _fit(tuned)
    last = fit.trace[-1].measures
    assert fit.examples_used == 500  # one set for the whole grid
    assert last["settings"] == len(tuned.settings()) == 4
    assert last["grid_steps"] == 500
    assert last["learning_rate"] == 0.01
    assert last["run_steps"] in (100, 150)
    runs = {step.name.split(":")[0]: step.measures for step in fit.trace[:-1]}  # the last step of each
    assert last["held_out_error"] == pytest.approx(
        min(run["held_out_error"] for run in runs.values()), rel=1e-6
    )
    assert 0 < last["run_seconds"] < fit.seconds
    assert sum(run["run_seconds"] for run in runs.values()) <= fit.seconds * len(runs)
    best = runs[fit.trace[-1].name.removeprefix("Best: ")]
    assert last["run_seconds"] == pytest.approx(best["run_seconds"], abs=0.05)


def test_the_grid_keeps_to_its_work():
    fit = _fit(TunedAdam(1, work=130, lengths=(100,), batch=32, reused=300))
    assert fit.trace[-1].measures["grid_steps"] == 130
    assert fit.trace[-1].measures["settings"] == 2
