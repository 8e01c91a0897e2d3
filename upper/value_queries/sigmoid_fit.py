"""A two-layer network of sigmoids taken apart: for each head the combination of outputs that is one sigmoid."""

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

_ITERATIONS = 40
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-15, 1e8
# Squared residuals a row below the first are rounding, in units of a sigmoid's height; below the second, where a step
# takes nothing off.
_ROUNDING, _SMALL = 1e-32, 1e-26
# Keeps the normal equations of a saturated head regular.
_SATURATED = 1e-100
# Two heads fell together where the singular values of what singles heads out are so far apart.
_TOGETHER = 1e-12


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
    small = np.maximum(_SMALL, (noise / unit[:, :, 0]) ** 2)
    at_x = np.concatenate([y, np.ones((len(y), 1)), np.zeros((len(y), 1))], axis=1)
    at_other = np.concatenate([y, np.ones((len(y), 1)), -np.ones((len(y), 1))], axis=1)
    inner = np.concatenate([at_x, at_other])

    def residuals(unknowns: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigmoid = scipy.special.expit(unknowns @ inner.T)
        ends = np.concatenate([sigmoid, np.ones((*sigmoid.shape[:-1], 1))], axis=-1)
        left = _outside(q, ends)
        return ends, left, np.sum(left**2, axis=-1)

    def moves(ends: np.ndarray) -> np.ndarray:
        slopes = ends[..., :-1] * (1 - ends[..., :-1])
        return np.concatenate([slopes[..., None] * inner, np.zeros((*ends.shape[:2], 1, p + 2))], axis=2)

    def off_span(columns: np.ndarray, q: np.ndarray) -> np.ndarray:
        return columns - q[:, None] @ (np.swapaxes(q, 1, 2)[:, None] @ columns)

    unknowns = np.concatenate([start.slope, start.offset[..., None], start.drop[..., None]], axis=-1)
    unknowns = np.array(np.broadcast_to(unknowns, (batch, m, p + 2)))
    ends, left, squared = residuals(unknowns, q)
    damping = np.full((batch, m), _DAMPING)
    for _ in range(_ITERATIONS):
        active = (squared > rows * _ROUNDING) & (damping < _MOST_DAMPING)
        some = np.flatnonzero(active.any(axis=1))
        if not len(some):
            break
        # columns off the span of the values, as the residual is
        jacobian = off_span(moves(ends[some]), q[some])
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        scale = np.trace(normal, axis1=-2, axis2=-1) / (p + 2) + _SATURATED
        normal += (damping[some] * scale)[..., None, None] * np.eye(p + 2)
        gradient = np.swapaxes(jacobian, -1, -2) @ left[some][..., None]
        trial = unknowns[some] - np.linalg.solve(normal, gradient)[..., 0]
        found = residuals(trial, q[some])
        better = active[some] & (found[2] < squared[some])
        for kept, new in zip((unknowns, ends, left), (trial, *found[:2]), strict=True):
            kept[some] = np.where(better[..., None], new, kept[some])
        squared[some] = np.where(better, found[2], squared[some])
        damping[some] = np.where(
            better, np.maximum(damping[some] * 0.05, _LEAST_DAMPING), np.maximum(damping[some], 1e-12) * 10
        )
        damping[some] = np.where(~better & (squared[some] < rows * small[some]), _MOST_DAMPING, damping[some])
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


def _outside(q: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows (batch, m, n) less their parts in the columns of q (batch, n, m)."""
    return rows - (rows @ q) @ np.swapaxes(q, 1, 2)
