"""What stands before the first norm of a post-norm block: derivatives by a token itself and by another one."""

import numpy as np
from jaxtyping import Float

from attention import ValueOracle

# The central difference of order 6, and its step: errors of 1e-12 at tokens of unit variance
_WEIGHTS, _STEP = (45 / 60, -9 / 60, 1 / 60), 1e-2
_POINTS = 3


def attended(
    oracle: ValueOracle, basis: Float[np.ndarray, "D d"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "d D"], Float[np.ndarray, " D"]]:
    """A and b along `basis`, for any function f(y), row by row, of y = x + F(X): x A + b for equal tokens.

    At equal tokens the softmax has no first derivative that counts: dy = dx_own + dx_1 W / k + ... + dx_k W / k with
    the sum W of the W_i. So the derivative by a token itself, less that by another one, is f' whatever the heads are;
    their sum, with all k tokens, is A f' with A = I + W. And f(y) does not change along y, up to eps, as behind a norm.
    36 d queries.
    """
    d, k = oracle.dim, oracle.tokens or 2
    x = rng.standard_normal((_POINTS, d))
    own, equal = [], []
    for token in x:
        moved = np.zeros((2, d, k, d))  # the last token alone; the first
        moved[0, :, -1] = moved[1, :, 0] = np.eye(d)
        slopes = np.zeros((2, d, d))
        for i, weight in enumerate(_WEIGHTS, start=1):
            steps = token + i * _STEP * np.concatenate([moved, -moved])
            answers = oracle.ask(steps.reshape(-1, k, d))[:, -1].reshape(2, 2, d, d)
            slopes += weight * (answers[0] - answers[1]) / _STEP
        own.append(slopes[0] - slopes[1])
        equal.append(slopes[0] + (k - 1) * slopes[1])
    behind = basis @ np.concatenate(own, axis=1)  # f' at all points, of rank D
    linear = np.concatenate(equal, axis=1) @ np.linalg.pinv(behind)
    along = [-(token @ linear) @ (basis @ slope) for token, slope in zip(x, own, strict=True)]
    return linear, np.linalg.lstsq(behind.T, np.concatenate(along), rcond=None)[0]
