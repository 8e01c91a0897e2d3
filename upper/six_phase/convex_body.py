"""The convex body K around the affine hull of the heads: an ellipsoid of the solutions of the certified equations."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from upper.six_phase.agreement import Contrasts


@dataclass(frozen=True)
class SpectrumRules:
    """How the spectrum of the moment matrix is computed, and what counts as a step or a wide direction in it."""

    #: eigenvalues to compute: more than the most heads for which agreement events can be found
    eigenvalues: int = 10
    beyond: int = 4  #: the eigenvalues to compute beyond the wide directions, if their number is given
    #: a smaller ratio of neighbouring eigenvalues is no step; those of the bulk differ by a few per cent (Marchenko and
    #: Pastur), and by more at small d
    least_step: float = 1.5
    #: a direction whose cosine with the centre is larger is not wide: it is the average head, along which equations are
    #: short
    along_centre: float = 0.7


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
class Ellipsoid:
    """K = {Theta: mean of w (<v, Theta> - t)^2 <= tolerance^2, |Theta|_F <= radius}, the mean over the equations.

    The `tolerance` is in logits. `spectrum` has the smallest eigenvalues of the moment matrix M = mean of w v v^T,
    ascending, and `directions` has their orthonormal eigenvectors. M has mean eigenvalue about 1; a direction with a
    small eigenvalue is wide. `gap` has the number of wide directions. `centre` is the least-squares solution of the
    equations, with weighted root mean square residual `misfit_at_centre` in logits. `explained` is
    1 - (misfit / root mean square of the t)^2: near 1 if some matrix satisfies the equations, and near 0 if they
    contradict one another.

    M is never formed. Its smallest eigenpairs come from restarted Lanczos (ARPACK), the centre and the point of least
    norm from a Krylov space of M. A product with M costs O(N d^2) for N equations. Memory is that of the equations and
    of a few hundred matrices.
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
    #: the Ritz values of M within the Krylov space, and the Ritz vectors as rows
    _curvature: Float[np.ndarray, " r"] = field(repr=False)
    _basis: Float[np.ndarray, "r d2"] = field(repr=False)

    @classmethod
    def of(cls, contrasts: Contrasts, *, wide: int | None = None) -> "Ellipsoid":
        """The ellipsoid of certified equations, at least one; it is thin only with at least d^2 of them.

        With its tolerance, K reaches the radius in all of its wide directions; it is at least 1.5 times the misfit at
        the centre. The radius is 1.25 sqrt(wide + 1) times the norm of the centre orthogonal to the wide directions,
        that is 1.25 times the norm of orthogonal heads of equal norm. It is larger if the affine hull passes near zero.
        The number of `wide` directions is m - 1. By default it comes from the gap in the spectrum.
        """
        spectrum, directions = _smallest_eigenpairs(contrasts, wide)
        centre, curvature, basis = _solved(contrasts, directions)
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
            spectrum=spectrum,
            directions=directions.reshape(-1, d, d),
            gap=gap,
            centre=centre.reshape(d, d),
            misfit_at_centre=misfit,
            explained=1 - (misfit / contrasts.size) ** 2 if contrasts.size > 0 else 1.0,
            _contrasts=contrasts,
            _curvature=curvature,
            _basis=basis,
        )
        least = float(np.linalg.norm(body.min_norm_point()))
        return replace(body, radius=1.25 * least) if least > radius * (1 + 1e-6) else body

    def contains(self, theta: Float[np.ndarray, "d d"]) -> bool:
        """Whether Theta is in K, to one part in a million."""
        slack, theta = 1 + 1e-6, np.asarray(theta, dtype=np.float64)
        inside = self._contrasts.misfit(theta) <= slack * self.tolerance
        return bool(inside and np.linalg.norm(theta) <= slack * self.radius)

    def min_norm_point(self) -> Float[np.ndarray, "d d"]:
        """The point of K of least Frobenius norm: (M + nu)^-1 M centre, with nu so large that K just contains it."""
        curvature, centre = self._curvature, self._basis @ self.centre.ravel()

        def excess(log_shift: float) -> float:
            missed = centre * np.exp(log_shift) / (curvature + np.exp(log_shift))
            return self.misfit_at_centre**2 + float(curvature @ missed**2) - self.tolerance**2

        # act as 0 and infinity beside every curvature
        low, high = np.log([1e-40, 1e16]) + np.log(float(curvature.max()) or 1.0)
        if excess(low) >= 0:
            high = low
        elif excess(high) > 0:
            high = scipy.optimize.brentq(excess, low, high)
        return (curvature * centre / (curvature + np.exp(high)) @ self._basis).reshape(self.centre.shape)


def _smallest_eigenpairs(contrasts: Contrasts, wide: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues of M, ascending, and their eigenvectors as rows, by restarted Lanczos.

    Each value is within its residual |M v - value v|, 5 % of the value, of an eigenvalue, which is accurate enough to
    find a gap. All random vectors are fixed, so that the result is a function of the equations.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = contrasts.right.size
    count = min(RULES.eigenvalues if wide is None else wide + RULES.beyond, size - 1)
    operator = LinearOperator((size, size), matvec=contrasts.moment_product, dtype=np.float64)
    values, vectors = eigsh(
        operator, k=count, which="SA", ncv=min(size, 8 * count), tol=0.05, rng=np.random.default_rng(0)
    )
    order = np.argsort(values)
    return np.maximum(values[order], 0.0), vectors.T[order]  # negative ones are rounding


def _solved(contrasts: Contrasts, within: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The solution of M z = b, and the Ritz values and vectors (rows) of M in a space that holds it to 1e-7.

    b is the equations' right-hand side. The space begins with the rows `within`, eigenvectors of small eigenvalues,
    which save the most steps, and b. Every ten of at most 200 steps the accuracy |M z - b| / |b| is checked; then the
    steps go on from M z - b. A step costs one product with M and O(r d^2), with full reorthogonalisation.
    """
    right = fresh = contrasts.right
    target, size = float(np.linalg.norm(right)), len(within)
    basis, images = np.zeros((2, size + 200, right.size))
    basis[:size], images[:size] = within, [contrasts.moment_product(row) for row in within]
    for step in range(1, 201):
        for _ in range(2):  # twice is enough
            fresh = fresh - (basis[:size] @ fresh) @ basis[:size]
        length = float(np.linalg.norm(fresh))
        complete = length <= 1e-12 * target or size == right.size
        if not complete:
            basis[size] = fresh / length
            fresh = images[size] = contrasts.moment_product(basis[size])
            size += 1
        if complete or step % 10 == 0:
            small = basis[:size] @ images[:size].T
            curvature, axes = scipy.linalg.eigh((small + small.T) / 2)
            ritz, curvature = axes.T @ basis[:size], np.maximum(curvature, 0.0)
            seen = curvature > 1e-13 * curvature[-1]
            weights = np.divide(ritz @ right, curvature, out=np.zeros_like(curvature), where=seen)
            fresh = right - axes @ weights @ images[:size]
            if complete or np.linalg.norm(fresh) <= 1e-7 * target:
                break
    return weights @ ritz, curvature, ritz
