"""The body as an ellipsoid: the certified equations hold up to a tolerance in weighted root mean square."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from attention.validation import NonNegativeInt, checked
from upper.six_phase.equations import AnsweredMoments, EquationMoments, Krylov

__all__ = ["AxisBody", "Ellipsoid", "SpectralGap", "spectral_gap"]

# Up to this d the d^2 x d^2 moment matrix is formed and decomposed whole; above, only products with it are.
_DENSE_UP_TO = 24
# Eigenvalues looked at: more than any number of heads for which agreement events can be found, and beyond a number of
# wide directions that is given, so many more.
_SPECTRUM, _BEYOND = 10, 4
_LEAST_STEP = 1.5  # of a spectrum: a smaller step is none
_TINY = 0.1  # of the largest eigenvalue looked at: Lanczos knows the eigenvectors well, and Krylov spaces need them not
_ALONG = 0.7
# Shifts, relative to the largest curvature, that are as good as 0 and infinity.
_NO_SHIFT, _HUGE_SHIFT = 1e-40, 1e16
_CLOSE = 1e-9  # a point of the body to rounding


@dataclass(frozen=True)
class SpectralGap:
    """Where the sharpest step of a spectrum lies.

    Attributes
    ----------
    wide : int
        The number of values below the step: m - 1 for the body of m heads in general position.
    ratio : float
        The first value above the step over the last below; infinite if that is zero. Where no step is large enough,
        the largest there is; infinite where none was asked for.
    """

    wide: int
    ratio: float

    @property
    def measures(self) -> dict[str, float | int]:
        """The measures of a step in the trace: none where no step was asked for."""
        sought = self.wide > 0 or np.isfinite(self.ratio)
        return {"gap": min(self.ratio, 1e300)} if sought else {}


@checked
def spectral_gap(spectrum: Float[np.ndarray, " s"], *, wide: NonNegativeInt | None = None) -> SpectralGap:
    """The sharpest relative step in an ascending spectrum, or the step after a given number of values.

    Parameters
    ----------
    spectrum : array (s,)
        The smallest eigenvalues, ascending, at least one of them beyond the step.
    wide : int, optional
        Measure the step after so many values. Without it the sharpest is taken, and one below 1.5 is none: then
        `wide` is 0.

    Raises
    ------
    ValueError
        If the spectrum is too short for `wide`.

    Neighbouring values of the bulk differ by a few per cent (Marchenko and Pastur): a step of 1.5 is no accident from
    D of a few hundred unknowns on; at small d it can be (measured at d = 8).

    Examples
    --------
    >>> spectral_gap(np.array([0.01, 0.02, 0.5, 0.51]))
    SpectralGap(wide=2, ratio=25.0)
    >>> spectral_gap(np.array([0.5, 0.51, 0.52])).wide
    0
    """
    values = np.maximum(spectrum, 0.0)
    if wide is not None:
        if wide >= len(values):
            raise ValueError(
                f"wide is {wide} of {len(values)} directions: more directions than wide ones are needed."
            )
        return SpectralGap(wide, _ratio(values[wide], values[wide - 1]) if wide else np.inf)
    ratios = [_ratio(high, low) for low, high in pairwise(values)]
    best = int(np.argmax(ratios)) if ratios else 0
    if not ratios or ratios[best] < _LEAST_STEP:
        return SpectralGap(0, ratios[best] if ratios else 1.0)
    return SpectralGap(best + 1, ratios[best])


def _ratio(high: float, low: float) -> float:
    if low > 0:
        return float(high / low)
    return float("inf") if high > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """K = {Theta: mean of w (<v, Theta> - t)^2 <= tolerance^2, |Theta|_F <= radius}, the mean over the equations.

    Attributes
    ----------
    tolerance : float
        In logits.
    radius : float
        R, in the Frobenius norm.
    spectrum : array (s,)
        The smallest eigenvalues of the moment matrix M = mean of w v v^T, ascending. M has mean eigenvalue about 1;
        a direction with a small eigenvalue is a wide one.
    directions : array (s, d, d)
        Their eigenvectors, orthonormal.
    gap : SpectralGap
        How many of them are wide, as given or by the sharpest step of the spectrum, and how sharp the step is.
    centre : array (d, d)
        The least-squares solution of the equations.
    misfit_at_centre : float
        Weighted root mean square of the equations' residuals there, in logits.
    explained : float
        1 - (misfit at the centre / root mean square of the t)^2: near 1 when some matrix satisfies the equations,
        near 0 when they contradict one another.

    Up to d = 24 in closed form from the eigendecomposition of M. Above, M is never formed: the smallest eigenpairs
    come from restarted Lanczos (ARPACK), and the centre, the point of least norm and the maximisers are found within
    Krylov spaces of M. A product with M costs O(N d^2) for N equations; memory is that of the equations and of a few
    hundred matrices.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 2 and 4; the ellipsoid is derived here.
    """

    tolerance: float
    radius: float
    spectrum: Float[np.ndarray, " s"]
    directions: Float[np.ndarray, "s d d"]
    gap: SpectralGap
    centre: Float[np.ndarray, "d d"]
    misfit_at_centre: float
    explained: float
    _moments: EquationMoments | AnsweredMoments = field(repr=False)
    _space: Krylov = field(repr=False)

    @classmethod
    def of(
        cls,
        moments: EquationMoments | AnsweredMoments,
        *,
        tolerance: float | None = None,
        radius: float | None = None,
        wide: int | None = None,
    ) -> "Ellipsoid":
        """The ellipsoid of equations from examples, or from an oracle's answers.

        Parameters
        ----------
        moments : EquationMoments or AnsweredMoments
            Of the equations.
        tolerance : float, optional
            In logits; by default so large that K reaches the radius in all of its wide directions, and at least 1.5
            times the misfit at the centre.
        radius : float, optional
            By default 1.25 sqrt(wide + 1) times the norm of the centre across the wide directions: the heads' own norm
            is sqrt(wide + 1) times it when they are orthogonal and of equal norm. Larger where the affine hull passes
            near zero.
        wide : int, optional
            The number of wide directions, m - 1; by default from the gap in the spectrum, in which a direction nearly
            along the centre does not count.

        Raises
        ------
        ValueError
            If K is empty at the given tolerance and radius, or there are not so many directions.
        """
        d = moments.dim
        if d <= _DENSE_UP_TO or isinstance(moments, AnsweredMoments):
            values, vectors = np.linalg.eigh(moments.matrix())
            space = Krylov(vectors.T, values[:, None] * vectors.T, np.maximum(values, 0.0))
            looked_at = _SPECTRUM if wide is None else max(_SPECTRUM, wide + _BEYOND)
            spectrum, directions = space.curvature[:looked_at], space.basis[:looked_at]
        else:
            spectrum, directions = moments.smallest(_SPECTRUM if wide is None else wide + _BEYOND)
            tiny = spectrum < _TINY * spectrum[-1]
            space = Krylov.spanning(moments, moments.right, directions[tiny])
        centre = space.solve(moments.right)
        misfit = moments.misfit(centre)
        if wide is not None:
            gap = spectral_gap(spectrum, wide=wide)
        else:
            # saturated rows are left out: equations are short along the average head, and the curvature less there,
            # though the body is not wide
            along = np.abs(directions @ centre) / (float(np.linalg.norm(centre)) or 1.0)
            spectrum, directions = spectrum[along < _ALONG], directions[along < _ALONG]
            gap = spectral_gap(spectrum)
            wide = gap.wide
        flat, given = directions[:wide], radius is not None
        if radius is None:
            across = centre - flat.T @ (flat @ centre)
            radius = 1.25 * float(np.sqrt(wide + 1)) * float(np.linalg.norm(across)) or 1.0
        if tolerance is None:
            thickness = float(spectrum[wide - 1]) * radius**2 if wide else 0.0
            # rounding keeps even exact equations from holding exactly
            tolerance = float(
                max(np.hypot(misfit, np.sqrt(thickness)), 1.5 * misfit, 1e-9 * moments.size, 1e-300)
            )
        body = cls(
            tolerance=tolerance,
            radius=radius,
            spectrum=np.maximum(spectrum, 0.0),
            directions=directions.reshape(-1, d, d),
            gap=gap,
            centre=centre.reshape(d, d),
            misfit_at_centre=misfit,
            explained=1 - (misfit / moments.size) ** 2 if moments.size > 0 else 1.0,
            _moments=moments,
            _space=space,
        )
        least = float(np.linalg.norm(body.min_norm_point()))
        if least > radius * (1 + 1e-6) and not given:
            body = replace(body, radius=1.25 * least)
        elif misfit > tolerance or least > radius * (1 + 1e-6):
            raise ValueError(
                f"No matrix of norm at most {radius:.3g} satisfies the equations up to {tolerance:.3g} logits (the "
                f"best leaves {misfit:.3g}): allow a larger tolerance or radius, or certify better rows."
            )
        return body

    @property
    def largest_norm(self) -> float:
        """A bound on the Frobenius norm in K: the radius."""
        return self.radius

    def misfit(self, theta: Float[np.ndarray, "d d"]) -> float:
        """Weighted root mean square of the equations' residuals at Theta, in logits."""
        return self._moments.misfit(np.asarray(theta, dtype=np.float64).ravel())

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
        """A point of K at which <direction, Theta> is largest; above d = 24 some forty products with M."""
        g = np.asarray(direction, dtype=np.float64).ravel()
        space = self._space
        if isinstance(self._moments, EquationMoments) and len(space.basis) < g.size:
            space = space.joined(Krylov.spanning(self._moments, g, self.directions[:0].reshape(0, g.size)))
        return (space.basis.T @ self._axes(space).maximise(space.basis @ g)).reshape(self.centre.shape)

    def wide_directions(self, number: int) -> Float[np.ndarray, "number d d"]:
        """The `number` directions of least curvature, orthonormal, the widest first; at most those of the spectrum."""
        if number > len(self.directions):
            raise ValueError(f"{number} wide directions were asked for: {len(self.directions)} are known.")
        return self.directions[:number]

    def _axes(self, space: Krylov) -> "AxisBody":
        return AxisBody(
            curvature=space.curvature,
            centre=space.basis @ self.centre.ravel(),
            floor=self.misfit_at_centre**2,
            tolerance=self.tolerance,
            radius=self.radius,
        )


