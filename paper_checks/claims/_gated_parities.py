"""Two-token inputs and layers that the claims on hidden parities share, written from their formulas."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer

__all__ = [
    "all_inputs",
    "characters",
    "hidden_parity",
    "known_part",
    "linear_layer",
    "minimal_heads",
    "row_gap",
    "saturated_heads",
    "secrets_of",
    "staircase_layer",
]


def all_inputs(k: int, d: int) -> Float[np.ndarray, "n k d"]:
    """Every matrix of k tokens of d signs."""
    numbers = np.arange(1 << (k * d))
    bits = (numbers[:, None] >> np.arange(k * d)) & 1
    return (1.0 - 2.0 * bits).reshape(-1, k, d)


def secrets_of(d: int, bits: int, *, first: int = 1) -> list[tuple[int, ...]]:
    """All sets of so many coordinates from `first` on; coordinate 0 is the gate."""
    return list(combinations(range(first, d), bits))


def staircase_layer(
    secret: Sequence[int],
    dim: int,
    thresholds: Sequence[float] | np.ndarray,
    coefficients: Sequence[float] | np.ndarray,
    slopes: Sequence[float] | np.ndarray,
    *,
    direction: np.ndarray | None = None,
    gate: int = 0,
) -> AttentionLayer:
    """Theta_i = beta_i (sum_{j in S} e_j e_j^T - t_i e_g e_g^T) and W_i = c_i e_g w^T, entry by entry."""
    m, w = len(thresholds), np.eye(dim)[0] if direction is None else direction
    theta, projection = np.zeros((m, dim, dim)), np.zeros((m, dim, dim))
    for i, (t, c, beta) in enumerate(zip(thresholds, coefficients, slopes, strict=True)):
        for j in secret:
            theta[i, j, j] = beta
        theta[i, gate, gate] = -beta * t
        projection[i, gate] = c * w
    return AttentionLayer(theta=theta, w=projection)


def linear_layer(
    secret: Sequence[int], dim: int, thresholds: np.ndarray, coefficients: np.ndarray, beta: float
) -> AttentionLayer:
    """Theta_i = beta e_1 (1_S - t_i e_1)^T and W_i = c_i e_1 e_1^T, the gate being coordinate 0 of the arrays."""
    m = len(thresholds)
    theta, projection = np.zeros((m, dim, dim)), np.zeros((m, dim, dim))
    for i, (t, c) in enumerate(zip(thresholds, coefficients, strict=True)):
        theta[i, 0, list(secret)] = beta
        theta[i, 0, 0] = -beta * t
        projection[i, 0, 0] = c
    return AttentionLayer(theta=theta, w=projection)


def saturated_heads(bits: int, *, shift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Construction B: thresholds i - 1/2 and coefficients (-1)^i, i = 1, ..., l."""
    order = np.arange(1, bits + 1)
    return order - shift, (-1.0) ** order


def minimal_heads(slopes: Sequence[float], *, offset: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Construction D: thresholds m - 1/2 and coefficients from M c = r, M_ab = tanh(beta_b (a - 1/2))."""
    m = len(slopes)
    a = np.arange(1, m + 1)
    matrix = np.tanh(np.multiply.outer(a - offset, np.asarray(slopes)))
    return np.full(m, m - 0.5), np.linalg.solve(matrix, (-1.0) ** (m - 1 + a))


def hidden_parity(x: Float[np.ndarray, "n k d"], secret: Sequence[int], *, gate: int = 0) -> np.ndarray:
    """u_g chi_S(y) [1; -1], one product at a time; (n, 2)."""
    value = (x[:, 0, gate] - x[:, 1, gate]) / 2
    for j in secret:
        value = value * x[:, 0, j] * x[:, 1, j]
    return np.stack([value, -value], axis=1)


def known_part(x: Float[np.ndarray, "n k d"], c: float, c0: float) -> np.ndarray:
    """C a_1 [1; 1] + c0 u_1 [1; -1]; (n, 2)."""
    u, a = (x[:, 0, 0] - x[:, 1, 0]) / 2, (x[:, 0, 0] + x[:, 1, 0]) / 2
    return np.stack([c * a + c0 * u, c * a - c0 * u], axis=1)


def row_gap(outputs: Float[np.ndarray, "n k d"], wanted: np.ndarray, direction: np.ndarray) -> float:
    """The largest 2-norm of a row of the outputs minus `wanted` times the direction."""
    return float(np.linalg.norm(outputs - wanted[..., None] * direction, axis=-1).max())


def characters(k: int, d: int) -> Int[np.ndarray, "n n"]:
    """All products of entries of X on all inputs: row A holds the character of the set with the bits of A."""
    table = np.ones((1, 1), dtype=np.int64)
    for _ in range(k * d):
        table = np.kron(np.array([[1, 1], [1, -1]]), table)
    return table
