"""Parallel heads with one place, whose step is a sum of sigmoids of several rates."""

import numpy as np
import scipy

from upper.value_queries.step_shape import RIGHT, SATURATED, Scalar, Shape, Step

__all__ = ["fit_parallel", "middle_of", "oddness"]

# Points of the fit, points that find the middle, and heads at most.
_POINTS, _FEWER, _MOST = 120, 80, 6
# The interval that holds the middle is divided so often, by so many points.
_CLOSER, _BETWEEN = 3, 10
# Steps that are less odd than this about their middle, relative to their size, have several places.
_ODD = 0.1


def fit_parallel(
    h: Scalar,
    delta: np.ndarray,
    centre: np.ndarray,
    along: np.ndarray,
    low: float,
    height: float,
    length: float,
) -> Step | None:
    """Parallel heads with one place, fitted by the fewest sigmoids."""

    def shares(at: np.ndarray) -> np.ndarray:
        return (h(centre + at[:, None] * along, delta) - low) / height

    at = length * np.sinh(np.linspace(-7, 7, _FEWER)) / np.sinh(7)
    share = shares(at)
    middle = middle_of(at, share)
    if oddness(at, share, middle) > _ODD:
        return None
    for _ in range(_CLOSER):  # half of the step is done at its middle
        right = int(np.clip(np.searchsorted(at, middle), 1, len(at) - 1))
        at = np.linspace(at[right - 1], at[right], _BETWEEN)
        share = shares(at)
        middle = middle_of(at, share)
    centre = centre + middle * along
    at = length * np.sinh(np.linspace(-7, 7, _POINTS)) / np.sinh(7)
    share = shares(at)
    size = max(1.0, float(np.abs(share).max()))

    def columns(rate: np.ndarray, place: float) -> np.ndarray:
        return scipy.special.expit(np.multiply.outer(at - place, rate) * (SATURATED / length))

    def heights(rate: np.ndarray, place: float) -> tuple[np.ndarray, float]:
        table = columns(rate, place)
        found = np.linalg.lstsq(table, share, rcond=1e-15)[0]
        return found, float(np.abs(table @ found - share).max())

    def of(unknown: np.ndarray) -> tuple[np.ndarray, float]:
        return np.exp(np.clip(unknown[:-1], -30, 30)), unknown[-1] * length

    def residual(unknown: np.ndarray) -> np.ndarray:
        rate, place = of(unknown)
        return (columns(rate, place) @ heights(rate, place)[0] - share) / size

    def jacobian(unknown: np.ndarray) -> np.ndarray:
        rate, place = of(unknown)
        step = columns(rate, place)
        bend = step * (1 - step) * heights(rate, place)[0] * rate * SATURATED
        changes = np.column_stack([bend * (at[:, None] - place) / length, -bend.sum(axis=1)]) / size
        # heights follow the rates: what they can make up for is no change
        q = np.linalg.qr(step)[0]
        return changes - q @ (q.T @ changes)

    grid = 2.0 ** np.arange(-1, 9, 0.5)
    best: list[np.ndarray] = []
    for m in range(1, _MOST + 1):
        starts = [
            np.geomspace(low, high, m) for low in grid[::2] for high in grid[::2] if high > low or m == 1
        ]
        starts += [np.append(rates, rate) for rates in best for rate in grid]
        ranked = sorted(starts, key=lambda rates: heights(rates, 0.0)[1])[:4]
        results = []
        for rates in ranked:
            start = np.append(np.log(rates), 0.0)
            fit = scipy.optimize.least_squares(
                residual,
                start,
                jacobian,
                method="lm",
                x_scale="jac",
                ftol=1e-15,
                xtol=1e-15,
                gtol=1e-15,
                max_nfev=100,
            )
            results.append((float(np.abs(fit.fun).max()), fit.x))
            if results[-1][0] < RIGHT:
                break
        results.sort(key=lambda result: result[0])
        error, unknown = results[0]
        sizes, _ = heights(*of(unknown))
        rate = of(unknown)[0] * SATURATED / length
        noise = RIGHT * (1 + 1e-3 * float(np.linalg.norm(centre)) * rate.max())
        if error < noise:
            shape = Shape.of(sizes / sizes.sum(), rate / rate.max())
            return Step(shape, centre + unknown[-1] * length * along, along, float(rate.max()), height)
        best = [of(result[1])[0] for result in results[:2]]
    return None


def oddness(at: np.ndarray, share: np.ndarray, middle: float) -> float:
    """By how much a step is not odd about its middle, relative to its size."""
    odd = np.interp(2 * middle - at, at, share) + share - 1
    return float(np.abs(odd).max() / np.abs(share).max())


def middle_of(at: np.ndarray, share: np.ndarray) -> float:
    """The place about which the step is odd, among those where half of it is done."""
    left = np.flatnonzero((share[:-1] - 0.5) * (share[1:] - 0.5) < 0)
    if not len(left):
        return float(at[np.argmin(np.abs(share - 0.5))])
    places = at[left] + np.diff(at)[left] * (0.5 - share[left]) / (share[left + 1] - share[left])
    away = at - places[:, None]
    mirrored = np.interp(places[:, None] - away, at, share)
    return float(places[np.argmin(np.max(np.abs(mirrored + share - 1), axis=1))])
