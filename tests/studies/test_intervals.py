"""Intervals cover as often as they say."""

import numpy as np
import pytest
from scipy import stats

from studies.intervals import mean_interval, median_interval, proportion_interval, slope_interval

PLACES = np.arange(6.0)


@pytest.mark.parametrize(
    ("make", "truth"),
    [
        (lambda rng: mean_interval(rng.normal(2, 3, 8), confidence=0.8), 2),
        (lambda rng: median_interval(rng.exponential(1, 31), confidence=0.8), np.log(2)),
        (lambda rng: proportion_interval(int(rng.binomial(40, 0.2)), 40, confidence=0.8), 0.2),
        (lambda rng: slope_interval(PLACES, 3 * PLACES + rng.normal(0, 1, 6), confidence=0.8), 3),
    ],
)
def test_intervals_cover_at_least_as_often_as_they_say(make, truth):
    rng = np.random.default_rng(0)
    hits = sum(one.low <= truth <= one.high for one in (make(rng) for _ in range(200)))
    # four in five, less four standard deviations of 200 repetitions
    assert hits / 200 >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / 200)


def test_ends_are_those_of_the_definition():
    for successes, trials in [(0, 10), (3, 10), (10, 10), (17, 400)]:
        found = proportion_interval(successes, trials, confidence=0.95)
        # at each end, so few or so many successes have the chance 1/40
        if successes:
            assert stats.binom.sf(successes - 1, trials, found.low) == pytest.approx(0.025, rel=1e-6)
        if successes < trials:
            assert stats.binom.cdf(successes, trials, found.high) == pytest.approx(0.025, rel=1e-6)
    values = np.array([0.1, 1.2, 1.9, 3.3, 3.8, 5.2])
    mean = mean_interval(values, confidence=0.95)
    for end in (mean.low, mean.high):
        assert stats.ttest_1samp(values, end).pvalue == pytest.approx(0.05)
    slope = slope_interval(PLACES, values, confidence=0.95)
    for end in (slope.low, slope.high):
        assert stats.linregress(PLACES, values - end * PLACES).pvalue == pytest.approx(0.05)
