"""What every descent on small batches shares: where batches come from, the rate at each step, the error so far."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from attention import ExampleOracle, Outcome, draw_examples
from attention._arrays import shown
from attention.evaluation import HeldOut, hold_out
from attention.memory import require_memory

__all__ = [
    "Batches",
    "RunningError",
    "Schedule",
    "batches_of",
    "draw_batches",
    "ended",
    "rate",
    "require_schedule",
]

# Numbers of fresh examples that are remembered, to tell a domain on which they repeat themselves.
_REMEMBERED = 1 << 21

Schedule = Literal["cosine", "linear", "constant"]


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
        seen: list[np.ndarray] = []

        def fresh() -> tuple[Any, Any]:
            if len(seen) > 1 and len(seen) * seen[0].size > _REMEMBERED:
                seen.pop()
            x, y = draw_examples(oracle, size)
            seen.append(x)
            return _converted((x, y), convert)

        def evidence() -> int:
            *before, last = seen
            return HeldOut(last, last, np.concatenate([last[:0], *before])).evidence

        return Batches(fresh, None, size, evidence)
    fitted, held_out = hold_out(*draw_examples(oracle, reused if budget is None else min(reused, budget)))
    return batches_of(fitted, held_out, size=size, rng=rng, convert=convert)


def batches_of(
    fitted: tuple[np.ndarray, np.ndarray],
    held_out: HeldOut,
    *,
    size: int,
    rng: np.random.Generator,
    convert: Callable[[np.ndarray], Any] = np.asarray,
) -> Batches:
    """Batches of the examples to fit."""
    x, y = fitted
    size = min(size, len(x))
    shuffled = _shuffled(x, y, size, rng, convert)
    return Batches(lambda: next(shuffled), held_out, size, lambda: held_out.evidence)


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


def ended(*, work_spent: bool, batches: Batches, oracle: ExampleOracle) -> Outcome:
    """How a descent ended that neither diverged nor succeeded."""
    if work_spent:
        return Outcome.WORK_SPENT
    ran_out = oracle.remaining is not None and oracle.remaining < batches.size
    return Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
