"""The margin of a row: how clearly every attention matrix on a body's hull attends to one and the same token."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from upper.six_phase.attention_span import AttentionSpan

__all__ = ["HullMargin"]


@dataclass(frozen=True, eq=False)
class HullMargin:
    """The least margin of the matrices centre + sum_j c_j D_j with |c_j| <= reach_j and |c| <= extent.

    Attributes
    ----------
    centre : array (d, d)
        The middle of the hull.
    directions : array (w, d, d)
        D_j, orthonormal; none for the margin of the centre alone.
    reach : array (w,)
        How far the hull extends along each.
    extent : float
        How far it extends in any direction.

    Notes
    -----
    Along the D_j a difference of logits strays by z_j; over the hull it strays by at most the lesser of
    sum_j reach_j |z_j| and extent |z|.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 3, has the margin of one matrix; that of a hull is derived here.
    """

    centre: Float[np.ndarray, "d d"]
    directions: Float[np.ndarray, "w d d"]
    reach: Float[np.ndarray, " w"]
    extent: float

    @classmethod
    def over(cls, span: AttentionSpan) -> "HullMargin":
        """Of all of a body's hull."""
        return cls(span.centre, span.directions, span.reach, span.extent)

    @classmethod
    def under(cls, theta: Float[np.ndarray, "d d"]) -> "HullMargin":
        """Of one matrix."""
        d = len(theta)
        return cls(np.asarray(theta, dtype=np.float64), np.zeros((0, d, d)), np.zeros(0), 0.0)

    def __call__(
        self, x: Float[np.ndarray, "n k d"]
    ) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
        """The margin of every row, in logits and negative where no token wins, and the token the centre attends to.

        Notes
        -----
        O(n k d (d + k) (w + 1)).
        """
        transposed = np.swapaxes(x, 1, 2)
        logits = (x @ self.centre) @ transposed
        top = np.argmax(logits, axis=-1)[..., None]
        margin = np.take_along_axis(logits, top, -1) - logits
        each, square = np.zeros_like(logits), np.zeros_like(logits)
        for direction, reach in zip(self.directions, self.reach, strict=True):
            turned = (x @ direction) @ transposed
            stray = np.take_along_axis(turned, top, -1) - turned
            each += reach * np.abs(stray)
            square += stray**2
        margin = margin - np.minimum(each, self.extent * np.sqrt(square))
        np.put_along_axis(margin, top, np.inf, -1)
        return margin.min(axis=-1), top[..., 0]
