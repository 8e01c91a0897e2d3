"""What a head is worth: what dropping it costs on fitted examples, and whether held-out ones show a loss."""

import math

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.evaluation import EXACT_ERROR
from attention.layer import read_tokens
from upper.newton.loop import Iterate

__all__ = ["cost_of_each_head", "no_worse"]


def cost_of_each_head(
    x: Float[np.ndarray, "n k d"], layer: AttentionLayer | Iterate
) -> Float[np.ndarray, " m"]:
    """The growth of the squared residual if a head is dropped and the other projections are refitted, for each head.

    `x` are the fitted examples, and the projections W_i are a least-squares fit. With Z = [P_1 X ... P_m X] and
    H = (Z^T Z)^-1, the growth is tr(W_i^T (H_ii)^-1 W_i), the Wald statistic of linear regression. It is zero for
    W_i = 0 and for Theta_i = Theta_j. With biases, Z has a column of ones. O(n k (m d)^2 + (m d)^3).
    """
    m, d, _ = layer.theta.shape
    _, read = read_tokens(x, layer.theta, layer.key_bias, causal=layer.causal)
    if layer.key_bias is not None:
        read = np.pad(read, ((0, 0), (0, 1)), constant_values=1.0)
    gram = read.T @ read
    # equal heads make it singular; with this ridge, the cost of each of them is zero up to rounding
    ridge = 1e-12 * np.trace(gram) / len(gram) or 1.0
    blocks = np.linalg.inv(gram + ridge * np.eye(len(gram)))[: m * d, : m * d].reshape(m, d, m, d)
    each = np.stack([blocks[i, :, i, :] for i in range(m)])
    return np.einsum("iab,iab->i", layer.w, np.linalg.solve(each, layer.w))


def no_worse(
    errors: Float[np.ndarray, " rows"], than: Float[np.ndarray, " rows"], *, significant: float = 2.0
) -> bool:
    """Whether the mean of `errors` is at most that of `than`, up to `significant` standard errors of the difference.

    Examples
    --------
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.9, 3.0]))
    True
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.5]))
    False
    """
    exact = EXACT_ERROR**2
    if than.mean() < exact or not np.isfinite(errors).all():
        return bool(errors.mean() < exact)
    difference = errors - than
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() <= significant * spread)
