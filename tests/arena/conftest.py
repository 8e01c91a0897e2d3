"""A realistic comparison, written by hand: five targets, five learners, two seeds."""

import signal
from dataclasses import replace

import numpy as np
import pytest

from arena.cli.main import run
from arena.results import Cell, LearnerRecord, Results, TargetRecord, TracePoint
from attention import BooleanInputs, GaussianInputs, Outcome
from attention.inputs import inputs_to_json
from lower import Hardness

NICE = (
    "Theta entries from N(0, (2/32)^2), so that a logit has standard deviation 2; W entries from N(0, 1/32)."
)
TARGETS = (
    TargetRecord(
        name="nice-2-2-32",
        title="Nice, 2 heads",
        kind="nice",
        heads=2,
        tokens=2,
        dim=32,
        inputs=inputs_to_json(BooleanInputs(2, 32)),
        how=NICE,
        seed=1,
        known="Nothing is known in advance: predicting zero has error 1.0.",
        certificate=(
            "incoherence of the heads     0.021   small is good   meets it",
            "least stable rank           10.3     large is good   meets it",
            "distance between heads       1.39    large is good   meets it",
        ),
    ),
    TargetRecord(
        name="nice-4-4-32",
        title="Nice, 4 heads",
        kind="nice",
        heads=4,
        tokens=4,
        dim=32,
        inputs=inputs_to_json(BooleanInputs(4, 32)),
        how=NICE,
        seed=2,
        known="Nothing is known in advance: predicting zero has error 1.0.",
        certificate=(
            "incoherence of the heads     0.049   small is good   meets it",
            "least stable rank            9.8     large is good   meets it",
            "distance between heads       1.36    large is good   meets it",
        ),
    ),
    TargetRecord(
        name="nice-gaussian",
        title="Nice, Gaussian inputs",
        kind="nice",
        heads=2,
        tokens=2,
        dim=32,
        inputs=inputs_to_json(GaussianInputs(2, 32)),
        how="Drawn like the other nice layers; its tokens are standard Gaussian instead of Boolean.",
        seed=3,
        known="Nothing is known in advance: predicting zero has error 1.0.",
        certificate=("incoherence of the heads     0.033   small is good   meets it",),
    ),
    TargetRecord(
        name="parity",
        title="Two-head parity",
        kind="parity",
        heads=2,
        tokens=2,
        dim=48,
        inputs=inputs_to_json(BooleanInputs(2, 48)),
        how="Two heads with slopes 0.5 and 1 add up to the parity of three hidden coordinates (form D).",
        seed=4,
        known="The part C a_1 [1;1] w^T, the same for every secret, is 46/47 of the energy of the labels.",
        certificate=(
            "16,215 secrets; two different ones have correlation exactly 0 once the known part is removed",
            "a statistical query of tolerance 0.1 rules out at most 99 of them",
            "at least 164 queries of tolerance 0.1 (derived here)",
            "the layer equals the parity to 5.0e-15 on every input",
        ),
        hardness=Hardness.PROVED,
    ),
    TargetRecord(
        name="lwr",
        title="Learning with rounding",
        kind="lwr",
        heads=14,
        tokens=2,
        dim=25,
        inputs=inputs_to_json(BooleanInputs(2, 25)),
        how="One head per jump of <v, a> mod 64, rounded to 2 levels, v the secret; and two pads.",
        seed=5,
        known="The linear part that does not depend on the secret.",
        certificate=(
            "n = 24, q = 64, p = 2; rho = |v|/(2q) = 0.71",
            "total variation of <v, a> mod q from uniform: 4.6e-05",
            "Fourier weight at degree 1: 2.9e-09, at degree 2: 1.1e-07",
        ),
        hardness=Hardness.NEITHER,
    ),
)

LEARNERS = (
    LearnerRecord(
        "newton",
        "Newton",
        "None is proved: damped Gauss-Newton from random starts, exact on nice targets as measured here.",
        {"restarts": 4, "examples": "4x the counting floor", "tolerance": 1e-13},
    ),
    LearnerRecord(
        "adam",
        "Adam",
        "None: what one would try first, stopped at 1e-4 in a quick comparison.",
        {"learning_rate": 0.005, "batch": 256, "beta2": 0.99, "stop_at": 1e-4},
    ),
    LearnerRecord(
        "linear",
        "Linear regression",
        "The best predictor that is linear in the token and in the mean of the tokens (least squares).",
        {"examples": 8192},
    ),
    LearnerRecord(
        "known",
        "Known part",
        "None: it predicts what is known in advance and so has error 1.0 by definition.",
        {},
    ),
    LearnerRecord(
        "elimination",
        "Parity elimination",
        "Finds the secret of a noise-free parity from about 2(d + 9) examples, by linear algebra over GF(2).",
        {"spare_equations": 10},
    ),
)


@pytest.fixture(scope="session")
def sample_results() -> Results:
    """The comparison every test of this folder shows."""
    rng = np.random.default_rng(0)
    cells = tuple(
        _cell(target, learner, seed, rng) for target in TARGETS for learner in LEARNERS for seed in (0, 1)
    )
    made = {
        "command": "attention-bounds compare --preset quick --seeds 2",
        "preset": "quick",
        "versions": {"attention-bounds": "0.1.0", "python": "3.11.2", "numpy": "2.3.4", "torch": "2.13.0"},
        "seconds": 71.3,
        "seeds": [0, 1],
        "jobs": 2,
    }
    return Results(made, TARGETS, LEARNERS, cells)


