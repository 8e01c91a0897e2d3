"""Comparisons: what holds, what does not, and how sure each is."""

from fractions import Fraction

import numpy as np
import pytest

from attention.intervals import Interval
from paper_checks import (
    Kind,
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_least,
    may_be_at_most,
    surely_above,
    surely_below,
)

INTERVAL = Interval(0.9, 1.0, 1.2, 0.999, "made up")


@pytest.mark.parametrize(
    ("measured", "expected", "holds"),
    [
        (3, 3, True),
        (3, 4, False),
        (Fraction(1, 3), Fraction(2, 6), True),
        (np.int64(3), 3, True),
        (np.array([1, 2]), [1, 2], True),
        ((1, 2), [1, 3], False),
        (3.0, 3, True),
        (True, True, True),
    ],
)
def test_equal_holds_exact_values_only_if_they_are_equal(measured, expected, holds):
    comparison = equal("a number", measured, expected)
    assert comparison.holds is holds
    assert comparison.kind is Kind.EXACT
    assert comparison.false_alarm == 0


@pytest.mark.parametrize("value", [0.5, [1, 0.5], float("nan")])
def test_equal_refuses_floating_point_numbers(value):
    with pytest.raises(TypeError, match="compare it by close"):
        equal("a number", value, 1)


def test_close_is_absolute_plus_relative():
    assert close("x", 1.1, 1.0, absolute=0.05, relative=0.06).holds
    assert not close("x", 1.12, 1.0, absolute=0.05, relative=0.06).holds
    assert close("x", 1.0, 1.0, relative=0.05).rule == "within 5 %"
    assert close("x", 1.0, 1.0, absolute=1e-12).kind is Kind.NUMERIC


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_never_holds(value):
    assert not close("x", value, 1.0, absolute=1.0).holds
    assert not close("x", 1.0, value, absolute=1.0).holds
    assert not at_most("x", float("nan"), 1.0).holds
    assert not at_least("x", float("nan"), 1.0).holds


def test_bounds_include_themselves():
    assert at_most("x", 1.0, 1.0).holds
    assert not at_most("x", 1.0, 0.99).holds
    assert at_least("x", 1.0, 1.0).holds
    assert not at_least("x", 1.0, 1.01).holds


def test_intervals_cover_refute_and_establish():
    assert covers("x", INTERVAL, 0.9).holds
    assert not covers("x", INTERVAL, 0.89).holds
    assert covers("x", INTERVAL, 0.89, margin=0.02).holds
    assert may_be_at_most("x", INTERVAL, 0.95).holds
    assert not may_be_at_most("x", INTERVAL, 0.85).holds
    assert may_be_at_least("x", INTERVAL, 1.1).holds
    assert not may_be_at_least("x", INTERVAL, 1.3).holds
    assert surely_below("x", INTERVAL, 1.3).holds
    assert not surely_below("x", INTERVAL, 1.1).holds
    assert surely_above("x", INTERVAL, 0.8).holds
    assert not surely_above("x", INTERVAL, 1.0).holds


def test_an_intervals_alarm_is_what_its_confidence_leaves():
    comparison = covers("x", INTERVAL, 1.0)
    assert comparison.kind is Kind.STATISTICAL
    assert comparison.false_alarm == pytest.approx(0.001)
    assert "99.9 %" in comparison.rule
