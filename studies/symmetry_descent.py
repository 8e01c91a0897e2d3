"""Gradient descent and Adam on two heads that start equal or nearly so: the escape from the saddle, and the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, BooleanInputs, make_close_heads_layer, make_nice_layer
from studies.symmetry_saddle import fitted_error, polish, symmetric_saddle
from upper.baselines.descent import random_start, squared_error_gradient, stack_heads

__all__ = [
    "ADAM_RATE",
    "GAPS",
    "Descent",
    "Optimiser",
    "descend",
    "escape",
    "halves",
    "head_distance",
    "make_target",
    "train",
]

Optimiser = Literal["gradient descent", "Adam"]

ADAM_RATE = 0.003
GAPS = (1e-8, 1e-6, 1e-4, 1e-2)
"""Distances of the heads at the start of an escape."""
_PARTED = 0.1  # heads this far apart have separated

_FLOORS = {2: 3, 4: 6}  # examples, in units of d^2 / (k (k - 1)), by k
_STOP = 0.5  # an escape is followed to this distance
_LINEAR = 0.003  # growth is measured up to this distance
_POINTS = 60  # of a stored curve
_ONE_HEAD, _EXACT = 0.9, 0.02  # of the error of one head
_POLISH = 1000
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
        Half the difference of the heads along the given direction; empty without a direction.
    theta, w : array
        The stacked parameters at the end.
    """

    distances: Float[np.ndarray, " s1"]
    coordinates: Float[np.ndarray, " c"]
    theta: Float[np.ndarray, "d md"]
    w: Float[np.ndarray, "md d"]

    def breaking(self, distance: float) -> int | None:
        """The first step at which the heads have this distance; None if they never have."""
        there = np.flatnonzero(self.distances >= distance)
        return int(there[0]) if there.size else None


def make_target(
    target: str, tokens: int, dim: int, rng: np.random.Generator
) -> tuple[AttentionLayer, np.ndarray, np.ndarray]:
    """A layer of two heads, "nice" or of close heads at the distance that `target` says, and its examples."""
    if target == "nice":
        layer = make_nice_layer(heads=2, dim=dim, rng=rng)
    else:
        layer = make_close_heads_layer(heads=2, dim=dim, gap=float(target), rng=rng)
    n = _FLOORS[tokens] * dim * dim // (tokens * (tokens - 1))
    x = BooleanInputs(tokens, dim).sample(n, rng=rng)
    return layer, x, layer(x)


