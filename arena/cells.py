"""One cell of a comparison: one learner on one target with one seed, under one thread, whatever happens."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from arena.engines import engine_used
from arena.identity import target_stream
from arena.results import Cell, TracePoint
from arena.students import DoesNotApplyError, Effort, Student
from arena.targets import Target
from attention import Fit, Learner
from attention.learning import Progress
from attention.validation import count, require_instance

__all__ = ["fit_target", "run_cell", "single_thread"]

_LONGEST_MESSAGE = 2000


def run_cell(
    target: Target, student: Student, seed: int, effort: Effort, *, progress: Progress | None = None
) -> Cell:
    """Run one learner on one target; a crash is recorded in the cell and ends nothing else.

    Notes
    -----
    The same versions give the same bits in any process and any order, seconds aside; see `fit_target`.
    """
    require_instance("target", target, Target, needed="a Target")
    require_instance("student", student, Student, needed="a Student, as choose_students gives it,")
    seed = count("seed", seed, least=0)
    require_instance("effort", effort, Effort, needed="an Effort, one of PRESETS,")
    try:
        learner = student.build(target, effort)
        fit, measures = fit_target(target, learner, seed, extra=student.extra, progress=progress)
        return _done(target, student, seed, fit, measures, engine_used(learner, target))
    except Exception as error:  # one learner's failure must not lose the others' results
        # not for this target, or the optional dependency it names is absent
        absent = isinstance(error, ImportError) and bool(student.extra) and find_spec(student.extra) is None
        if absent or isinstance(error, DoesNotApplyError):
            return Cell(target.name, student.name, seed, "not applicable", message=_said(error))
        message = f"{type(error).__name__}: {_said(error)}"
        return Cell(target.name, student.name, seed, "failed", message=message)


def fit_target(
    target: Target,
    learner: Learner,
    seed: int,
    *,
    noise: float = 0.0,
    extra: str = "",
    progress: Progress | None = None,
) -> tuple[Fit, dict[str, float]]:
    """Run a learner that is set up, and measure its fit on fresh examples, whose labels have none of the `noise`.

    Notes
    -----
    Everything runs under one thread of BLAS and of torch, from three independent streams (the examples, the learner,
    the measuring) that depend on the seed and on what the target is, not on what it is called or where it lies.
    """
    seed = count("seed", seed, least=0)
    which = target_stream(target)
    engine_used(learner, target)  # imports torch where it will be used, so that it is held to one thread too
    for_oracle, for_learner, for_truth = (np.random.default_rng([seed, which, stream]) for stream in range(3))
    with single_thread(extra):
        truth = target.ground_truth(rng=for_truth)
        oracle = target.oracle(noise=noise, rng=for_oracle)
        fit = learner.fit(oracle, rng=for_learner, truth=truth, progress=progress)
        return fit, truth.measure(predict=fit.predict, layer=fit.layer)


@contextmanager
def single_thread(extra: str = "") -> Iterator[None]:
    """One thread for BLAS, OpenMP and, where `extra` is "torch" or it is loaded, torch: more would change the bits."""
    with ExitStack() as limits:
        if "torch" in sys.modules or (extra == "torch" and find_spec("torch") is not None):
            import torch

            limits.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        limits.enter_context(threadpool_limits(limits=1))
        yield


def _said(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:  # a learner's exception may be as broken as the learner
        text = "an error that cannot be printed"
    text = text.encode("utf-8", "replace").decode("utf-8")  # surrogates have no place in a file
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " ..."


def _done(
    target: Target, student: Student, seed: int, fit: Fit, measures: dict[str, float], engine: str
) -> Cell:
    return Cell(
        target.name,
        student.name,
        seed,
        "done",
        outcome=fit.outcome.name,
        outcome_text=str(fit.outcome),
        succeeded=fit.outcome.succeeded,
        relative_error=measures["relative_error"],
        unknown_part_error=measures["unknown_part_error"],
        theta_error=measures.get("theta_error"),
        w_error=measures.get("w_error"),
        examples_used=fit.examples_used,
        seconds=fit.seconds,
        engine=engine,
        alone=fit.alone,
        trace=tuple(
            TracePoint(step.name, step.examples, step.seconds, dict(step.measures)) for step in fit.trace
        ),
    )
