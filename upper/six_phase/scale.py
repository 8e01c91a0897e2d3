"""Squares that neither overflow nor vanish: arrays in a unit of their own size, a power of two, so no bit changes."""

import math

import numpy as np

__all__ = ["exponent_to_square", "relative_change", "scaled_to_square", "size_of"]

# Sums of squares of numbers within these exponents are ordinary numbers.
_MODERATE = 256


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


def exponent_to_square(*arrays: np.ndarray) -> int:
    """The e for which 2^e is the unit of `scaled_to_square`: 0 if squares are ordinary numbers already."""
    exponent = math.frexp(max(size_of(array) for array in arrays))[1] - 1
    return 0 if abs(exponent) <= _MODERATE else exponent


def size_of(array: np.ndarray) -> float:
    """The largest absolute entry; 0 of no entries."""
    return float(max(array.max(), -array.min())) if array.size else 0.0


def relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """|new - old| / |old| in Frobenius norm, and |new| where `old` is zero."""
    if not np.any(old):
        return float(np.linalg.norm(new))
    new, old = scaled_to_square(new, old)
    return float(np.linalg.norm(new - old) / np.linalg.norm(old))
