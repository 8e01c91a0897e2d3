"""The moments of certified equations: products with them, their smallest eigenpairs, and solutions within a space."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float

from upper.six_phase.agreement import Contrasts

__all__ = ["EquationMoments", "Krylov", "smallest_eigenpairs"]


@dataclass(frozen=True, eq=False)
class EquationMoments:
    """M = mean of w v v^T and b = mean of w t v over the equations <v, Theta> = t, the weights w of mean 1.

    `apply` never forms a vector v = x_a (x) v_j of d^2 entries. It takes O(N d^2) for N equations, and memory
    O(N + d^2). For tokens of identity covariance, M has mean eigenvalue about 1.
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
        for start in range(0, len(self.contrasts), 2048):  # in blocks, to save memory
            part = slice(start, start + 2048)
            equations = self.contrasts.chosen(part).formed()
            share = np.broadcast_to(self._share[part], equations.shape[:2]).reshape(-1, 1)
            equations = equations.reshape(-1, size)
            total += equations.T @ (share * equations)
        return total

    @cached_property
    def _share(self) -> np.ndarray:
        # as a column, since every equation of a row has the weight of the row
        weights = self.contrasts.weights
        return (weights / (weights.sum() * self.contrasts.log_ratios.shape[1]))[:, None]


def smallest_eigenpairs(
    moments: EquationMoments, count: int
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s d2"]]:
    """The `count` smallest eigenvalues of M, ascending, and their eigenvectors as rows, by restarted Lanczos.

    Each value is within its residual |M v - value v| of an eigenvalue. The residual is below 5 % of the value, which is
    accurate enough to find a gap. The start is fixed, so that the result is a function of the equations.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = moments.dim**2
    operator = LinearOperator((size, size), matvec=moments.apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    values, vectors = eigsh(operator, k=count, which="SA", ncv=min(size, 8 * count), tol=0.05, v0=start)
    order = np.argsort(values)
    return np.maximum(values[order], 0.0), vectors.T[order]  # negative ones are rounding


@dataclass(frozen=True, eq=False)
class Krylov:
    """A space of matrices for solving equations with M; its basis diagonalises M within the space.

    `basis` has Ritz vectors of M as orthonormal rows, `products` is M times them, and `curvature` has their Ritz
    values, ascending.
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
        # basis = u size turn, so turn = (u / size)^T basis; likewise for the products
        products = (u[:, kept] / size[kept]).T @ products
        small = orthonormal @ products.T
        curvature, axes = scipy.linalg.eigh((small + small.T) / 2)
        return cls(axes.T @ orthonormal, axes.T @ products, np.maximum(curvature, 0.0))

    @classmethod
    def spanning(
        cls, moments: EquationMoments, vector: Float[np.ndarray, " d2"], within: Float[np.ndarray, "s d2"]
    ) -> "Krylov":
        """Eigenvectors `within` and the Krylov space of `vector`, in which M z = vector is solved to 1e-7.

        The accuracy is |M z - vector| / |vector|, checked every ten of at most 200 steps. The method is Lanczos with
        full reorthogonalisation; a step costs one product with M and O(r d^2). The given eigenvectors of small
        eigenvalues save the most steps.
        """
        basis = [*within]
        products = [moments.apply(row) for row in basis]
        target = float(np.linalg.norm(vector))
        fresh = vector
        for step in range(200):
            rows = np.array(basis).reshape(-1, vector.size)
            for _ in range(2):  # twice is enough
                fresh = fresh - rows.T @ (rows @ fresh)
            size = float(np.linalg.norm(fresh))
            if size <= 1e-12 * target or len(basis) == vector.size:
                break
            basis.append(fresh / size)
            fresh = moments.apply(basis[-1])
            products.append(fresh)
            if step % 10 == 9:
                space = cls.of(np.stack(basis), np.stack(products))
                missed = vector - space.weights(vector) @ space.products
                if np.linalg.norm(missed) <= 1e-7 * target:
                    return space
        return cls.of(np.stack(basis), np.stack(products))

    def solve(self, right: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " d2"]:
        """The best z in the space for M z = right, without the directions of zero curvature."""
        return self.weights(right) @ self.basis

    def weights(self, right: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " r"]:
        """The solution of `solve`, in coordinates of the basis."""
        flat = self.curvature <= 1e-13 * (float(self.curvature.max()) or 1.0)
        return np.where(flat, 0.0, (self.basis @ right) / np.where(flat, 1.0, self.curvature))
