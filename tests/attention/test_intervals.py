"""Intervals cover as often as they say."""

import numpy as np
import pytest
import scipy.stats

from attention.intervals import Interval, mean_interval, median_interval, proportion_interval, slope_interval

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
    hits = sum(one.low <= truth <= one.high for one in (make(rng) for _ in range(400)))
    # four in five, less four standard deviations of 400 repetitions
    assert hits / 400 >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / 400)


def test_intervals_are_those_of_scipy():
    for successes, trials in [(0, 10), (3, 10), (10, 10), (17, 400)]:
        ours = proportion_interval(successes, trials, confidence=0.95)
        theirs = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    y = np.array([0.1, 1.2, 1.9, 3.3, 3.8, 5.2])
    line, ours = scipy.stats.linregress(PLACES, y), slope_interval(PLACES, y, confidence=0.95)
    half = line.stderr * scipy.stats.t.ppf(0.975, 4)
    assert (ours.low, ours.high) == pytest.approx((line.slope - half, line.slope + half))
    mean = mean_interval(y, confidence=0.95)
    wanted = scipy.stats.t.interval(0.95, 5, loc=y.mean(), scale=scipy.stats.sem(y))
    assert (mean.low, mean.high) == pytest.approx(wanted)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: mean_interval([1.0]),
        lambda: median_interval([1.0, 2.0, 3.0]),
        lambda: proportion_interval(3, 2),
        lambda: slope_interval([1.0, 2.0], [1.0, 2.0]),
        lambda: slope_interval([1.0, 2.0, 3.0], [1.0, 2.0]),
        lambda: slope_interval([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        lambda: Interval(0.0, 0.0, 0.0, 1.0, ""),
    ],
)
def test_too_few_or_wrong_values_are_refused(wrong):
    with pytest.raises(ValueError, match=r"bound|need|possible"):
        wrong()
