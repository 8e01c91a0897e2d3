"""Common parts of the phases: shares of a budget, examples in batches, and the error of a phase that fails."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attention import ExampleOracle, Outcome, draw_examples
from attention._arrays import shown


class PhaseFailedError(ArithmeticError):
    """A phase failed on these examples; it has the outcome of the fit, and an explanation with numbers."""

    def __init__(self, outcome: Outcome, explanation: str) -> None:
        super().__init__(explanation)
        self.outcome, self.explanation = outcome, explanation


@dataclass(frozen=True)
class Wish:
    """The number of examples that a phase would draw, and the fewest with which it can begin."""

    wanted: int
    least: int


def share_of_budget(
    wishes: Mapping[Any, Wish], phase: Any, budget: int | None, drawn: int = 0, *, use_all: bool = False
) -> int:
    """The examples that a phase may draw, if earlier phases have drawn `drawn` examples of the budget.

    `wishes` has the phases in their order; a budget of None has no limit. With `use_all`, the last phase takes all that
    is left.

    If the rest of the budget is enough for this and all later phases, the phase gets what it wants. Otherwise each
    phase gets the fewest with which it can begin. The remainder is divided in proportion to the square roots of their
    further wishes. In proportion to the wishes themselves, the cheap early phases would get too few, and all later
    phases inherit their errors.

    Examples
    --------
    >>> wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    >>> share_of_budget(wishes, "one", 200), share_of_budget(wishes, "two", 200, 70)
    (71, 130)
    """
    phases = list(wishes)
    left = [wishes[one] for one in phases[phases.index(phase) :]]
    own = left[0]
    if budget is None:
        return own.wanted
    rest = budget - drawn
    if rest >= sum(wish.wanted for wish in left):
        return rest if use_all and len(left) == 1 else own.wanted
    left_over = rest - sum(wish.least for wish in left)
    weights = [math.sqrt(max(wish.wanted - wish.least, 0)) for wish in left]
    if left_over <= 0 or not weights[0]:
        return max(0, min(own.least, rest))
    return min(own.wanted, own.least + int(left_over * weights[0] / sum(weights)))


def batch_size(k: int, d: int) -> int:
    """The examples per batch: 2^17 numbers in tokens, so that a few such arrays fit into the caches; at least 32."""
    return max(32, (1 << 17) // (k * d))


def remaining(oracle: ExampleOracle, n: int, purpose: str) -> int:
    """`n`, or the number of examples left if that is smaller; a `PhaseFailedError` if none is left."""
    n = n if oracle.remaining is None else min(n, oracle.remaining)
    if n <= 0:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, f"no example is left {purpose}.")
    return n


def batches(oracle: ExampleOracle, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`n` examples, the tokens and labels of one batch after the other, so that never all are in memory.

    All `n` are drawn and counted; call `remaining` first. Every batch has its own random stream, split from the
    oracle's. An oracle of given examples serves them in order.
    """
    batch = batch_size(oracle.tokens, oracle.dim)
    if n > 100_000 * batch:
        raise ValueError(f"{shown(n)} examples in batches of {batch}: at most 100000 batches are allowed.")
    sizes = [batch] * (n // batch) + ([n % batch] if n % batch else [])
    for stream, size in zip(oracle.split(len(sizes)), sizes, strict=True):
        yield draw_examples(stream, size)


def relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """|new - old| / |old| in Frobenius norm, and |new| where `old` is zero."""
    return float(np.linalg.norm(new - old)) / (float(np.linalg.norm(old)) or 1.0)
