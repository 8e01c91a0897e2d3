"""Neurons along a great circle whose sinusoids are known up to size and offset: act'' tells both."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.feed_forward import Activation
from upper.blocks.profiles import curvature


@dataclass(frozen=True)
class _Search:
    """The grid of starts, in root mean squares of the argument, and the descent; right fits have 3e-4 or less."""

    sizes: tuple[float, float, int] = (0.1, 5.0, 32)
    offsets: tuple[float, float, int] = (-5.0, 5.0, 81)
    starts: int = 10  #: least minima of the grid
    steps: int = 40
    longest: float = 1.0  #: of a step
    difference: float = 1e-4


_SEARCH = _Search()


def fit_waves(
    name: Activation, profiles: Float[np.ndarray, "h p"], waves: Float[np.ndarray, "h p"]
) -> tuple[Float[np.ndarray, " h"], Float[np.ndarray, " h"], Float[np.ndarray, " h"]]:
    """Sizes s and offsets a for which act''(s wave + a) is the profile up to a factor; and the misfits, relative to it.

    Levenberg-Marquardt with the factor eliminated, from the minima of a grid. A profile that is not finite, as where
    directions are wrong, has an infinite misfit.
    """
    with np.errstate(all="ignore"):
        root = np.sqrt(np.mean(waves**2, axis=1))
        wave = waves / root[:, None]
        y = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
    by = _SEARCH
    sizes, offsets = np.geomspace(*by.sizes), np.linspace(*by.offsets)
    grid = np.stack(np.meshgrid(sizes, offsets, indexing="ij"), axis=-1).reshape(-1, 2)
    best, least = np.zeros((len(y), 2)), np.full(len(y), np.inf)
    for j in np.flatnonzero(np.isfinite(y).all(axis=1) & np.isfinite(wave).all(axis=1)):
        cost = np.sum(_unexplained(name, grid, wave[j], y[j])[0] ** 2, axis=1)
        start = grid[_minima(cost.reshape(len(sizes), -1))[: by.starts]]
        best[j], least[j] = _descend(name, start, wave[j], y[j])
    return best[:, 0] / root, best[:, 1], least


def _minima(cost: Float[np.ndarray, "s o"]) -> np.ndarray:
    """The places of local minima, the least first."""
    wide = np.pad(cost, 1, constant_values=np.inf)
    around = [wide[1 + i : wide.shape[0] - 1 + i, 1:-1] for i in (-1, 1)]
    around += [wide[1:-1, 1 + i : wide.shape[1] - 1 + i] for i in (-1, 1)]
    places = np.flatnonzero(cost <= np.min(around, axis=0))
    return places[np.argsort(cost.ravel()[places])]


def _unexplained(
    name: Activation, parameters: np.ndarray, wave: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    t = parameters[:, :1] * wave + parameters[:, 1:]
    bend = curvature(name, t)
    # squares of smaller numbers are 0
    size = np.maximum(np.linalg.norm(bend, axis=1, keepdims=True), np.sqrt(np.finfo(float).tiny))
    unit = bend / size
    factor = unit @ y[:, None]
    return y - factor * unit, t, unit, size, factor


def _descend(
    name: Activation, p: np.ndarray, wave: np.ndarray, y: np.ndarray
) -> tuple[Float[np.ndarray, " 2"], float]:
    state = _unexplained(name, p, wave, y)
    cost = np.sum(state[0] ** 2, axis=1)
    damping, h = np.full(len(p), 1e-3), _SEARCH.difference
    for _ in range(_SEARCH.steps):
        rest, t, unit, size, factor = state
        third = (curvature(name, t + h) - curvature(name, t - h)) / (2 * h)
        jacobian = (factor * third / size)[:, :, None] * np.column_stack([wave, np.ones_like(wave)])
        jacobian -= unit[:, :, None] * np.sum(unit[:, :, None] * jacobian, axis=1, keepdims=True)
        normal = np.swapaxes(jacobian, 1, 2) @ jacobian
        mean = np.maximum(np.trace(normal, axis1=1, axis2=2) / 2, np.finfo(float).tiny)
        normal += (damping * mean)[:, None, None] * np.eye(2)
        step = np.linalg.solve(normal, np.sum(jacobian * rest[:, :, None], axis=1)[..., None])[..., 0]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        step *= np.minimum(1, _SEARCH.longest / np.maximum(length, np.finfo(float).tiny))
        new = _unexplained(name, p + step, wave, y)
        new_cost = np.sum(new[0] ** 2, axis=1)
        better = new_cost < cost
        p = np.where(better[:, None], p + step, p)
        rest, t, unit, size, factor = (
            np.where(better[:, None], a, b) for a, b in zip(new, state, strict=True)
        )
        state = rest, t, unit, size, factor
        cost = np.where(better, new_cost, cost)
        damping = np.where(better, np.maximum(damping / 4, 1e-12), np.minimum(4 * damping, 1e6))
    pick = int(cost.argmin())
    return p[pick], float(np.sqrt(cost[pick]))
