"""The fast Walsh-Hadamard transform, and the Fourier coefficients of hidden parts over all inputs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.validation import count
from lower import all_sign_matrices, walsh_hadamard
from sq.target_family import TargetFamily, require_family

__all__ = ["MOST_BITS", "FourierSpectrum", "fourier_spectrum", "hidden_values"]

MOST_BITS = 24
"""The most input bits k d that full enumeration takes on: 2^24 inputs."""

# Inputs a block: the token matrices of a block stay in the processor's cache.
_BLOCK_BITS = 13
# Coefficients below this are rounding; what they weigh together is kept count of.
_NEGLIGIBLE = 1e-14
_MOST_STORED = 50_000_000


def hidden_values(family: TargetFamily, number: int) -> Float[np.ndarray, "k n"]:
    """The hidden part of one target at all 2^(k d) inputs, a row for each token.

    Raises
    ------
    ValueError
        If the inputs have more than 24 bits, or the family gives values that are not finite.

    Notes
    -----
    O(2^(k d)) evaluations in blocks of 2^13; memory k 2^(k d) numbers.
    """
    require_family(family)
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


@dataclass(frozen=True, eq=False)
class FourierSpectrum:
    """The Fourier coefficients of the hidden parts of some targets, found by full enumeration.

    Attributes
    ----------
    numbers : array of int (N,)
        Which targets.
    coefficients : scipy.sparse.csr_array (N, k 2^(k d))
        A target a row; coefficient A of token r stands in column r 2^(k d) + A.
    tokens, dim : int
        k and d.
    dropped : float
        The largest Euclidean norm of what was left out of a row as rounding.
    """

    numbers: Int[np.ndarray, " N"]
    coefficients: Any
    tokens: int
    dim: int
    dropped: float

    def gram(self) -> Float[np.ndarray, "N N"]:
        """E sum_a f_S(X)_a f_T(X)_a, by Parseval's identity."""
        return np.asarray((self.coefficients @ self.coefficients.T).todense(), dtype=np.float64)

    def weights(self) -> Float[np.ndarray, "N degrees"]:
        """The Fourier weight sum of squared coefficients of each degree 0 to k d, a target a row."""
        bits = self.tokens * self.dim
        matrix = self.coefficients.tocoo()
        degrees = np.bitwise_count(matrix.col.astype(np.uint64) & np.uint64((1 << bits) - 1)).astype(np.int64)
        places = matrix.row.astype(np.int64) * (bits + 1) + degrees
        found = np.bincount(places, weights=matrix.data**2, minlength=len(self.numbers) * (bits + 1))
        return found.reshape(len(self.numbers), bits + 1)

    def lowest_degree(self, *, least: float = 1e-9) -> int:
        """The lowest degree in the entries of X at which some target has a weight above `least`.

        Raises
        ------
        ValueError
            If no weight is.
        """
        seen = np.flatnonzero(np.any(self.weights() > least, axis=0))
        if not len(seen):
            raise ValueError(f"No degree has a weight above {least}: the hidden parts vanish.")
        return int(seen[0])


def fourier_spectrum(
    family: TargetFamily, numbers: Sequence[int] | np.ndarray | None = None
) -> FourierSpectrum:
    """The Fourier coefficients of hidden parts, by evaluating each at all inputs and transforming.

    Parameters
    ----------
    family : TargetFamily
        The family; of its members only `hidden` is asked, never a closed form.
    numbers : sequence of int, optional
        Which targets; all when left out.

    Raises
    ------
    ValueError
        If the inputs have more than 24 bits, a number is out of range, or the coefficients that are not zero are
        more than fifty million.

    Notes
    -----
    One target at a time: O(N 2^(k d) k d) operations; memory 2 k 2^(k d) numbers (0.5 GiB at 24 bits, two tokens)
    plus the coefficients that are not zero. A row that is exactly plus or minus the first is seen to be so and not
    transformed again.
    """
    require_family(family)
    import scipy.sparse

    k, d = family.tokens, family.dim
    size = 1 << _bits(k, d)
    chosen = target_numbers(family, numbers)
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
        dropped = max(dropped, math.sqrt(left_out))
    matrix = scipy.sparse.csr_array(
        (np.concatenate(entries), np.concatenate(places), np.array(ends)), shape=(len(chosen), k * size)
    )
    return FourierSpectrum(chosen, matrix, k, d, dropped)


def target_numbers(family: TargetFamily, numbers: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """The numbers of some targets, checked; all of the family's when None."""
    require_family(family)
    size = family.secrets.size
    if numbers is None:
        return np.arange(size)
    listed = np.asarray(numbers, dtype=object)  # ragged ones, too
    chosen = np.asarray(numbers) if listed.ndim == 1 else listed
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise ValueError(f"numbers is {shown(numbers)}: a sequence of at least one whole number is needed.")
    if chosen.min() < 0 or chosen.max() >= size:
        raise ValueError(
            f"numbers run from {chosen.min()} to {chosen.max()}: those of {family.name} must lie from 0 to {size - 1}."
        )
    return chosen.astype(np.int64)


def _bits(k: int, d: int) -> int:
    bits = count("k", k) * count("d", d)
    if bits > MOST_BITS:
        raise ValueError(
            f"k is {k} and d {d}, {bits} input bits: full enumeration takes at most {MOST_BITS}; take Monte Carlo "
            "beyond."
        )
    return bits


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
    # on the first few entries already, mostly
    head = slice(0, 64)
    for sign in (-1, 1):
        if np.array_equal(sign * first[head], other[head]) and np.array_equal(sign * first, other):
            return sign
    return 0
