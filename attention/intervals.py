"""Confidence intervals: each covers the true number with a stated probability."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from attention.validation import NonNegativeInt, PositiveInt, Real, checked

__all__ = ["Interval", "mean_interval", "median_interval", "proportion_interval", "slope_interval"]

Confidence = Annotated[float, Real(above=0, below=1)]


@dataclass(frozen=True)
@checked
class Interval:
    """An interval around an estimate."""

    low: float  #: its lower end
    estimate: float  #: the estimate
    high: float  #: its upper end
    confidence: Confidence  #: the probability with which it covers the true number
    method: str  #: how it was made, which decides whether the probability is exact or approximate


@checked
def mean_interval(
    values: Float[np.ndarray, " n"] | Sequence[float], *, confidence: Confidence = 0.999
) -> Interval:
    """The mean of two or more independent draws, by Student's t: exact for normal values, else approximate."""
    from scipy.special import stdtrit

    array = _at_least(2, "values", values)
    mean, error = float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size))
    half = error * float(stdtrit(array.size - 1, (1 + confidence) / 2))
    return Interval(mean - half, mean, mean + half, confidence, "Student's t")


@checked
def proportion_interval(
    successes: NonNegativeInt, trials: PositiveInt, *, confidence: Confidence = 0.999
) -> Interval:
    """A probability from `successes` in `trials`, by Clopper and Pearson; coverage is at least `confidence`."""
    from scipy.special import betaincinv

    if successes > trials:
        raise ValueError(
            f"successes is {successes} of {trials} trials: at most the number of trials is possible."
        )
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return Interval(low, successes / trials, high, confidence, "Clopper-Pearson")


@checked
def median_interval(
    values: Float[np.ndarray, " n"] | Sequence[float], *, confidence: Confidence = 0.999
) -> Interval:
    """The median, between two order statistics; coverage is at least `confidence`.

    A ValueError if there are too few values for the confidence.
    """
    from scipy.special import bdtr

    array = np.sort(values)
    tail = (1 - confidence) / 2
    place = -1
    while place + 1 < array.size // 2 and float(bdtr(place + 1, array.size, 0.5)) <= tail:
        place += 1
    if place < 0:
        raise ValueError(
            f"{array.size} values do not bound a median with confidence {confidence}: more are needed."
        )
    low, high = float(array[place]), float(array[array.size - 1 - place])
    return Interval(low, float(np.median(array)), high, confidence, "order statistics")


@checked
def slope_interval(
    x: Float[np.ndarray, " n"] | Sequence[float],
    y: Float[np.ndarray, " n"] | Sequence[float],
    *,
    confidence: Confidence = 0.999,
) -> Interval:
    """The slope of the least-squares line, by Student's t: exact for normal errors of one variance, else approximate.

    At least three values of x are needed, and they must not all be equal. To estimate an exponent, give the
    logarithms of both.
    """
    from scipy.special import stdtrit

    places, heights = _at_least(3, "x", x), _at_least(3, "y", y)
    if np.ptp(places) == 0:
        raise ValueError("A slope of y over x needs entries of x that differ.")
    centred = places - places.mean()
    slope = float(centred @ heights / (centred @ centred))
    left = heights - heights.mean() - slope * centred
    error = math.sqrt(float(left @ left) / (places.size - 2) / float(centred @ centred))
    half = error * float(stdtrit(places.size - 2, (1 + confidence) / 2))
    return Interval(slope - half, slope, slope + half, confidence, "least-squares line, Student's t")


def _at_least(fewest: int, name: str, values: Any) -> np.ndarray:
    if len(values) < fewest:
        raise ValueError(f"{name} has {len(values)} numbers: {fewest} or more are needed.")
    return np.asarray(values)
