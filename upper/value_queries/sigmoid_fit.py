"""A two-layer network of sigmoids taken apart: for each head the combination of outputs that is one sigmoid."""

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

__all__ = ["Separated", "Sigmoids", "separate"]


@dataclass(frozen=True)
class _Damping:
    """The Levenberg-Marquardt damping of all fits of a batch, each its own."""

    iterations: int = 40  #: from a near start 4 to 8 are enough
    first: float = 1e-3
    least: float = 1e-15
    most: float = 1e8  #: beyond, a fit has ended
    less: float = 0.05  #: the factor after a step that helps
    more: float = 10.0  #: the factor after one that does not
    #: squared residuals a row below the first are rounding, in units of a sigmoid's height; below the second, a step
    #: that takes nothing off is the last
    rounding: float = 1e-32
    small: float = 1e-26


_BY = _Damping()
# Two heads fell together where the singular values of what singles heads out are so far apart.
_TOGETHER = 1e-12
# Keeps the normal equations of a saturated head regular.
_SATURATED = 1e-100


@dataclass(frozen=True)
class Sigmoids:
    """The arguments of the heads' sigmoids: slope . y + offset at x, and that less `drop` at x - delta."""

    slope: Float[np.ndarray, "*batch m p"]  #: in coordinates y of a plane of p dimensions
    offset: Float[np.ndarray, "*batch m"]
    drop: Float[np.ndarray, "*batch m"]  #: u_i . delta


@dataclass(frozen=True)
class Separated:
    """The heads that a fit found, for each delta of a batch."""

    sigmoids: Sigmoids
    values: Float[np.ndarray, "batch m d"]  #: v_i = delta W_i
    residual: Float[np.ndarray, " batch"]  #: the worst head's, root mean square over rows
    noise: Float[np.ndarray, " batch"]  #: what the noise on the values alone makes of it
    #: how much larger rounding of g gets in v_i, relative to its size; infinite if two heads fell together
    condition: Float[np.ndarray, "batch m"]


