"""Intervals cover as often as they say: each end is held to its definition."""

import numpy as np
import pytest
from scipy import stats

from studies.intervals import mean_interval, median_interval, proportion_interval, slope_interval

PLACES = np.arange(6.0)


def test_ends_are_those_of_the_definition():
    for successes, trials in [(0, 10), (3, 10), (10, 10), (17, 400)]:
        found = proportion_interval(successes, trials, confidence=0.95)
        # at each end, so few or so many successes have the chance 1/40
        if successes:
            assert stats.binom.sf(successes - 1, trials, found.low) == pytest.approx(0.025, rel=1e-6)
        if successes < trials:
            assert stats.binom.cdf(successes, trials, found.high) == pytest.approx(0.025, rel=1e-6)
    median = median_interval(np.arange(31.0), confidence=0.95)
    assert median.low + median.high == 30
    assert stats.binom.cdf(median.low, 31, 0.5) <= 0.025 < stats.binom.cdf(median.low + 1, 31, 0.5)
    values = np.array([0.1, 1.2, 1.9, 3.3, 3.8, 5.2])
    mean = mean_interval(values, confidence=0.95)
    for end in (mean.low, mean.high):
        assert stats.ttest_1samp(values, end).pvalue == pytest.approx(0.05)
    slope = slope_interval(PLACES, values, confidence=0.95)
    for end in (slope.low, slope.high):
        assert stats.linregress(PLACES, values - end * PLACES).pvalue == pytest.approx(0.05)
