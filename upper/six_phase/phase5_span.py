"""Phase 5: the span of the attention matrices, from the body's wide directions and its centre."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import subspace_angles

from attention import AttentionLayer
from attention.validation import NonNegativeInt, checked
from upper.six_phase.ellipsoid import Ellipsoid, SpectralGap, spectral_gap
from upper.six_phase.polytope import Polytope

__all__ = ["AttentionSpan", "attention_span"]

# A gap below this is none: neighbouring eigenvalues of the bulk differ by a few per cent.
_LEAST_GAP = 1.2


@dataclass(frozen=True, eq=False)
class AttentionSpan:
    """An estimate of the affine hull and of the span of Theta_1, ..., Theta_m.

    Attributes
    ----------
    centre : array (d, d)
        The point of the hull closest to zero, across `directions`.
    directions : array (m-1, d, d)
        Orthonormal directions of the hull.
    reach : array (m-1,)
        How far the body, its thickness included, extends from the centre along each, both ways.
    extent : float
        How far the body's slice along the hull extends from the centre in any direction, at most.
    gap : SpectralGap or None
        The step of the body's spectrum after the wide directions, or the largest where there are none; None for a body
        without a spectrum.
    """

    centre: Float[np.ndarray, "d d"]
    directions: Float[np.ndarray, "w d d"]
    reach: Float[np.ndarray, " w"]
    extent: float
    gap: SpectralGap | None

    @property
    def basis(self) -> Float[np.ndarray, "m d d"]:
        """An orthonormal basis of the span, the directions first."""
        size = float(np.linalg.norm(self.centre)) or 1.0
        return np.concatenate([self.directions, self.centre[None] / size])

    @property
    def scaled_basis(self) -> Float[np.ndarray, "m d d"]:
        """The basis in units of the centre's norm, so that the centre itself is the last element."""
        return (float(np.linalg.norm(self.centre)) or 1.0) * self.basis

    @property
    def measures(self) -> dict[str, float | int]:
        """The measures of the step in the trace."""
        return {
            "heads": len(self.basis),
            **(self.gap.measures if self.gap else {}),
            **{f"reach_{place + 1}": float(reach) for place, reach in enumerate(self.reach)},
        }

    @property
    def is_clear(self) -> bool:
        """Whether the spectrum has a step after the wide directions; True of a body without a spectrum."""
        return self.gap is None or self.gap.ratio >= _LEAST_GAP

    @property
    def doubt(self) -> str:
        """Why the span may not be that of the heads, as a sentence; empty where nothing says so."""
        if self.gap is None or not self.gap.measures:
            return ""
        step = f"a factor of {self.gap.ratio:.2f}" if np.isfinite(self.gap.ratio) else "from zero on"
        if not self.gap.wide:
            return f"found no wide direction ({step}), so one head is assumed."
        directions = "wide direction" if self.gap.wide == 1 else "wide directions"
        hardly = f"after {self.gap.wide} {directions} the spectrum has no clear step ({step})"
        return "" if self.is_clear else f"found no clear gap: {hardly}."

    def errors(self, layer: AttentionLayer) -> dict[str, float]:
        """The span's error, the worst head's |Theta_i - projection| / |Theta_i|; the hull's; and the largest angle.

        ``hull_error`` measures the distance to the affine hull instead, and ``span_angle`` is the largest principal
        angle between the two spans, in radians: 0 if every Theta_i is zero, a right angle if the estimate alone is.
        """
        heads = np.asarray(layer.theta, dtype=np.float64).reshape(layer.heads, -1)
        size = np.where((norms := np.linalg.norm(heads, axis=1)) > 0, norms, 1.0)
        basis = self.basis.reshape(len(self.basis), -1)
        off_span = heads - (heads @ basis.T) @ basis
        flat, centre = basis[:-1], self.centre.ravel()
        off_hull = heads - centre
        off_hull = off_hull - (off_hull @ flat.T) @ flat
        return {
            "span_error": float(np.max(np.linalg.norm(off_span, axis=1) / size)),
            "hull_error": float(np.max(np.linalg.norm(off_hull, axis=1) / size)),
            "span_angle": _largest_angle(heads, basis),
        }


def _largest_angle(heads: np.ndarray, basis: np.ndarray) -> float:
    if heads.any() and basis.any():
        return float(subspace_angles(heads.T, basis.T).max())
    return float(np.pi / 2) if heads.any() else 0.0


@checked
def attention_span(body: Ellipsoid | Polytope, wide: NonNegativeInt) -> AttentionSpan:
    """Phase 5: the span of the heads from the body K of phase 4: its `wide` = m - 1 wide directions and its centre.

    Raises
    ------
    ValueError
        If the body does not know so many wide directions.

    Notes
    -----
    If K contains every head, every head is within K's thickness of the span. One head has no wide direction: the hull
    is a point and the span the line through it. Two maximisations over K a direction.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 5.
    """
    directions = body.wide_directions(wide)
    centre = body.centre - np.tensordot(np.tensordot(directions, body.centre, 2), directions, 1)
    reach = [
        max(abs(float(np.vdot(sign * one, body.maximise(sign * one)))) for sign in (1, -1))
        for one in directions
    ]
    gap = body.gap
    if gap is not None and gap.wide != wide:
        gap = spectral_gap(body.spectrum, wide=wide)
    size = float(np.linalg.norm(centre))
    return AttentionSpan(
        centre=centre,
        directions=directions,
        reach=np.array(reach, dtype=np.float64),
        # what the norm allows beside the centre, or the corner of the box of reaches if that is nearer
        extent=min(math.sqrt(max(body.largest_norm**2 - size**2, 0.0)), math.hypot(*reach)),
        gap=gap,
    )
