"""Intervals cover as often as they say."""

import numpy as np
import pytest
import scipy.stats

from attention.intervals import (
    Interval,
    bounded_mean_interval,
    mean_interval,
    median_interval,
    proportion_interval,
    slope_interval,
)


def coverage(make, truth, *, repetitions=400):
    rng = np.random.default_rng(0)
    hits = sum(one.low <= truth <= one.high for one in (make(rng) for _ in range(repetitions)))
    return hits / repetitions


@pytest.mark.parametrize(
    ("make", "truth"),
    [
        (lambda rng: mean_interval(rng.normal(2, 3, 8), confidence=0.8), 2),
        (lambda rng: median_interval(rng.exponential(1, 31), confidence=0.8), np.log(2)),
        (lambda rng: proportion_interval(int(rng.binomial(40, 0.2)), 40, confidence=0.8), 0.2),
        (
            lambda rng: bounded_mean_interval(
                rng.integers(0, 2, 50).astype(float), low=0.0, high=1.0, confidence=0.8
            ),
            0.5,
        ),
        (
            lambda rng: slope_interval(
                np.arange(6.0), 3 * np.arange(6) + rng.normal(0, 1, 6), confidence=0.8
            ),
            3,
        ),
    ],
)
def test_intervals_cover_at_least_as_often_as_they_say(make, truth):
    # four in five, less four standard deviations of 400 repetitions
    assert coverage(make, truth) >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / 400)


def test_normal_means_are_covered_exactly_as_often():
    share = coverage(lambda rng: mean_interval(rng.normal(0, 1, 5), confidence=0.5), 0)
    assert abs(share - 0.5) <= 4 * np.sqrt(0.25 / 400)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (17, 400)])
def test_proportions_are_those_of_scipy(successes, trials):
    ours = proportion_interval(successes, trials, confidence=0.95)
    theirs = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_slopes_are_those_of_scipy():
    x, y = np.arange(7.0), np.array([0.1, 1.2, 1.9, 3.3, 3.8, 5.2, 6.1])
    theirs = scipy.stats.linregress(x, y)
    ours = slope_interval(x, y, confidence=0.95)
    half = theirs.stderr * scipy.stats.t.ppf(0.975, 5)
    assert (ours.low, ours.estimate, ours.high) == pytest.approx(
        (theirs.slope - half, theirs.slope, theirs.slope + half)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: mean_interval([1.0]),
        lambda: mean_interval([1.0, float("nan")]),
        lambda: median_interval([1.0, 2.0, 3.0]),
        lambda: proportion_interval(3, 2),
        lambda: proportion_interval(0, 0),
        lambda: slope_interval([1.0, 2.0], [1.0, 2.0]),
        lambda: slope_interval([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        lambda: bounded_mean_interval([2.0], low=0.0, high=1.0),
        lambda: Interval(0.0, 0.0, 0.0, 1.0, ""),
    ],
)
def test_too_few_or_wrong_values_are_refused(wrong):
    with pytest.raises(ValueError, match=r"stated|bound|need|finite"):
        wrong()
