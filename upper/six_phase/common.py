"""Common parts of the phases: examples in batches, and the error of a phase that fails."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Annotated, Literal, TypeVar

import numpy as np

from attention import ExampleOracle, Outcome, draw_examples
from attention._arrays import shown
from attention.validation import Whole

__all__ = ["Jobs", "PhaseFailedError", "batch_size", "map_batches", "relative_change", "remaining"]

Statistic = TypeVar("Statistic")

Jobs = Annotated[int, Whole(1, 4096)] | Literal[-1] | None
"""The number of threads; -1 for one per core; one by default."""

_NUMBERS = 1 << 17  # numbers in the tokens of a batch: a few such arrays fit into the caches
_MOST_BATCHES = 100_000


class PhaseFailedError(ArithmeticError):
    """A phase failed on these examples; it has the outcome of the fit, and an explanation with numbers."""

    def __init__(self, outcome: Outcome, explanation: str) -> None:
        super().__init__(explanation)
        self.outcome, self.explanation = outcome, explanation


def batch_size(k: int, d: int) -> int:
    """The examples per batch: about 2^17 numbers in tokens, and at least 32 examples."""
    return max(32, _NUMBERS // (k * d))


def remaining(oracle: ExampleOracle, n: int, purpose: str) -> int:
    """`n`, or the number of examples left if that is smaller; a `PhaseFailedError` if none is left."""
    n = n if oracle.remaining is None else min(n, oracle.remaining)
    if n <= 0:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, f"no example is left {purpose}.")
    return n


def map_batches(
    oracle: ExampleOracle,
    function: Callable[[np.ndarray, np.ndarray], Statistic],
    n: int,
    *,
    jobs: Jobs = None,
) -> Iterator[Statistic]:
    """The results of `function` on the tokens and labels of each batch of `n` examples, in the order of the batches.

    All `n` are drawn and counted; call `remaining` first. Every batch has its own random stream, split from the
    oracle's, so the result does not depend on `jobs`, to the last bit. An oracle of given examples serves them in
    order. At most 2 `jobs` batches are in memory.
    """
    batch = batch_size(oracle.k, oracle.d)
    if n > _MOST_BATCHES * batch:
        raise ValueError(
            f"{shown(n)} examples in batches of {batch}: at most {_MOST_BATCHES} batches are allowed."
        )
    sizes = [batch] * (n // batch) + ([n % batch] if n % batch else [])

    def draw_and_call(stream: ExampleOracle, size: int) -> Statistic:
        return function(*draw_examples(stream, size))

    threads = (os.cpu_count() or 1) if jobs == -1 else jobs or 1
    if oracle.remaining is not None:
        calls = (partial(function, *draw_examples(oracle, size)) for size in sizes)
    else:
        streams = oracle.split(len(sizes))
        calls = (partial(draw_and_call, *task) for task in zip(streams, sizes, strict=True))
    return (call() for call in calls) if threads == 1 else _in_threads(calls, threads)


def _in_threads(calls: Iterable[Callable[[], Statistic]], threads: int) -> Iterator[Statistic]:
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Statistic]] = deque()
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) == 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """|new - old| / |old| in Frobenius norm, and |new| where `old` is zero."""
    return float(np.linalg.norm(new - old)) / (float(np.linalg.norm(old)) or 1.0)
