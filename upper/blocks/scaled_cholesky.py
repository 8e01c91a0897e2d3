"""Gauss-Newton steps of parameters of very different sizes: Cholesky's factor of a normal matrix with unit diagonal."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve


@dataclass(frozen=True)
class ScaledCholesky:
    """A factorised normal matrix, used for as many steps as it is good for.

    Its unit diagonal gets a few times the rounding of the matrix: the scale of ReLU, and of a direction beside a scale,
    are not determined.
    """

    size: Float[np.ndarray, " p"]  #: the roots of the diagonal
    factor: tuple[np.ndarray, bool]

    @classmethod
    def of(cls, normal: Float[np.ndarray, "p p"]) -> "ScaledCholesky":
        """The factor of a matrix, which is overwritten."""
        size = np.sqrt(np.maximum(np.diag(normal), np.finfo(float).tiny))
        normal /= size
        normal /= size[:, None]
        normal[np.diag_indices_from(normal)] += 4 * len(size) * np.finfo(float).eps
        return cls(size, cho_factor(normal, lower=True, overwrite_a=True))

    def step(self, right: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The solution for one right side."""
        return cho_solve(self.factor, right / self.size) / self.size


def neuron_derivative(
    slope: Float[np.ndarray, "n h"], inputs: Float[np.ndarray, "n c"], basis: Float[np.ndarray, "n l"]
) -> Float[np.ndarray, "n h c"]:
    """Derivatives of all hidden units by their weights of the inputs, projected off a basis."""
    derivative = (slope[:, :, None] * inputs[:, None]).reshape(len(slope), -1)
    derivative -= basis @ (basis.T @ derivative)
    return derivative.reshape(*slope.shape, -1)


def kaufman(derivative: Float[np.ndarray, "n h c"], v: Float[np.ndarray, "h d"]) -> Float[np.ndarray, "p p"]:
    """Kaufman's normal matrix of the neurons, (D^T P D) o (v v^T)."""
    n, h, c = derivative.shape
    flat = derivative.reshape(n, -1)
    return ((flat.T @ flat).reshape(h, c, h, c) * (v @ v.T)[:, None, :, None]).reshape(h * c, -1)
