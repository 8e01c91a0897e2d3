"""Gradient descent and Adam on all examples at once, with the distance between the two heads at every step."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from upper._squared_error import squared_error_gradient

__all__ = ["Descent", "Optimiser", "descend", "halves", "head_distance"]

Optimiser = Literal["gradient descent", "Adam"]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, eq=False)
class Descent:
    """A run of two heads.

    Attributes
    ----------
    distances : array (steps + 1,)
        |p_1 - p_2| / sqrt(|p_1|^2 + |p_2|^2), p_i all parameters of head i: 0 for equal heads, 1 for orthogonal
        ones.
    coordinates : array (steps + 1,)
        Half the difference of the heads along the direction given; empty without one.
    errors : array (steps,)
        Relative error on the examples before each step.
    theta, w : array
        The stacked parameters at the end.
    """

    distances: Float[np.ndarray, " s1"]
    coordinates: Float[np.ndarray, " c"]
    errors: Float[np.ndarray, " s"]
    theta: Float[np.ndarray, "d md"]
    w: Float[np.ndarray, "md d"]

    def breaking(self, distance: float) -> int | None:
        """The first step at which the heads are that far apart; None if they never are."""
        there = np.flatnonzero(self.distances >= distance)
        return int(there[0]) if there.size else None


def descend(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "d md"],
    w: Float[np.ndarray, "md d"],
    *,
    optimiser: Optimiser,
    rate: float,
    steps: int,
    stop: float = np.inf,
    towards: Float[np.ndarray, " p"] | None = None,
) -> Descent:
    """Descend on half the mean squared error of an example from stacked parameters of two heads.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, all of them in every step.
    theta, w : array
        The start.
    optimiser : "gradient descent" or "Adam"
        Adam with the usual decays .9 and .999 and epsilon 1e-8.
    rate : float
        Size of the steps, constant.
    steps : int
        At most so many.
    stop : float
        Stop when the heads are that far apart.
    towards : array (2 d^2,), optional
        A direction (a, b) of length 1 in the parameters of one head.
    """
    parameters = [theta.copy(), w.copy()]
    means = [[np.zeros_like(part) for part in parameters] for _ in range(2)]
    unit = float(np.linalg.norm(y))
    distances, coordinates, errors = [head_distance(*parameters)], [], []
    for step in range(1, steps + 1):
        if towards is not None:
            coordinates.append(_coordinate(parameters, towards))
        if distances[-1] >= stop:
            break
        residual, *gradients = squared_error_gradient(x, y, *parameters)
        errors.append(float(np.linalg.norm(residual)) / unit)
        for part, gradient, first, second in zip(parameters, gradients, *means, strict=True):
            if optimiser == "gradient descent":
                part -= rate * gradient
                continue
            first += (1 - _BETA1) * (gradient - first)
            second += (1 - _BETA2) * (gradient**2 - second)
            corrected = np.sqrt(second / (1 - _BETA2**step)) + _EPSILON
            part -= rate / (1 - _BETA1**step) * first / corrected
        distances.append(head_distance(*parameters))
    return Descent(np.array(distances), np.array(coordinates), np.array(errors), *parameters)


def head_distance(theta: Float[np.ndarray, "d md"], w: Float[np.ndarray, "md d"]) -> float:
    """How far two heads are apart, as `Descent.distances` has it."""
    first, second = halves(theta, w)
    size = float(np.sqrt(np.sum(first**2) + np.sum(second**2)))
    return float(np.linalg.norm(first - second)) / (size or 1.0)


def halves(
    theta: Float[np.ndarray, "d md"], w: Float[np.ndarray, "md d"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """All parameters of each of two heads, Theta before W."""
    d = theta.shape[0]
    first, second = (
        np.concatenate([theta[:, part].ravel(), w[part].ravel()]) for part in (slice(0, d), slice(d, 2 * d))
    )
    return first, second


def _coordinate(parameters: list[np.ndarray], towards: np.ndarray) -> float:
    first, second = halves(*parameters)
    return float((first - second) @ towards) / 2
