"""The steps that heads of one output direction make, at one difference of the tokens: their shapes and places."""

from dataclasses import dataclass, replace

import numpy as np
import scipy
from jaxtyping import Float

from upper.value_queries.queries import Tolerances, TwoTokens

SATURATED = 37.0
"""A sigmoid is 0 or 1 to rounding beyond this logit."""


@dataclass(frozen=True)
class OneDirection:
    """Values of g along the one direction of all outputs; with the rows' common vector, of exchanged x and delta.

    The exchanged values h(x; delta) / (a . delta) are a sum of sigmoids of delta, for two tokens and W_i that are
    multiples of one another, with a the rows' common vector.
    """

    pairs: TwoTokens
    output: Float[np.ndarray, " d"]
    tolerances: Tolerances
    common: Float[np.ndarray, " d"] | None = None

    def __call__(self, x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """The values at points x, for one delta or one a point."""
        if self.common is not None:
            other = np.broadcast_to(delta, x.shape)
            return self._direct(other, x) * (other @ self.common) / (x @ self.common)
        return self._direct(x, delta)

    def _direct(self, x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        if delta.ndim == 1:
            return self.pairs(x[None], delta[None])[0][0] @ self.output
        return self.pairs(x[:, None], delta)[0][:, 0] @ self.output


@dataclass(frozen=True)
class Line:
    """A line of questions: the points base + t direction, with the token x - delta beside each; or n such lines.

    Along it z, the argument of a step, grows by `rate` a unit of length, as far as that is known.
    """

    delta: Float[np.ndarray, "*n d"]
    base: Float[np.ndarray, "*n d"]
    direction: Float[np.ndarray, "*n d"]  #: a unit vector
    rate: Float[np.ndarray, "*n"] | float = 1.0

    def points(self, t: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n d"]:
        """The points at these distances from the base."""
        return self.base + np.asarray(t)[..., None] * self.direction

    def values(self, values: OneDirection, t: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The values at these distances from the base."""
        return values(self.points(t), self.delta)

    def moved(self, t: Float[np.ndarray, "*n"] | float) -> "Line":
        """The line with another base on it."""
        return replace(self, base=self.points(np.asarray(t)))


@dataclass(frozen=True)
class Shape:
    """A step's shape, sum_j share_j sigmoid(rate_j z) with shares that add up to 1 and a largest rate of 1."""

    share: Float[np.ndarray, " m"]
    rate: Float[np.ndarray, " m"]
    #: the shape is read for |z| <= reach, where it is steep; a sigmoid of rate 1 up to a logit of 2
    reach: float = 2.0

    @classmethod
    def of(cls, share: Float[np.ndarray, " m"], rate: Float[np.ndarray, " m"]) -> "Shape":
        """The shape with the interval on which it is steep: its slope is at least 15 % of that at its middle."""
        shape = cls(share, rate)
        z = np.linspace(0, shape.reach / rate.min(), 4000)
        slope = shape.slope(z)
        shallow = np.flatnonzero(slope * slope[0] < 0.15 * slope[0] ** 2)
        return cls(share, rate, float(z[shallow[0]]) if len(shallow) else float(z[-1]))

    @property
    def saturated(self) -> float:
        """The step is over beyond this z."""
        return SATURATED / float(self.rate.min())

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
        z = np.where(inside, start, 0.0)
        for _ in range(6):
            z = z - np.where(inside, (self(z) - y) / self.slope(z), 0.0)
        return np.where(inside, z, np.nan)


@dataclass(frozen=True)
class Step:
    """Parallel heads: values = low + height shape(z) near the base of the line, where z = 0."""

    shape: Shape
    line: Line
    height: float


@dataclass(frozen=True)
class Circle:
    """A half circle of points through the rows of `plane`, at one delta: each head's logit is a cosine there."""

    delta: Float[np.ndarray, " d"]
    plane: Float[np.ndarray, "2 d"]

    def values(self, values: OneDirection, angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The values at these angles."""
        return values(np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ self.plane, self.delta)

    def larger(self, factor: float) -> "Circle":
        """The circle, and delta, so many times as large."""
        return Circle(factor * self.delta, factor * self.plane)


@dataclass(frozen=True)
class _Looking:
    """How steps are looked for on a half circle."""

    most: int = 3_000  #: points at most
    halvings: int = 40
    #: intervals are halved where values change by this share of the range of their stretch, or where they are so many
    #: times as long as the next: the foot of a step shows that two steps are apart
    fine: float = 0.12
    graded: float = 4.5
    #: a step that is less odd than this about its middle has several places; the first when its middle is not yet known
    nearly_odd: float = 0.6
    odd: float = 0.1
    #: parallel heads: points of the fit, points that find the middle, and heads at most
    points: int = 120
    fewer: int = 80
    heads: int = 6


_BY = _Looking()


def find_steps(values: OneDirection, circle: Circle, look: int, rounding: float) -> list[Step] | None:
    """The steps of the values on a half circle, or None where they overlap or are not understood.

    Every head makes one step on a half circle. `look` are the points asked first; two steps that cancel between two of
    them are not seen. Changes below `rounding` are not looked at.
    """
    angle = np.linspace(0, np.pi, look)
    value = circle.values(values, angle)
    for _ in range(_BY.halvings):
        flat = max(rounding, values.tolerances.change * np.abs(value).max())
        change, length = np.abs(np.diff(value)), np.diff(angle)
        steep = change > np.maximum(_BY.fine * _ranges(value, flat), flat)
        # the foot of a step, too, so that two steps are seen to be apart
        shortest = np.minimum(np.append(length[1:], np.inf), np.insert(length[:-1], 0, np.inf))
        steep |= (change > flat) & (length > _BY.graded * shortest)
        if not steep.any():
            break
        # where most intervals are steep after several halvings, changes are rounding
        if len(angle) + steep.sum() > _BY.most or (len(angle) > 4 * look and steep.mean() > 0.5):
            return None
        middle = (angle[:-1] + angle[1:])[steep] / 2
        angle, value = np.concatenate([angle, middle]), np.concatenate([value, circle.values(values, middle)])
        order = np.argsort(angle)
        angle, value = angle[order], value[order]
    flat = max(rounding, values.tolerances.change * np.abs(value).max())
    runs = _runs(value, flat)
    if not runs or runs[0][0] == 0 or runs[-1][1] == len(value) - 1:
        return None
    steps = []
    for first, last in runs:
        step = _understood(values, circle, angle[first : last + 1], value[first : last + 1])
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


@dataclass(frozen=True)
class _Rise:
    """A stretch of a line on which values rise from one level to another."""

    line: Line
    low: float
    height: float
    length: float

    def share(self, values: OneDirection, t: np.ndarray) -> np.ndarray:
        """The shares of the height that are done at these distances."""
        return (self.line.values(values, t) - self.low) / self.height


def _understood(values: OneDirection, circle: Circle, angle: np.ndarray, value: np.ndarray) -> Step | None:
    low, high = float(value[0]), float(value[-1])
    height = high - low
    if abs(height) < 1e-6 * np.ptp(value):
        return None
    share = (value - low) / height
    place = _middle_of(angle, share)
    if not np.isfinite(place):
        return None
    cosine, sine = np.cos(place), np.sin(place)
    base, along = np.array([cosine, sine]) @ circle.plane, np.array([-sine, cosine]) @ circle.plane
    radius = float(np.linalg.norm(along))
    rise = _Rise(Line(circle.delta, base, along / radius), low, height, radius * (angle[-1] - angle[0]))
    order = np.argsort(share)
    third = radius * np.interp([0.3, 0.7], share[order], angle[order])
    step = _single(values, rise, float(np.ptp(third)))
    # a step of parallel heads is odd about its middle, also as far as these points show
    if step is None and _oddness(angle, share, place) < _BY.nearly_odd:
        step = _parallel(values, rise)
    return step


def _single(values: OneDirection, rise: _Rise, third: float) -> Step | None:
    """One head, or parallel heads of one rate: the logits of the shares are linear. `third` goes from .3 to .7."""
    unit = third / (2 * np.log(7 / 3))
    if not unit > 0:
        return None
    shape, offset = Shape(np.ones(1), np.ones(1)), 0.0
    for _ in range(3):  # the places become exact as the first guess of the rate does
        at = offset + unit * np.linspace(-shape.reach, shape.reach, 8)
        share = rise.share(values, at)
        if not np.all((share > 1e-3) & (share < 1 - 1e-3)):
            return None
        logits = np.log(share / (1 - share))
        rate, constant = np.polyfit(at / unit, logits, 1)
        if not rate > 0.1:
            return None
        error = np.abs(np.polyval([rate, constant], at / unit) - logits).max()
        unit, offset = unit / rate, -constant / rate * unit
        size = float(np.linalg.norm(rise.line.base)) / unit
        if error < values.tolerances.shape * (10 + size):
            return Step(shape, replace(rise.line.moved(offset), rate=float(1 / unit)), rise.height)
        if error > 0.3:
            return None
    return None


def _parallel(values: OneDirection, rise: _Rise) -> Step | None:
    """Parallel heads with one place, fitted by the fewest sigmoids of several rates."""
    length, wide = rise.length, np.sinh(7)
    at = length * np.sinh(np.linspace(-7, 7, _BY.fewer)) / wide
    share = rise.share(values, at)
    middle = _middle_of(at, share)
    if _oddness(at, share, middle) > _BY.odd:
        return None
    for _ in range(3):  # half of the step is done at its middle
        right = int(np.clip(np.searchsorted(at, middle), 1, len(at) - 1))
        at = np.linspace(at[right - 1], at[right], 10)
        share = rise.share(values, at)
        middle = _middle_of(at, share)
    rise = replace(rise, line=rise.line.moved(middle))
    at = length * np.sinh(np.linspace(-7, 7, _BY.points)) / wide
    share = rise.share(values, at)
    size = max(1.0, float(np.abs(share).max()))

    def columns(rate: np.ndarray, place: float) -> np.ndarray:
        return scipy.special.expit(np.multiply.outer(at - place, rate) * (SATURATED / length))

    def heights(rate: np.ndarray, place: float) -> tuple[np.ndarray, float]:
        table = columns(rate, place)
        fitted = np.linalg.lstsq(table, share, rcond=1e-15)[0]
        return fitted, float(np.abs(table @ fitted - share).max())

    def of(unknown: np.ndarray) -> tuple[np.ndarray, float]:
        return np.exp(np.clip(unknown[:-1], -30, 30)), unknown[-1] * length

    def residual(unknown: np.ndarray) -> np.ndarray:
        rate, place = of(unknown)
        return (columns(rate, place) @ heights(rate, place)[0] - share) / size

    def jacobian(unknown: np.ndarray) -> np.ndarray:
        rate, place = of(unknown)
        step = columns(rate, place)
        bend = step * (1 - step) * heights(rate, place)[0] * rate * SATURATED
        changes = np.column_stack([bend * (at[:, None] - place) / length, -bend.sum(axis=1)]) / size
        # heights follow the rates: what they can make up for is no change
        q = np.linalg.qr(step)[0]
        return changes - q @ (q.T @ changes)

    grid = 2.0 ** np.arange(-1, 9, 0.5)
    best: list[np.ndarray] = []
    for m in range(1, _BY.heads + 1):
        starts = [
            np.geomspace(low, high, m) for low in grid[::2] for high in grid[::2] if high > low or m == 1
        ]
        starts += [np.append(rates, rate) for rates in best for rate in grid]
        results = []
        for rates in sorted(starts, key=lambda rates: heights(rates, 0.0)[1])[:4]:
            start, digits = np.append(np.log(rates), 0.0), dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)
            fit = scipy.optimize.least_squares(
                residual, start, jacobian, method="lm", x_scale="jac", max_nfev=100, **digits
            )
            results.append((float(np.abs(fit.fun).max()), fit.x))
            if results[-1][0] < values.tolerances.shape:
                break
        results.sort(key=lambda result: result[0])
        error, unknown = results[0]
        sizes, _ = heights(*of(unknown))
        rate = of(unknown)[0] * SATURATED / length
        rounding = 1 + 1e-3 * float(np.linalg.norm(rise.line.base)) * rate.max()
        if error < values.tolerances.shape * rounding:
            shape = Shape.of(sizes / sizes.sum(), rate / rate.max())
            line = replace(rise.line.moved(unknown[-1] * length), rate=float(rate.max()))
            return Step(shape, line, rise.height)
        best = [of(result[1])[0] for result in results[:2]]
    return None


def _oddness(at: np.ndarray, share: np.ndarray, middle: float) -> float:
    """By how much a step is not odd about its middle, relative to its size."""
    odd = np.interp(2 * middle - at, at, share) + share - 1
    return float(np.abs(odd).max() / np.abs(share).max())


def _middle_of(at: np.ndarray, share: np.ndarray) -> float:
    """The place about which the step is odd, among those where half of it is done."""
    left = np.flatnonzero((share[:-1] - 0.5) * (share[1:] - 0.5) < 0)
    if not len(left):
        return float(at[np.argmin(np.abs(share - 0.5))])
    places = at[left] + np.diff(at)[left] * (0.5 - share[left]) / (share[left + 1] - share[left])
    away = at - places[:, None]
    mirrored = np.interp(places[:, None] - away, at, share)
    return float(places[np.argmin(np.max(np.abs(mirrored + share - 1), axis=1))])