def separate(
    y: Float[np.ndarray, "n p"],
    g: Float[np.ndarray, "batch 2*n d"],
    total: Float[np.ndarray, "batch d"],
    start: Sigmoids,
    *,
    noise: float = 0.0,
) -> Separated:
    """Fit, for every delta of a batch and every head i, p_i with g(x) . p_i = sigmoid(slope . y + offset).

    Levenberg-Marquardt on slope, offset and drop; p_i, in which the residual is linear, is eliminated. As
    p_i . v_j = 1[i = j], the constraint total . p_i = 1 holds, with total = v_1 + ... + v_m; it excludes p_i = 0.

    Parameters
    ----------
    y : array (n, p)
        Coordinates of the points x.
    g : array (batch, 2 n, d)
        The values at the points x, then at x - delta.
    total : array (batch, d)
        delta (W_1 + ... + W_m).
    start : Sigmoids
        Where to begin, for m heads; one start for all deltas or one for each.
    noise : float
        Standard deviation of the noise on an entry of g; a fit ends where it reaches that.

    Notes
    -----
    O(batch m n (m + p)^2) an iterate. From a start that is a small change of delta away it takes 4 to 8 iterates.
    """
    batch, rows, _ = g.shape
    m, p = start.slope.shape[-2:]
    space = np.linalg.svd(g, full_matrices=False)[2][:, :m]
    inside = np.concatenate([g, total[:, None]], axis=1) @ np.swapaxes(space, 1, 2)
    unit = np.sqrt(np.mean(inside**2, axis=(1, 2), keepdims=True))
    q, triangle = np.linalg.qr(inside / unit)
    small = np.maximum(_BY.small, (noise / unit[:, :, 0]) ** 2)
    at_x = np.concatenate([y, np.ones((len(y), 1)), np.zeros((len(y), 1))], axis=1)
    at_other = np.concatenate([y, np.ones((len(y), 1)), -np.ones((len(y), 1))], axis=1)
    inner = np.concatenate([at_x, at_other])

    def residuals(unknowns: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigmoid = scipy.special.expit(unknowns @ inner.T)
        ends = np.concatenate([sigmoid, np.ones((*sigmoid.shape[:-1], 1))], axis=-1)
        left = ends - (ends @ q) @ np.swapaxes(q, 1, 2)
        return ends, left, np.sum(left**2, axis=-1)

    def moves(ends: np.ndarray) -> np.ndarray:
        slopes = ends[..., :-1] * (1 - ends[..., :-1])
        return np.concatenate([slopes[..., None] * inner, np.zeros((*ends.shape[:2], 1, p + 2))], axis=2)

    def off_span(columns: np.ndarray, q: np.ndarray) -> np.ndarray:
        return columns - q[:, None] @ (np.swapaxes(q, 1, 2)[:, None] @ columns)

    unknowns = np.concatenate([start.slope, start.offset[..., None], start.drop[..., None]], axis=-1)
    unknowns = np.array(np.broadcast_to(unknowns, (batch, m, p + 2)))
    ends, left, squared = residuals(unknowns, q)
    damping = np.full((batch, m), _BY.first)
    for _ in range(_BY.iterations):
        active = (squared > rows * _BY.rounding) & (damping < _BY.most)
        open_ = np.flatnonzero(active.any(axis=1))
        if not len(open_):
            break
        # columns off the span of the values, as the residual is
        jacobian = off_span(moves(ends[open_]), q[open_])
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        scale = np.trace(normal, axis1=-2, axis2=-1) / (p + 2) + _SATURATED
        normal += (damping[open_] * scale)[..., None, None] * np.eye(p + 2)
        gradient = np.swapaxes(jacobian, -1, -2) @ left[open_][..., None]
        trial = unknowns[open_] - np.linalg.solve(normal, gradient)[..., 0]
        trial_ends, trial_left, trial_squared = residuals(trial, q[open_])
        better = active[open_] & (trial_squared < squared[open_])
        for held, new in ((unknowns, trial), (ends, trial_ends), (left, trial_left)):
            held[open_] = np.where(better[..., None], new, held[open_])
        squared[open_] = np.where(better, trial_squared, squared[open_])
        lower = np.maximum(damping[open_] * _BY.less, _BY.least)
        damping[open_] = np.where(better, lower, np.maximum(damping[open_], 1e-12) * _BY.more)
        ended = ~better & (squared[open_] < rows * small[open_])
        damping[open_] = np.where(ended, _BY.most, damping[open_])
    # columns: the sigmoids in the basis q, and the p_i
    sigmoids = np.swapaxes(ends @ q, 1, 2)
    single = np.swapaxes(np.linalg.solve(triangle, sigmoids), 1, 2)
    singular = np.linalg.svd(single, compute_uv=False)
    usable = singular[:, -1] > _TOGETHER * singular[:, 0]
    single, sigmoids = (np.where(usable[:, None, None], part, np.eye(m)) for part in (single, sigmoids))
    values = np.swapaxes(np.linalg.inv(single), 1, 2) @ space
    # an error of g . p_j moves sigmoid j by that over the sine of the angle between what can move it and the values
    sine = np.linalg.svd(off_span(np.linalg.qr(moves(ends))[0], q), compute_uv=False)[..., -1]
    moved = np.linalg.norm(values, axis=2) * np.linalg.norm(single, axis=2) / np.maximum(sine, _SATURATED)
    moved = np.linalg.norm(moved, axis=1, keepdims=True) / np.sqrt(m)
    condition = np.linalg.norm(np.linalg.inv(sigmoids), axis=2) * moved
    return Separated(
        Sigmoids(unknowns[..., :p], unknowns[..., p], unknowns[..., p + 1]),
        values * unit,
        np.sqrt(squared.max(axis=1) / rows),
        noise * np.linalg.norm(single / unit, axis=2).max(axis=1),
        np.where(usable[:, None], condition, np.inf),
    )
