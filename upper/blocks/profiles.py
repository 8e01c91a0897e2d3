"""Neurons along a great circle: which sinusoid alpha cos + beta sin + a has these values of act'', up to a factor."""

import numpy as np
from jaxtyping import Float

from attention.feed_forward import Activation, activation

# Random starts in a round and rounds at most; a misfit below this, relative to the profile, is right.
_STARTS, ROUNDS, _RIGHT = 24, 8, 2e-4
_STEPS, _LONGEST, _DAMPING = 60, 1.5, 1e-2
# Standard deviations of the starts of alpha and beta, and of a
_SPREAD = (1.3, 1.3, 0.7)
# Step of the differences that give act'' and its derivative
_STEP = 1e-4


def curvature(name: Activation, t: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """act''(t), by central differences of act'."""
    return (activation(name, t + _STEP, derivative=True) - activation(name, t - _STEP, derivative=True)) / (
        2 * _STEP
    )


def fit_profiles(
    name: Activation,
    profiles: Float[np.ndarray, "h p"],
    angles: Float[np.ndarray, " p"],
    rng: np.random.Generator,
    *,
    rounds: int = ROUNDS,
) -> tuple[Float[np.ndarray, "h 3"], Float[np.ndarray, " h"]]:
    """alpha, beta and a for each profile, up to their common sign, and the misfit relative to the profile.

    Levenberg-Marquardt with the factor eliminated, from random starts until the misfit is that of rounding. The
    answer is determined up to sign because act'' is even or odd.
    """
    wave = np.column_stack([np.cos(angles), np.sin(angles), np.ones_like(angles)])
    y = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
    best, least = np.zeros((len(y), 3)), np.full(len(y), np.inf)
    for _ in range(rounds):
        todo = np.flatnonzero(least > _RIGHT)
        if not len(todo):
            break
        start = rng.standard_normal((len(todo), _STARTS, 3)) * _SPREAD
        fitted, misfit = _descend(name, start, y[todo, None], wave)
        pick = misfit.argmin(axis=1), np.arange(len(todo))
        better = misfit[pick[::-1]] < least[todo]
        best[todo[better]] = fitted[pick[::-1]][better]
        least[todo[better]] = misfit[pick[::-1]][better]
    return best, least


def _descend(
    name: Activation, parameters: np.ndarray, y: np.ndarray, wave: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt on all starts at once, with Kaufman's Jacobian; parameters and misfits."""

    def residual(parameters: np.ndarray) -> tuple[np.ndarray, ...]:
        t = parameters @ wave.T
        bend = curvature(name, t)
        size = np.maximum(np.linalg.norm(bend, axis=-1, keepdims=True), np.finfo(float).eps)
        factor = np.sum(bend / size * y, axis=-1, keepdims=True)
        return y - factor * bend / size, t, bend / size, size, factor

    state = residual(parameters)
    cost = np.sum(state[0] ** 2, axis=-1)
    damping = np.full(cost.shape, _DAMPING)
    for _ in range(_STEPS):
        rest, t, unit, size, factor = state
        slope = (curvature(name, t + _STEP) - curvature(name, t - _STEP)) / (2 * _STEP)
        jacobian = (factor * slope / size)[..., None] * wave
        jacobian -= unit[..., None] * np.sum(unit[..., None] * jacobian, axis=-2, keepdims=True)
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        mean = np.maximum(np.trace(normal, axis1=-2, axis2=-1) / 3, np.finfo(float).eps)
        normal += (damping * mean)[..., None, None] * np.eye(3)
        step = np.linalg.solve(normal, np.sum(jacobian * rest[..., None], axis=-2)[..., None])[..., 0]
        length = np.linalg.norm(step, axis=-1, keepdims=True)
        step *= np.minimum(1, _LONGEST / np.maximum(length, np.finfo(float).eps))
        new = residual(parameters + step)
        new_cost = np.sum(new[0] ** 2, axis=-1)
        better = new_cost < cost
        parameters = np.where(better[..., None], parameters + step, parameters)
        state = tuple(np.where(better[..., None], a, b) for a, b in zip(new, state, strict=True))
        cost = np.where(better, new_cost, cost)
        damping = np.where(better, np.maximum(damping / 4, 1e-9), np.minimum(4 * damping, 1e6))
    return parameters, np.sqrt(cost)
