"""Confidence intervals by scipy.stats, each with its estimate, its confidence and how it was made."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Values = np.ndarray | Sequence[float]


class Interval(NamedTuple):
    """An interval around an estimate, which covers the true number with a probability of `confidence`."""

    low: float
    estimate: float
    high: float
    confidence: float
    method: str  #: decides whether the probability is exact or approximate


def mean_interval(values: Values, *, confidence: float = 0.999) -> Interval:
    """The mean of two or more independent draws: exact for normal values, else approximate."""
    from scipy import stats

    mean, error = float(np.mean(values)), float(stats.sem(values))
    half = error * float(stats.t.ppf((1 + confidence) / 2, len(values) - 1))
    return Interval(mean - half, mean, mean + half, confidence, "Student's t")


def proportion_interval(successes: int, trials: int, *, confidence: float = 0.999) -> Interval:
    """A probability from `successes` in `trials`; coverage is at least `confidence`."""
    from scipy import stats

    found = stats.binomtest(int(successes), int(trials)).proportion_ci(confidence)
    return Interval(float(found.low), successes / trials, float(found.high), confidence, "Clopper-Pearson")


def median_interval(values: Values, *, confidence: float = 0.999) -> Interval:
    """The median, between two order statistics; coverage is at least `confidence`, and too few values give NaN."""
    from scipy import stats

    found = stats.quantile_test(values).confidence_interval(confidence)
    return Interval(
        float(found.low), float(np.median(values)), float(found.high), confidence, "order statistics"
    )


def slope_interval(x: Values, y: Values, *, confidence: float = 0.999) -> Interval:
    """The slope of the least-squares line: exact for normal errors of one variance, else approximate.

    To estimate an exponent, give the logarithms of both.
    """
    from scipy import stats

    line = stats.linregress(x, y)
    half = float(line.stderr * stats.t.ppf((1 + confidence) / 2, len(x) - 2))
    slope = float(line.slope)
    return Interval(slope - half, slope, slope + half, confidence, "least-squares line, Student's t")
