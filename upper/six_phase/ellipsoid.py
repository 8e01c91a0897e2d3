"""The body as an ellipsoid: the certified equations hold up to a tolerance in weighted root mean square."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from attention.validation import count
from upper.six_phase.convex_body import EmptyBodyError, SpectralGap, spectral_gap
from upper.six_phase.equation_moments import AnsweredMoments, EquationMoments, Krylov

__all__ = ["AxisBody", "Ellipsoid"]

# Up to this d the d^2 x d^2 moment matrix is formed and decomposed whole; above, only products with it are.
_DENSE_UP_TO = 24
# Eigenvalues looked at: more than any number of heads for which agreement events can be found, and beyond a number of
# wide directions that is given, so many more.
_SPECTRUM, _BEYOND = 10, 4
_TINY = 0.1  # of the largest eigenvalue looked at: eigenvectors that Lanczos knows well, and Krylov spaces are spared
_ALONG = 0.7
# Shifts, relative to the largest curvature, that are as good as 0 and infinity.
_NO_SHIFT, _HUGE_SHIFT = 1e-40, 1e16
_CLOSE = 1e-9  # a point of the body to rounding


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

    Notes
    -----
    Up to d = 24 in closed form from the eigendecomposition of M. Above, M is never formed: an equation is applied as
    x_a Theta v_j in O(d^2), the smallest eigenpairs come from the implicitly restarted Lanczos method (ARPACK, through
    `scipy.sparse.linalg.eigsh`), and the centre, the point of least norm and the maximisers are found within Krylov
    spaces of M, where the closed forms hold again. With N equations a product costs O(N d^2); memory is that of the
    equations, N (k + 1) d numbers, and of a few hundred matrices.

    References
    ----------
    Derived here for Chen and Li, arXiv 2402.04084, phases 2 and 4.
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
        """The ellipsoid of the equations.

        Parameters
        ----------
        moments : EquationMoments or AnsweredMoments
            Of the equations: those of examples, or those that an oracle answered.
        tolerance : float, optional
            In logits; by default so large that K reaches the radius in all of its wide directions, and at least 1.5
            times the misfit at the centre.
        radius : float, optional
            By default 1.25 sqrt(wide + 1) times the norm of the centre without its part along the wide directions; the
            heads' own norm is sqrt(wide + 1) times it when they are orthogonal and of equal norm. Larger where no
            matrix of such a norm satisfies the equations, as where the affine hull passes near zero.
        wide : int, optional
            The number of wide directions, m - 1; by default from the gap in the spectrum, in which a direction nearly
            along the centre does not count.

        Raises
        ------
        EmptyBodyError
            If K is empty at the given tolerance and radius.
        ValueError
            If there are not so many directions.
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
            # rows of saturated patterns are left out, so that equations are short along the average head: along the
            # centre the curvature is less than elsewhere, though the body is not wide there
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
            raise EmptyBodyError(
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
        """A point of K at which <direction, Theta> is largest.

        Notes
        -----
        Above d = 24 within the Krylov space of the direction, in which M z = direction is solved to a relative residual
        of 1e-7; some forty products with M.
        """
        g = np.asarray(direction, dtype=np.float64).ravel()
        space = self._space
        if isinstance(self._moments, EquationMoments) and len(space.basis) < g.size:
            space = space.joined(Krylov.spanning(self._moments, g, self.directions[:0].reshape(0, g.size)))
        return (space.basis.T @ self._axes(space).maximise(space.basis @ g)).reshape(self.centre.shape)

    def wide_directions(self, number: int) -> Float[np.ndarray, "number d d"]:
        """The `number` directions of least curvature, orthonormal, the widest first.

        Raises
        ------
        ValueError
            If more are asked for than the spectrum holds.
        """
        number = count("number", number, least=0)
        if number > len(self.directions):
            raise ValueError(f"{number} wide directions were asked for: {len(self.directions)} are known.")
        return self.directions[:number]

    def with_tolerance(self, tolerance: float) -> "Ellipsoid":
        """The ellipsoid of the same equations up to another tolerance."""
        return replace(self, tolerance=tolerance)

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

    Notes
    -----
    The points that matter are z = (a + nu)^-1 (a c + s g), nu the ratio of the two constraints' multipliers. For any nu
    the s that meets misfit + nu |z|^2 = t^2 + nu R^2 maximises over a larger body; the least such maximum over nu is
    that of the body itself (duality), it is quasi-convex in nu, and its slope has the sign of R - |z|: so |z| - R
    changes its sign once, there. O(r) an evaluation.

    References
    ----------
    Derived here, from the Karush-Kuhn-Tucker conditions.
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
