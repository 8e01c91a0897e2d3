"""The convex body K around the affine hull of the heads: an ellipsoid of the solutions of the certified equations."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from upper.six_phase.agreement import Contrasts

__all__ = ["AxisBody", "Ellipsoid", "SpectralGap", "spectral_gap"]


@dataclass(frozen=True)
class SpectrumRules:
    """How the spectrum of the moment matrix is computed, and what counts as a step or a wide direction in it."""

    #: up to this d, the d^2 x d^2 moment matrix is decomposed; above, only products with it are computed. Both take
    #: .4 s at d = 24; at d = 32 they take 1.8 s and .9 s
    dense_up_to: int = 24
    #: eigenvalues to compute: more than the most heads for which agreement events can be found
    eigenvalues: int = 10
    beyond: int = 4  #: the eigenvalues to compute beyond the wide directions, if their number is given
    #: a smaller ratio of neighbouring eigenvalues is no step; those of the bulk differ by a few per cent (Marchenko and
    #: Pastur), and by more at small d
    least_step: float = 1.5
    #: a direction whose cosine with the centre is larger is not wide: it is the average head, along which equations are
    #: short
    along_centre: float = 0.7
    #: Lanczos knows the eigenvectors of eigenvalues below this share of the largest one; others would not help
    tiny: float = 0.1


RULES = SpectrumRules()


@dataclass(frozen=True)
class SpectralGap:
    """The sharpest step of a spectrum.

    `wide` is the number of values below the step; it is m - 1 for the body of m heads in general position. `ratio` is
    the first value above the step over the last value below. It is infinite if that value is zero, or if no step was
    requested. If no step is large enough, `wide` is 0 and `ratio` is the largest ratio.
    """

    wide: int
    ratio: float

    @property
    def measures(self) -> dict[str, Any]:
        """The measures for a step of the trace; none if no step of the spectrum was requested."""
        sought = self.wide > 0 or np.isfinite(self.ratio)
        return {"gap": min(self.ratio, 1e300)} if sought else {}


def spectral_gap(spectrum: Float[np.ndarray, " s"], *, wide: int | None = None) -> SpectralGap:
    """The sharpest relative step in an ascending spectrum, or the step after its first `wide` values.

    Without `wide`, a ratio below 1.5 does not count as a step.

    Examples
    --------
    >>> spectral_gap(np.array([0.01, 0.02, 0.5, 0.51]))
    SpectralGap(wide=2, ratio=25.0)
    >>> spectral_gap(np.array([0.5, 0.51, 0.52])).wide
    0
    """
    values = np.maximum(spectrum, 0.0)
    if wide is not None and wide >= len(values):
        raise ValueError(
            f"wide is {wide} of {len(values)} directions: more directions than wide ones are needed."
        )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = values[1:] / values[:-1]
    ratios = np.where(np.isnan(ratios), 1.0, ratios)  # 0 / 0
    if wide is not None:
        return SpectralGap(wide, float(ratios[wide - 1]) if wide else np.inf)
    best = int(np.argmax(ratios)) if len(ratios) else 0
    largest = float(ratios[best]) if len(ratios) else 1.0
    return SpectralGap(best + 1 if largest >= RULES.least_step else 0, largest)


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
        cls, contrasts: Contrasts, vector: Float[np.ndarray, " d2"], within: Float[np.ndarray, "s d2"]
    ) -> "Krylov":
        """Eigenvectors `within` and the Krylov space of `vector`, in which M z = vector is solved to 1e-7.

        The accuracy is |M z - vector| / |vector|, checked every ten of at most 200 steps. The method is Lanczos with
        full reorthogonalisation; a step costs one product with M and O(r d^2). The given eigenvectors of small
        eigenvalues save the most steps.
        """
        basis = [*within]
        products = [contrasts.moment_product(row) for row in basis]
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
            fresh = contrasts.moment_product(basis[-1])
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


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """K = {Theta: mean of w (<v, Theta> - t)^2 <= tolerance^2, |Theta|_F <= radius}, the mean over the equations.

    The `tolerance` is in logits. `spectrum` has the smallest eigenvalues of the moment matrix M = mean of w v v^T,
    ascending, and `directions` has their orthonormal eigenvectors. M has mean eigenvalue about 1; a direction with a
    small eigenvalue is wide. `gap` has the number of wide directions. `centre` is the least-squares solution of the
    equations, with weighted root mean square residual `misfit_at_centre` in logits. `explained` is
    1 - (misfit / root mean square of the t)^2: near 1 if some matrix satisfies the equations, and near 0 if they
    contradict one another.

    Up to d = 24, all results are in closed form from the eigendecomposition of M. Above, M is never formed. Then the
    smallest eigenpairs come from restarted Lanczos (ARPACK). The centre, the point of least norm and the maximisers are
    found within Krylov spaces of M. A product with M costs O(N d^2) for N equations. Memory is that of the equations
    and of a few hundred matrices.
    Source: Chen and Li, arXiv 2402.04084, phases 2 and 4; the ellipsoid is derived here.
    """

    tolerance: float
    radius: float
    spectrum: Float[np.ndarray, " s"]
    directions: Float[np.ndarray, "s d d"]
    gap: SpectralGap
    centre: Float[np.ndarray, "d d"]
    misfit_at_centre: float
    explained: float
    _contrasts: Contrasts = field(repr=False)
    _space: Krylov = field(repr=False)

    @classmethod
    def of(cls, contrasts: Contrasts, *, wide: int | None = None) -> "Ellipsoid":
        """The ellipsoid of certified equations, at least one; it is thin only with at least d^2 of them.

        With its tolerance, K reaches the radius in all of its wide directions; it is at least 1.5 times the misfit at
        the centre. The radius is 1.25 sqrt(wide + 1) times the norm of the centre orthogonal to the wide directions,
        that is 1.25 times the norm of orthogonal heads of equal norm. It is larger if the affine hull passes near zero.
        The number of `wide` directions is m - 1. By default it comes from the gap in the spectrum.
        """
        spectrum, directions, space = _decomposed(contrasts, wide)
        centre = space.solve(contrasts.right)
        d = contrasts.rows.shape[1]
        misfit = contrasts.misfit(centre.reshape(d, d))
        if wide is None:
            # without saturated rows, equations are short along the average head, so the curvature is small there,
            # though the body is not wide
            along = np.abs(directions @ centre) / (float(np.linalg.norm(centre)) or 1.0)
            across = along < RULES.along_centre
            spectrum, directions = spectrum[across], directions[across]
        gap = spectral_gap(spectrum, wide=wide)
        flat = directions[: gap.wide]
        nearest = centre - flat.T @ (flat @ centre)
        radius = 1.25 * float(np.sqrt(gap.wide + 1)) * float(np.linalg.norm(nearest)) or 1.0
        thickness = float(spectrum[gap.wide - 1]) * radius**2 if gap.wide else 0.0
        # with rounding, even exact equations do not hold exactly
        tolerance = float(
            max(np.hypot(misfit, np.sqrt(thickness)), 1.5 * misfit, 1e-9 * contrasts.size, 1e-300)
        )
        body = cls(
            tolerance=tolerance,
            radius=radius,
            spectrum=np.maximum(spectrum, 0.0),
            directions=directions.reshape(-1, d, d),
            gap=gap,
            centre=centre.reshape(d, d),
            misfit_at_centre=misfit,
            explained=1 - (misfit / contrasts.size) ** 2 if contrasts.size > 0 else 1.0,
            _contrasts=contrasts,
            _space=space,
        )
        least = float(np.linalg.norm(body.min_norm_point()))
        return replace(body, radius=1.25 * least) if least > radius * (1 + 1e-6) else body

    def misfit(self, theta: Float[np.ndarray, "d d"]) -> float:
        """Weighted root mean square of the equations' residuals at Theta, in logits."""
        return self._contrasts.misfit(np.asarray(theta, dtype=np.float64))

    def contains(self, theta: Float[np.ndarray, "d d"]) -> bool:
        """Whether Theta is in K, to one part in a million."""
        slack = 1 + 1e-6
        return bool(
            np.linalg.norm(theta) <= slack * self.radius and self.misfit(theta) <= slack * self.tolerance
        )

    def min_norm_point(self) -> Float[np.ndarray, "d d"]:
        """The point of K of least Frobenius norm."""
        return (self._space.basis.T @ self._axes(self._space).min_norm()).reshape(self.centre.shape)

    def maximise(self, direction: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """A point of K at which <direction, Theta> is largest; above d = 24 this takes about forty products with M."""
        g, space = np.asarray(direction, dtype=np.float64).ravel(), self._space
        if len(space.basis) < g.size:
            other = Krylov.spanning(self._contrasts, g, np.zeros((0, g.size)))
            rows = np.concatenate([space.basis, other.basis])
            space = Krylov.of(rows, np.concatenate([space.products, other.products]))
        return (space.basis.T @ self._axes(space).maximise(space.basis @ g)).reshape(self.centre.shape)

    def _axes(self, space: Krylov) -> "AxisBody":
        return AxisBody(
            curvature=space.curvature,
            centre=space.basis @ self.centre.ravel(),
            floor=self.misfit_at_centre**2,
            tolerance=self.tolerance,
            radius=self.radius,
        )


def _decomposed(contrasts: Contrasts, wide: int | None) -> tuple[np.ndarray, np.ndarray, Krylov]:
    """The smallest eigenvalues of M, their eigenvectors as rows, and a space for solving equations with M.

    In large dimension they are by restarted Lanczos: each value is within its residual |M v - value v|, 5 % of the
    value, of an eigenvalue, which is accurate enough to find a gap. The start is fixed, so that the result is a
    function of the equations.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    count, size = RULES.eigenvalues if wide is None else wide + RULES.beyond, contrasts.right.size
    if size <= RULES.dense_up_to**2:
        values, vectors = np.linalg.eigh(contrasts.moment_matrix())
        space = Krylov(vectors.T, values[:, None] * vectors.T, np.maximum(values, 0.0))
        count = max(RULES.eigenvalues, count)
        return space.curvature[:count], space.basis[:count], space
    operator = LinearOperator((size, size), matvec=contrasts.moment_product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    values, vectors = eigsh(operator, k=count, which="SA", ncv=min(size, 8 * count), tol=0.05, v0=start)
    order = np.argsort(values)
    spectrum, directions = np.maximum(values[order], 0.0), vectors.T[order]  # negative ones are rounding
    tiny = spectrum < RULES.tiny * spectrum[-1]
    return spectrum, directions, Krylov.spanning(contrasts, contrasts.right, directions[tiny])


@dataclass(frozen=True, eq=False)
class AxisBody:
    """The set {z: f + sum_i a_i (z_i - c_i)^2 <= t^2, |z| <= R}, in axes of curvature a_i >= 0 around the centre c.

    `floor` is f, the squared misfit at the centre; `tolerance` and `radius` are t and R. By the Karush-Kuhn-Tucker
    conditions, extreme points are z = (a + nu)^-1 (a c + s g), with nu the ratio of the multipliers of the two
    constraints. For any nu, the s with misfit + nu |z|^2 = t^2 + nu R^2 gives the maximum over a larger body. By
    duality, the least such maximum over nu is the maximum over the body itself; there, |z| - R changes its sign. One
    evaluation costs O(r).
    """

    curvature: Float[np.ndarray, " r"]
    centre: Float[np.ndarray, " r"]
    floor: float
    tolerance: float
    radius: float

    def misfit_squared(self, z: Float[np.ndarray, " r"]) -> float:
        """The misfit f + sum_i a_i (z_i - c_i)^2 at z."""
        return self.floor + float(self.curvature @ (z - self.centre) ** 2)

    def min_norm(self) -> Float[np.ndarray, " r"]:
        """The point of least norm: the shrunk centre at which the misfit is the tolerance."""
        return self._shrunk(
            self._root(lambda shift: self.misfit_squared(self._shrunk(shift)) - self.tolerance**2)
        )

    def maximise(self, g: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        """A point at which <g, z> is largest; the point of least norm for g = 0."""
        size = float(np.linalg.norm(g))
        if size == 0:
            return self.min_norm()
        g = g / size
        if self.misfit_squared(self.radius * g) <= self.tolerance**2:
            return self.radius * g

        def shortfall(shift: float) -> float:
            point = self._shrunk(shift) + self._reach(g, shift) * g / (self.curvature + shift)
            if shift < self._top:
                return self.radius**2 - float(point @ point)
            # an equal number; if the shift is huge, rounding would cancel it in the norm
            return (self.misfit_squared(point) - self.tolerance**2) / shift

        shift = self._root(shortfall)
        return self.min_norm() if shift == self._shifts[1] else self._extreme(g, shift)

    @property
    def _top(self) -> float:
        return float(self.curvature.max()) or 1.0

    @property
    def _shifts(self) -> tuple[float, float]:
        """Shifts that act as 0 and infinity beside every curvature."""
        return 1e-40 * self._top, 1e16 * self._top

    def _root(self, excess: Callable[[float], float]) -> float:
        """The shift at which `excess` changes from negative to positive, within the bounds for shifts."""
        from scipy.optimize import brentq

        low, high = self._shifts
        if excess(low) >= 0:
            return low
        if excess(high) <= 0:
            return high
        return float(
            np.exp(brentq(lambda log_shift: excess(float(np.exp(log_shift))), np.log(low), np.log(high)))
        )

    def _shrunk(self, shift: float) -> np.ndarray:
        return self.curvature * self.centre / (self.curvature + shift)

    def _reach(self, g: np.ndarray, shift: float) -> float:
        """The s for which (a + nu)^-1 (a c + s g) satisfies misfit + nu |z|^2 = t^2 + nu R^2."""
        a = self.curvature + shift
        bent = float(np.sum(self.curvature * self.centre**2 / a))
        slack = self.tolerance**2 - self.floor + shift * (self.radius**2 - bent)
        return float(np.sqrt(max(slack, 0.0) / np.sum(g**2 / a)))

    def _extreme(self, g: np.ndarray, shift: float) -> np.ndarray:
        """(a + nu)^-1 (a c + s g) with s by `_reach`, or with a nearby s if rounding violates the tolerance.

        The first s is inaccurate for a tiny tolerance, the second for a g with almost no curvature.
        """
        base, way = self._shrunk(shift), g / (self.curvature + shift)
        reach = self._reach(g, shift)
        first = base + reach * way
        square = float(self.curvature @ way**2)
        if square == 0 or self._excess(first) <= 1e-9:  # a point of the body, up to rounding
            return first
        half = float(self.curvature @ (way * (base - self.centre)))
        excess = self.misfit_squared(base) - self.tolerance**2
        root = np.sqrt(max(half * half - square * excess, 0.0))
        steps = [(-half + sign * root) / square for sign in (1, -1)]
        return min(first, base + way * min(steps, key=lambda s: abs(s - reach)), key=self._excess)

    def _excess(self, z: np.ndarray) -> float:
        """The relative amount by which z exceeds the tolerance or the radius."""
        misfit = float(np.sqrt(self.misfit_squared(z)))
        return max(misfit / self.tolerance, float(np.linalg.norm(z)) / self.radius) - 1