@pytest.fixture(scope="session")
def eventful_results(sample_results) -> Results:
    """The same comparison after a bad day: a failure, time-outs, a seed of two lost, and stopped before its end."""
    cells = []
    for cell in sample_results.cells:
        key = (cell.target, cell.learner, cell.seed)
        if key[0] == "lwr" and key[1] in ("linear", "known", "elimination"):
            continue
        if key in _LOST:
            status, message = _LOST[key]
            cell = Cell(*key, status=status, message=message)
        cells.append(cell)
    made = sample_results.made | {
        "interrupted": "by hand",
        "reused": 12,
        "timeout": 90.0,
        "store": "runs.sqlite",
    }
    return replace(sample_results, made=made, cells=tuple(cells))


_TIMED_OUT = "It was stopped after 90 s, the time a fit may take."
_LOST = {
    ("nice-gaussian", "linear", 0): ("failed", "LinAlgError: SVD did not converge"),
    ("nice-gaussian", "linear", 1): ("timed out", _TIMED_OUT),
    ("nice-4-4-32", "newton", 1): ("timed out", _TIMED_OUT),
    ("parity", "adam", 0): ("timed out", _TIMED_OUT),
    ("parity", "adam", 1): ("timed out", _TIMED_OUT),
}


def _cell(target, learner, seed, rng):
    outcome, trace = _STORIES[learner.name](target, rng)
    common = {"target": target.name, "learner": learner.name, "seed": seed}
    if outcome is Outcome.NOT_APPLICABLE:
        message = "The labels take more than two values on the gate: this is no parity."
        said = {"outcome": outcome.name, "outcome_text": str(outcome), "message": message}
        return Cell(**common, status="not applicable", **said)
    last = trace[-1]
    error = last.measures["unknown_part_error"]
    exact = outcome is Outcome.EXACT and learner.name == "newton"
    return Cell(
        **common,
        status="done",
        outcome=outcome.name,
        outcome_text=str(outcome),
        succeeded=outcome.succeeded,
        relative_error=error / np.sqrt(47) if target.name == "parity" else error,
        unknown_part_error=error,
        theta_error=3 * error if exact else None,
        w_error=2 * error if exact else None,
        examples_used=last.examples,
        seconds=last.seconds,
        trace=trace,
    )


def _trace(name, examples, seconds, errors):
    return tuple(
        TracePoint(f"{name} {step}", int(n), float(s), {"unknown_part_error": float(e)})
        for step, (n, s, e) in enumerate(zip(examples, seconds, errors, strict=True), 1)
    )


def _newton(target, rng):
    n = 2048 if target.tokens == 2 else 344
    if target.has_secret:
        steps = 40
        errors = 1.15 + 0.25 * np.exp(-np.arange(steps) / 6) + rng.normal(0, 0.01, steps)
        seconds = 0.2 * np.arange(1, steps + 1)
        return Outcome.LOCAL_MINIMUM, _trace("step", np.full(steps, 4 * n), seconds, errors)
    slow = np.geomspace(1, 0.05, 12) * rng.uniform(0.8, 1.1, 12)
    errors = np.concatenate([slow, 0.02 ** (1.9 ** np.arange(0, 4)), [rng.uniform(3, 6) * 1e-16]])
    return Outcome.EXACT, _trace("step", np.full(17, n), 0.03 * np.arange(1, 18), errors)


def _adam(target, rng):
    steps = 60
    examples = 256 * np.geomspace(4, 3000, steps)
    seconds = 5e-6 * examples * target.heads
    if target.has_secret:
        return Outcome.WORK_SPENT, _trace("step", examples, seconds, 1.03 + 0.1 * rng.random(steps))
    errors = np.geomspace(1.1, 9e-5, steps) ** np.linspace(0.3, 1, steps) * rng.uniform(0.8, 1.2, steps)
    errors[-1] = 9.3e-5
    return Outcome.REACHED_TOLERANCE, _trace("step", examples, seconds, errors)


def _linear(target, rng):
    error = rng.uniform(1.0, 1.01) if target.has_secret else rng.uniform(0.55, 0.7)
    return Outcome.BEST_OF_CLASS, _trace("regression", [8192], [0.02], [error])


def _known(target, rng):
    return Outcome.BEST_OF_CLASS, _trace("nothing", [0], [1e-5], [1.0])


def _elimination(target, rng):
    if target.kind != "parity":
        return Outcome.NOT_APPLICABLE, ()
    return Outcome.EXACT, _trace("elimination", [57, 114], [0.001, 0.004], [1.0, 5e-15])


_STORIES = {"newton": _newton, "adam": _adam, "linear": _linear, "known": _known, "elimination": _elimination}


@pytest.fixture(scope="module", autouse=True)
def signals_that_are_heard():
    """What is started in the background, or by nohup, hands ignored signals on to what tests start and interrupt."""
    ignored = [
        one
        for one in (getattr(signal, name, None) for name in ("SIGINT", "SIGHUP", "SIGTERM"))
        if one is not None and signal.getsignal(one) is signal.SIG_IGN
    ]
    for one in ignored:
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


@pytest.fixture
def cli(capsys):
    """A call of the command line that ends with the given status, and what it said."""

    def call(*arguments, status=0):
        assert run([str(argument) for argument in arguments]) == status
        return capsys.readouterr()

    return call
