"""Heads whose outputs have one direction: the steps that they make along a circle of points, at one delta."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares
from scipy.special import expit

# h at points x (n, d), for one delta (d,) or one a point.
Scalar = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Points of a half circle at most.
_MOST = 3_000
# Changes below this share of the largest value are rounding; intervals are halved where h changes by more than the
# second share of the range of its stretch, or where they are so many times as long as the next.
_FLAT, _FINE, _GRADED = 3e-12, 0.12, 4.5
_HALVINGS = 40
# Points of the fit of one step, in logits; of the fit of several with one place, to find it; the most of those.
_NEAR, _POINTS, _FEWER, _MOST_PARALLEL = 2.0, 120, 80, 6
# Steps that are less odd than this about their middle, relative to their size, have several places.
_ODD, _NEARLY_ODD = 0.1, 0.6
# A step's shape is right to this share of its height and of the size of the logits that cancel in it.
_RIGHT = 1e-11
# h is 0 or 1 to rounding beyond this logit.
SATURATED = 37.0


@dataclass(frozen=True)
class Shape:
    """A step's shape, sum_j share_j sigmoid(rate_j z) with shares that add up to 1 and a largest rate of 1."""

    share: Float[np.ndarray, " m"]
    rate: Float[np.ndarray, " m"]
    reach: float  #: the shape increases for |z| <= reach

    @classmethod
    def of(cls, share: Float[np.ndarray, " m"], rate: Float[np.ndarray, " m"]) -> "Shape":
        """The shape with the interval on which it is steep."""
        shape = cls(share, rate, _NEAR)
        z = np.linspace(0, _NEAR / rate.min(), 4000)
        slope = shape.slope(z)
        shallow = np.flatnonzero(slope * slope[0] < 0.15 * slope[0] ** 2)
        return cls(share, rate, float(z[shallow[0]]) if len(shallow) else float(z[-1]))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """The step at z."""
        return expit(np.multiply.outer(z, self.rate)) @ self.share

    def slope(self, z: np.ndarray) -> np.ndarray:
        """Its derivative."""
        step = expit(np.multiply.outer(z, self.rate))
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

    @property
    def far(self) -> float:
        """The distance from the centre at which all of its heads are saturated."""
        return SATURATED / (self.rate * float(self.shape.rate.min()))


def find_steps(
    h: Scalar, delta: np.ndarray, plane: Float[np.ndarray, "2 d"], look: int, rounding: float
) -> list[Step] | None:
    """The steps of h on the half circle through the rows of `plane`, or None where they overlap or are not understood.

    Every head makes one step on a half circle: its logit there is a cosine. `look` are the points asked first; two
    steps that cancel between two of them are not seen. Changes below `rounding` are not looked at.
    """

    def on_circle(angle: np.ndarray) -> np.ndarray:
        return h(np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ plane, delta)

    angle = np.linspace(0, np.pi, look)
    value = on_circle(angle)
    for _ in range(_HALVINGS):
        flat = max(rounding, _FLAT * np.abs(value).max())
        change, length = np.abs(np.diff(value)), np.diff(angle)
        steep = change > np.maximum(_FINE * _ranges(value, flat), flat)
        # the foot of a step, too, so that two steps are seen to be apart
        shortest = np.minimum(np.append(length[1:], np.inf), np.insert(length[:-1], 0, np.inf))
        steep |= (change > flat) & (length > _GRADED * shortest)
        if not steep.any():
            break
        # where most intervals are steep after several halvings, changes are rounding
        if len(angle) + steep.sum() > _MOST or (len(angle) > 4 * look and steep.mean() > 0.5):
            return None
        middle = (angle[:-1] + angle[1:])[steep] / 2
        angle, value = np.concatenate([angle, middle]), np.concatenate([value, on_circle(middle)])
        order = np.argsort(angle)
        angle, value = angle[order], value[order]
    flat = max(rounding, _FLAT * np.abs(value).max())
    runs = _runs(value, flat)
    if not runs or runs[0][0] == 0 or runs[-1][1] == len(value) - 1:
        return None
    steps = []
    for first, last in runs:
        step = _understood(h, delta, plane, angle[first : last + 1], value[first : last + 1])
        if step is None:
            return None
        steps.append(step)
    return steps


