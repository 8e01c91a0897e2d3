"""Neurons along a great circle: which sinusoid in act'' has these values, up to a factor."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.ndimage import generate_binary_structure, minimum_filter

from attention.feed_forward import Activation, activation


@dataclass(frozen=True)
class _Descent:
    """How profiles are fitted; on nice blocks right fits have misfits of 2e-5 to 3e-4, and others above 1e-3."""

    right: float = 2e-4  #: a misfit below this, relative to the profile, is right
    starts: int = 24  #: random starts in a round, of which a nice neuron needs a few
    rounds: int = 8
    #: standard deviations of the starts of alpha, beta and a
    spread: tuple[float, float, float] = (1.3, 1.3, 1.5)
    #: sizes and offsets of the grid for waves, in root mean squares of the argument, and the minima that are starts
    sizes: tuple[float, float, int] = (0.1, 5.0, 32)
    offsets: tuple[float, float, int] = (-5.0, 5.0, 81)
    minima: int = 10
    steps: int = 60  #: most fits end in 20
    longest: float = 1.5  #: of a step: longer ones leave the range where act'' is not 0
    damping: float = 1e-2
    difference: float = 1e-4  #: the step of differences of act', for 1e-8 in its second derivative


_DESCENT = _Descent()


def curvature(name: Activation, t: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """act''(t), by central differences of act'."""
    h = _DESCENT.difference
    return (activation(name, t + h, derivative=True) - activation(name, t - h, derivative=True)) / (2 * h)


def fit_profiles(
    name: Activation,
    profiles: Float[np.ndarray, "h p"],
    angles: Float[np.ndarray, " p"],
    rng: np.random.Generator,
    *,
    rounds: int = _DESCENT.rounds,
) -> tuple[Float[np.ndarray, "h 3"], Float[np.ndarray, " h"]]:
    """alpha, beta and a of alpha cos + beta sin + a for each profile, and the misfit relative to the profile.

    The answer is determined up to the common sign because act'' is even or odd. Random starts are tried until the
    misfit is that of rounding.
    """
    wave = np.column_stack([np.cos(angles), np.sin(angles), np.ones_like(angles)])
    y = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
    best, least = np.zeros((len(y), 3)), np.full(len(y), np.inf)
    for _ in range(rounds):
        todo = np.flatnonzero(least > _DESCENT.right)
        if not len(todo):
            break
        start = rng.standard_normal((len(todo), _DESCENT.starts, 3)) * _DESCENT.spread
        fitted, misfit = _descend(name, start, y[todo, None], wave)
        pick = misfit.argmin(axis=1), np.arange(len(todo))
        better = misfit[pick[::-1]] < least[todo]
        best[todo[better]] = fitted[pick[::-1]][better]
        least[todo[better]] = misfit[pick[::-1]][better]
    return best, least


def fit_waves(
    name: Activation, profiles: Float[np.ndarray, "h p"], waves: Float[np.ndarray, "h p"]
) -> tuple[Float[np.ndarray, " h"], Float[np.ndarray, " h"], Float[np.ndarray, " h"]]:
    """Sizes s and offsets a for which act''(s wave + a) is the profile up to a factor; and the misfits, relative to it.

    The minima of a grid are the starts. A profile that is not finite, as where directions are wrong, has an infinite
    misfit.
    """
    with np.errstate(all="ignore"):
        root = np.sqrt(np.mean(waves**2, axis=1))
        units = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
        finite = np.isfinite(units).all(axis=1) & np.isfinite(waves / root[:, None]).all(axis=1)
    by = _DESCENT
    axes = np.meshgrid(np.geomspace(*by.sizes), np.linspace(*by.offsets), indexing="ij")
    grid = np.stack(axes, axis=-1)
    best, least = np.zeros((len(waves), 2)), np.full(len(waves), np.inf)
    for j in np.flatnonzero(finite):
        y = units[j]
        wave = np.column_stack([waves[j] / root[j], np.ones(len(y))])
        cost = np.linalg.norm(_unexplained(name, grid, y, wave)[0], axis=-1)
        minima = np.flatnonzero(cost == minimum_filter(cost, footprint=generate_binary_structure(2, 1)))
        start = minima[np.argsort(cost.ravel()[minima])][: by.minima]
        parameters, misfit = _descend(name, grid.reshape(-1, 2)[start], y, wave)
        pick = misfit.argmin()
        best[j], least[j] = parameters[pick], misfit[pick]
    return best[:, 0] / root, best[:, 1], least


def _unexplained(
    name: Activation, parameters: Float[np.ndarray, "*n c"], y: np.ndarray, wave: Float[np.ndarray, "p c"]
) -> tuple[np.ndarray, ...]:
    """What the best multiple of act'' leaves of y, and the parts of which the derivative is made."""
    t = parameters @ wave.T
    bend = curvature(name, t)
    size = np.maximum(np.linalg.norm(bend, axis=-1, keepdims=True), np.finfo(float).eps)
    factor = np.sum(bend / size * y, axis=-1, keepdims=True)
    return y - factor * bend / size, t, bend / size, size, factor


def _descend(
    name: Activation, parameters: Float[np.ndarray, "*n c"], y: np.ndarray, wave: Float[np.ndarray, "p c"]
) -> tuple[Float[np.ndarray, "*n c"], Float[np.ndarray, "*n"]]:
    """Levenberg-Marquardt on all starts at once, with Kaufman's Jacobian; parameters and misfits."""
    h, c = _DESCENT.difference, wave.shape[1]
    state = _unexplained(name, parameters, y, wave)
    cost = np.sum(state[0] ** 2, axis=-1)
    damping = np.full(cost.shape, _DESCENT.damping)
    for _ in range(_DESCENT.steps):
        rest, t, unit, size, factor = state
        slope = (curvature(name, t + h) - curvature(name, t - h)) / (2 * h)
        jacobian = (factor * slope / size)[..., None] * wave
        jacobian -= unit[..., None] * np.sum(unit[..., None] * jacobian, axis=-2, keepdims=True)
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        mean = np.maximum(np.trace(normal, axis1=-2, axis2=-1) / c, np.finfo(float).eps)
        normal += (damping * mean)[..., None, None] * np.eye(c)
        step = np.linalg.solve(normal, np.sum(jacobian * rest[..., None], axis=-2)[..., None])[..., 0]
        length = np.linalg.norm(step, axis=-1, keepdims=True)
        step *= np.minimum(1, _DESCENT.longest / np.maximum(length, np.finfo(float).eps))
        new = _unexplained(name, parameters + step, y, wave)
        new_cost = np.sum(new[0] ** 2, axis=-1)
        better = new_cost < cost
        parameters = np.where(better[..., None], parameters + step, parameters)
        state = tuple(np.where(better[..., None], a, b) for a, b in zip(new, state, strict=True))
        cost = np.where(better, new_cost, cost)
        damping = np.where(better, np.maximum(damping / 4, 1e-9), np.minimum(4 * damping, 1e6))
    return parameters, np.sqrt(cost)
