"""Gram matrices of hidden parts, by the family's formula and by enumeration; both must agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from jaxtyping import Bool, Float, Int

from attention.validation import NonNegativeInt, checked
from lower import all_sign_matrices
from lower.walsh import walsh_hadamard
from sq.target_family import TargetFamily

__all__ = ["MOST_DENSE", "GramMatrix", "closed_form_gram", "enumerated_gram", "hidden_values"]

MOST_DENSE = 4096
"""The most targets of a matrix: 4096^2 numbers are 128 MiB, 82251^2 would be 50 GiB."""

# the rounding error of float64 sums of at most 2^25 products of numbers about 1
_ROUNDING = 1e-11
_MOST_BITS = 24
# Inputs per block: the token matrices of a block fit into the processor's cache.
_BLOCK_BITS = 13
# Coefficients below this are rounding; their total weight is recorded.
_NEGLIGIBLE = 1e-14
_MOST_STORED = 50_000_000


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """The matrix of E sum_a f_S(X)_a f_T(X)_a over some targets of a family."""

    matrix: Float[np.ndarray, "N N"]  #: the correlations; symmetric
    numbers: Int[np.ndarray, " N"]  #: which targets
    rounding: float = _ROUNDING  #: the largest rounding error of an entry

    @property
    def size(self) -> int:
        """N, the number of targets."""
        return len(self.numbers)

    def __len__(self) -> int:
        return self.size

    def largest_eigenvalue(self) -> Fraction:
        """lambda_max, raised by N times the rounding of an entry; O(N^3)."""
        from scipy.linalg import eigvalsh

        last = self.size - 1
        found = float(eigvalsh(self.matrix, subset_by_index=[last, last])[0])
        return Fraction(found + self.size * self.rounding)

    def top_sums(self) -> Iterator[tuple[int, Fraction]]:
        """For s = 1 to N, the largest sum of s |entries| of one row."""
        sums = np.zeros(self.size)
        for row in self.matrix:
            np.maximum(sums, np.cumsum(-np.sort(-np.abs(row))), out=sums)
        yield from ((place + 1, Fraction(float(total))) for place, total in enumerate(sums))

    def joined(self, correlation: float) -> Bool[np.ndarray, "N N"]:
        """Which different targets have |correlations| of at most so much."""
        found = np.abs(self.matrix) <= correlation
        np.fill_diagonal(found, False)
        return found & found.T  # rounding may leave the matrix slightly asymmetric


@checked
def closed_form_gram(family: TargetFamily, numbers: Sequence[NonNegativeInt] | None = None) -> GramMatrix:
    """The Gram matrix of the targets of these numbers, or of all, by the family's own formula.

    ValueError if there are more than 4096 targets: take `sq.johnson.OverlapGram`, which never writes the matrix out.
    """
    chosen = _target_numbers(family, numbers)
    return GramMatrix(np.stack([family.correlations(int(number))[chosen] for number in chosen]), chosen)


@checked
def enumerated_gram(family: TargetFamily, numbers: Sequence[NonNegativeInt] | None = None) -> GramMatrix:
    """The Gram matrix by full enumeration: Fourier coefficients over all 2^(k d) inputs, and Parseval.

    It uses only the family's `hidden`, never a closed form. `numbers` selects targets; all by default. ValueError if
    the inputs have more than 24 bits, there are more than 4096 targets, or more than fifty million coefficients are not
    zero.

    Notes
    -----
    Exact up to float64 rounding, which `GramMatrix.rounding` allows for; it includes the measured weight of the
    coefficients that are dropped as zero. One target at a time is evaluated at all inputs and transformed by the fast
    Walsh-Hadamard transform: O(N 2^(k d) k d) operations. Memory: 2 k 2^(k d) numbers (0.5 GiB at 24 bits, two tokens)
    plus the coefficients that are not zero. A row that is exactly plus or minus the first is not transformed again.
    """
    import scipy.sparse

    k, d = family.tokens, family.dim
    chosen, size = _target_numbers(family, numbers), 1 << _bits(k, d)
    places, entries, ends, dropped, stored = [], [], [0], 0.0, 0
    for number in chosen:
        values, left_out = hidden_values(family, int(number)), 0.0
        first: tuple[np.ndarray, np.ndarray, float] | None = None
        for token, row in enumerate(values):
            if first is not None and (sign := _sign_between(values[0], row)):
                kept, heights, lost = first[0], sign * first[1], first[2]
            else:
                coefficients = walsh_hadamard(row)
                kept = np.flatnonzero(np.abs(coefficients) > _NEGLIGIBLE)
                heights = coefficients[kept]
                coefficients[kept] = 0
                lost = float(coefficients @ coefficients)
            first = (kept, heights, lost) if token == 0 else first
            places.append(token * size + kept)
            entries.append(heights)
            left_out += lost
            stored += len(kept)
        if stored > _MOST_STORED:
            raise ValueError(
                f"The hidden parts of {family.name} have more than {_MOST_STORED} coefficients that are not zero by "
                f"target {number}: take fewer targets at a time."
            )
        ends.append(stored)
        dropped = max(dropped, sqrt(left_out))
    # one row per target: coefficient A of token r is in column r 2^(k d) + A
    spectrum = scipy.sparse.csr_array(
        (np.concatenate(entries), np.concatenate(places), np.array(ends)), shape=(len(chosen), k * size)
    )
    matrix = np.asarray((spectrum @ spectrum.T).todense(), dtype=np.float64)
    # |<f + e, g + e'> - <f, g>| <= |e| |g| + |f| |e'| + |e| |e'|
    norm = sqrt(float(np.diag(matrix).max()))
    return GramMatrix(matrix, chosen, _ROUNDING + dropped * (2 * norm + dropped))


def hidden_values(family: TargetFamily, number: int) -> Float[np.ndarray, "k n"]:
    """The hidden part of one target at all 2^(k d) inputs, one row per token; evaluated in blocks of 2^13."""
    k, d = family.tokens, family.dim
    values = np.empty((k, 1 << _bits(k, d)))
    for start, x in _sign_blocks(k, d):
        values[:, start : start + len(x)] = family.hidden(number, x).T
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"Target {number} of {family.name} has a hidden part with NaN or infinite values: every value must be "
            "finite."
        )
    return values


def _target_numbers(family: TargetFamily, numbers: Sequence[int] | None) -> Int[np.ndarray, " N"]:
    size = family.secrets.size
    many = size if numbers is None else len(numbers)
    if many > MOST_DENSE:
        raise ValueError(
            f"There are {many} targets: matrices are written out for at most {MOST_DENSE}; name fewer of them, or take "
            "sq.johnson.OverlapGram."
        )
    if not many:
        raise ValueError("numbers is empty: at least one target is needed.")
    if numbers is not None and max(numbers) >= size:
        raise ValueError(
            f"numbers holds {max(numbers)}: those of {family.name} must lie from 0 to {size - 1}."
        )
    return np.arange(size) if numbers is None else np.array(numbers, dtype=np.int64)


def _bits(k: int, d: int) -> int:
    if k * d > _MOST_BITS:
        raise ValueError(
            f"k is {k} and d {d}, {k * d} input bits: full enumeration takes at most {_MOST_BITS}; take Monte Carlo "
            "beyond."
        )
    return k * d


def _sign_blocks(k: int, d: int) -> Iterator[tuple[int, Float[np.ndarray, "n k d"]]]:
    # The low bits of a number run through the same values in every block: only the columns of the high bits change.
    bits = k * d
    low = min(_BLOCK_BITS, bits)
    entries = all_sign_matrices(k, d, 0, 1 << low).reshape(1 << low, bits)
    x = entries.reshape(-1, k, d)
    for block in range(1 << (bits - low)):
        for place in range(low, bits):
            entries[:, place] = 1 - 2 * ((block >> (place - low)) & 1)
        yield block << low, x


def _sign_between(first: np.ndarray, other: np.ndarray) -> int:
    # the first few entries usually decide
    head = slice(0, 64)
    for sign in (-1, 1):
        if np.array_equal(sign * first[head], other[head]) and np.array_equal(sign * first, other):
            return sign
    return 0
