"""Adam's settings, and Adam tuned: what each changes, and that the cost of tuning is told."""

import json
import subprocess
import sys

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, GroundTruth, Outcome, make_nice_layer
from attention.evaluation import hold_out
from attention.testing import check_learner
from upper import Adam, TunedAdam
from upper.baselines.descent import batches_of, rate

torch = pytest.importorskip("torch")


def _fit(learner, m=1, k=2, d=5, seed=0):
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
    truth = GroundTruth.draw(layer, inputs, 300, rng=seed + 1)
    return learner.fit(ExampleOracle(layer, inputs, rng=seed + 2), rng=seed + 3, truth=truth)


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


@pytest.mark.slow
def test_reused_examples_are_drawn_once_and_reach_a_lower_error_than_as_many_fresh_ones():
    reused = _fit(Adam(1, work=1500, batch=64, reused=640, learning_rate=0.01))
    fresh = _fit(Adam(1, work=1500, batch=64, examples=640, learning_rate=0.01))
    assert reused.examples_used == fresh.examples_used == 640
    assert reused.trace[-1].measures["relative_error"] < 1e-3
    assert fresh.trace[-1].measures["relative_error"] > 0.1
    assert fresh.outcome is Outcome.EXAMPLES_SPENT


@pytest.mark.slow
def test_float64_goes_below_the_floor_of_float32():
    settings = {"work": 3000, "batch": 64, "reused": 2000, "learning_rate": 0.01}
    narrow, wide = (_fit(Adam(1, **settings, dtype=dtype)) for dtype in ("float32", "float64"))
    assert narrow.outcome is Outcome.PRECISION_FLOOR
    assert wide.trace[-1].measures["relative_error"] < 0.1 * narrow.trace[-1].measures["relative_error"]


@pytest.mark.slow
def test_too_few_reused_examples_are_learned_by_heart_and_it_is_said():
    fit = _fit(Adam(2, work=2000, batch=16, reused=24, learning_rate=0.01), m=2, d=8)
    assert fit.outcome is Outcome.OVERFITTED
    assert fit.trace[-1].measures["relative_error"] > 0.1


@pytest.mark.bad_input
def test_bfloat16_only_where_the_hardware_has_it(monkeypatch):
    monkeypatch.setattr("upper.baselines.adam.has_bfloat16", lambda device: False)
    with pytest.raises(ValueError, match="bfloat16"):
        _fit(Adam(1, work=10, dtype="bfloat16"))
    monkeypatch.setattr("upper.baselines.adam.has_bfloat16", lambda device: True)
    fit = _fit(Adam(1, work=200, batch=64, dtype="bfloat16", learning_rate=0.01))
    assert fit.outcome is Outcome.WORK_SPENT
    assert 1e-4 < fit.trace[-1].measures["relative_error"] < 0.5


def test_the_grid_keeps_the_setting_with_the_least_error_on_held_out_examples():
    tuned = TunedAdam(
        1, lengths=(200,), schedules=("cosine",), learning_rates=(1e-5, 0.01), batch=32, reused=600
    )
    fit = _fit(tuned)
    assert fit.trace[-1].measures["learning_rate"] == 0.01
    last_of_each = {step.name.split(":")[0]: step for step in fit.trace[:-1]}
    errors = [step.measures["held_out_error"] for step in last_of_each.values()]
    assert len(errors) == 2
    assert fit.trace[-1].measures["held_out_error"] == pytest.approx(min(errors), rel=1e-6)


def test_the_grid_counts_the_whole_and_the_best_run():
    tuned = TunedAdam(
        1, lengths=(100, 150), schedules=("cosine",), learning_rates=(0.003, 0.01), batch=32, reused=500
    )
    fit = _fit(tuned)
    last = fit.trace[-1].measures
    assert last["settings"] == len(tuned.settings()) == 4
    assert last["grid_steps"] == 500
    assert last["run_steps"] in (100, 150)
    assert 0 < last["run_seconds"] < fit.seconds
    runs = {step.name.split(":")[0]: step.measures["run_seconds"] for step in fit.trace[:-1]}
    assert sum(runs.values()) <= fit.seconds * len(runs)
    assert last["run_seconds"] == pytest.approx(runs[fit.trace[-1].name.removeprefix("Best: ")], abs=0.05)


def test_a_shared_set_is_drawn_once_for_the_whole_grid():
    fit = _fit(TunedAdam(1, lengths=(60,), batch=32, reused=500))
    assert fit.examples_used == 500


def test_the_first_setting_of_the_grid_is_that_setting_alone():
    alone = _fit(
        Adam(1, work=100, batch=32, learning_rate=0.01, power=1.5, beta1=0.7, beta2=0.98, reused=500)
    )
    grid = _fit(
        TunedAdam(1, lengths=(100,), schedules=("cosine",), learning_rates=(0.01,), batch=32, reused=500)
    )
    # the same start and the same examples, shuffled otherwise
    assert alone.trace[-1].measures["relative_error"] == pytest.approx(
        grid.trace[-1].measures["relative_error"], rel=0.5
    )


def test_the_grid_keeps_to_its_work():
    fit = _fit(TunedAdam(1, work=130, lengths=(100,), batch=32, reused=300))
    assert fit.trace[-1].measures["grid_steps"] == 130
    assert fit.trace[-1].measures["settings"] == 2


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "learner",
    [
        Adam(2, work=60, batch=16, reused=100, dtype="float64", schedule="linear"),
        pytest.param(
            TunedAdam(2, work=80, lengths=(20,), batch=16, learning_rates=(0.01,), reused=100),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["adam-reused", "tuned-reused"],
)
def test_contract(learner):
    check_learner(learner, make_nice_layer(heads=2, dim=5, rng=0), BooleanInputs(2, 5))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("learner", "wrong"),
    [
        (Adam, {"schedule": "sawtooth"}),
        (Adam, {"dtype": "float16"}),
        (Adam, {"beta2": 1.0}),
        (Adam, {"beta1": -0.1}),
        (Adam, {"power": 0.0}),
        (Adam, {"reused": 1}),
        (Adam, {"device": None}),
        (TunedAdam, {"learning_rates": ()}),
        (TunedAdam, {"schedules": "cosine"}),
        (TunedAdam, {"lengths": (0,)}),
    ],
)
def test_wrong_parameters_are_said(learner, wrong):
    with pytest.raises(ValueError, match="needed"):
        learner(m=1, **wrong)


def test_a_device_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="does not find"):
        _fit(Adam(1, work=10, device="meteor"))


def test_importing_the_baselines_does_not_import_torch():
    code = "import json, sys, upper.baselines; print(json.dumps('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
