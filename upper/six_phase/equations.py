"""The equations that agreeing rows give, their moments, and Krylov spaces in which they are solved."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import eigh, helmert

from attention import AttentionLayer
from attention.validation import checked

__all__ = ["AnsweredMoments", "Contrasts", "EquationMoments", "Krylov", "contrasts_of"]

_ACCURACY, _STEPS = 1e-7, 200  # of Krylov spaces
_ROWS = 2048  # equations at a time where a matrix of them is formed
_FIELDS = ("rows", "differences", "log_ratios", "weights")


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear equations <x_a (x) v_j, Theta> = t_j that hold, nearly, for every head at once.

    Attributes
    ----------
    rows : array (n, d)
        The attending tokens x_a.
    differences : array (n, k-1, d)
        Orthonormal contrasts v_j = sum_b H_jb x_b of the tokens (H the Helmert contrasts: rows of sum zero).
    log_ratios : array (n, k-1)
        The same contrasts of the log-pattern, t_j = sum_b H_jb ln p_b, in logits.
    weights : array (n,)
        Weight of a row, 1 / sum_b p_b^-2: the same error of a pattern weighs more in the logarithm of a small p_b.

    Notes
    -----
    No token is special: the k - 1 equations are equivalent to x_a Theta (x_b - x_c) = ln(p_b / p_c) for all b and c.
    """

    rows: Float[np.ndarray, "n d"]
    differences: Float[np.ndarray, "n k1 d"]
    log_ratios: Float[np.ndarray, "n k1"]
    weights: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equations(self) -> int:
        """The number of scalar equations, k - 1 a row."""
        return int(self.log_ratios.size)

    def apply(self, theta: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "n k1"]:
        """<x_a (x) v_j, Theta> for every equation, without a vector of d^2 entries; O(n d^2)."""
        return np.einsum("nkd,nd->nk", self.differences, self.rows @ theta)

    def transpose_apply(self, values: Float[np.ndarray, "n k1"]) -> Float[np.ndarray, "d d"]:
        """The sum of values_j x_a (x) v_j; O(n d^2)."""
        return self.rows.T @ np.einsum("nk,nkd->nd", values, self.differences)

    def formed(self) -> Float[np.ndarray, "n k1 d2"]:
        """The x_a (x) v_j themselves, of d^2 entries each."""
        products = self.rows[:, None, :, None] * self.differences[:, :, None, :]
        return products.reshape(*self.log_ratios.shape, self.rows.shape[1] ** 2)

    def chosen(self, which: Any) -> "Contrasts":
        """The equations of the rows that `which`, an index or a mask, chooses."""
        return Contrasts(*(getattr(self, name)[which] for name in _FIELDS))

    @classmethod
    def joined(cls, parts: "Sequence[Contrasts]") -> "Contrasts":
        """The equations of all `parts`, at least one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))

    def error(self, layer: AttentionLayer) -> float:
        """Weighted root mean square of <x_a (x) v_j, Theta_i> - t_j over equations and heads, in logits."""
        misses = [np.mean((self.apply(theta) - self.log_ratios) ** 2, axis=1) for theta in layer.theta]
        return float(np.sqrt(np.average(np.mean(misses, axis=0), weights=self.weights)))


@checked
def contrasts_of(
    x: Float[np.ndarray, "n k d"], pattern: Float[np.ndarray, "n k k"], accepted: Bool[Any, "n k"]
) -> Contrasts:
    """The equations in Theta that the accepted rows give; O(n k^2 d) for the accepted ones.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an accepted row's pattern has an entry that is not positive: it has no logarithm.
    """
    example, row = np.nonzero(accepted)
    p = pattern[example, row]
    if np.any(p <= 0):
        raise ValueError("pattern has an entry of 0 or less in an accepted row: positive ones are needed.")
    helmert_contrasts = helmert(x.shape[1])
    return Contrasts(
        rows=x[example, row],
        differences=np.matmul(helmert_contrasts, x[example]),
        log_ratios=np.log(p) @ helmert_contrasts.T,
        weights=1 / np.sum(1 / p**2, axis=1),
    )


@dataclass(frozen=True, eq=False)
class EquationMoments:
    """M = mean of w v v^T and b = mean of w t v over the equations <v, Theta> = t, the weights w of mean 1.

    `apply` never forms a vector v = x_a (x) v_j of d^2 entries: O(N d^2) for N equations, memory O(N + d^2).
    For tokens of identity covariance M has mean eigenvalue about 1.
    """

    contrasts: Contrasts

    @property
    def dim(self) -> int:
        """The number d of coordinates."""
        return self.contrasts.rows.shape[1]

    @cached_property
    def right(self) -> Float[np.ndarray, " d2"]:
        """The right-hand side b."""
        return self.contrasts.transpose_apply(self._share * self.contrasts.log_ratios).ravel()

    @cached_property
    def size(self) -> float:
        """Weighted root mean square of the t, in logits."""
        return float(np.sqrt(np.sum(self._share * self.contrasts.log_ratios**2)))

    def apply(self, theta: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " d2"]:
        """M Theta."""
        product = self.contrasts.apply(theta.reshape(self.dim, self.dim))
        return self.contrasts.transpose_apply(self._share * product).ravel()

    def misfit(self, theta: Float[np.ndarray, " d2"]) -> float:
        """Weighted root mean square of <v, Theta> - t, in logits."""
        miss = self.contrasts.apply(theta.reshape(self.dim, self.dim)) - self.contrasts.log_ratios
        return float(np.sqrt(np.sum(self._share * miss**2)))

    def matrix(self) -> Float[np.ndarray, "d2 d2"]:
        """M itself, for small d; O(N d^4)."""
        size = self.dim**2
        total = np.zeros((size, size))
        for start in range(0, len(self.contrasts), _ROWS):
            part = slice(start, start + _ROWS)
            equations = self.contrasts.chosen(part).formed()
            share = np.broadcast_to(self._share[part], equations.shape[:2]).reshape(-1, 1)
            equations = equations.reshape(-1, size)
            total += equations.T @ (share * equations)
        return total

    def smallest(self, count: int) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s d2"]]:
        """The `count` smallest eigenvalues, ascending, and their eigenvectors as rows, by restarted Lanczos.

        Each value is within its residual |M v - value v| of an eigenvalue, below 5 % of the value: enough to see a gap.
        The start is fixed, so that the result is a function of the equations.
        """
        from scipy.sparse.linalg import LinearOperator, eigsh

        size = self.dim**2
        operator = LinearOperator((size, size), matvec=self.apply, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(operator, k=count, which="SA", ncv=min(size, 8 * count), tol=0.05, v0=start)
        order = np.argsort(values)
        return np.maximum(values[order], 0.0), vectors.T[order]  # M has none below zero but by rounding

    @cached_property
    def _share(self) -> np.ndarray:
        # a column: every equation of a row has the row's weight
        weights = self.contrasts.weights
        return (weights / (weights.sum() * self.contrasts.log_ratios.shape[1]))[:, None]


@dataclass(frozen=True, eq=False)
class AnsweredMoments:
    """M, b and the mean square of the t as an oracle answered them; with its errors M need not be definite.

    `moments` is M, `right` is b and `square` the weighted mean square of the t.
    """

    moments: Float[np.ndarray, "d2 d2"]
    right: Float[np.ndarray, " d2"]
    square: float

    @property
    def dim(self) -> int:
        """The number d of coordinates."""
        return math.isqrt(len(self.right))

    @property
    def size(self) -> float:
        """Weighted root mean square of the t, in logits."""
        return math.sqrt(max(self.square, 0.0))

    def misfit(self, theta: Float[np.ndarray, " d2"]) -> float:
        """Weighted root mean square of <v, Theta> - t, in logits; 0 where errors would make its square negative."""
        square = self.square + float(theta @ (self.moments @ theta - 2 * self.right))
        return math.sqrt(max(square, 0.0))

    def matrix(self) -> Float[np.ndarray, "d2 d2"]:
        """M."""
        return self.moments


@dataclass(frozen=True, eq=False)
class Krylov:
    """A space of matrices in which equations with M are solved, in the axes of M within it.

    `basis` has orthonormal rows, Ritz vectors of M, `products` is M times them, and `curvature` their Ritz values,
    ascending.
    """

    basis: Float[np.ndarray, "r d2"]
    products: Float[np.ndarray, "r d2"]
    curvature: Float[np.ndarray, " r"]

    @classmethod
    def of(cls, basis: Float[np.ndarray, "r d2"], products: Float[np.ndarray, "r d2"]) -> "Krylov":
        """The span of the rows of `basis`, given M times them."""
        u, size, turn = np.linalg.svd(basis, full_matrices=False)
        kept = size > 1e-10 * size[0]
        orthonormal = turn[kept]
        # basis = u size turn, so turn = (u / size)^T basis, and so for the products
        products = (u[:, kept] / size[kept]).T @ products
        small = orthonormal @ products.T
        curvature, axes = eigh((small + small.T) / 2)
        return cls(axes.T @ orthonormal, axes.T @ products, np.maximum(curvature, 0.0))

    @classmethod
    def spanning(
        cls,
        moments: EquationMoments,
        vector: Float[np.ndarray, " d2"],
        within: Float[np.ndarray, "s d2"],
    ) -> "Krylov":
        """Eigenvectors `within` and the Krylov space of `vector`, in which M z = vector is solved to 1e-7.

        The accuracy is that of |M z - vector| / |vector|, looked at every ten of at most 200 steps. Lanczos with full
        reorthogonalisation: a step costs one product with M and O(r d^2). Eigenvectors of small eigenvalues, given,
        are what it would need most steps for.
        """
        basis = [*within]
        products = [moments.apply(row) for row in basis]
        target = float(np.linalg.norm(vector))
        fresh = vector
        for step in range(_STEPS):
            fresh = _orthogonalise(fresh, basis)
            size = float(np.linalg.norm(fresh))
            if size <= 1e-12 * target or len(basis) == vector.size:
                break
            basis.append(fresh / size)
            fresh = moments.apply(basis[-1])
            products.append(fresh)
            if step % 10 == 9:
                space = cls.of(np.stack(basis), np.stack(products))
                if (
                    np.linalg.norm(vector - space.solve_weights(vector) @ space.products)
                    <= _ACCURACY * target
                ):
                    return space
        return cls.of(np.stack(basis), np.stack(products))

    def joined(self, other: "Krylov") -> "Krylov":
        """The span of both."""
        return Krylov.of(
            np.concatenate([self.basis, other.basis]), np.concatenate([self.products, other.products])
        )

    def solve(self, right: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " d2"]:
        """The z in the space with M z = right as nearly as it can, directions without curvature left out."""
        return self.solve_weights(right) @ self.basis

    def solve_weights(self, right: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " r"]:
        """The same in coordinates of the basis."""
        flat = self.curvature <= 1e-13 * (float(self.curvature.max()) or 1.0)
        return np.where(flat, 0.0, (self.basis @ right) / np.where(flat, 1.0, self.curvature))


def _orthogonalise(vector: np.ndarray, basis: list[np.ndarray]) -> np.ndarray:
    if not basis:
        return vector
    rows = np.stack(basis)
    for _ in range(2):  # twice is enough
        vector = vector - rows.T @ (rows @ vector)
    return vector
