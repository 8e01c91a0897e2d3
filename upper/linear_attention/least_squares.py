"""Least squares on blocks of features: sums of their products, and four methods to compute the coefficients."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Shaped

from attention._arrays import shown
from attention.memory import memory_text, require_memory
from attention.validation import PositiveInt, checked
from upper.linear_attention.features import blocks, cubic_features, feature_count

Block = tuple[np.ndarray, np.ndarray]
Stream = Callable[[], Iterable[Block]]
"""Gives the same blocks (phi, y) each time it is called."""

MEMORY = 2 << 30
"""The memory in bytes for a matrix of features by features and the work on it: 2 GiB."""


@dataclass(frozen=True)
class _Rounding:
    """What counts as rounding: each a share of the largest, for features of unit scale in double precision."""

    singular: float = 1e-10  #: singular values of the features
    gram: float = 1e-13  #: eigenvalues of a Gram matrix, which has errors of 1e-16
    pivot: float = 1e-9  #: pivots; rounding leaves at most D 1e-16
    unseen: float = 3e-12  #: parts of random probes in directions that the features do not have
    probes: int = 4  #: random directions that look for them
    underflow: float = 1e-250  #: products of smaller numbers have lost digits
    #: above this reciprocal condition, two corrections reach rounding error
    corrected: float = 1e-11
    corrections: int = 2


_ROUNDING = _Rounding()


class FeatureMoments:
    """Sums of phi phi^T and of phi y^T over examples, for normal equations; examples are added block by block.

    Parameters
    ----------
    features : int
        D; `feature_count` of d for cubic features.
    outputs : int
        p, the number of outputs. All share one matrix.

    Attributes
    ----------
    count, cross, squares : int, array (D, p), float
        Rows added, and the sums of phi y^T and of |y|^2.
    dim, average : int or None, bool
        The dimension of the tokens added, and whether G is their mean.

    Raises
    ------
    ValueError
        If the matrix does not fit 2 GiB. On adding, if the shapes do not match, or an entry is not finite.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1; one matrix for all outputs and symmetric features are derived here.

    Examples
    --------
    >>> moments = FeatureMoments(features=feature_count(2), outputs=1)
    >>> moments.add(np.ones((3, 4, 2)), np.ones((3, 1)))
    >>> moments.count, moments.gram().shape
    (3, (6, 6))
    """

    @checked
    def __init__(self, features: PositiveInt, outputs: PositiveInt) -> None:
        self.features, self.outputs = features, outputs
        require_feature_memory(features)
        require_memory(f"A matrix of {features} features by {shown(outputs)} outputs", 8 * features * outputs)
        # by columns, so that BLAS adds to it in place; sums go to the lower half only
        self._gram = np.zeros((features, features), order="F")
        self.cross = np.zeros((features, outputs))
        self.squares = 0.0
        self.count = 0
        self.dim: int | None = None
        self.average = False

    @checked
    def add(
        self, x: Shaped[np.ndarray, "N n d"], y: Shaped[np.ndarray, "N p"], *, average: bool = False
    ) -> None:
        """Add examples: sequences of n tokens, with the query as the last token, and one label each. O(N D^2)."""
        d = x.shape[-1]
        if (feature_count(d), y.shape[1]) != (self.features, self.outputs):
            raise ValueError(
                f"The tokens have {d} dimensions, hence {feature_count(d)} features, and y has {y.shape[1]} outputs: "
                f"{self.features} features and {self.outputs} outputs are needed."
            )
        if self.dim is not None and average != self.average:
            raise ValueError("Sums and means over the tokens are mixed: give all rows the same average.")
        self.dim, self.average = d, average
        for part in blocks(len(x), self.features):
            self.add_block(cubic_features(x[part], average=average), y[part])

    def add_block(self, phi: Float[np.ndarray, "rows D"], y: Float[np.ndarray, "rows p"]) -> None:
        """Add rows of features and their labels, which are not checked."""
        self._gram = scipy.linalg.blas.dsyrk(
            1.0, np.ascontiguousarray(phi).T, beta=1.0, c=self._gram, lower=1, overwrite_c=1
        )
        self.cross += phi.T @ y
        self.squares += float(np.vdot(y, y))
        self.count += len(phi)

    def gram(self) -> Float[np.ndarray, "D D"]:
        """The sum of phi phi^T; it is not a copy, so later additions change it."""
        for start in range(0, self.features, 256):
            stop = start + 256
            corner = np.tril(self._gram[start:stop, start:stop])
            self._gram[start:stop, start:stop] = corner + np.tril(corner, -1).T
            self._gram[start:stop, stop:] = self._gram[stop:, start:stop].T
        return self._gram

    def __repr__(self) -> str:
        return f"<FeatureMoments: {self.count} rows of {self.features} features, {self.outputs} outputs>"


@dataclass(frozen=True, eq=False)
class FeatureRegression:
    """Least squares on features.

    Attributes
    ----------
    coefficients : array (D, p)
        One column an output; of least norm where several are best.
    rank : int
        The rank of the features on the examples. Singular values above 1e-10 of the largest count, or above 3e-7 if
        there are only moments or a kernel.
    condition : float
        Largest over smallest of those singular values; an estimate if normal equations were solved.
    residual : float
        The norm of the errors on the examples over the norm of the labels.
    examples : int
        Rows.
    method : str
        The method: cholesky, svd, kernel or moments; "another" for the result of `another_minimiser`.
    """

    coefficients: Float[np.ndarray, "D p"]
    rank: int
    condition: float
    residual: float
    examples: int
    method: str

    @property
    def unique(self) -> bool:
        """Whether no other coefficients are as good on the examples."""
        return self.rank == len(self.coefficients)

    def __str__(self) -> str:
        others = "the only best" if self.unique else "of least norm among the best"
        others = "one of many that are best" if self.method == "another" else others
        return (
            f"{self.examples} examples, rank {self.rank} of {len(self.coefficients)} features: {others}, "
            f"relative residual {self.residual:.1e} (by {self.method})"
        )


def by_normal_equations(
    stream: Stream, features: int, outputs: int, *, dependent: bool = True
) -> FeatureRegression | None:
    """Solve by the moments of a stream, corrected with its residuals; None if the rank is unclear.

    Independent features are solved by Cholesky factors. Dependent features give the solution of least norm by Cholesky
    factors with pivots, or None if `dependent` is not set. Both overwrite the moments, which take D^2 numbers.
    """
    moments = FeatureMoments(features, outputs)
    for block in stream():
        moments.add_block(*block)
    gram, cross = moments.gram(), moments.cross
    diagonal = gram.diagonal().copy()
    factor, reciprocal = _cholesky(gram, overwrite=True)
    if reciprocal >= _ROUNDING.corrected:
        found = _corrected(
            stream, cross, lambda side: scipy.linalg.cho_solve(factor, side, check_finite=False)
        )
        return _regression(stream, found, len(gram), float(reciprocal**-0.5), "cholesky")
    if not dependent:
        return None
    np.fill_diagonal(gram, diagonal)  # with the half above it, that is the matrix again
    by_pivots = _by_pivots(stream, gram, cross)
    return None if by_pivots is None else _regression(stream, *by_pivots, "cholesky")


def by_moments(moments: FeatureMoments) -> FeatureRegression:
    """Solve by the moments only, with least norm and without a correction, which would need the examples."""
    factor, reciprocal = _cholesky(moments.gram())
    if reciprocal > _ROUNDING.gram:
        found = scipy.linalg.cho_solve(factor, moments.cross, check_finite=False)
        rank, condition = moments.features, reciprocal**-1
    else:
        del factor
        found, rank, condition = _least_norm(moments.gram(), moments.cross, _ROUNDING.gram)
    explained = float(np.vdot(found, moments.cross))
    residual = float(np.sqrt(max(0.0, 1 - explained / moments.squares))) if moments.squares else 0.0
    return FeatureRegression(found, rank, float(np.sqrt(condition)), residual, moments.count, "moments")


def by_singular_values(stream: Stream, units: Float[np.ndarray, " D"]) -> FeatureRegression:
    """By the singular values of the triangle of the features, which are in `units`: least norm in the units they had.

    O(N D^2 + D^3) for any rank.
    """
    held: list[np.ndarray] = []
    waiting, features = 0, len(units)
    for phi, y in stream():
        if waiting > features:  # not for every block, since each time costs at least D^3
            held, waiting = [_triangle(np.vstack(held))], 0
        held.append(np.hstack([phi, y]))
        waiting += len(phi)
    stacked, reciprocal = np.vstack(held), 0.0
    if len(stacked) >= features:
        stacked = _triangle(stacked)[:features]
        reciprocal = scipy.linalg.lapack.dtrcon(stacked[:, :features])[0]
    triangle, rotated = stacked[:, :features], stacked[:, features:]
    if reciprocal > _ROUNDING.singular:
        found = scipy.linalg.solve_triangular(triangle, rotated, check_finite=False)
        return _regression(stream, found, features, float(1 / reciprocal), "svd")
    found, rank, condition = _least_norm(triangle, rotated, _ROUNDING.singular)
    if 0 < rank < features and np.ptp(units):
        seen = (
            units[:, None] * scipy.linalg.svd(triangle, full_matrices=False, check_finite=False)[2][:rank].T
        )
        found = units[:, None] * _on_span(seen, found / units[:, None])
    return _regression(stream, found, rank, condition, "svd")


def by_kernel(
    stream: Stream, kernel: np.ndarray, y: np.ndarray, features: int, *, dependent: bool = True
) -> FeatureRegression | None:
    """Solve by the kernel (N, N) of the examples; None if they are dependent, unless this is allowed."""

    def of_features(dual: np.ndarray) -> np.ndarray:
        found, first = np.zeros((features, dual.shape[1])), 0
        for phi, _ in stream():
            found += phi.T @ dual[first : first + len(phi)]
            first += len(phi)
        return found

    factor, reciprocal = _cholesky(kernel)
    if reciprocal < _ROUNDING.corrected:
        if not dependent:
            return None
        dual, rank, condition = _least_norm(kernel, y, _ROUNDING.gram)
        return _regression(stream, of_features(dual), rank, float(np.sqrt(condition)), "kernel")
    found, wrong = np.zeros((features, y.shape[1])), y
    for _ in range(1 + _ROUNDING.corrections):
        found += of_features(scipy.linalg.cho_solve(factor, wrong, check_finite=False))
        wrong = y - np.concatenate([phi @ found for phi, _ in stream()])
    return _regression(stream, found, len(y), float(reciprocal**-0.5), "kernel")


@checked
def require_feature_memory(features: PositiveInt) -> None:
    """Refuse before any work, by a ValueError, a matrix of features by features that does not fit 2 GiB."""
    needed = 8 * features**2 + (3 << 26)  # with two blocks of features and the solver's work space
    number = shown(features)
    if needed > MEMORY:
        raise ValueError(
            f"There are {number} features: a matrix of {number} x {number} and its working space take "
            f"{memory_text(needed)}, and {memory_text(MEMORY)} are allowed. Take tokens of fewer dimensions, or, for "
            "few examples, use the kernel."
        )
    require_memory(f"A matrix of {number} x {number}", needed, advice="take tokens of fewer dimensions")


def _cholesky(matrix: np.ndarray, *, overwrite: bool = False) -> tuple[Any, float]:
    """The factor for `cho_solve`, and the reciprocal condition; 0 if the matrix is not positive definite.

    To overwrite a matrix by columns takes no memory, and leaves the half above the diagonal as it is.
    """
    size = scipy.linalg.norm(matrix, 1, check_finite=False)
    try:
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=overwrite, check_finite=False)
    except np.linalg.LinAlgError:
        return None, 0.0
    return factor, float(scipy.linalg.lapack.dpocon(factor[0], size, uplo="L")[0])


def _by_pivots(stream: Stream, gram: np.ndarray, cross: np.ndarray) -> tuple[np.ndarray, int, float] | None:
    """Coefficients of least norm, rank and condition from a basis of dependent features; None if the rank is unclear.

    The features of the first r pivots of the Cholesky factor [U11 U12] are a basis (Higham, Accuracy and Stability of
    Numerical Algorithms, Section 10.3). The coefficients on them are exact. Their projection has the least norm: on the
    row space, which [U11 U12]^T spans, or off the null space, which [-U11^-1 U12; 1] spans. Reads the half above the
    diagonal, and overwrites it. O(D^3/3 + D min(r, D - r)^2).
    """
    largest = float(gram.diagonal().max(initial=0.0))
    if largest < _ROUNDING.underflow:
        return None
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(gram, overwrite_a=1)
    order, size, diagonal = pivots - 1, len(gram), factor.diagonal()[:rank]  # LAPACK counts from 1
    if float(diagonal[-1]) ** 2 < _ROUNDING.pivot * largest:
        return None
    top, rest, basis = factor[:rank, :rank], factor[:rank, rank:], order[:rank]

    def solve(side: np.ndarray) -> np.ndarray:
        found = np.zeros_like(side)
        found[basis] = scipy.linalg.cho_solve((top, False), side[basis], check_finite=False)
        return found

    probes = np.random.default_rng(0).standard_normal((size, _ROUNDING.probes))
    both = np.hstack([_corrected(stream, cross, solve), probes])
    spanning = np.zeros((size, min(rank, size - rank)))
    if in_rows := rank <= size - rank:
        spanning[order] = np.vstack([np.triu(top).T, rest.T])
    else:
        spanning[basis] = -scipy.linalg.solve_triangular(top, rest, check_finite=False)
        spanning[order[rank:]] = np.eye(size - rank)
    on_span = _on_span(spanning, both)
    seen = on_span if in_rows else both - on_span
    # the matrix has squares, accurate to 1e-16 of the largest; its null space may be visible in the features
    unseen = probes - seen[:, -_ROUNDING.probes :]
    shown = sum(np.sum((phi @ unseen) ** 2, axis=0) for phi, _ in stream())
    if np.any(shown > _ROUNDING.unseen**2 * largest * np.sum(unseen**2, axis=0)):
        return None
    return seen[:, : -_ROUNDING.probes], int(rank), float(diagonal[0] / diagonal[-1])


def _triangle(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _least_norm(matrix: np.ndarray, side: np.ndarray, share: float) -> tuple[np.ndarray, int, float]:
    """The solution of least norm, the rank and the condition: singular values above a share of the largest count."""
    found, _, rank, values = scipy.linalg.lstsq(matrix, side, cond=share, check_finite=False)
    return found, int(rank), float(values[0] / values[rank - 1]) if rank else 1.0


def _on_span(spanning: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The orthogonal projection on the span of independent columns; it may overwrite them."""
    basis = scipy.linalg.qr(spanning, mode="economic", overwrite_a=True, check_finite=False)[0]
    return np.asarray(basis @ (basis.T @ vectors))


def _corrected(stream: Stream, cross: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The solution of normal equations, corrected by solving the same equations for its residuals."""
    found = solve(cross)
    for _ in range(_ROUNDING.corrections):
        found += solve(sum(phi.T @ (y - phi @ found) for phi, y in stream()))
    return found


def _regression(
    stream: Stream, found: np.ndarray, rank: int, condition: float, method: str
) -> FeatureRegression:
    rows, left, squares = 0, 0.0, 0.0
    for phi, y in stream():
        rows, squares = rows + len(phi), squares + float(np.vdot(y, y))
        left += float(np.sum((y - phi @ found) ** 2))
    residual = float(np.sqrt(left / squares)) if squares else 0.0
    return FeatureRegression(found, rank, condition, residual, rows, method)
