"""The contractions behind every layer, all heads stacked: few large products instead of one small one a head."""

from typing import Any

import numpy as np

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
    dtype = logits.dtype
    logits = _wide(logits, xp)
    with np.errstate(over="ignore"):  # a logit further below the largest than there are numbers has weight 0
        weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    pattern = weights / xp.sum(weights, axis=-1, keepdims=True)
    return _in_type(pattern, dtype, xp)


def mix(weights: Any, x: Any, xp: Any) -> Any:
    """sum_b weights[..., a, i, b] x_b as one (rows, m d) matrix, from weights (..., k, m, k) and tokens (..., k, d)."""
    *batch, k, d = x.shape
    m = weights.shape[-2]
    return xp.reshape(xp.matmul(xp.reshape(weights, (*batch, k * m, k)), x), (-1, m * d))


def _wide(array: Any, xp: Any) -> Any:
    """The array in a type that holds the sum of many weights."""
    return xp.astype(array, xp.float32) if xp.finfo(array.dtype).bits < 32 else array


def _in_type(array: Any, dtype: Any, xp: Any) -> Any:
    """The array in the type, in the machine's byte order; infinite where that cannot hold it."""
    dtype = dtype.newbyteorder("=") if isinstance(dtype, np.dtype) else dtype
    with np.errstate(over="ignore"):
        return array if array.dtype == dtype else xp.astype(array, dtype)