@dataclass(frozen=True, eq=False)
class AxisBody:
    """The set {z: f + sum_i a_i (z_i - c_i)^2 <= t^2, |z| <= R}.

    `curvature` holds the a_i >= 0, one an axis, `centre` the c_i, and `floor` f, the squared misfit at the centre;
    `tolerance` and `radius` are t and R.

    By the Karush-Kuhn-Tucker conditions extreme points are z = (a + nu)^-1 (a c + s g), nu the ratio of the two
    constraints' multipliers. For any nu the s that meets misfit + nu |z|^2 = t^2 + nu R^2 maximises over a larger body;
    the least such maximum over nu is that of the body itself (duality). It is quasi-convex in nu, and its slope has the
    sign of R - |z|: so |z| - R changes its sign once, there. O(r) an evaluation.
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
        """The point of least norm."""
        return self._shrunk(self._largest_shift())

    def maximise(self, g: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        """A point at which <g, z> is largest; the point of least norm for g = 0."""
        size = float(np.linalg.norm(g))
        if size == 0:
            return self.min_norm()
        g = g / size
        if self.misfit_squared(self.radius * g) <= self.tolerance**2:
            return self.radius * g
        top = float(self.curvature.max()) or 1.0

        def excess(log_shift: float) -> float:
            shift = float(np.exp(log_shift))
            point = self._shrunk(shift) + self._reach(g, shift) * g / (self.curvature + shift)
            if shift < top:
                return float(point @ point) - self.radius**2
            # the same number, of which rounding leaves nothing in the norm when the shift is huge
            return (self.tolerance**2 - self.misfit_squared(point)) / shift

        low, high = np.log(_NO_SHIFT * top), np.log(_HUGE_SHIFT * top)
        if excess(low) <= 0:
            return self._extreme(g, _NO_SHIFT * top)
        if excess(high) >= 0:
            return self.min_norm()
        return self._extreme(g, _root(excess, low, high))

    def _shrunk(self, shift: float) -> np.ndarray:
        return self.curvature * self.centre / (self.curvature + shift)

    def _largest_shift(self) -> float:
        """The shift at which the misfit of the shrunk centre is the tolerance."""
        top = float(self.curvature.max()) or 1.0

        def excess(log_shift: float) -> float:
            return self.misfit_squared(self._shrunk(np.exp(log_shift))) - self.tolerance**2

        low, high = np.log(_NO_SHIFT * top), np.log(_HUGE_SHIFT * top)
        if excess(low) >= 0:
            return _NO_SHIFT * top
        if excess(high) <= 0:
            return _HUGE_SHIFT * top
        return _root(excess, low, high)

    def _reach(self, g: np.ndarray, shift: float) -> float:
        """The s at which (a + nu)^-1 (a c + s g) meets the sum of the two constraints, misfit and nu times norm."""
        a = self.curvature + shift
        bent = float(np.sum(self.curvature * self.centre**2 / a))
        slack = self.tolerance**2 - self.floor + shift * (self.radius**2 - bent)
        return float(np.sqrt(max(slack, 0.0) / np.sum(g**2 / a)))

    def _extreme(self, g: np.ndarray, shift: float) -> np.ndarray:
        """(a + nu)^-1 (a c + s g) by `_reach`, or by the s next to it that keeps the tolerance if rounding asks for it.

        The first is inaccurate for a tiny tolerance, the second for a g along which there is hardly any curvature.
        """
        base, way = self._shrunk(shift), g / (self.curvature + shift)
        reach = self._reach(g, shift)
        first = base + reach * way
        square = float(self.curvature @ way**2)
        if square == 0 or self._excess(first) <= _CLOSE:
            return first
        half = float(self.curvature @ (way * (base - self.centre)))
        excess = self.misfit_squared(base) - self.tolerance**2
        root = np.sqrt(max(half * half - square * excess, 0.0))
        steps = [(-half + sign * root) / square for sign in (1, -1)]
        return min(first, base + way * min(steps, key=lambda s: abs(s - reach)), key=self._excess)

    def _excess(self, z: np.ndarray) -> float:
        """By what share z exceeds the tolerance or the radius."""
        misfit = float(np.sqrt(self.misfit_squared(z)))
        return max(misfit / self.tolerance, float(np.linalg.norm(z)) / self.radius) - 1


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """The shift at whose logarithm `excess` changes its sign."""
    from scipy.optimize import brentq

    return float(np.exp(brentq(excess, low, high)))
