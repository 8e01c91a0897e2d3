"""The contractions behind every layer, all heads stacked: few large products instead of one small one a head."""

from typing import Any

__all__ = ["contract", "mix", "softmax"]


def contract(x: Any, theta: Any, xp: Any) -> Any:
    """x_a Theta_i x_b as (..., k, m, k), from tokens (..., k, d) and matrices (m, d, d)."""
    *batch, k, d = x.shape
    m = theta.shape[0]
    stacked = xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (d, m * d))
    left = xp.reshape(xp.matmul(xp.reshape(x, (-1, d)), stacked), (*batch, k * m, d))
    return xp.reshape(xp.matmul(left, xp.matrix_transpose(x)), (*batch, k, m, k))


def softmax(logits: Any, xp: Any) -> Any:
    """The softmax over the last axis, stable for finite logits."""
    weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def mix(weights: Any, x: Any, xp: Any) -> Any:
    """sum_b weights[..., a, i, b] x_b as one (rows, m d) matrix, from weights (..., k, m, k) and tokens (..., k, d)."""
    *batch, k, d = x.shape
    m = weights.shape[-2]
    return xp.reshape(xp.matmul(xp.reshape(weights, (*batch, k * m, k)), x), (-1, m * d))
