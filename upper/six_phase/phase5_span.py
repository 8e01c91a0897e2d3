"""Phase 5: the span of the attention matrices, from the body's wide directions and its centre."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Int

from attention import AttentionLayer
from attention.validation import checked
from upper.six_phase.convex_body import Ellipsoid, SpectralGap


@dataclass(frozen=True, eq=False)
class AttentionSpan:
    """An estimate of the affine hull and of the span of Theta_1, ..., Theta_m.

    `centre` is the point of the hull closest to zero; it is orthogonal to the orthonormal `directions` of the hull.
    `reach` is the distance from the centre, within the hull, up to which heads are expected. `gap` is the step of the
    body's spectrum after the wide directions, or the largest step if there are none; None if the span is of no body.
    """

    centre: Float[np.ndarray, "d d"]
    directions: Float[np.ndarray, "w d d"]
    reach: float
    gap: SpectralGap | None = None

    @classmethod
    def point(cls, theta: Float[np.ndarray, "d d"]) -> "AttentionSpan":
        """The hull of one matrix, without directions."""
        return cls(theta, np.zeros((0, *np.shape(theta))), 0.0)

    @property
    def basis(self) -> Float[np.ndarray, "m d d"]:
        """An orthonormal basis of the span, the directions first."""
        return np.concatenate([self.directions, self.centre[None] / self._unit])

    @property
    def scaled_basis(self) -> Float[np.ndarray, "m d d"]:
        """The basis in units of the centre's norm, so that the centre itself is the last element."""
        return self._unit * self.basis

    @property
    def measures(self) -> dict[str, Any]:
        """The measures of the step in the trace."""
        return {
            "heads": len(self.basis),
            **(self.gap.measures if self.gap else {}),
            "reach": self.reach,
        }

    @property
    def is_clear(self) -> bool:
        """Whether the spectrum has a step after the wide directions; those of the bulk are a few per cent."""
        return self.gap is None or self.gap.ratio >= 1.2

    @property
    def doubt(self) -> str:
        """Why the span may not be that of the heads; empty if there is no such evidence."""
        if self.gap is None or not self.gap.measures or (self.gap.wide and self.is_clear):
            return ""
        step = f"a factor of {self.gap.ratio:.2f}" if np.isfinite(self.gap.ratio) else "from zero on"
        if not self.gap.wide:
            return f"found no wide direction ({step}), so one head is assumed."
        return f"found no clear gap: the spectrum has no clear step after direction {self.gap.wide} ({step})."

    def margins(
        self, x: Float[np.ndarray, "n k d"]
    ) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
        """The least margin of every row over the hull in logits, and the token that the centre attends to.

        The margin is the least over the matrices centre + sum_j c_j D_j with |c| <= reach. It is negative if no token
        wins for all of them. If a difference of logits changes by z_j along the direction D_j, it changes over this
        ball by at most reach |z|. O(n k d (d + k) m).
        """
        transposed = np.swapaxes(x, 1, 2)
        logits = (x @ self.centre) @ transposed
        top = np.argmax(logits, axis=-1)[..., None]
        margin = np.take_along_axis(logits, top, -1) - logits
        square = np.zeros_like(logits)
        for direction in self.directions:
            turned = (x @ direction) @ transposed
            square += (np.take_along_axis(turned, top, -1) - turned) ** 2
        margin = margin - self.reach * np.sqrt(square)
        np.put_along_axis(margin, top, np.inf, -1)
        return margin.min(axis=-1), top[..., 0]

    def errors(self, layer: AttentionLayer) -> dict[str, float]:
        """The error of the span, |Theta_i - projection| / |Theta_i| of the worst head; that of the hull; and an angle.

        ``hull_error`` measures the distance to the affine hull instead. ``span_angle`` is the largest principal angle
        between the two spans, in radians. It is 0 if every Theta_i is zero, and a right angle if only the estimate is.
        """
        heads = np.asarray(layer.theta, dtype=np.float64).reshape(layer.heads, -1)
        size = np.where((norms := np.linalg.norm(heads, axis=1)) > 0, norms, 1.0)
        basis = self.basis.reshape(len(self.basis), -1)
        off_span = heads - (heads @ basis.T) @ basis
        off_hull = heads - self.centre.ravel()
        off_hull = off_hull - (off_hull @ basis[:-1].T) @ basis[:-1]
        angle = np.pi / 2 if heads.any() else 0.0
        if heads.any() and basis.any():
            angle = scipy.linalg.subspace_angles(heads.T, basis.T).max()
        return {
            "span_error": float(np.max(np.linalg.norm(off_span, axis=1) / size)),
            "hull_error": float(np.max(np.linalg.norm(off_hull, axis=1) / size)),
            "span_angle": float(angle),
        }

    @property
    def _unit(self) -> float:
        return float(np.linalg.norm(self.centre)) or 1.0


@checked
def attention_span(body: Ellipsoid) -> AttentionSpan:
    """Phase 5: the span of the heads from the body K of phase 4: its m - 1 wide directions and its centre.

    If K contains every head, then the distance of every head from the span is at most K's thickness. One head has no
    wide direction: the hull is a point, and the span is the line through it. K reaches its radius along all of its wide
    directions, so the reach is the distance from the centre that the radius allows.
    Source: Chen and Li, arXiv 2402.04084, phase 5.
    """
    directions = body.directions[: body.gap.wide]
    centre = body.centre - np.tensordot(np.tensordot(directions, body.centre, 2), directions, 1)
    reach = (
        math.sqrt(max(body.radius**2 - float(np.linalg.norm(centre)) ** 2, 0.0)) if len(directions) else 0.0
    )
    return AttentionSpan(centre, directions, reach, body.gap)
