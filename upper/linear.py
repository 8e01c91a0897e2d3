"""The linear part of labels: least squares of each output row on its own token and on the mean token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Shaped

from attention._arrays import as_floating, namespace

__all__ = ["LinearPredictor", "linear_part"]


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """The predictor Y_a = x_a U + (mean of the tokens) V.

    Parameters
    ----------
    own, mean : array (d, d)
        U and V.
    """

    own: Float[np.ndarray, "d d"]
    mean: Float[np.ndarray, "d d"]

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The predicted labels, in the array type of `x`."""
        xp = namespace(x)
        if x.ndim < 2 or x.shape[-1] != len(self.own) or x.shape[-2] < 1:
            raise ValueError(f"x has shape {tuple(x.shape)}: (..., k, {len(self.own)}) is needed.")
        x = as_floating(x, xp.asarray(0.0).dtype, xp) if not xp.isdtype(x.dtype, "real floating") else x
        own, mean = (xp.asarray(u, dtype=x.dtype) for u in (self.own, self.mean))
        return xp.matmul(x, own) + xp.matmul(xp.mean(x, axis=-2, keepdims=True), mean)


def linear_part(x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> tuple[LinearPredictor, int]:
    """The least-squares `LinearPredictor` of minimum norm, and the rank of its features; O(n k d^2 + d^3)."""
    n, k, d = x.shape
    mean = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
    features = np.concatenate([x, mean], axis=2).reshape(n * k, 2 * d)
    # with minimum norm, one token (own = mean) needs no special case
    solution, _, rank, _ = scipy.linalg.lstsq(features, y.reshape(n * k, d), lapack_driver="gelsd")
    return LinearPredictor(own=solution[:d], mean=solution[d:]), int(rank)
