"""What gradient descent on small batches needs: the gradient in closed form, random starts, batches, schedules.

Parameters are stacked so that every contraction is one large product: Theta as [Theta_1 ... Theta_m], (d, m d), and
W as the W_i below one another, (m d, d).
"""

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention import AttentionLayer, ExampleOracle, draw_examples
from attention._arrays import namespace, to_numpy
from attention.layer import read_tokens
from attention.learning import apart
from attention.memory import require_memory

Schedule = Literal["cosine", "linear", "constant"]

# The most numbers of fresh examples to remember, to detect a domain on which examples repeat.
_REMEMBERED = 1 << 21
# How much an elimination of W holds on to the W before; from 1e-6 to 1e-3 fits are alike (measured).
_NEARNESS = 1e-4


def squared_error_gradient(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    theta: Shaped[Any, "d md"],
    w: Shaped[Any, "md d"],
) -> tuple[Shaped[Any, "n*k d"], Shaped[Any, "d md"], Shaped[Any, "md d"]]:
    """The residual F(X) - Y, row by row, and the gradients in Theta and W of half the mean squared error of an example.

    Notes
    -----
    On arrays of any library, in two passes of O(n k m d (d + 2 k)). With P the patterns, R the residual and
    Q = R W_i^T X^T, the gradient in Theta_i is X^T [P * (Q - rowsum(P * Q))] X. Half the time of automatic
    differentiation (measured).
    """
    xp = namespace(x, theta)
    pattern, read = _read(x, theta)
    residual = xp.matmul(read, w) - xp.reshape(y, (-1, y.shape[-1]))
    mean = residual / len(x)
    return residual, _theta_gradient(x, pattern, mean, w), xp.matmul(xp.matrix_transpose(read), mean)


def eliminated_gradient(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    theta: Shaped[Any, "d md"],
    w: Shaped[Any, "md d"],
) -> tuple[Shaped[Any, "n*k d"], Shaped[Any, "md d"], Shaped[Any, "d md"]]:
    """The residual at W, the W with the least loss on the same examples, and the gradient in Theta there.

    Notes
    -----
    On tensors of PyTorch. The loss is half the mean squared error of an example, plus a small multiple of the squared
    distance to the given W. The second part has no effect at the solution, and it makes the step to the new W as
    accurate as the residual, so float32 is enough. At the least loss in W, the gradient in Theta is that of the loss
    with W eliminated. O(n k (m d)^2 + (m d)^3) beside the two passes.

    References
    ----------
    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), variable projection.
    """
    import torch

    pattern, read = _read(x, theta)
    residual = read @ w - y.reshape(-1, y.shape[-1])
    gram = read.T @ read
    gram.diagonal().add_(_NEARNESS * gram.diagonal().mean())
    step = torch.cholesky_solve(read.T @ residual, torch.linalg.cholesky_ex(gram).L)
    w = w - step
    return residual, w, _theta_gradient(x, pattern, (residual - read @ step) / len(x), w)


def _read(x: Any, theta: Any) -> tuple[Any, Any]:
    """The patterns, (n, k m, k), and the tokens that they mix, (n k, m d)."""
    xp = namespace(x, theta)
    n, k, d = x.shape
    heads = xp.permute_dims(xp.reshape(theta, (d, -1, d)), (1, 0, 2))
    pattern, read = read_tokens(x, heads)
    return xp.reshape(pattern, (n, -1, k)), read


def _theta_gradient(x: Any, pattern: Any, mean: Any, w: Any) -> Any:
    """The gradient in stacked Theta, from the residual divided by the number of examples."""
    xp = namespace(x, w)
    n, k, d = x.shape
    pulled = xp.reshape(xp.matmul(mean, xp.matrix_transpose(w)), (n, -1, d))
    pull = pattern * xp.matmul(pulled, xp.matrix_transpose(x))
    pull = pull - pattern * xp.sum(pull, axis=-1, keepdims=True)
    mixed = xp.reshape(xp.matmul(pull, x), (n * k, -1))
    return xp.matmul(xp.matrix_transpose(xp.reshape(x, (n * k, d))), mixed)


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
    require_memory(f"A layer of {m} heads in {d} dimensions", 48 * m * d**2, advice="take fewer heads")
    theta, w = (apart(rng).standard_normal((m, d, d)) for _ in range(2))
    return stack_heads(theta / d, w * (0.1 / np.sqrt(d)))


def fresh_batches(
    oracle: ExampleOracle, size: int, seen: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of examples that are drawn as they are needed; `seen` gets the inputs of the first ones and the last."""
    while True:
        if len(seen) > 1 and len(seen) * seen[0].size > _REMEMBERED:
            seen.pop()
        x, y = draw_examples(oracle, size)
        seen.append(x)
        yield x, y


def reused_batches(x: Any, y: Any, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Batches of at most `size` examples of a fixed set, shuffled again for every pass; they never end."""
    n, size = len(x), min(size, len(x))
    while True:
        # shuffle a whole pass at once, so that a batch is a slice
        order = rng.permutation(n)
        some_x, some_y = (x, y) if size == n else (x[order], y[order])
        for first in range(0, n - size + 1, size):
            yield some_x[first : first + size], some_y[first : first + size]


def rate(schedule: Schedule, step: int, steps: int, power: float = 1.0) -> float:
    """The share of the learning rate at a step, counted from 0: a warm-up over a fiftieth, then the schedule.

    `power` is the exponent of the schedule.
    """
    warm = min((step + 1) / max(1, steps // 50), 1.0)
    part = min(step, steps) / steps
    if schedule == "cosine":
        return warm * (0.5 * (1 + math.cos(math.pi * part))) ** power
    return warm * (1 - part) ** power if schedule == "linear" else warm
