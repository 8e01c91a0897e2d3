"""Learning from small batches: where they come from, the rate at each step, and the loop that SGD and Adam share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from attention import AttentionLayer, ExampleOracle, Outcome, draw_examples
from attention._arrays import shown
from attention.evaluation import HeldOut, hold_out, verdict
from attention.memory import require_memory

__all__ = [
    "Batches",
    "Schedule",
    "Student",
    "affordable_steps",
    "batches_of",
    "draw_batches",
    "rate",
    "train",
]

Schedule = Literal["cosine", "linear", "constant"]

# In steps: often enough for a curve, seldom enough to cost nothing.
_LOOK_EVERY = 50
# Predicting zero has the error 1.
_DIVERGED = 1e6
# Numbers of fresh examples that are remembered, to recognise a domain on which they repeat themselves.
_REMEMBERED = 1 << 21


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of examples, without end where the examples are a fixed set.

    Attributes
    ----------
    next : callable
        Gives the next batch.
    held_out : HeldOut or None
        Examples of a fixed set no batch is made of; None where every batch is fresh.
    size : int
        Examples a batch.
    evidence : callable
        Counts what examples that were not learned from say, as `HeldOut.evidence` does: those held out or, of fresh
        ones, the last batch against the first 2^21 numbers of those before.
    """

    next: Callable[[], tuple[Any, Any]]
    held_out: HeldOut | None
    size: int
    evidence: Callable[[], int]


def draw_batches(
    oracle: ExampleOracle,
    *,
    size: int,
    reused: int | None,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any],
    budget: int | None,
) -> Batches:
    """Fresh batches from the oracle or, where `reused` is given, batches of a fixed set of so many, drawn now.

    `convert` brings a NumPy array to where the learner computes; `budget` bounds the fixed set.
    """
    kept = size if reused is None else min(reused, reused if budget is None else budget)
    require_memory(
        f"{shown(kept)} examples of {oracle.k} tokens in {oracle.d} dimensions at once",
        48 * kept * oracle.k * oracle.d,
        advice="take smaller batches or a smaller fixed set",
    )
    if reused is not None:
        fitted, held_out = hold_out(*draw_examples(oracle, kept))
        return batches_of(fitted, held_out, size=size, rng=rng, convert=convert)
    seen: list[np.ndarray] = []

    def fresh() -> tuple[Any, Any]:
        if len(seen) > 1 and len(seen) * seen[0].size > _REMEMBERED:
            seen.pop()
        x, y = draw_examples(oracle, size)
        seen.append(x)
        return convert(x), convert(y)

    def evidence() -> int:
        *before, last = seen
        return HeldOut(last, last, np.concatenate([last[:0], *before])).evidence

    return Batches(fresh, None, size, evidence)


def batches_of(
    fitted: tuple[np.ndarray, np.ndarray],
    held_out: HeldOut,
    *,
    size: int,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any],
) -> Batches:
    """Batches of a fixed set, shuffled anew for every pass."""
    x, y = (convert(array) for array in fitted)
    n = len(x)
    size = min(size, n)

    def passes() -> Any:
        while True:
            # whole passes are shuffled at once, so that a batch is a slice and never gathered
            order = rng.permutation(n)
            pass_x, pass_y = (x, y) if size == n else (x[order], y[order])
            for start in range(0, n - size + 1, size):
                yield pass_x[start : start + size], pass_y[start : start + size]

    shuffled = passes()
    return Batches(lambda: next(shuffled), held_out, size, lambda: held_out.evidence)


def rate(schedule: Schedule, step: int, steps: int, power: float = 1.0) -> float:
    """The share of the learning rate at a step, counted from 0: a warm-up over a fiftieth, then the schedule.

    `power` is that to which the schedule is raised.
    """
    warm = min((step + 1) / max(1, steps // 50), 1.0)
    part = min(step, steps) / steps
    if schedule == "cosine":
        return warm * (0.5 * (1 + math.cos(math.pi * part))) ** power
    return warm * (1 - part) ** power if schedule == "linear" else warm


def affordable_steps(learner: Any, budget: int | None) -> int:
    """The steps of the learner's `work` for which a budget in examples lasts, where every batch is fresh."""
    fresh = learner.reused is None and budget is not None
    return min(learner.work, budget // learner.batch) if fresh else learner.work


@runtime_checkable
class Student(Protocol):
    """The parameters of a layer, and how a batch changes them."""

    def step(self, x: Any, y: Any, number: int) -> Any:
        """Take a step, counted from 0, on a batch; return the residual before it."""

    def finite(self) -> bool:
        """Whether all parameters are finite."""

    def reset(self) -> None:
        """Set all parameters to zero."""

    def layer(self) -> AttentionLayer:
        """The layer of now."""


def train(
    student: Student,
    batches: Batches,
    oracle: ExampleOracle,
    *,
    steps: int,
    work: int,
    tolerance: float,
    rounding: float,
    tell: Callable[..., None],
) -> Outcome:
    """Take steps until the error is below the tolerance, the parameters diverge or nothing is left.

    Parameters
    ----------
    student : Student
        What learns; it keeps the result.
    batches : Batches
        Batches in the arrays of the student.
    oracle : ExampleOracle
        Where the batches come from.
    steps, work : int
        At most so many steps, of so many that the learner may take.
    tolerance, rounding : float
        The error asked for, and that at which the arithmetic ends.
    tell : callable
        Called at every look with the step, a function that gives the layer, and the errors.
    """
    running, error, seen = _RunningError(), 0.0, 0.0
    for step in range(1, steps + 1):
        x, y = batches.next()
        running.add(student.step(x, y, step - 1), y)
        if step % _LOOK_EVERY and step < steps:
            continue
        error = seen = running.pop()
        diverged = not (seen < _DIVERGED and student.finite())
        if diverged:
            student.reset()  # what is left of the parameters predicts nothing
        errors = {"fresh_error" if batches.held_out is None else "batch_error": seen}
        if batches.held_out is not None and not diverged:
            error = errors["held_out_error"] = batches.held_out.error(student.layer())
        tell(step, student.layer, **errors)
        if diverged:
            return Outcome.DIVERGED
        if error <= tolerance:
            break
    if steps == work:
        ended = Outcome.WORK_SPENT
    else:
        ran_out = oracle.remaining is not None and oracle.remaining < batches.size
        ended = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
    return verdict(
        fitted=error if error <= tolerance else seen,
        held_out=error,
        evidence=batches.evidence,
        otherwise=ended,
        tolerance=tolerance,
        rounding=rounding,
    )


class _RunningError:
    """The relative error over the batches since the last look, each measured before it was learned from."""

    def __init__(self) -> None:
        self._error: Any = 0.0
        self._energy: Any = 0.0
        self._unit = 0.0

    def add(self, residual: Any, labels: Any) -> None:
        """Count a batch; arrays of torch stay where they are, so that no step but the first waits."""
        if not self._unit:  # labels near the ends of the floats have no squares
            self._unit = float(abs(labels).max())
        unit = self._unit or 1.0
        self._error = self._error + _squared(residual / unit)
        self._energy = self._energy + _squared(labels / unit)

    def pop(self) -> float:
        """The error since the last look, which begins anew."""
        error, energy = float(self._error), float(self._energy)
        self._error = self._energy = 0.0
        return math.sqrt(error / energy) if energy > 0 else math.sqrt(error)


def _squared(array: Any) -> Any:
    flat = array.reshape(-1)
    if str(flat.dtype) == "torch.bfloat16":  # its sums would be off by per cents
        flat = flat.float()
    return flat @ flat
