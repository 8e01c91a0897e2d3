"""Offsets and scales of neurons by variable projection: the outputs v_j, A and c are eliminated by least squares."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from attention.feed_forward import activation
from upper.blocks.scaled_cholesky import ScaledCholesky
from upper.blocks.token_map import TokenMap

# A step that leaves more than this share of the residual is the last.
_ENOUGH = 0.5


def fit_offsets(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n d"],
    start: TokenMap,
    unsure: Int[np.ndarray, " p"],
) -> tuple[TokenMap, float]:
    """Fit g to answers, with the directions u_j / |u_j| of all but the `unsure` neurons as they are.

    Gauss-Newton with Kaufman's Jacobian: the normal matrix of offsets, scales and unsure directions is
    (D^T P D) o (V V^T), where D has the derivatives of the activations and P projects off what is eliminated. Gives the
    map and its relative error on the answers. O(n (h + d)^2 + (2 h + p d)^3) a step.

    References
    ----------
    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973); Kaufman, BIT 15 (1975).
    """
    h, d = start.u.shape
    scaled = start.activation != "relu"  # ReLU has no scale: v_j takes it
    owner = np.concatenate([np.tile(np.arange(h), 2 if scaled else 1), np.repeat(unsure, d)])
    g = start.with_outputs(x, y)
    residual = y - g(x)
    error = float(np.linalg.norm(residual) / np.linalg.norm(y))
    while True:
        t = x @ g.u.T + g.a
        slope = activation(g.activation, t, derivative=True)
        columns = [slope, slope * t] if scaled else [slope]
        columns.append((slope[:, unsure, None] * x[:, None, :]).reshape(len(x), -1))
        derivative = np.concatenate(columns, axis=1)
        basis = np.linalg.qr(g.design(x))[0]
        derivative -= basis @ (basis.T @ derivative)
        outputs = g.v[owner]
        normal = (derivative.T @ derivative) * (outputs @ outputs.T)
        right = np.sum(derivative * (residual @ outputs.T), axis=0)
        step = ScaledCholesky.of(normal).step(right)
        u, a = g.u.copy(), g.a + step[:h]
        if scaled:
            grown = np.exp(np.clip(step[h : 2 * h], -1, 1))
            u, a = u * grown[:, None], a * grown
        u[unsure] += step[len(step) - len(unsure) * d :].reshape(-1, d)
        new = replace(g, u=u, a=a).with_outputs(x, y)
        new_residual = y - new(x)
        new_error = float(np.linalg.norm(new_residual) / np.linalg.norm(y))
        if not new_error < error:
            return g, error
        done = new_error > _ENOUGH * error
        g, residual, error = new, new_residual, new_error
        if done:
            return g, error
