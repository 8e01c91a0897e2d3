"""The body as an ellipsoid: the certified equations hold up to a tolerance in weighted root mean square."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from attention._arrays import count
from upper.six_phase.agreement import Contrasts
from upper.six_phase.axes import AxisBody, default_radius
from upper.six_phase.body import EmptyBodyError
from upper.six_phase.gap import SpectralGap, spectral_gap
from upper.six_phase.moments import Krylov, Moments

__all__ = ["Ellipsoid"]

# Up to this d the d^2 x d^2 moment matrix is formed and decomposed whole; above, only products with it are.
_DENSE_UP_TO = 24
# Eigenvalues looked at: more than any number of heads for which agreement events can be found, and beyond a number of
# wide directions that is given, so many more.
_SPECTRUM, _BEYOND = 10, 4
_TINY = 0.1  # of the largest eigenvalue looked at: eigenvectors that Lanczos knows well, and Krylov spaces are spared
_ALONG = 0.7


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
    _moments: Moments = field(repr=False)
    _space: Krylov = field(repr=False)

    @classmethod
    def from_contrasts(
        cls,
        contrasts: Contrasts,
        *,
        tolerance: float | None = None,
        radius: float | None = None,
        wide: int | None = None,
    ) -> "Ellipsoid":
        """The ellipsoid of the equations.

        Parameters
        ----------
        contrasts : Contrasts
            The equations.
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
        moments = Moments(contrasts)
        d = moments.dim
        if d <= _DENSE_UP_TO:
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
            radius = default_radius(float(np.linalg.norm(across)), wide)
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
    def wide(self) -> int:
        """How many of the directions are wide."""
        return self.gap.wide

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
        if len(space.basis) < g.size:
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

    def _axes(self, space: Krylov) -> AxisBody:
        return AxisBody(
            curvature=space.curvature,
            centre=space.basis @ self.centre.ravel(),
            floor=self.misfit_at_centre**2,
            tolerance=self.tolerance,
            radius=self.radius,
        )
