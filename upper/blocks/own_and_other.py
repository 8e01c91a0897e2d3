"""What stands before the first norm of a post-norm block: derivatives by a token itself and by another one."""

import numpy as np
from jaxtyping import Float

from attention import ValueOracle

# The central difference of order 6, and its step: errors of 1e-12 at tokens of unit variance. Where a kink of ReLU lies
# between its points, which its combination of order 4 shows, it is asked again with a step so many times shorter.
_WEIGHTS, _STEP = np.array([45 / 60, -9 / 60, 1 / 60]), 1e-2
_KINK, _SHORTER, _ROUNDS = 1e-6, 0.2, 4
_POINTS = 3


def attended(
    oracle: ValueOracle, basis: Float[np.ndarray, "D d"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "d D"], Float[np.ndarray, " D"]]:
    """A and b along `basis`, for any function f(y), row by row, of y = x + F(X): x A + b for equal tokens.

    At equal tokens the softmax has no first derivative that counts: dy = dx_own + dx_1 W / k + ... + dx_k W / k with
    the sum W of the W_i. So the derivative by a token itself, less that by another one, is f' whatever the heads are;
    their sum, with all k tokens, is A f' with A = I + W. And f(y) does not change along y, up to eps, as behind a norm.
    36 d queries, and more where kinks are near.
    """
    d, k = oracle.dim, oracle.tokens or 2
    x = rng.standard_normal((_POINTS, d))
    own, equal = [], []
    directions = np.zeros((2 * d, k, d))  # the last token alone; the first
    directions[:d, -1] = directions[d:, 0] = np.eye(d)
    for token in x:
        slopes, rows, step = np.zeros((2 * d, d)), np.arange(2 * d), _STEP
        for _ in range(_ROUNDS):
            places = step * np.array([1, -1, 2, -2, 3, -3])[:, None, None, None]
            answers = oracle.ask((token + places * directions[rows]).reshape(-1, k, d))[:, -1]
            ahead, behind = np.moveaxis(answers.reshape(3, 2, len(rows), d), 1, 0)
            slopes[rows] = np.tensordot(_WEIGHTS, ahead - behind, axes=1) / step
            kink = np.tensordot([5.0, -4.0, 1.0], ahead - behind, axes=1) / step
            rows = rows[np.linalg.norm(kink, axis=1) > _KINK * np.linalg.norm(slopes[rows], axis=1)]
            step *= _SHORTER
            if not len(rows):
                break
        alone, first = slopes.reshape(2, d, d)
        own.append(alone - first)
        equal.append(alone + (k - 1) * first)
    behind = basis @ np.concatenate(own, axis=1)  # f' at all points, of rank D
    linear = np.concatenate(equal, axis=1) @ np.linalg.pinv(behind)
    along = [-(token @ linear) @ (basis @ slope) for token, slope in zip(x, own, strict=True)]
    return linear, np.linalg.lstsq(behind.T, np.concatenate(along), rcond=None)[0]
