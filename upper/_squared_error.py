"""The squared error of a layer and its gradient in closed form, on the arrays of any library.

Parameters are stacked so that every contraction is one large product: Theta as [Theta_1 ... Theta_m], (d, m d), and
W as the W_i below one another, (m d, d).
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention import AttentionLayer
from attention._arrays import namespace, to_numpy
from attention._kernels import softmax
from attention.layer import require_layer_memory

__all__ = ["apart", "layer_of_stacked", "random_start", "squared_error_gradient", "stack_heads"]


def squared_error_gradient(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    theta: Shaped[Any, "d md"],
    w: Shaped[Any, "md d"],
) -> tuple[Shaped[Any, "n*k d"], Shaped[Any, "d md"], Shaped[Any, "md d"]]:
    """The residual F(X) - Y, and the gradients in Theta and W of half the mean squared error of an example.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.
    theta : array (d, m d)
        The Theta_i side by side.
    w : array (m d, d)
        The W_i below one another.

    Returns
    -------
    residual : array (n k, d)
        F(X) - Y, row by row.
    theta_gradient : array (d, m d)
        The gradient in Theta, stacked like it.
    w_gradient : array (m d, d)
        The gradient in W.

    Notes
    -----
    Two passes of O(n k m d (d + 2 k)): the forward one, and one with the transpose of the derivative. With
    P the patterns, R the residual and Q = R W_i^T X^T, the gradient in Theta_i is X^T [P * (Q - rowsum(P * Q))] X.
    Half the time of automatic differentiation (measured). Derived here.
    """
    xp = namespace(x, theta)
    n, k, d = x.shape
    m = theta.shape[1] // d
    tokens = xp.reshape(x, (n * k, d))
    across = xp.matrix_transpose(x)
    logits = xp.matmul(xp.reshape(xp.matmul(tokens, theta), (n, k * m, d)), across)
    pattern = softmax(logits, xp)
    read = xp.reshape(xp.matmul(pattern, x), (n * k, m * d))
    residual = xp.matmul(read, w) - xp.reshape(y, (n * k, d))

    mean = residual / n
    w_gradient = xp.matmul(xp.matrix_transpose(read), mean)
    pulled = xp.reshape(xp.matmul(mean, xp.matrix_transpose(w)), (n, k * m, d))
    pull = pattern * xp.matmul(pulled, across)
    pull = pull - pattern * xp.sum(pull, axis=-1, keepdims=True)
    mixed = xp.reshape(xp.matmul(pull, x), (n * k, m * d))
    return residual, xp.matmul(xp.matrix_transpose(tokens), mixed), w_gradient


def stack_heads(
    theta: Float[np.ndarray, "m d d"], w: Float[np.ndarray, "m d d"]
) -> tuple[Float[np.ndarray, "d md"], Float[np.ndarray, "md d"]]:
    """The parameters of a layer, stacked."""
    m, d, _ = theta.shape
    return theta.transpose(1, 0, 2).reshape(d, m * d), w.reshape(m * d, d)


def layer_of_stacked(theta: Shaped[Any, "d md"], w: Shaped[Any, "md d"]) -> AttentionLayer:
    """The layer of stacked parameters, in NumPy and float64."""
    d = theta.shape[0]
    theta, w = (np.array(to_numpy(part), dtype=np.float64) for part in (theta, w))
    return AttentionLayer(
        theta=np.ascontiguousarray(theta.reshape(d, -1, d).transpose(1, 0, 2)), w=w.reshape(-1, d, d)
    )


def random_start(
    m: int, d: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "d md"], Float[np.ndarray, "md d"]]:
    """A random start, stacked: attention of half the strength of nice layers, and small projections."""
    require_layer_memory(m, d, arrays=6)
    theta, w = (apart(rng).standard_normal((m, d, d)) for _ in range(2))
    return stack_heads(theta / d, w * (0.1 / np.sqrt(d)))


def apart(rng: np.random.Generator) -> np.random.Generator:
    """A generator whose numbers are not those of `rng` itself.

    A learner seeded like the maker of its target would otherwise draw the very numbers of the target as its start.
    """
    return np.random.default_rng([int(rng.integers(2**63)), 1])
