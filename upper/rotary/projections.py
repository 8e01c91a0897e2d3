"""All projections W_i by linear response: the weights at a token are known, so answers are linear in delta W_i.

Derived here. Token 0 is moved by tau delta. Row s shows sum_i a_i(s) delta W_i with a_i = e^(l_i + tau g_i) /
(Z_i - e^(l_i) + e^(l_i + tau g_i)), where l_i and Z_i are known from `separate_heads`. At tau = 0 this is linear in
delta W_i; with that start, p_i and the slopes g_i(s) are fitted for each delta and head, which takes the error of
differences away. Then the weights a_i are known, and delta W_i is linear in the answers.
"""

import numpy as np
from jaxtyping import Float

from upper.rotary.heads import ITERATIONS, Heads
from upper.rotary.moved_token import ERRORS, EqualTokens
from upper.value_queries.queries import orthonormal

# Moves of token 0, in units of the step: three are the fewest that leave equations for p_i. 3 d queries.
_MOVES = np.array([-1.0, 0.5, 1.0])


def read_projections(
    equal: EqualTokens, heads: Heads, length: float, rng: np.random.Generator
) -> Float[np.ndarray, "m d d"] | None:
    """All W_i; None where they do not fit the answers."""
    d, n, m = equal.oracle.dim, heads.sums.shape[1], len(heads.sums)
    directions, tau = orthonormal(rng, d, d), equal.design.step * _MOVES
    moves = (length * tau[:, None] * directions[:, None]).reshape(-1, d)
    answers = equal.moved(heads.token, moves, np.zeros(len(moves), dtype=int), n)
    # (d, rows, moves, outputs), over the move
    values = answers.reshape(d, len(tau), n, d)[:, :, 1:].swapaxes(1, 2) / (length * tau[:, None])
    own = heads.weights[:, 1:]
    rest = heads.sums[:, 1:] - own
    at_zero = [np.prod(tau[tau != step] / (tau[tau != step] - step)) for step in tau]
    small = np.tensordot(values, at_zero, (2, 0))
    v = np.linalg.pinv((own / (own + rest)).T) @ small
    slopes, residual = _slopes(tau, values, v, own, rest)
    noise = ERRORS * equal.error(heads.token) / (equal.design.step * length * float(np.sqrt(np.mean(v**2))))
    if not residual < (equal.tolerance + noise) * np.sqrt(m):
        return None
    weights = _weights(tau, slopes, own, rest).transpose(0, 2, 3, 1).reshape(d, -1, m)
    w = np.einsum("rk,rml->mkl", directions, np.linalg.pinv(weights) @ values.reshape(d, -1, d))
    off = equal.linear.projection_sum - w.sum(axis=0)
    if np.linalg.norm(off) > (np.sqrt(equal.tolerance) + noise * np.sqrt(d)) * np.linalg.norm(w):
        return None
    return w + off / m  # the sum is known best


def _weights(tau: np.ndarray, slopes: np.ndarray, own: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The weights of the moved token, (d, m, rows, moves)."""
    moved = own[..., None] * np.exp(np.clip(tau * slopes[..., None], -700.0, 700.0))
    weights: np.ndarray = moved / (rest[..., None] + moved)
    return weights


def _slopes(
    tau: Float[np.ndarray, " q"],
    values: Float[np.ndarray, "d k q e"],
    v: Float[np.ndarray, "d m e"],
    own: Float[np.ndarray, "m k"],
    rest: Float[np.ndarray, "m k"],
) -> tuple[Float[np.ndarray, "d m k"], float]:
    """The slopes g of all heads and rows for each direction, and the residual, by Gauss-Newton.

    A slope is in the equations of one row only, so it is eliminated; those left are linear in p.
    """
    d, m = v.shape[:2]
    space = np.linalg.svd(v, full_matrices=False)[2]
    duals = np.linalg.inv(v @ space.swapaxes(1, 2))  # columns are the heads' p
    z = np.einsum("rkqe,rme->rkqm", values, space, optimize=True)
    p = duals.swapaxes(1, 2)
    odds = np.clip(np.einsum("rkqm,rhm->rhkq", z, p, optimize=True), 1e-6, 1 - 1e-6)
    odds = np.log(odds / (1 - odds))
    residual, before, most = np.inf, np.inf, 1 / np.abs(tau).max()
    # small weights are read with large errors
    slopes = np.clip((odds[..., -1] - odds[..., 0]) / (tau[-1] - tau[0]), -most, most)
    for _ in range(ITERATIONS):
        weights = _weights(tau, slopes, own, rest)
        off = np.einsum("rkqm,rhm->rhkq", z, p, optimize=True) - weights
        residual = float(np.sqrt(np.mean(off**2)))
        if not np.isfinite(residual) or (residual < 1e-6 and residual > before / 2):
            break
        before = residual
        by = -tau * weights * (1 - weights)
        size = np.sum(by**2, axis=-1) + np.finfo(float).tiny
        along = np.einsum("rhkq,rkqm->rhkm", by, z, optimize=True)
        left = z[:, None] - (by / size[..., None])[..., None] * along[..., None, :]
        rows = off - by * (np.sum(by * off, axis=-1) / size)[..., None]
        q, triangle = np.linalg.qr(left.reshape(d, m, -1, m))
        change = -np.linalg.solve(triangle, q.swapaxes(2, 3) @ rows.reshape(d, m, -1, 1))[..., 0]
        p = p + change
        off = off + np.einsum("rkqm,rhm->rhkq", z, change, optimize=True)
        slopes = slopes - np.clip(np.sum(by * off, axis=-1) / size, -most, most)
    return slopes, residual
