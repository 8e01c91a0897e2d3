"""The factorisations behind the regression: in place, block by block, and of least norm."""

from collections.abc import Iterable

import numpy as np
from scipy.linalg import cho_solve, eigh, lstsq, qr, solve_triangular, svd
from scipy.linalg.lapack import dpocon, dpotrf, dtpmqrt, dtpqrt, dtrcon

from upper.linear_attention._pivoted import least_norm_by_pivots

__all__ = [
    "EXACT_ENOUGH",
    "RCOND",
    "cholesky_in_place",
    "in_units",
    "keep_above",
    "least_norm_of_gram",
    "least_norm_of_triangle",
    "restore_below",
    "stacked_triangle",
]

RCOND = 1e-10
"""Singular values of the features below this share of the largest count as zero."""
EXACT_ENOUGH = 1e-11
"""Reciprocal condition of normal equations from which two corrections reach the precision of the arithmetic."""

_GRAM_RCOND = 1e-13  # of eigenvalues; a Gram matrix knows them to 1e-16 of the largest
_MOST_SINGULAR = 3000  # features; singular values of more take minutes, and six matrices of their size
_PANEL = 32  # columns factorised at a time


def cholesky_in_place(lower: np.ndarray) -> float:
    """Overwrite the lower half, by columns, with its Cholesky factor and return the reciprocal condition.

    Zero where the matrix is not positive definite; then what is in place is of no use.
    """
    norm = _one_norm(lower)
    if norm == 0.0:
        return 0.0
    factor, info = dpotrf(lower, lower=1, overwrite_a=1, clean=0)
    if info != 0:
        return 0.0
    assert np.shares_memory(factor, lower)
    reciprocal, _ = dpocon(factor, norm, uplo="L")
    return float(reciprocal)


def keep_above(lower: np.ndarray) -> np.ndarray:
    """Copy the lower half above the diagonal, which factorisations leave alone, and return the diagonal."""
    for first in range(0, len(lower), 256):
        last = first + 256
        lower[:first, first:last] = lower[first:last, :first].T
        square = lower[first:last, first:last]
        square[:] = np.tril(square) + np.tril(square, -1).T
    return np.diagonal(lower).copy()


def restore_below(lower: np.ndarray, diagonal: np.ndarray) -> None:
    """Undo what a factorisation did, with what `keep_above` kept."""
    for first in range(0, len(lower), 256):
        last = first + 256
        lower[first:last, :first] = lower[:first, first:last].T
        square = lower[first:last, first:last]
        square[:] = np.triu(square, 1) + np.triu(square, 1).T
    np.fill_diagonal(lower, diagonal)


def stacked_triangle(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]], features: int, outputs: int
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """The triangle R and Q^T y of the QR factorisation of blocks stacked, with the rows and the sum of |y|^2.

    One block and R are held; the precision is that of the QR factorisation of the whole.
    """
    triangle = np.zeros((features, features), order="F")
    rotated = np.zeros((features, outputs), order="F")
    rows, squares = 0, 0.0
    for phi, y in blocks:
        rows, squares = rows + len(phi), squares + float(np.vdot(y, y))
        below, labels = np.array(phi, order="F"), np.array(y, order="F")
        triangle, reflectors, factors, _ = dtpqrt(
            0, min(_PANEL, features), triangle, below, overwrite_a=1, overwrite_b=1
        )
        rotated, _, _ = dtpmqrt(
            0, reflectors, factors, rotated, labels, trans="T", overwrite_a=1, overwrite_b=1
        )
    return triangle, rotated, rows, squares


def least_norm_of_triangle(
    triangle: np.ndarray, rotated: np.ndarray, scales: np.ndarray | None = None
) -> tuple[np.ndarray, int, float]:
    """The solution of least norm, the rank, and the condition of the singular values that count.

    With `scales` the features are in units of these, and the norm is that in the units they had.
    """
    features = triangle.shape[1]
    if len(triangle) == features:
        reciprocal, _ = dtrcon(triangle, uplo="U")
        if reciprocal > RCOND:
            solution = solve_triangular(triangle, rotated, check_finite=False)
            return in_units(solution, scales), features, float(1 / reciprocal)
    if features > _MOST_SINGULAR:
        # a complete orthogonal factorisation, in place: its rank is by estimates of the singular values
        solution, _, rank, _ = lstsq(
            triangle, rotated, cond=RCOND, overwrite_a=True, check_finite=False, lapack_driver="gelsy"
        )
        return in_units(solution, scales), int(rank), float("nan")
    u, values, vt = svd(triangle, full_matrices=False, check_finite=False)
    rank = int(np.sum(values > RCOND * values[0])) if values[0] > 0 else 0
    inverse = (u[:, :rank].T @ rotated) / values[:rank, None]
    condition = float(values[0] / values[rank - 1]) if rank else 1.0
    solution = in_units(vt[:rank].T @ inverse, scales)
    if scales is not None and 0 < rank < features and np.any(scales != scales[0]):
        basis = qr(scales[:, None] * vt[:rank].T, mode="economic", check_finite=False)[0]
        solution = basis @ (basis.T @ solution)
    return solution, rank, condition


def in_units(coefficients: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Coefficients on features in units of `scales`, on the features as they were; infinite beyond the numbers."""
    if scales is None:
        return coefficients
    with np.errstate(all="ignore"):
        return np.asarray(coefficients / scales[:, None])


def least_norm_of_gram(
    gram: np.ndarray, cross: np.ndarray, *, by_eigenvalues: bool = False
) -> tuple[np.ndarray, int, float]:
    """The same from the matrix of normal equations alone, which is overwritten where it is by columns.

    By Cholesky factors where it is well conditioned or its rank is plain, by eigenvalues otherwise.
    """
    if not by_eigenvalues:
        lower = np.asfortranarray(gram)
        diagonal = keep_above(lower)
        reciprocal = cholesky_in_place(lower)
        if reciprocal > _GRAM_RCOND:
            return cho_solve((lower, True), cross, check_finite=False), len(lower), float(reciprocal**-0.5)
        restore_below(lower, diagonal)
        found = least_norm_by_pivots(lower, cross)
        if found is not None:
            return found
        restore_below(lower, diagonal)
        gram = lower
    values, vectors = eigh(gram, check_finite=False, overwrite_a=True)
    kept = values > _GRAM_RCOND * values[-1]
    rank = int(kept.sum()) if values[-1] > 0 else 0
    if rank == 0:
        return np.zeros_like(cross), 0, 1.0
    values, vectors = values[kept], vectors[:, kept]
    return vectors @ ((vectors.T @ cross) / values[:, None]), rank, float(np.sqrt(values[-1] / values[0]))


def _one_norm(lower: np.ndarray) -> float:
    sums = np.zeros(len(lower))
    for first in range(0, len(lower), 256):
        part = np.tril(np.abs(lower[:, first : first + 256]), -first)
        sums[first : first + 256] += part.sum(axis=0)
        sums += part.sum(axis=1)
    diagonal = np.abs(np.diagonal(lower))
    return float((sums - diagonal).max(initial=0.0))
