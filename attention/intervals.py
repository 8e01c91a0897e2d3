"""Intervals that cover the true number with a stated chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from attention._arrays import shown
from attention.validation import count, finite_number, real_array

__all__ = [
    "Interval",
    "bounded_mean_interval",
    "mean_interval",
    "median_interval",
    "proportion_interval",
    "slope_interval",
]


@dataclass(frozen=True)
class Interval:
    """An interval around an estimate.

    Attributes
    ----------
    low, estimate, high : float
        Its ends and the estimate.
    confidence : float
        The chance with which it covers the true number.
    method : str
        How it was made, and whether the chance is exact or approximate.
    """

    low: float
    estimate: float
    high: float
    confidence: float
    method: str

    def __post_init__(self) -> None:
        _share("confidence", self.confidence)


def mean_interval(values: Sequence[float] | Float[ndarray, "n"], *, confidence: float = 0.999) -> Interval:
    """The mean, by Student's t (approximate: exact for normal values).

    Parameters
    ----------
    values : sequence of float or array of shape (n,)
        Independent draws, two or more.
    confidence : float
        The chance of covering.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError
        If there are fewer than two values or one is not finite.
    """
    confidence = _share("confidence", confidence)
    from scipy.special import stdtrit

    array = _checked(values, 2)
    mean, error = float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size))
    half = error * float(stdtrit(array.size - 1, (1 + confidence) / 2))
    return Interval(mean - half, mean, mean + half, confidence, "Student's t")


def bounded_mean_interval(
    values: Sequence[float] | Float[ndarray, "n"], *, low: float, high: float, confidence: float = 0.999
) -> Interval:
    """The mean of values in a known range, by Hoeffding's inequality (covers at least as often as it says).

    Parameters
    ----------
    values : sequence of float or array of shape (n,)
        Independent draws.
    low, high : float
        The range they lie in for sure.
    confidence : float
        The chance of covering.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError
        If there are no values, one is not finite, or one is out of the range.
    """
    confidence = _share("confidence", confidence)
    low, high = finite_number("low", low), finite_number("high", high)
    array = _checked(values, 1)
    if array.min() < low or array.max() > high:
        raise ValueError(
            f"values lie in [{array.min():.4g}, {array.max():.4g}]: those stated, in [{low:.4g}, {high:.4g}], are "
            "needed."
        )
    half = (high - low) * math.sqrt(math.log(2 / (1 - confidence)) / (2 * array.size))
    mean = float(array.mean())
    return Interval(mean - half, mean, mean + half, confidence, "Hoeffding")


def proportion_interval(successes: int, trials: int, *, confidence: float = 0.999) -> Interval:
    """A probability from successes in trials, by Clopper and Pearson (covers at least as often as it says).

    Raises
    ------
    ValueError
        If there are no trials, or more successes than trials.
    """
    confidence = _share("confidence", confidence)
    successes, trials = count("successes", successes, least=0), count("trials", trials)
    from scipy.special import betaincinv

    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(
            f"{successes} of {trials} was given: successes from 0 to the number of trials are needed."
        )
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return Interval(low, successes / trials, high, confidence, "Clopper-Pearson")


def median_interval(values: Sequence[float] | Float[ndarray, "n"], *, confidence: float = 0.999) -> Interval:
    """The median, between two order statistics (covers at least as often as it says).

    Raises
    ------
    ValueError
        If there are too few values for the confidence, or one is not finite.
    """
    confidence = _share("confidence", confidence)
    from scipy.special import bdtr

    array = np.sort(_checked(values, 1))
    tail = (1 - confidence) / 2
    place = -1
    while place + 1 < array.size // 2 and float(bdtr(place + 1, array.size, 0.5)) <= tail:
        place += 1
    if place < 0:
        raise ValueError(
            f"{array.size} values do not bound a median with confidence {confidence}: more are needed."
        )
    return Interval(
        float(array[place]),
        float(np.median(array)),
        float(array[array.size - 1 - place]),
        confidence,
        "order statistics",
    )


def slope_interval(
    x: Sequence[float] | Float[ndarray, "n"],
    y: Sequence[float] | Float[ndarray, "n"],
    *,
    confidence: float = 0.999,
) -> Interval:
    """The slope of the least-squares line, by Student's t (approximate: exact for normal, equal errors).

    For exponents give the logarithms of both.

    Raises
    ------
    ValueError
        If there are fewer than three places or one is not finite.
    """
    confidence = _share("confidence", confidence)
    from scipy.special import stdtrit

    places, heights = _checked(x, 3, "x"), _checked(y, 3, "y")
    if places.size != heights.size or np.ptp(places) == 0:
        raise ValueError("A slope of y over x needs as many y as x, and x that differ.")
    centred = places - places.mean()
    slope = float(centred @ heights / (centred @ centred))
    left = heights - heights.mean() - slope * centred
    error = math.sqrt(float(left @ left) / (places.size - 2) / float(centred @ centred))
    half = error * float(stdtrit(places.size - 2, (1 + confidence) / 2))
    return Interval(slope - half, slope, slope + half, confidence, "least-squares line, Student's t")


def _checked(
    values: Sequence[float] | Float[ndarray, "n"], fewest: int, name: str = "values"
) -> Float[ndarray, "n"]:
    array = real_array(name, values)
    if array.ndim != 1 or array.size < fewest:
        raise ValueError(
            f"{name} has shape {array.shape}: an interval needs {fewest} numbers or more, in one row."
        )
    return array


def _share(name: str, value: float) -> float:
    share = finite_number(name, value)
    if not 0 < share < 1:
        raise ValueError(f"{name} is {shown(value)}: a number above 0 and below 1 is needed.")
    return share
