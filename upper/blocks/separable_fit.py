"""Offsets and scales of neurons by variable projection: the outputs v_j, A and c are eliminated by least squares."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from attention.feed_forward import activation
from upper.blocks.token_map import TokenMap

_STEPS = 20
# Added to the scaled normal matrix: the scale of ReLU, and of a direction beside a scale, are not determined.
_RIDGE = 1e-13
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
    g, basis, residual = _eliminated(x, y, start)
    error = float(np.linalg.norm(residual) / np.linalg.norm(y))
    for _ in range(_STEPS):
        t = x @ g.u.T + g.a
        slope = activation(g.activation, t, derivative=True)
        columns = [slope, slope * t] if scaled else [slope]
        columns.append((slope[:, unsure, None] * x[:, None, :]).reshape(len(x), -1))
        derivative = np.concatenate(columns, axis=1)
        derivative -= basis @ (basis.T @ derivative)
        outputs = g.v[owner]
        normal = (derivative.T @ derivative) * (outputs @ outputs.T)
        right = np.sum(derivative * (residual @ outputs.T), axis=0)
        size = np.sqrt(np.maximum(np.diag(normal), np.finfo(float).tiny))
        normal = normal / size / size[:, None] + _RIDGE * np.eye(len(size))
        step = np.linalg.solve(normal, right / size) / size
        u, a = g.u.copy(), g.a + step[:h]
        if scaled:
            grown = np.exp(np.clip(step[h : 2 * h], -1, 1))
            u, a = u * grown[:, None], a * grown
        u[unsure] += step[len(step) - len(unsure) * d :].reshape(-1, d)
        new, new_basis, new_residual = _eliminated(x, y, replace(g, u=u, a=a))
        new_error = float(np.linalg.norm(new_residual) / np.linalg.norm(y))
        if not new_error < error:
            break
        done = new_error > _ENOUGH * error
        g, basis, residual, error = new, new_basis, new_residual, new_error
        if done:
            break
    return g, error


def _eliminated(x: np.ndarray, y: np.ndarray, g: TokenMap) -> tuple[TokenMap, np.ndarray, np.ndarray]:
    """The best v, A and c for these neurons, an orthonormal basis of what they span, and the residual."""
    h, d = g.u.shape
    design = np.concatenate([activation(g.activation, x @ g.u.T + g.a), x, np.ones((len(x), 1))], axis=1)
    size = np.linalg.norm(design, axis=0)
    size[size == 0] = 1.0
    basis, triangle = np.linalg.qr(design / size)
    diagonal = np.diag(triangle)
    triangle = triangle + np.diag(
        np.where(np.abs(diagonal) < _RIDGE, np.inf, 0.0)
    )  # a neuron that no x meets
    solved = solve_triangular(triangle, basis.T @ y, check_finite=False) / size[:, None]
    fitted = replace(g, v=solved[:h], linear=solved[h : h + d], constant=solved[-1])
    return fitted, basis, y - design @ solved
