"""Examples in batches: constant memory however many are drawn, threads that change no bit and no count."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed

from attention import ExampleOracle, draw_examples
from attention._arrays import count

__all__ = ["batch_size", "map_batches", "remaining"]

Statistic = TypeVar("Statistic")

# Tokens of a batch, as numbers: the few arrays of this size that a batch needs stay within the caches.
_NUMBERS = 1 << 17


def batch_size(k: int, d: int) -> int:
    """Examples a batch, about 2^17 numbers in tokens and at least 32 examples."""
    return max(32, _NUMBERS // (k * d))


def remaining(oracle: ExampleOracle, n: int) -> int:
    """`n`, or as many examples as are left where that is fewer: a phase makes do with them."""
    return n if oracle.remaining is None else min(n, oracle.remaining)


def map_batches(
    oracle: ExampleOracle,
    function: Callable[[np.ndarray, np.ndarray], Statistic],
    n: int,
    *,
    batch: int | None = None,
    jobs: int | None = None,
) -> Iterator[Statistic]:
    """What `function` makes of each batch of examples, in the order of the batches.

    Parameters
    ----------
    oracle : ExampleOracle
        Where the examples come from; all `n` are drawn and counted.
    function : callable
        Called with the tokens and labels (batch, k, d) of one batch.
    n : int
        Examples in all.
    batch : int, optional
        Examples a batch, by default `batch_size`.
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one.

    Yields
    ------
    object
        One result a batch.

    Raises
    ------
    ValueError
        If `n` is below 1 or the oracle's examples are malformed.
    ExamplesExhaustedError
        If the oracle has fewer left; ask `remaining` first.

    Notes
    -----
    Every batch has a random stream of its own, split from the oracle's, and results come in the order of the batches:
    the bits do not depend on `jobs`. At most 2 `jobs` batches are in memory. An oracle that serves given examples
    serves them in order, one batch after the other.
    """
    n, batch = count("n", n), batch_size(oracle.k, oracle.d) if batch is None else count("batch", batch)
    sizes = [batch] * (n // batch) + ([n % batch] if n % batch else [])
    if oracle.remaining is not None:
        tasks = (delayed(function)(*draw_examples(oracle, size)) for size in sizes)
    else:
        streams = oracle.split(len(sizes))
        tasks = (delayed(_draw_and_call)(*task, function) for task in zip(streams, sizes, strict=True))
    return iter(Parallel(n_jobs=jobs, require="sharedmem", return_as="generator")(tasks))


def _draw_and_call(
    oracle: ExampleOracle, size: int, function: Callable[[np.ndarray, np.ndarray], Statistic]
) -> Statistic:
    return function(*draw_examples(oracle, size))
