"""Neurons of a bounded activation: far from the origin each is a step, and near its plane its argument can be read."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from upper.blocks.kinks import Ask, Path, answer_error

# tanh differs from 1 by 2e-12 there.
_SATURATED = 14.0
# Differences that give slopes are over this share of the radius.
_SHARE = 1e-4
# A point tells the argument of a neuron where its share of the step is at least this, and at most 1 less this.
_TELLING = 0.02
# Rounds of division, of reading the saturated values of a step again, and of groups of neurons.
_ROUNDS = 60
# Steps sum up to all that the path gains within so many errors.
_AGREES = 30.0
# Groups of neurons are read at a distance of so many scales for each neuron, at random places that are tried so often.
_DISTANCE, _TRIES = 100.0, 400


@dataclass(frozen=True)
class Steps:
    """Neurons in coordinates of an orthonormal frame, of which the first ones are known."""

    frame: Float[np.ndarray, "d d"]  #: its rows
    slopes: Float[np.ndarray, "d d"]  #: frame A, for the linear part A of the map
    u: Float[np.ndarray, "h k"]  #: the weights along the first k rows of the frame
    a: Float[np.ndarray, " h"]
    v: Float[np.ndarray, "h d"]


def read_steps(
    ask: Ask, path: Path, scale: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "h d"], Float[np.ndarray, " h"]] | None:
    """u_j and a_j of all neurons of g(x) = x A + c + sum_j tanh(u_j . x + a_j) v_j, to a common sign of each.

    The path gives the neurons in its plane. In k known coordinates, k - 1 of the planes meet in a line, and far out on
    it all other neurons are saturated. Every answer beside such a point tells the arguments of all k - 1 neurons, as
    their v_j are independent. So the number of known coordinates doubles for about h queries. None where steps are too
    near to one another.
    """
    dim = path.starts.shape[1]
    radius = float(np.linalg.norm(path.starts[0]))
    frame = np.linalg.qr(np.concatenate([path.directions, rng.standard_normal((dim - 2, dim))]).T)[0].T
    frame[:2] = path.directions
    slopes = _slopes(ask, frame, radius, rng)
    found = _on_path(ask, path, slopes[:2], scale)
    if found is None:
        return None
    segment, place, rate, v = found
    if not len(v):
        return np.zeros((0, dim)), np.zeros(0)
    # the other coordinate in the plane of the path: a point beside the first one
    points = path.at(segment, place)
    beside = scale * frame[1 - segment]
    behind = points + (_SATURATED / rate)[:, None] * frame[segment]
    values = ask(np.concatenate([behind, points + beside, points]))
    level, moved, start = values.reshape(3, len(v), dim)
    away = level - (_SATURATED / rate)[:, None] * slopes[segment]
    arguments = [
        _argument(1 - np.sum((away - value) * v, axis=1) / np.sum(v**2, axis=1))
        for value in (moved - scale * slopes[1 - segment], start)
    ]
    u = np.zeros((len(v), 2))
    row = np.arange(len(v))
    u[row, segment] = rate
    u[row, 1 - segment] = (arguments[0] - arguments[1]) / scale
    a = arguments[1] - np.sum(u * (points @ frame[:2].T), axis=1)
    if not np.isfinite(u).all():
        return None
    known: Steps | None = Steps(frame, slopes, u, a, v)
    while known is not None and known.u.shape[1] < dim:
        k = known.u.shape[1]
        known = _extended(ask, known, np.arange(k, min(2 * k, dim)), scale, rng)
    if known is not None:  # near points have more digits than the path
        known = _extended(ask, known, np.arange(dim), scale, rng)
    return None if known is None else (known.u @ frame, known.a)


def _argument(value: np.ndarray) -> np.ndarray:
    """atanh, NaN where it cannot be told."""
    return np.arctanh(np.where(np.abs(value) < 1 - _TELLING / 10, value, np.nan))


def _slopes(ask: Ask, frame: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    """The derivatives along the rows of a frame, the same at all places without a step: medians of 3."""
    dim = len(frame)
    bases = rng.standard_normal((3, 1, dim))
    bases *= radius / np.linalg.norm(bases, axis=2, keepdims=True)
    length = _SHARE * radius
    x = np.concatenate([bases, bases + length * frame], axis=1)
    values = ask(x.reshape(-1, dim)).reshape(x.shape)
    return np.median((values[:, 1:] - values[:, :1]) / length, axis=0)


def _on_path(
    ask: Ask, path: Path, slopes: np.ndarray, scale: float
) -> (
    tuple[Int[np.ndarray, " h"], Float[np.ndarray, " h"], Float[np.ndarray, " h"], Float[np.ndarray, "h d"]]
    | None
):
    """The segment and place of each step, the derivative of its argument along the path, and its v; by bisection."""

    def read(segment: np.ndarray, place: np.ndarray) -> np.ndarray:
        return ask(path.at(segment, place)) - place[:, None] * slopes[segment]

    both = np.arange(2)
    ends = np.stack([read(both, np.zeros(2)), read(both, path.lengths)])
    error = answer_error(path.ends) / _SHARE  # that of the slopes, over the whole path
    segment, low, high, (below, above) = both, np.zeros(2), path.lengths, ends
    inside: list[tuple[np.ndarray, ...]] = []
    for _ in range(_ROUNDS):
        jump = above - below
        size = np.linalg.norm(jump, axis=1)
        there = size > error
        segment, low, high, below, above, jump, size = (
            part[there] for part in (segment, low, high, below, above, jump, size)
        )
        if not len(segment):
            break
        if np.any(high - low < _TELLING * scale):
            return None
        middle = (low + high) / 2
        value = read(segment, middle)
        share = np.sum((value - below) * jump, axis=1) / size**2
        off = np.linalg.norm(value - below - share[:, None] * jump, axis=1)
        alone = off <= error
        inner = alone & (share > _TELLING) & (share < 1 - _TELLING)
        inside.append(tuple(part[inner] for part in (segment, middle, value, below, above)))
        # a single step keeps the values on both sides
        first, second = ~alone | (alone & (share >= 0.5) & ~inner), ~alone | (alone & (share < 0.5) & ~inner)
        near_below, near_above = (np.where(alone[:, None], part, value) for part in (below, above))
        segment, low, high, below, above = (
            np.concatenate([left[first], right[second]])
            for left, right in (
                (segment, segment),
                (low, middle),
                (middle, high),
                (below, near_below),
                (near_above, above),
            )
        )
    else:
        return None
    parts = [np.concatenate(column) for column in zip(*inside, strict=True)] if inside else []
    if not parts:
        return segment, low, low, below
    segment, place, value, below, above = parts
    step = scale * np.sign(
        np.sum((below + above - 2 * value) * (above - below), axis=1)
    )  # towards the center
    near = read(segment, place + step)
    center, rate, ok = _fitted(place, value, step, near, below, above, error)
    for _ in range(_ROUNDS):  # until the values on both sides are those far from the step
        if not ok.all():
            return None
        old = rate
        below, above = (read(segment, center + side * _SATURATED / np.abs(rate)) for side in (-1, 1))
        center, rate, ok = _fitted(place, value, step, near, below, above, error)
        if np.all(np.abs(rate - old) <= 1e-3 * np.abs(rate)):
            break
    else:
        return None
    order = np.lexsort([center, segment])
    segment, center, rate, v = segment[order], center[order], rate[order], ((above - below) / 2)[order]
    width = _SATURATED / rate
    gap = center[1:] - center[:-1]
    same = np.append(False, (segment[1:] == segment[:-1]) & (gap < width[1:] / _SATURATED / 10))
    apart = (segment[1:] != segment[:-1]) | same[1:] | (gap > width[1:] + width[:-1])
    segment, center, rate, v = (part[~same] for part in (segment, center, rate, v))
    gained = np.array([v[segment == s].sum(axis=0) for s in both])
    if not apart.all() or np.abs(2 * gained - (ends[1] - ends[0])).max() > _AGREES * error:
        return None
    return segment, center, rate, v


def _fitted(
    place: np.ndarray,
    value: np.ndarray,
    step: np.ndarray,
    near: np.ndarray,
    below: np.ndarray,
    above: np.ndarray,
    error: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Center and rate of steps from two values inside and those on both sides, and whether each fits."""
    v, middle = (above - below) / 2, (above + below) / 2
    size = np.sum(v**2, axis=1)
    first, second = (np.sum((part - middle) * v, axis=1) / size for part in (value, near))
    off = np.linalg.norm(value - middle - first[:, None] * v, axis=1)
    with np.errstate(all="ignore"):
        start = _argument(first)
        rate = (_argument(second) - start) / step
        ok = (off <= error) & (rate > 0)
        return place - start / rate, rate, ok


