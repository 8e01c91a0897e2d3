import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import Staircase, outward_context, rounded_up


@given(st.decimals(min_value=0, max_value=10**6, allow_nan=False, places=60))
def test_rounding_outward_never_goes_below_and_at_most_one_step_above(value):
    up = rounded_up(value, positive=False)
    assert Decimal(up) >= value
    assert up <= math.nextafter(float(value), math.inf) * (1 + 1e-15)


def test_positive_numbers_stay_positive_however_small():
    assert rounded_up(Decimal("1e-434"), positive=True) == math.nextafter(0.0, 1.0)
    assert rounded_up(Decimal(0), positive=True) > 0
    assert rounded_up(Decimal(0), positive=False) == 0


def supremum(stairs):
    """The error of the layer on forms of 0 and 1, to 400 digits, on the numbers that it stores."""
    theta, w = stairs.layer().theta, stairs.layer().w
    largest = Decimal(0)
    with localcontext(outward_context(400)):
        for n in stairs.reachable():
            off = Decimal(0)
            for head in range(stairs.heads):
                z = Decimal(float(theta[head, 1, 1])) * int(n) + Decimal(float(theta[head, 0, 0]))
                c = Decimal(float(w[head, 0, 0]))
                grown = (2 * z).exp()
                sign = 1 if n > stairs.thresholds[head] else -1
                off += c * ((grown - 1) / (grown + 1) - sign)
            largest = max(largest, abs(off))
    return largest


@given(
    thresholds=st.sets(st.integers(-2, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
    beta=st.floats(0.05, 60),
    one_slope=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_staircase_errors_and_bounds_are_at_least_the_supremum_of_the_stored_layer(
    thresholds, seed, beta, one_slope
):
    rng = np.random.default_rng(seed)
    m = len(thresholds)
    stairs = Staircase(
        form=np.array([0, 1, 1]),
        thresholds=np.array(sorted(thresholds)) + 0.5,
        coefficients=rng.uniform(-2, 2, m),
        slopes=beta if one_slope else beta * rng.uniform(0.5, 1, m),
    )
    exact = supremum(stairs)
    assert Decimal(stairs.error()) >= exact
    assert Decimal(stairs.error_bound().value) >= exact
    assert stairs.error() <= float(exact) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("slopes", [500.0, 1000.0, 1e6, 1e20, 1e300, np.array([1000.0, 2000.0])])
def test_an_error_too_small_for_a_float_is_not_zero(slopes):
    stairs = Staircase(
        form=np.array([0, 1]),
        thresholds=np.array([0.5, -0.5]),
        coefficients=np.array([1.0, 1.0]),
        slopes=slopes,
    )
    assert stairs.error() > 0
    assert stairs.error_bound().value > 0
    nothing = Staircase(
        form=np.array([0, 1]), thresholds=np.array([0.5]), coefficients=np.array([0.0]), slopes=40.0
    )
    assert nothing.error() == nothing.error_bound().value == 0


def test_a_slope_near_zero_has_a_bound_near_infinity_and_no_division_by_zero():
    stairs = Staircase(
        form=np.array([0, 1]), thresholds=np.array([0.5]), coefficients=np.array([1.0]), slopes=1e-300
    )
    assert stairs.error_bound().value >= 2 / 1e-300