def escape(
    x: np.ndarray,
    y: np.ndarray,
    *,
    optimiser: Optimiser,
    rate: float,
    steps: int,
    rng: np.random.Generator,
) -> Mapping[str, Any]:
    """Start at the best single head, split into halves that differ slightly; follow them until they separate.

    Notes
    -----
    Gradient descent of step eta multiplies the coordinate along the unstable direction, of eigenvalue -lambda, by
    1 + eta lambda per step while the heads are near. So from a coordinate c the heads are at a distance D after
    ln(D |p| / (sqrt(2) |c|)) / ln(1 + eta lambda) steps, p all parameters of one head. Derived here.
    """
    saddle = symmetric_saddle(x, y, rng=rng)
    curvature, direction = saddle.unstable
    size = float(np.sqrt(np.sum(saddle.theta**2) + np.sum(saddle.w**2)))
    plain = optimiser == "gradient descent"
    eta = rate / saddle.largest_curvature if plain else rate
    growth = float(np.log1p(-eta * curvature))
    apart = rng.standard_normal(direction.size)
    apart *= size / np.sqrt(2) / np.linalg.norm(apart)
    found: dict[str, list[Any]] = {"breaking": [], "predicted": [], "growths": [], "curves": []}
    for gap in GAPS:
        a, b = (gap * apart).reshape(2, *saddle.theta.shape)
        start = stack_heads(
            np.stack([saddle.theta + a, saddle.theta - a]), np.stack([saddle.w + b, saddle.w - b])
        )
        run = descend(x, y, *start, optimiser=optimiser, rate=eta, steps=steps, stop=_STOP, towards=direction)
        first = abs(float(run.coordinates[0]))
        parted = run.breaking(_PARTED)
        found["breaking"].append(None if parted is None else float(parted))
        found["predicted"].append(
            float(np.log(_PARTED * size / np.sqrt(2) / first)) / growth if plain and curvature < 0 else None
        )
        found["growths"].append(_growth(run.distances, run.coordinates))
        places = np.unique(np.linspace(0, len(run.distances) - 1, _POINTS).astype(int))
        found["curves"].append([places.tolist(), run.distances[places].tolist()])
    equal = stack_heads(np.stack([saddle.theta] * 2), np.stack([saddle.w] * 2))
    never = descend(x, y, *equal, optimiser=optimiser, rate=eta, steps=steps // 20)
    return {
        "one_head_error": saddle.error,
        "gradient_left": saddle.gradient,
        "curvature": curvature,
        "largest_curvature": saddle.largest_curvature,
        "eta": eta,
        "growth_predicted": growth if plain else None,
        "equal_distance": float(never.distances.max()),
        **found,
    }


def train(
    x: np.ndarray,
    y: np.ndarray,
    *,
    optimiser: Optimiser,
    rate: float,
    steps: int,
    gap: float,
    rng: np.random.Generator,
) -> Mapping[str, Any]:
    """Start at random heads; the second mixes the first head with an independent one, whose share is `gap`.

    Notes
    -----
    If the final error is at least nine tenths of that of the best single head, the end is "one head". Otherwise
    L-BFGS continues to the minimum, only to identify it: "exact" if its error is at most a fiftieth of that of a single
    head, else "elsewhere".
    """
    saddle = symmetric_saddle(x, y, rng=rng)
    eta = rate / saddle.largest_curvature if optimiser == "gradient descent" else rate
    d = x.shape[-1]
    (theta, w), (own_theta, own_w) = random_start(1, d, rng), random_start(1, d, rng)
    kept = float(np.sqrt((1 - gap) * (1 + gap)))
    start = stack_heads(
        np.stack([theta, kept * theta + gap * own_theta]), np.stack([w, kept * w + gap * own_w])
    )
    run = descend(x, y, *start, optimiser=optimiser, rate=eta, steps=steps)
    error = fitted_error(x, y, run.theta, run.w)
    polished = None
    if not error < _ONE_HEAD * saddle.error:
        end = "one head"
    else:
        theta, w, _ = polish(x, y, run.theta, run.w, iterations=_POLISH)
        polished = fitted_error(x, y, theta, w)
        end = "exact" if polished <= _EXACT * saddle.error else "elsewhere"
    return {
        "one_head_error": saddle.error,
        "error": error,
        "polished_error": polished,
        "parted": run.breaking(_PARTED),
        "distance": float(run.distances[-1]),
        "end": end,
    }


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
    """Minimise half the mean squared error per example from stacked parameters of two heads.

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
        The largest number of steps.
    stop : float
        Stop when the heads have this distance.
    towards : array (2 d^2,), optional
        A direction (a, b) of length 1 in the parameters of one head.
    """
    parameters = [theta.copy(), w.copy()]
    means = [[np.zeros_like(part) for part in parameters] for _ in range(2)]
    distances, coordinates = [head_distance(*parameters)], []
    for step in range(1, steps + 1):
        if towards is not None:
            coordinates.append(_coordinate(parameters, towards))
        if distances[-1] >= stop:
            break
        _, *gradients = squared_error_gradient(x, y, *parameters)
        for part, gradient, first, second in zip(parameters, gradients, *means, strict=True):
            if optimiser == "gradient descent":
                part -= rate * gradient
                continue
            first += (1 - _BETA1) * (gradient - first)
            second += (1 - _BETA2) * (gradient**2 - second)
            corrected = np.sqrt(second / (1 - _BETA2**step)) + _EPSILON
            part -= rate / (1 - _BETA1**step) * first / corrected
        distances.append(head_distance(*parameters))
    return Descent(np.array(distances), np.array(coordinates), *parameters)


def head_distance(theta: Float[np.ndarray, "d md"], w: Float[np.ndarray, "md d"]) -> float:
    """The distance of two heads, as defined in `Descent.distances`."""
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


def _growth(distances: np.ndarray, coordinates: np.ndarray) -> float | None:
    """Growth per step of the logarithm of the coordinate while the heads are near."""
    near = np.flatnonzero((distances[: len(coordinates)] < _LINEAR) & (coordinates != 0))
    if near.size < 10:
        return None
    return float(np.polyfit(near, np.log(np.abs(coordinates[near])), 1)[0])