def _extended(
    ask: Ask, known: Steps, rows: Int[np.ndarray, " n"], scale: float, rng: np.random.Generator
) -> Steps | None:
    """The neurons with their weights along these rows of the frame, read at the intersections of groups of planes."""
    (h, k), dim = known.u.shape, len(known.frame)
    size = min(k - 1, dim // 2, h)
    u, a = np.full((h, dim), np.nan), known.a.copy()
    u[:, :k] = known.u
    u[:, rows] = np.nan
    distance, step = _DISTANCE * h * scale, scale / 2
    for _ in range(_ROUNDS):
        left = rng.permutation(np.flatnonzero(np.isnan(u[:, rows]).any(axis=1)))
        if not len(left):
            return Steps(known.frame, known.slopes, u[:, : max(k, rows[-1] + 1)], a, known.v)
        spare = rng.permutation(np.setdiff1d(np.arange(h), left[len(left) - len(left) % size :]))
        groups = np.concatenate([left, spare])[: -(-len(left) // size) * size].reshape(-1, size)
        points = _meeting_points(known, groups, distance, rng)
        usable = np.isfinite(points).all(axis=1)
        groups, points = groups[usable], points[usable]
        distance *= 1.3
        if not len(groups):
            continue
        inverse = np.linalg.pinv(known.u[groups])
        aside = np.sum(inverse * _SATURATED, axis=2)  # all of the group saturated
        x = np.repeat((points @ known.frame[:k])[:, None], len(rows) + 2, axis=1)
        offset = np.zeros((len(groups), len(rows) + 2, dim))  # in coordinates of the frame
        offset[:, 1, :k] = aside
        offset[:, 2 + np.arange(len(rows)), rows] = step
        asked = x + offset @ known.frame
        values = ask(asked.reshape(-1, dim)).reshape(asked.shape) - offset @ known.slopes
        v = known.v[groups]
        below = values[:, 1:2] - values
        shares = below @ np.linalg.pinv(v)
        off = np.linalg.norm(below - shares @ v, axis=2)
        bound = answer_error(values) * (1 + np.abs(shares).sum(axis=2))
        arguments = _argument(1 - shares[:, np.r_[0, 2 : len(rows) + 2]])
        right = np.isfinite(arguments).all(axis=1) & (off <= bound).all(axis=1)[:, None]
        chosen = groups[right]
        weights = (arguments[:, 1:] - arguments[:, :1]).swapaxes(1, 2)[right] / step
        u[chosen[:, None], rows] = weights
        at = np.repeat(points[:, None], size, axis=1)[right]
        rest = known.u[chosen] if rows[0] else weights
        a[chosen] = arguments[:, 0][right] - np.sum(at * rest, axis=1)
    return None


def _meeting_points(
    known: Steps, groups: Int[np.ndarray, "n s"], distance: float, rng: np.random.Generator
) -> Float[np.ndarray, "n k"]:
    """Far points on the planes of each group, away from those of all others; NaN where none was met."""
    k = known.u.shape[1]
    planes = known.u[groups]
    foot = -(np.linalg.pinv(planes) @ known.a[groups][..., None])[..., 0]
    free = np.linalg.svd(planes, full_matrices=True)[2][:, groups.shape[1] :]
    points = np.full(foot.shape, np.nan)
    left = np.arange(len(groups))
    for _ in range(_TRIES):
        along = (rng.standard_normal((len(left), 1, k - groups.shape[1])) @ free[left])[:, 0]
        along *= (
            distance * rng.uniform(0.5, 1.5, (len(left), 1)) / np.linalg.norm(along, axis=1, keepdims=True)
        )
        x = foot[left] + along
        t = np.abs(x @ known.u.T + known.a)
        np.put_along_axis(t, groups[left], np.inf, axis=1)
        clear = t.min(axis=1) > 2.5 * _SATURATED
        points[left[clear]] = x[clear]
        left = left[~clear]
        if not len(left):
            break
    return points
