"""An ellipsoid cut by a ball, in coordinates of its axes: points of least norm and maximisers in closed form."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["AxisBody", "default_radius"]

_TINY, _HUGE = 1e-40, 1e16  # shifts, relative to the largest curvature, that are as good as 0 and infinity
_CLOSE = 1e-9  # a point of the body to rounding


def default_radius(across: float, wide: int) -> float:
    """1.25 sqrt(wide + 1) times the distance `across` of the hull from zero: more than orthogonal heads need."""
    return 1.25 * float(np.sqrt(wide + 1)) * across or 1.0


@dataclass(frozen=True, eq=False)
class AxisBody:
    """The set {z: f + sum_i a_i (z_i - c_i)^2 <= t^2, |z| <= R}.

    Attributes
    ----------
    curvature : array (r,)
        a_i >= 0, one an axis.
    centre : array (r,)
        c_i.
    floor : float
        f, the squared misfit at the centre.
    tolerance, radius : float
        t and R.

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
        from scipy.optimize import brentq

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

        low, high = np.log(_TINY * top), np.log(_HUGE * top)
        if excess(low) <= 0:
            return self._extreme(g, _TINY * top)
        if excess(high) >= 0:
            return self.min_norm()
        return self._extreme(g, float(np.exp(brentq(excess, low, high))))

    def _shrunk(self, shift: float) -> np.ndarray:
        return self.curvature * self.centre / (self.curvature + shift)

    def _largest_shift(self) -> float:
        """The shift at which the misfit of the shrunk centre is the tolerance."""
        from scipy.optimize import brentq

        top = float(self.curvature.max()) or 1.0

        def excess(log_shift: float) -> float:
            return self.misfit_squared(self._shrunk(np.exp(log_shift))) - self.tolerance**2

        low, high = np.log(_TINY * top), np.log(_HUGE * top)
        if excess(low) >= 0:
            return _TINY * top
        if excess(high) <= 0:
            return _HUGE * top
        return float(np.exp(brentq(excess, low, high)))

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
