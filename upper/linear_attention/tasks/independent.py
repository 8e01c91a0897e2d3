"""The first examples whose cubic features are linearly independent: all that matters of exact data."""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from attention._arrays import count, require_shape
from upper.linear_attention.features import cubic_kernel

__all__ = ["first_independent"]

_TOLERANCE = 1e-9  # share of a row's squared length that must be new; of small whole numbers it is far more


def first_independent(
    x: Float[np.ndarray, "N n d"], *, rank: int | None = None, average: bool = False
) -> Int[np.ndarray, " kept"]:
    """Indices of the examples that add to the rank of the features of those before them.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one a row, the last one the query.
    rank : int, optional
        Stop when this rank is reached.
    average : bool
        Whether G is the mean over the tokens.

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
    Least squares of least norm is the same on these examples as on all, where the labels are exact: then the
    kernel can be inverted although tasks with finitely many tokens repeat themselves. By the Cholesky factor of the
    kernel, built row by row, O(N^2 d^2 + N r^2): a row is independent when more than 1e-9 of its squared length is
    new, so features that are nearly dependent count as dependent.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> first_independent(np.array([[[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]]))
    array([0, 2])
    """
    require_shape("x", x, ("N", "n", "d"))
    most = len(x) if rank is None else count("rank", rank)
    kernel = cubic_kernel(x, x, average=average)
    factor = np.zeros((min(most, len(x)), min(most, len(x))))
    kept: list[int] = []
    for row in range(len(x)):
        if len(kept) == most:
            break
        size = len(kept)
        projection = np.zeros(0)
        if kept:
            projection = solve_triangular(
                factor[:size, :size], kernel[kept, row], lower=True, check_finite=False
            )
        new = kernel[row, row] - projection @ projection
        if new > _TOLERANCE * kernel[row, row]:
            factor[size, :size], factor[size, size] = projection, np.sqrt(new)
            kept.append(row)
    return np.array(kept, dtype=np.int64)
