"""The moments of certified equations: of examples, never formed, or as answers; and Krylov spaces of them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh

from attention.memory import require_memory
from upper.six_phase.phase2_agreement import Contrasts

__all__ = ["AnsweredMoments", "EquationMoments", "Krylov"]

_ROWS = 2048  # equations at a time where a matrix of them is formed


@dataclass(frozen=True, eq=False)
class EquationMoments:
    """M = mean of w v v^T and b = mean of w t v over the equations <v, Theta> = t, the weights w of mean 1.

    Notes
    -----
    A vector v = x_a (x) v_j of d^2 entries is never formed by `apply`: O(N d^2) for N equations, memory O(N + d^2).
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
        d = self.dim
        require_memory(
            f"A matrix of {d * d} x {d * d} and the equations it is gathered from",
            8 * d**4 + 16 * _ROWS * self.contrasts.log_ratios.shape[1] * d**2,
            advice="take tokens of fewer dimensions",
        )
        total = np.zeros((d * d, d * d))
        for start in range(0, len(self.contrasts), _ROWS):
            part = slice(start, start + _ROWS)
            rows, differences = self.contrasts.rows[part], self.contrasts.differences[part]
            equations = (rows[:, None, :, None] * differences[:, :, None, :]).reshape(-1, d * d)
            share = np.broadcast_to(self._share[part], differences.shape[:2]).reshape(-1, 1)
            total += equations.T @ (share * equations)
        return total

    def smallest(self, count: int) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s d2"]]:
        """The `count` smallest eigenvalues, ascending, and their eigenvectors as rows, by restarted Lanczos.

        Notes
        -----
        Each value is within its residual |M v - value v| of an eigenvalue, which Lanczos stops below 5 % of the value:
        enough to see a gap. Measured at d = 30 and 32: off by at most 1e-11 below the bulk and 3 % at its edge. The
        start is fixed, so that the result is a function of the equations.
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
    """M, b and the mean square of the t as an oracle answered them, which M, with its errors, need not be definite.

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

    def apply(self, theta: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " d2"]:
        """M Theta."""
        return self.moments @ theta

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
        """The span of `basis`, rows of any length in general position or not, given M times them."""
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
        *,
        accuracy: float = 1e-7,
        steps: int = 200,
    ) -> "Krylov":
        """Eigenvectors `within` and the Krylov space of `vector`, in which M z = vector is solved to `accuracy`.

        Notes
        -----
        `accuracy` is that of the residual |M z - vector| / |vector|, looked at every ten steps; where it is not met the
        space is what there is after `steps`. Lanczos with full reorthogonalisation; a step costs one product with M and
        O(r d^2). Eigenvectors of small eigenvalues, given, are what it would need most steps for.
        """
        basis = [*within]
        products = [moments.apply(row) for row in basis]
        target = float(np.linalg.norm(vector))
        fresh = vector
        for step in range(steps):
            fresh = _orthogonalise(fresh, basis)
            size = float(np.linalg.norm(fresh))
            if size <= 1e-12 * target or len(basis) == vector.size:
                break
            basis.append(fresh / size)
            fresh = moments.apply(basis[-1])
            products.append(fresh)
            if step % 10 == 9:
                space = cls.of(np.stack(basis), np.stack(products))
                if np.linalg.norm(vector - space.solve_weights(vector) @ space.products) <= accuracy * target:
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
