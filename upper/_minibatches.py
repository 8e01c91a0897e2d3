"""What every descent on small batches shares: where batches come from, the rate at each step, the error so far."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from attention import ExampleOracle, Outcome, draw_examples
from attention._arrays import shown
from attention.memory import require_memory
from upper._held_out import EXACT_ERROR, hold_out

__all__ = [
    "Batches",
    "RunningError",
    "Schedule",
    "batches_of",
    "draw_batches",
    "ending",
    "rate",
    "require_schedule",
]

Schedule = Literal["cosine", "linear", "constant"]


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of examples, without end where the examples are a fixed set.

    Attributes
    ----------
    next : callable
        Gives the next batch.
    held_out : tuple of array, or None
        Examples of a fixed set no batch is made of, as NumPy arrays; None where every batch is fresh.
    size : int
        Examples a batch.
    """

    next: Callable[[], tuple[Any, Any]]
    held_out: tuple[np.ndarray, np.ndarray] | None
    size: int


def draw_batches(
    oracle: ExampleOracle,
    *,
    size: int,
    reused: int | None,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any] = np.asarray,
    budget: int | None = None,
) -> Batches:
    """Fresh batches from the oracle or, where `reused` is given, batches of a fixed set drawn now.

    Parameters
    ----------
    oracle : ExampleOracle
        Where the examples come from.
    size : int
        Examples a batch; smaller where the fixed set is.
    reused : int, optional
        The size of the fixed set, at most the budget; it is shuffled anew for every pass.
    rng : Generator
        Shuffles.
    convert : callable
        Brings a NumPy array to where and what the descent computes in.
    budget : int, optional
        The examples that may be drawn.
    """
    # of a batch, the tokens and labels and what is made of them; of a fixed set, a copy for a shuffled pass
    kept = size if reused is None else min(reused, reused if budget is None else budget)
    require_memory(
        f"{shown(kept)} examples of {oracle.k} tokens in {oracle.d} dimensions at once",
        48 * max(kept, size if reused is None else 0) * oracle.k * oracle.d,
        advice="take smaller batches or a smaller fixed set",
    )
    if reused is None:
        return Batches(lambda: _converted(draw_examples(oracle, size), convert), None, size)
    x, y = draw_examples(oracle, reused if budget is None else min(reused, budget))
    return batches_of(x, y, size=size, rng=rng, convert=convert)


def batches_of(
    x: np.ndarray,
    y: np.ndarray,
    *,
    size: int,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any] = np.asarray,
) -> Batches:
    """Batches of given examples, the last twentieth of them held out."""
    (x, y), held_out = hold_out(x, y)
    size = min(size, len(x))
    shuffled = _shuffled(x, y, size, rng, convert)
    return Batches(lambda: next(shuffled), held_out, size)


def _shuffled(x: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator, convert: Any) -> Any:
    here_x, here_y = _converted((x, y), convert)
    n = len(x)
    while True:
        # whole passes are shuffled at once, so that a batch is a slice and never gathered
        order = rng.permutation(n)
        pass_x, pass_y = (here_x, here_y) if size == n else (here_x[order], here_y[order])
        for start in range(0, n - size + 1, size):
            yield pass_x[start : start + size], pass_y[start : start + size]


def _converted(examples: tuple[np.ndarray, np.ndarray], convert: Callable[[np.ndarray], Any]) -> Any:
    return tuple(convert(array) for array in examples)


def rate(schedule: Schedule, step: int, steps: int, power: float = 1.0) -> float:
    """The share of the learning rate at a step, counted from 0: a warm-up over a fiftieth, then the schedule.

    Parameters
    ----------
    schedule : {"cosine", "linear", "constant"}
        How the rate falls.
    step, steps : int
        The step, and how many there are.
    power : float
        To which the schedule is raised.
    """
    warm = min((step + 1) / max(1, steps // 50), 1.0)
    part = min(step, steps) / steps
    if schedule == "cosine":
        return warm * (0.5 * (1 + math.cos(math.pi * part))) ** power
    return warm * (1 - part) ** power if schedule == "linear" else warm


def require_schedule(schedule: str) -> None:
    """Raise when there is no such schedule."""
    if not isinstance(schedule, str) or schedule not in get_args(Schedule):
        raise ValueError(
            f"schedule is {schedule!r}: one of {', '.join(map(repr, get_args(Schedule)))} is needed."
        )


class RunningError:
    """The relative error over the batches since the last look, each measured before it was learned from."""

    def __init__(self) -> None:
        self._error: Any = 0.0
        self._energy: Any = 0.0
        self._unit = 0.0

    def add(self, residual: Any, labels: Any) -> None:
        """Count a batch; arrays of torch stay where they are, so that no step but the first waits."""
        if not self._unit:  # of labels near the ends of the numbers no squares are there
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


def ending(
    *,
    work_spent: bool,
    error: float,
    batches: Batches,
    running: float,
    floor: float,
    oracle: ExampleOracle,
) -> Outcome:
    """How a descent ended that neither diverged nor reached its tolerance.

    Parameters
    ----------
    work_spent : bool
        Whether it made all its steps.
    error : float
        The relative error on examples that were not learned from.
    batches : Batches
        Where its batches came from.
    running : float
        The relative error on the batches it learned from last, before it did.
    floor : float
        The error below which the arithmetic lets none fall much.
    oracle : ExampleOracle
        Where the examples came from.
    """
    if error < EXACT_ERROR:
        return Outcome.EXACT
    if error < floor:
        return Outcome.PRECISION_FLOOR
    if batches.held_out is not None and running < 0.1 * error:
        return Outcome.OVERFITTED
    if work_spent:
        return Outcome.WORK_SPENT
    ran_out = oracle.remaining is not None and oracle.remaining < batches.size
    return Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
