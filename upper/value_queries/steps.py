"""Heads whose outputs have one direction: the steps that they make along a circle of points, at one delta."""

import numpy as np
from jaxtyping import Float

from upper.value_queries.parallel_heads import fit_parallel, middle_of, oddness
from upper.value_queries.step_shape import NEAR, RIGHT, Scalar, Shape, Step

__all__ = ["find_steps"]

# Points of a half circle at most.
_MOST = 3_000
# Changes below this share of the largest value are rounding; intervals are halved where h changes by more than the
# second share of the range of its stretch, or where they are so many times as long as the next.
_FLAT, _FINE, _GRADED = 3e-12, 0.12, 4.5
_HALVINGS = 40
# Steps that are not nearly odd about their middle have several places; their middle is not known well yet.
_NEARLY_ODD = 0.6


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
    place = middle_of(angle, share)
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
    if found is None and oddness(angle, share, place) < _NEARLY_ODD:
        found = fit_parallel(h, delta, centre, along, low, height, length)
    return found


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
        at = offset + unit * np.linspace(-NEAR, NEAR, 8)
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
        if error < RIGHT * (10 + size):
            one = Shape(np.ones(1), np.ones(1), NEAR)
            return Step(one, centre + offset * along, along, float(1 / unit), height)
        if error > 0.3:
            return None
    return None
