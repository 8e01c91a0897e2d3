"""Neurons read far from the origin, where ReLU and GELU are the same: scales of tubes, and weights from Jacobians."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from upper.blocks.kinks import Ask, Regions

TUBE = 8.3
"""GELU is linear to 4e-16 where |t| is larger."""

# A value in the tube tells the scale where the share Phi(-t) is between these; else one asks nearer or farther.
_TELLING = 0.005, 0.35
# A share below this, or below the noise, tells only that the point is too far.
_SEEN = 1e-9
# Steps of differences, as a share of the region.
_STEP = 1 / 8
# A distance or a step that does not do is made four times shorter or longer, so often.
_OFTEN = 16


def tube_scales(ask: Ask, regions: Regions, scale: float) -> Float[np.ndarray, " h"] | None:
    """lambda_j = |u_j . direction| of GELUs, from values in their tubes; None where another kink is too near.

    At the distance s from the kink, a value is s Phi(-lambda s) times the jump away from the nearer line.
    """
    left, kinks, jumps = regions.left, regions.kinks, regions.jumps
    room = regions.high - regions.low
    behind = room[left + 1] > room[left]
    region, side = np.where(behind, left + 1, left), np.where(behind, 1.0, -1.0)
    size = np.linalg.norm(jumps, axis=1)
    distance, scales = np.full(len(kinks), scale), np.zeros(len(kinks))
    asked = np.arange(len(kinks))
    for _ in range(_OFTEN):
        if np.any(distance[asked] > room[region[asked]] / 2):
            return None
        place = kinks[asked] + side[asked] * distance[asked]
        values = ask(regions.path.at(regions.segment[region[asked]], place))
        away = np.sum((values - regions.line(region[asked], place)) * jumps[asked], axis=1)
        share = -away / size[asked] ** 2 / distance[asked]
        noise = regions.error / (4 * size[asked] * distance[asked])
        near, far = share > _TELLING[1], share < np.maximum(_SEEN, noise)
        between = ~near & ~far
        scales[asked[between]] = -ndtri(share[between]) / distance[asked[between]]
        distance[asked[near]] *= 4
        distance[asked[far]] /= 4
        rough = between & (share < _TELLING[0])
        distance[asked[rough]] = 1 / scales[asked[rough]]
        asked = asked[near | far | rough]
        if not len(asked):
            return scales
    return None


def directions(
    ask: Ask, regions: Regions, margin: Float[np.ndarray, " h"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "h d"], Float[np.ndarray, " h"]] | None:
    """u_j / (u_j . direction) of every neuron, and how uncertain each is; None if differences meet kinks throughout.

    Between two bases with at most d/2 kinks between them, the Jacobians differ by sum_j u_j v_j^T over these neurons,
    whose v_j are the jumps: one least-squares problem gives all of their u_j. A difference that met a kink leaves the
    span of the jumps on one side of its base. The outer bases have one side, so differences are two-sided there. About
    2.7 h + 3 d queries.
    """
    jumps, left = regions.jumps, regions.left
    d, low, high = jumps.shape[1], regions.low.copy(), regions.high.copy()
    low[left + 1] += margin
    high[left] -= margin
    bases = _bases(regions.kinks_before, high - low, d)
    place = (low + high)[bases] / 2
    points = regions.path.at(regions.segment[bases], place)
    values = regions.line(bases, place)
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    step = np.repeat(_STEP * (high - low)[bases][:, None], d, axis=1)

    def differences(base: np.ndarray, row: np.ndarray, sign: float) -> np.ndarray:
        length = sign * step[base, row][:, None]
        return (ask(points[base] + length * frame[row]) - values[base]) / length

    forward, backward = np.zeros((2, len(bases), d, d))
    outer = np.array([0, len(bases) - 1])
    wrong = np.ones((len(bases), d), dtype=bool)
    before = regions.kinks_before[bases]
    groups = [np.arange(first, last) for first, last in pairwise(before)]
    inverses = [np.linalg.pinv(jumps[group]) for group in groups]
    width = regions.place[:, 1] - regions.place[:, 0]
    unsure = regions.error * (1 / width[left] + 1 / width[left + 1])  # of each jump
    for _ in range(_OFTEN):
        base, row = np.nonzero(wrong)
        forward[base, row] = differences(base, row, 1.0)
        of_outer = np.isin(base, outer)
        backward[base[of_outer], row[of_outer]] = differences(base[of_outer], row[of_outer], -1.0)
        wrong = np.zeros_like(wrong)
        for i, (group, inverse) in enumerate(zip(groups, inverses, strict=True)):
            change = forward[i + 1] - forward[i]
            along = change @ inverse
            off = np.linalg.norm(change - along @ jumps[group], axis=1)
            allowed = regions.error * (1 / step[i] + 1 / step[i + 1]) + np.abs(along) @ unsure[group]
            wrong[i : i + 2] |= off > 2 * allowed
        off = np.linalg.norm(forward[outer] - backward[outer], axis=2)
        wrong[outer] |= off > 2 * regions.error / step[outer]
        if not wrong.any():
            break
        step[wrong] /= 4
    else:
        return None
    u, uncertain = np.zeros((len(jumps), d)), np.zeros(len(jumps))
    for i, (group, inverse) in enumerate(zip(groups, inverses, strict=True)):
        u[group] = ((forward[i + 1] - forward[i]) @ inverse).T @ frame
        size = np.linalg.norm(u[group], axis=1)
        # an error of one jump goes to all neurons of the group
        uncertain[group] = np.linalg.norm(size * unsure[group]) * np.linalg.norm(inverse, axis=0) / size
    return u, uncertain


def _bases(before: np.ndarray, width: np.ndarray, d: int) -> np.ndarray:
    """Wide regions, from the first to the last, with at most d/2 kinks between neighbours, and at least 3/8 d."""
    most = max(1, d // 2)
    least, kinks = max(1, 3 * most // 4), before[-1]

    def widest(first: int, last: int) -> int:
        among = np.flatnonzero((before >= first) & (before <= last))
        return int(among[np.argmax(width[among])])

    bases = [widest(0, 0)]
    while before[bases[-1]] < kinks:
        reached = before[bases[-1]]
        last = reached + most >= kinks
        bases.append(widest(kinks, kinks) if last else widest(reached + least, reached + most))
    return np.array(bases)
