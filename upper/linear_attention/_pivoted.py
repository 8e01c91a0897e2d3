"""Normal equations of dependent features: a basis of them by pivoted Cholesky, and back to the least norm."""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.linalg import cho_solve, qr, solve_triangular
from scipy.linalg.lapack import dpstrf

__all__ = ["least_norm_by_pivots"]

_GAP = (
    1e-9  # smallest pivot that counts, of the largest; those that do not are rounding, D 1e-16 of it at most
)
_CORRECTIONS = 2
_UNDERFLOW = 1e-250  # products of so small numbers have lost digits
_PROBES = 4
_UNSEEN = 3e-12  # what rounding may leave of directions that the features do not have

Block = tuple[np.ndarray, np.ndarray]


def least_norm_by_pivots(
    lower: np.ndarray, cross: np.ndarray, stream: Callable[[], Iterable[Block]] | None = None
) -> tuple[np.ndarray, int, float] | None:
    """The least-squares coefficients of least norm, the rank and the condition, where the rank is plain to see.

    Parameters
    ----------
    lower : array (D, D), by columns
        The lower half of the sum of phi phi^T; overwritten.
    cross : array (D, p)
        The sum of phi y^T.
    stream : callable, optional
        Gives the blocks (phi, y) anew each time, to correct the coefficients with their residuals.

    Returns
    -------
    tuple or None
        None where pivots fade out without a gap, or random directions of the null space show on the features after
        all, so that the matrix does not tell the rank.

    Notes
    -----
    The features of the first r pivots are a basis of all; the coefficients on them are exact. The least norm is that
    of their projection on the row space, which L spans, or off the null space, [-L11^-T L21^T; 1], whichever is
    smaller. O(D^3/3 + D s^2) with s = min(r, D - r), and a few times D s numbers beside the matrix.

    References
    ----------
    Higham, Accuracy and Stability of Numerical Algorithms, Section 10.3, for the factorisation; derived else.
    """
    largest = float(np.diagonal(lower).max(initial=0.0))
    if largest < _UNDERFLOW:
        return None
    factor, pivots, rank, _ = dpstrf(lower, lower=1, overwrite_a=1)
    diagonal = np.diagonal(factor)[:rank]
    if float(diagonal[-1]) ** 2 < _GAP * largest:
        return None
    basis = pivots[:rank] - 1  # LAPACK counts from 1
    top = factor[:rank, :rank]
    coefficients = np.zeros_like(cross)
    coefficients[basis] = cho_solve((top, True), cross[basis], check_finite=False)
    if stream is not None:
        for _ in range(_CORRECTIONS):
            wrong = np.zeros_like(cross)
            for phi, y in stream():
                wrong += phi.T @ (y - phi @ coefficients)
            coefficients[basis] += cho_solve((top, True), wrong[basis], check_finite=False)
    if rank < len(cross):
        probes = np.random.default_rng(0).standard_normal((len(cross), _PROBES))
        seen = _in_row_space(factor, pivots - 1, int(rank), np.hstack([coefficients, probes]))
        coefficients, unseen = seen[:, : cross.shape[1]], probes - seen[:, cross.shape[1] :]
        if stream is not None and _shows(stream, unseen, largest):
            return None
    return coefficients, int(rank), float(diagonal[0] / diagonal[-1])


def _in_row_space(factor: np.ndarray, pivots: np.ndarray, rank: int, coefficients: np.ndarray) -> np.ndarray:
    """The coefficients of least norm that give the same predictions."""
    features = len(pivots)
    if rank <= features - rank:
        spanning = np.empty((features, rank))
        spanning[pivots[:rank]] = np.tril(factor[:rank, :rank])
        spanning[pivots[rank:]] = factor[rank:, :rank]
        basis = qr(spanning, mode="economic", overwrite_a=True, check_finite=False)[0]
        return np.asarray(basis @ (basis.T @ coefficients))
    null = np.zeros((features, features - rank))
    null[pivots[:rank]] = -solve_triangular(
        factor[:rank, :rank], factor[rank:, :rank].T, lower=True, trans="T", check_finite=False
    )
    null[pivots[rank:], np.arange(features - rank)] = 1.0
    basis = qr(null, mode="economic", overwrite_a=True, check_finite=False)[0]
    return np.asarray(coefficients - basis @ (basis.T @ coefficients))


def _shows(stream: Callable[[], Iterable[Block]], unseen: np.ndarray, largest: float) -> bool:
    """Whether the features see directions that the matrix takes for null: it knows squares, to 1e-16 of the largest."""
    squares = sum(np.sum((phi @ unseen) ** 2, axis=0) for phi, _ in stream())
    return bool(np.any(np.sqrt(squares / largest) > _UNSEEN * np.linalg.norm(unseen, axis=0)))
