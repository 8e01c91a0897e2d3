"""A step that parallel heads make, and its shape."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

__all__ = ["NEAR", "RIGHT", "SATURATED", "Scalar", "Shape", "Step"]

Scalar = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""h at points x (n, d), for one delta (d,) or one a point."""
SATURATED = 37.0
"""A sigmoid is 0 or 1 to rounding beyond this logit."""
NEAR = 2.0
"""A sigmoid is read up to this logit."""
RIGHT = 1e-11
"""A step's shape is right to this share of its height and of the size of the logits that cancel in it."""


@dataclass(frozen=True)
class Shape:
    """A step's shape, sum_j share_j sigmoid(rate_j z) with shares that add up to 1 and a largest rate of 1."""

    share: Float[np.ndarray, " m"]
    rate: Float[np.ndarray, " m"]
    reach: float  #: the shape increases for |z| <= reach

    @classmethod
    def of(cls, share: Float[np.ndarray, " m"], rate: Float[np.ndarray, " m"]) -> "Shape":
        """The shape with the interval on which it is steep."""
        shape = cls(share, rate, NEAR)
        z = np.linspace(0, NEAR / rate.min(), 4000)
        slope = shape.slope(z)
        shallow = np.flatnonzero(slope * slope[0] < 0.15 * slope[0] ** 2)
        return cls(share, rate, float(z[shallow[0]]) if len(shallow) else float(z[-1]))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """The step at z."""
        return scipy.special.expit(np.multiply.outer(z, self.rate)) @ self.share

    def slope(self, z: np.ndarray) -> np.ndarray:
        """Its derivative."""
        step = scipy.special.expit(np.multiply.outer(z, self.rate))
        return (step * (1 - step)) @ (self.share * self.rate)

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """The z where the step is y; NaN where that is out of reach."""
        z = np.linspace(-self.reach, self.reach, 400)
        table = self(z)
        rising = table[-1] > table[0]
        start = np.interp(y, table if rising else table[::-1], z if rising else z[::-1])
        low, high = np.sort(table[[0, -1]])
        with np.errstate(invalid="ignore"):
            inside = (y >= low) & (y <= high)
        found = np.where(inside, start, 0.0)
        for _ in range(6):
            found = found - np.where(inside, (self(found) - y) / self.slope(found), 0.0)
        return np.where(inside, found, np.nan)


@dataclass(frozen=True)
class Step:
    """Parallel heads: h = low + height shape(z) near the centre, where z = 0."""

    shape: Shape
    centre: Float[np.ndarray, " d"]
    along: Float[np.ndarray, " d"]  #: a unit vector along which z grows
    rate: float  #: by so much a unit of length
    height: float
