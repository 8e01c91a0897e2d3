"""The first examples whose cubic features are linearly independent: all that matters of exact data."""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from attention.validation import count, require_shape
from upper.linear_attention.features import cubic_kernel

__all__ = ["first_independent"]

_TOLERANCE = 1e-9  # share of a row's squared length that must be new; of small whole numbers it is far more


def first_independent(x: Float[np.ndarray, "N n d"], *, rank: int | None = None) -> Int[np.ndarray, " kept"]:
    """Indices of the examples that add to the rank of the features of those before them.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one a row, the last one the query.
    rank : int, optional
        Stop when this rank is reached.

    Returns
    -------
    array (r,)
        Increasing indices, as many as the rank, or `rank` of them if that is less.

    Raises
    ------
    ValueError
        If `x` is no (N, n, d), or `rank` is below 1.

    Notes
    -----
    Where the labels are exact, least squares of least norm is the same on these examples as on all, and the kernel can
    be inverted although tasks with finitely many tokens repeat themselves. By the Cholesky factor of the kernel, built
    row by row, O(N^2 d^2 + N r^2); features that are nearly dependent count as dependent.

    Examples
    --------
    >>> first_independent(np.array([[[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]]))
    array([0, 2])
    """
    require_shape("x", x, ("N", "n", "d"))
    most = min(len(x), len(x) if rank is None else count("rank", rank))
    x = x / (np.abs(x).max() or 1.0)  # so that products of six entries neither over- nor underflow
    kernel = cubic_kernel(x, x)
    factor = np.zeros((most, most))
    kept: list[int] = []
    for row in range(len(x)):
        size = len(kept)
        if size == most:
            break
        shared = (
            solve_triangular(factor[:size, :size], kernel[kept, row], lower=True, check_finite=False)
            if kept
            else np.zeros(0)
        )
        new = kernel[row, row] - shared @ shared
        if new > _TOLERANCE * kernel[row, row]:
            factor[size, :size], factor[size, size] = shared, np.sqrt(new)
            kept.append(row)
    return np.array(kept, dtype=np.int64)
