"""A two-layer network of sigmoids taken apart: for each head the combination of outputs that is one sigmoid."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit

_ITERATIONS = 40
_DAMPING, _MOST_DAMPING = 1e-3, 1e8
# Squared residuals a row below this are rounding.
_ROUNDING = 1e-31


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
    #: the condition number of the combinations that single out the heads; infinite if two heads fell together
    condition: Float[np.ndarray, " batch"]


def separate(
    y: Float[np.ndarray, "n p"],
    g: Float[np.ndarray, "batch 2*n d"],
    total: Float[np.ndarray, "batch d"],
    start: Sigmoids,
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
        Where to begin, for m heads; one start for all deltas.

    Notes
    -----
    O(batch m n (m + p)^2) an iterate. From a start that is a small change of delta away it takes 4 to 8 iterates.
    """
    batch, rows, _ = g.shape
    m, p = start.slope.shape
    space = np.linalg.svd(g, full_matrices=False)[2][:, :m]
    inside = np.concatenate([g, total[:, None]], axis=1) @ np.swapaxes(space, 1, 2)
    unit = np.sqrt(np.mean(inside**2, axis=(1, 2), keepdims=True))
    q, triangle = np.linalg.qr(inside / unit)
    outside = _outside(q[:, None])
    unknowns = np.broadcast_to(
        np.concatenate([start.slope, start.offset[:, None], start.drop[:, None]], axis=1), (batch, m, p + 2)
    ).copy()

    def residuals(unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = unknowns[..., :p] @ y.T + unknowns[..., p, None]
        sigmoid = expit(np.concatenate([first, first - unknowns[..., p + 1, None]], axis=-1))
        ends = np.concatenate([sigmoid, np.ones((*sigmoid.shape[:-1], 1))], axis=-1)
        return ends, outside(ends[..., None])[..., 0]

    ends, left = residuals(unknowns)
    squared = np.sum(left**2, axis=-1)
    damping = np.full((batch, m), _DAMPING)
    at_x = np.concatenate([y, np.ones((len(y), 1)), np.zeros((len(y), 1))], axis=1)
    at_other = np.concatenate([y, np.ones((len(y), 1)), -np.ones((len(y), 1))], axis=1)
    inner = np.concatenate([at_x, at_other])
    for _ in range(_ITERATIONS):
        active = (squared > rows * _ROUNDING) & (damping < _MOST_DAMPING)
        if not active.any():
            break
        sigmoid = ends[..., :-1]
        jacobian = np.zeros((batch, m, rows + 1, p + 2))
        jacobian[..., :-1, :] = (sigmoid * (1 - sigmoid))[..., None] * inner
        jacobian = outside(jacobian)
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        scale = np.trace(normal, axis1=-2, axis2=-1) / (p + 2) + np.finfo(float).tiny
        normal += (damping * scale)[..., None, None] * np.eye(p + 2)
        gradient = np.swapaxes(jacobian, -1, -2) @ left[..., None]
        trial = unknowns - np.linalg.solve(normal, gradient)[..., 0]
        trial_ends, trial_left = residuals(trial)
        trial_squared = np.sum(trial_left**2, axis=-1)
        better = active & (trial_squared < squared)
        unknowns, ends, left = (
            np.where(better[..., None], new, old)
            for new, old in ((trial, unknowns), (trial_ends, ends), (trial_left, left))
        )
        squared = np.where(better, trial_squared, squared)
        damping = np.where(better, damping * 0.05, np.maximum(damping, 1e-14) * 10)
    single = np.linalg.solve(triangle[:, None], np.swapaxes(q, 1, 2)[:, None] @ ends[..., None])[..., 0]
    singular = np.linalg.svd(single, compute_uv=False)
    condition = singular[:, 0] / np.maximum(singular[:, -1], np.finfo(float).tiny)
    usable = condition < 1e12
    single = np.where(usable[:, None, None], single, np.eye(m))
    values = np.swapaxes(np.linalg.inv(single), 1, 2) @ (space * unit)
    return Separated(
        Sigmoids(unknowns[..., :p], unknowns[..., p], unknowns[..., p + 1]),
        values,
        np.sqrt(squared.max(axis=1) / rows),
        np.where(usable, condition, np.inf),
    )


def _outside(q: np.ndarray):
    """The projection off the columns of q."""
    transposed = np.swapaxes(q, -1, -2)
    return lambda columns: columns - q @ (transposed @ columns)
