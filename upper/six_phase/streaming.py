"""Examples in batches: constant memory however many are drawn, threads that change no bit and no count."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from attention import ExampleOracle, draw_examples
from attention._arrays import count, shown
from attention.learning import require_oracle
from attention.memory import require_memory

__all__ = ["batch_size", "map_batches", "remaining", "require_jobs"]

Statistic = TypeVar("Statistic")

# Tokens of a batch, as numbers: the few arrays of this size that a batch needs stay within the caches.
_NUMBERS = 1 << 17
_BYTES_A_BATCH = 2048
_MOST_JOBS = 4096


def batch_size(k: int, d: int) -> int:
    """Examples a batch, about 2^17 numbers in tokens and at least 32 examples."""
    return max(32, _NUMBERS // (k * d))


def require_jobs(jobs: Any) -> None:
    """Raise when `jobs` is no number of threads that joblib knows."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs == 0):
        raise ValueError(f"jobs is {shown(jobs)}: a number of threads, or -1 for one a core, is needed.")
    if jobs is not None and not -_MOST_JOBS <= jobs <= _MOST_JOBS:
        raise ValueError(f"jobs is {shown(jobs)}: at most {_MOST_JOBS} threads are allowed.")


def remaining(oracle: ExampleOracle, n: int) -> int:
    """`n`, or as many examples as are left where that is fewer: a phase makes do with them."""
    require_oracle(oracle)
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
    require_oracle(oracle)
    require_jobs(jobs)
    n, batch = count("n", n), batch_size(oracle.k, oracle.d) if batch is None else count("batch", batch)
    # an oracle for each batch, whose stream of random numbers does not depend on the threads
    require_memory(
        f"Drawing {n} examples in batches of {batch}", _BYTES_A_BATCH * (n // batch + 1), advice="draw fewer"
    )
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
