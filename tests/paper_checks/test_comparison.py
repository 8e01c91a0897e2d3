"""Comparisons: what holds, what does not, and how sure each is."""

from fractions import Fraction

import numpy as np
import pytest

from paper_checks import (
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_most,
    surely_above,
    surely_below,
)
from studies.intervals import Interval

INTERVAL = Interval(0.9, 1.0, 1.2, 0.999, "made up")


def test_equal_holds_exact_values_only_if_they_are_equal_and_refuses_other_numbers():
    pairs = [(3, 3), (np.int64(3), 3), (3.0, 3), (Fraction(1, 3), Fraction(2, 6)), (np.array([1, 2]), [1, 2])]
    for measured, expected in [*pairs, (True, True)]:
        comparison = equal("a number", measured, expected)
        assert (comparison.holds, comparison.false_alarm) == (True, 0)
    for measured, expected in [(3, 4), ((1, 2), [1, 3])]:
        assert not equal("a number", measured, expected).holds
    for value in (0.5, [1, 0.5], float("nan")):
        with pytest.raises(TypeError, match="compare it by close"):
            equal("a number", value, 1)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        (close("x", 1.1, 1.0, absolute=0.05, relative=0.06), True),
        (close("x", 1.12, 1.0, absolute=0.05, relative=0.06), False),
        (at_most("x", 1.0, 1.0), True),
        (at_most("x", 1.0, 0.99), False),
        (at_least("x", 1.0, 1.0), True),
        (at_least("x", 1.0, 1.01), False),
        # what is not finite never holds
        *((close("x", bad, 1.0, absolute=1.0), False) for bad in (NAN, INF)),
        *((close("x", 1.0, bad, absolute=1.0), False) for bad in (NAN, INF)),
        (at_most("x", NAN, 1.0), False),
        (at_least("x", NAN, 1.0), False),
        # from 0.9 to 1.2
        (covers("x", INTERVAL, 0.9), True),
        (covers("x", INTERVAL, 0.89), False),
        (covers("x", INTERVAL, 0.89, margin=0.02), True),
        (may_be_at_most("x", INTERVAL, 0.95), True),
        (may_be_at_most("x", INTERVAL, 0.85), False),
        (surely_below("x", INTERVAL, 1.3), True),
        (surely_below("x", INTERVAL, 1.1), False),
        (surely_above("x", INTERVAL, 0.8), True),
        (surely_above("x", INTERVAL, 1.0), False),
    ],
)
def test_a_number_is_held_to_a_bound_with_it_and_an_interval_to_what_it_leaves_open(comparison, holds):
    assert comparison.holds is holds
