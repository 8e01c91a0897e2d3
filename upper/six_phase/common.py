"""What every phase uses: examples in batches, squares that do not overflow, and the error of a phase that fails."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from attention import ExampleOracle, Outcome, draw_examples
from attention._arrays import shown
from attention.learning import require_oracle
from attention.memory import require_memory
from attention.validation import count

__all__ = [
    "PhaseFailedError",
    "batch_size",
    "exponent_to_square",
    "map_batches",
    "relative_change",
    "remaining",
    "require_jobs",
    "scaled_to_square",
]

Statistic = TypeVar("Statistic")

# Tokens of a batch, as numbers: the few arrays of this size that a batch needs stay within the caches.
_NUMBERS = 1 << 17
_BYTES_A_BATCH = 2048
_MOST_JOBS = 4096
# Sums of squares of numbers within these exponents are ordinary numbers.
_MODERATE = 256


class PhaseFailedError(ArithmeticError):
    """A phase cannot do its work on these examples; `SixPhase` makes an outcome of it.

    Attributes
    ----------
    outcome : Outcome
        How a fit ends because of it.
    explanation : str
        What was found, with figures.
    """

    def __init__(self, outcome: Outcome, explanation: str) -> None:
        super().__init__(explanation)
        self.outcome, self.explanation = outcome, explanation


def batch_size(k: int, d: int) -> int:
    """Examples a batch, about 2^17 numbers in tokens and at least 32 examples."""
    return max(32, _NUMBERS // (k * d))


def require_jobs(jobs: Any) -> None:
    """Raise when `jobs` is no number of threads that joblib knows."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs == 0):
        raise ValueError(f"jobs is {shown(jobs)}: a number of threads, or -1 for one a core, is needed.")
    if jobs is not None and not -_MOST_JOBS <= jobs <= _MOST_JOBS:
        raise ValueError(f"jobs is {shown(jobs)}: at most {_MOST_JOBS} threads are allowed.")


def remaining(oracle: ExampleOracle, n: int, purpose: str) -> int:
    """`n`, or as many examples as are left where that is fewer.

    Raises
    ------
    PhaseFailedError
        If none is left, with what it would have been needed for.
    """
    require_oracle(oracle)
    n = n if oracle.remaining is None else min(n, oracle.remaining)
    if n <= 0:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, f"no example is left {purpose}.")
    return n


def map_batches(
    oracle: ExampleOracle,
    function: Callable[[np.ndarray, np.ndarray], Statistic],
    n: int,
    *,
    batch: int | None = None,
    jobs: int | None = None,
) -> Iterator[Statistic]:
    """What `function` makes of the tokens and labels of each batch of `n` examples, in the order of the batches.

    All `n` are drawn and counted; ask `remaining` first. `batch` is the examples a batch, by default `batch_size`, and
    `jobs` the threads, by default as `joblib` is configured.

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


def exponent_to_square(*arrays: np.ndarray) -> int:
    """The e for which 2^e is the unit of `scaled_to_square`: 0 if squares are ordinary numbers already."""
    size = max((float(max(array.max(), -array.min())) for array in arrays if array.size), default=0.0)
    exponent = math.frexp(size)[1] - 1
    return 0 if abs(exponent) <= _MODERATE else exponent


def scaled_to_square(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays in a common unit in which their largest entry can be squared; as they are if it can be already.

    Notes
    -----
    The unit is a power of two: ratios of the results are those of the arrays to the last bit. O(size).

    Examples
    --------
    >>> (scaled,) = scaled_to_square(np.array([3e-200, 4e-200]))
    >>> bool(abs(scaled[0] / scaled[1] - 0.75) < 1e-15 and (scaled**2).sum() > 1)
    True
    """
    exponent = exponent_to_square(*arrays)
    return tuple(np.ldexp(array, -exponent) for array in arrays) if exponent else arrays


def relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """|new - old| / |old| in Frobenius norm, and |new| where `old` is zero."""
    if not np.any(old):
        return float(np.linalg.norm(new))
    new, old = scaled_to_square(new, old)
    return float(np.linalg.norm(new - old) / np.linalg.norm(old))