def _runs(value: np.ndarray, flat: float) -> list[tuple[int, int]]:
    """The first and last point of each stretch on which the values change."""
    changed = np.concatenate([[0], np.abs(np.diff(value)) > flat, [0]]).astype(int)
    ends = np.diff(changed)
    return list(zip(np.flatnonzero(ends == 1).tolist(), np.flatnonzero(ends == -1).tolist(), strict=True))


def _ranges(value: np.ndarray, flat: float) -> np.ndarray:
    """For each interval the range of values on its stretch."""
    ranges = np.zeros(len(value) - 1)
    for first, last in _runs(value, flat):
        ranges[first:last] = np.ptp(value[first : last + 1])
    return ranges


def _understood(
    h: Scalar, delta: np.ndarray, plane: np.ndarray, angle: np.ndarray, value: np.ndarray
) -> Step | None:
    low, high = float(value[0]), float(value[-1])
    height = high - low
    if abs(height) < 1e-6 * np.ptp(value):
        return None
    share = (value - low) / height
    place = _centre(angle, share)
    if not np.isfinite(place):
        return None
    cosine, sine = np.cos(place), np.sin(place)
    centre, along = np.array([cosine, sine]) @ plane, np.array([-sine, cosine]) @ plane
    radius = float(np.linalg.norm(along))
    along = along / radius
    length = radius * (angle[-1] - angle[0])
    third = radius * np.interp([0.3, 0.7], *_sorted(share, angle))
    found = _single(h, delta, centre, along, low, height, third)
    # a step of parallel heads is odd about its middle, also as far as these points show
    if found is None and _oddness(angle, share, place) < _NEARLY_ODD:
        found = _several(h, delta, centre, along, low, height, length)
    return found


def _oddness(at: np.ndarray, share: np.ndarray, middle: float) -> float:
    """By how much a step is not odd about its middle, relative to its size."""
    odd = np.interp(2 * middle - at, at, share) + share - 1
    return float(np.abs(odd).max() / np.abs(share).max())


def _centre(angle: np.ndarray, share: np.ndarray) -> float:
    """The place about which the step is odd, among those where half of it is done."""
    left = np.flatnonzero((share[:-1] - 0.5) * (share[1:] - 0.5) < 0)
    if not len(left):
        return float(angle[np.argmin(np.abs(share - 0.5))])
    places = angle[left] + np.diff(angle)[left] * (0.5 - share[left]) / (share[left + 1] - share[left])
    away = angle - places[:, None]
    mirrored = np.interp(places[:, None] - away, angle, share)
    return float(places[np.argmin(np.max(np.abs(mirrored + share - 1), axis=1))])


