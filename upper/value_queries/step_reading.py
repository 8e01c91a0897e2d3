"""A step read at many delta: its plateaus, and its logits around a point."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from upper.value_queries.step_shape import SATURATED, Scalar, Shape

__all__ = ["Reading", "Span", "fill", "read_step", "spanned"]

# Moves of x and of delta, of x by half the reach at first, are halved at most so often.
_HALVINGS, _HALF = 14, 0.5
# The step of parallel heads may rise and fall, so a value has several logits. The right one is less than this share of
# the reach; a move changes it by less than another, and one along the slope by as much as expected, up to a third.
_NEAR_MIDDLE, _SHORT, _AS_EXPECTED = 0.6, 0.3, 0.3
# Slopes span a space if the next singular value is below this share of the largest, and so many more slopes lie in it.
_IN_SPAN, _MORE = 1e-6, 2

# Orthonormal rows.
Span = Float[np.ndarray, "p d"]


@dataclass(frozen=True)
class Reading:
    """The logit x . slope + offset and the height of a step at n delta; NaN where the step was out of reach."""

    slope: Float[np.ndarray, "n d"]
    offset: Float[np.ndarray, " n"]
    height: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]  #: of the usual length of moves

    @classmethod
    def nothing(cls, n: int, d: int) -> "Reading":
        """A reading to be filled."""
        return cls(np.full((n, d), np.nan), *np.full((3, n), np.nan))

    @property
    def found(self) -> Bool[np.ndarray, " n"]:
        """Where the step was in reach."""
        return np.isfinite(self.slope).all(axis=1)

    def put(self, some: "Reading", where: Int[np.ndarray, " some"]) -> None:
        """Write the reading of some delta into this one."""
        self.slope[where], self.offset[where] = some.slope, some.offset
        self.height[where], self.share[where] = some.height, some.share


def read_step(
    h: Scalar,
    shape: Shape,
    delta: Float[np.ndarray, "n d"],
    centre: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, "n d"],
    rate: Float[np.ndarray, " n"],
    size: Float[np.ndarray, " n"],
    span: Span,
    share: Float[np.ndarray, " n"],
) -> Reading:
    """A step with its middle near `centre`, where only it changes: 3 + p queries a delta.

    Two more a delta for parallel heads. The slope is looked for in the span. `rate` is the slope along the unit vectors
    `along`, `size` about its norm. x moves by a share of the usual length.
    """
    n, d = delta.shape
    far = (SATURATED / (rate * shape.rate.min()))[:, None] * along
    low, high, middle = np.split(
        h(np.concatenate([centre - far, centre + far, centre]), np.concatenate([delta] * 3)), 3
    )
    height, away = high - low, share * shape.reach / size
    with np.errstate(divide="ignore", invalid="ignore"):
        at_centre = shape.inverse((middle - low) / height)
    if len(shape.rate) > 1:
        away = _SHORT * away
        sides = [h(centre + side * away[:, None] * along, delta) for side in (-1, 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            before, after = (shape.inverse((one - low) / height) for one in sides)
        expected = 2 * away * rate
        right = np.abs(after - before - expected) < _AS_EXPECTED * expected
        at_centre[~(right & (np.abs(at_centre) < _NEAR_MIDDLE * shape.reach))] = np.nan
    else:
        away = _HALF * away
    slope = np.full((n, d), np.nan)
    some = np.flatnonzero(np.isfinite(at_centre))
    if len(some):
        x = centre[some, None] + away[some, None, None] * span
        values = h(x.reshape(-1, d), delta[some].repeat(len(span), axis=0)).reshape(-1, len(span))
        with np.errstate(invalid="ignore"):
            z = shape.inverse((values - low[some, None]) / height[some, None])
        slope[some] = (z - at_centre[some, None]) / away[some, None] @ span
    return Reading(slope, at_centre - np.einsum("nd,nd->n", centre, slope), height, share)


def fill(
    reading: Reading,
    which: Int[np.ndarray, " some"],
    read: Callable[[Int[np.ndarray, " some"], Float[np.ndarray, " some"]], Reading],
) -> bool:
    """Fill the reading at some delta; whether all are filled.

    `read` reads at these delta with moves of x and of delta by shares of their usual lengths. Where the step is out of
    reach the share is halved.
    """
    for halvings in range(_HALVINGS):
        some = read(which, np.full(len(which), 0.5**halvings))
        reading.put(some, which)
        which = which[~some.found]
        if not len(which):
            return True
    return False


def spanned(slopes: Float[np.ndarray, "n d"]) -> Span | None:
    """The space that slopes span, or None where more of them may leave it."""
    _, singular, rows = np.linalg.svd(slopes, full_matrices=False)
    rank = int(np.sum(singular > _IN_SPAN * singular[0]))
    return rows[:rank] if rank <= len(slopes) - _MORE and rank < slopes.shape[1] else None