def _sorted(share: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(share)
    return share[order], angle[order]


def _single(
    h: Scalar,
    delta: np.ndarray,
    centre: np.ndarray,
    along: np.ndarray,
    low: float,
    height: float,
    third: np.ndarray,
) -> Step | None:
    unit = np.ptp(third) / (2 * np.log(7 / 3))
    if not unit > 0:
        return None
    offset = 0.0
    for _ in range(3):  # the places become exact as the first guess of the rate does
        at = offset + unit * np.linspace(-_NEAR, _NEAR, 8)
        share = (h(centre + at[:, None] * along, delta) - low) / height
        if not np.all((share > 1e-3) & (share < 1 - 1e-3)):
            return None
        logits = np.log(share / (1 - share))
        rate, constant = np.polyfit(at / unit, logits, 1)
        if not rate > 0.1:
            return None
        error = np.abs(np.polyval([rate, constant], at / unit) - logits).max()
        unit, offset = unit / rate, -constant / rate * unit
        size = float(np.linalg.norm(centre)) / unit
        if error < _RIGHT * (10 + size):
            one = Shape(np.ones(1), np.ones(1), _NEAR)
            return Step(one, centre + offset * along, along, float(1 / unit), height)
        if error > 0.3:
            return None
    return None


def _several(
    h: Scalar,
    delta: np.ndarray,
    centre: np.ndarray,
    along: np.ndarray,
    low: float,
    height: float,
    length: float,
) -> Step | None:
    """Parallel heads with one place, fitted by the fewest sigmoids."""

    def shares(at: np.ndarray) -> np.ndarray:
        return (h(centre + at[:, None] * along, delta) - low) / height

    at = length * np.sinh(np.linspace(-7, 7, _FEWER)) / np.sinh(7)
    share = shares(at)
    middle = _centre(at, share)
    if _oddness(at, share, middle) > _ODD:
        return None
    centre = centre + middle * along
    at = length * np.sinh(np.linspace(-7, 7, _POINTS)) / np.sinh(7)
    share = shares(at)
    size = max(1.0, float(np.abs(share).max()))

    def columns(rate: np.ndarray, place: float) -> np.ndarray:
        return expit(np.multiply.outer(at - place, rate) * (SATURATED / length))

    def heights(rate: np.ndarray, place: float) -> tuple[np.ndarray, float]:
        table = columns(rate, place)
        found = np.linalg.lstsq(table, share, rcond=1e-15)[0]
        return found, float(np.abs(table @ found - share).max())

    def residual(unknown: np.ndarray) -> np.ndarray:
        m = len(unknown) // 2
        return (
            columns(np.exp(np.clip(unknown[:m], -30, 30)), unknown[-1] * length) @ unknown[m:-1] - share
        ) / size

    def jacobian(unknown: np.ndarray) -> np.ndarray:
        m = len(unknown) // 2
        rate, place = np.exp(np.clip(unknown[:m], -30, 30)), unknown[-1] * length
        step = columns(rate, place)
        bend = step * (1 - step) * unknown[m:-1] * rate * SATURATED
        by_rate = bend * (at[:, None] - place) / length
        return np.concatenate([by_rate, step, -bend.sum(axis=1, keepdims=True)], axis=1) / size

    grid = 2.0 ** np.arange(-1, 9, 0.5)
    best: list[np.ndarray] = []
    for m in range(1, _MOST_PARALLEL + 1):
        starts = [
            np.geomspace(low, high, m) for low in grid[::2] for high in grid[::2] if high > low or m == 1
        ]
        starts += [np.append(rates, rate) for rates in best for rate in grid]
        ranked = sorted(starts, key=lambda rates: heights(rates, 0.0)[1])[:4]
        results = []
        for rates in ranked:
            start = np.concatenate([np.log(rates), heights(rates, 0.0)[0], [0.0]])
            fit = least_squares(
                residual,
                start,
                jacobian,
                method="lm",
                x_scale="jac",
                ftol=1e-15,
                xtol=1e-15,
                gtol=1e-15,
                max_nfev=100,
            )
            results.append((float(np.abs(fit.fun).max()), fit.x))
            if results[-1][0] < _RIGHT:
                break
        results.sort(key=lambda result: result[0])
        error, unknown = results[0]
        rate = np.exp(np.clip(unknown[:m], -30, 30)) * SATURATED / length
        noise = _RIGHT * (1 + 1e-3 * float(np.linalg.norm(centre)) * rate.max())
        if error < noise:
            heads = unknown[m:-1]
            shape = Shape.of(heads / heads.sum(), rate / rate.max())
            return Step(shape, centre + unknown[-1] * length * along, along, float(rate.max()), height)
        best = [np.exp(np.clip(result[1][:m], -30, 30)) for result in results[:2]]
    return None
