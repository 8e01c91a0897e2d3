import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import Heads


def brute_force(x, heads):
    """The definition, one input at a time, in Python's own arithmetic."""
    out = np.zeros_like(x)
    numbers = list(zip(heads.coefficients, heads.slopes, heads.thresholds, strict=True))
    for n, (first, second) in enumerate(x):
        t = sum(int(v) for v, a, b in zip(heads.form, first, second, strict=True) if a != b)
        if heads.rows is not None:
            u = [int(a - b) // 2 for a, b in zip(first, second, strict=True)]
            t = int(first[heads.gate]) * sum(int(v) * own for v, own in zip(heads.form, u, strict=True))
        value = sum(c * math.tanh(b * (t - own)) for c, b, own in numbers)
        on_gate = first[heads.gate] != second[heads.gate]
        for r, token in enumerate((first, second)):
            out[n, r] = token[heads.gate] * (value if on_gate else sum(heads.coefficients)) * heads.direction
    return out


@st.composite
def any_heads(draw):
    d = draw(st.integers(2, 6))
    gate = draw(st.integers(0, d - 1))
    form = np.array(draw(st.lists(st.integers(-9, 9), min_size=d, max_size=d)))
    form[gate] = 0
    m = draw(st.integers(1, 4))
    numbers = st.floats(-4, 4, allow_nan=False).map(lambda c: round(c, 3))
    return Heads(
        form=form,
        thresholds=np.array(draw(st.lists(st.integers(-20, 20), min_size=m, max_size=m))) + 0.5,
        coefficients=np.array(draw(st.lists(numbers, min_size=m, max_size=m))),
        slopes=np.array(draw(st.lists(st.floats(0.05, 45), min_size=m, max_size=m))),
        direction=np.array(draw(st.lists(numbers, min_size=d, max_size=d))),
        gate=gate,
        rows=draw(st.sampled_from([None, gate])),
    )


@given(heads=any_heads(), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_layer_is_sum_c_tanh_beta_times_form_minus_threshold_on_the_gate_and_sum_c_off_it(heads, seed):
    x = 2.0 * np.random.default_rng(seed).integers(2, size=(40, 2, heads.dim)) - 1
    np.testing.assert_allclose(heads.layer()(x), brute_force(x, heads), atol=1e-11)


def stored_error(heads, c):
    """The supremum on forms of 0 and 1, to 400 digits, on the numbers that the layer stores."""
    theta, w = heads.layer().theta, heads.layer().w
    with localcontext(Context(prec=400, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        worst = abs(sum((Decimal(float(one)) for one in w[:, 0, 0]), Decimal(0)) - Decimal(c))
        for n in range(int(heads.form.sum()) + 1):
            off = Decimal(0)
            for head in range(len(heads)):
                z = Decimal(float(theta[head, 1, 1])) * n + Decimal(float(theta[head, 0, 0]))
                grown = (2 * z).exp()
                sign = 1 if n > heads.thresholds[head] else -1
                off += Decimal(float(w[head, 0, 0])) * ((grown - 1) / (grown + 1) - sign)
            worst = max(worst, abs(off))
    return worst


def limits(heads):
    """The exact limit at every value of a form of 0 and 1."""
    steps = list(zip(heads.coefficients.tolist(), heads.thresholds.tolist(), strict=True))
    return {
        n: sum((Fraction(c if n > t else -c) for c, t in steps), Fraction(0))
        for n in range(int(heads.form.sum()) + 1)
    }


@given(
    thresholds=st.sets(st.integers(-2, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
    beta=st.floats(0.05, 60),
    one_slope=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_errors_are_at_least_the_supremum_of_the_stored_layer_and_tight(thresholds, seed, beta, one_slope):
    rng = np.random.default_rng(seed)
    m = len(thresholds)
    heads = Heads(
        form=np.array([0, 1, 1]),
        thresholds=np.array(sorted(thresholds)) + 0.5,
        coefficients=rng.uniform(-2, 2, m),
        slopes=np.full(m, beta) if one_slope else beta * rng.uniform(0.5, 1, m),
    )
    c = math.fsum(heads.coefficients)
    exact, found = stored_error(heads, c), heads.error(limits(heads), c=c)
    assert exact <= Decimal(found)
    assert found <= float(exact) * (1 + 1e-15) + 1e-300
    if one_slope:
        assert found <= heads.one_slope_error() + 1e-15


@pytest.mark.parametrize("slope", [500.0, 1000.0, 1e6, 1e20, 1e300])
def test_an_error_too_small_for_a_float_is_not_zero(slope):
    heads = Heads(
        form=np.array([0, 1]),
        thresholds=np.array([0.5, -0.5]),
        coefficients=np.ones(2),
        slopes=np.full(2, slope),
    )
    assert heads.error(limits(heads), c=2.0) > 0
    assert heads.one_slope_error() > 0


def test_the_error_along_a_direction_has_its_norm_and_the_rounding_of_products():
    heads = Heads(
        form=np.array([0, 1]),
        thresholds=np.array([0.5]),
        coefficients=np.array([3.0]),
        slopes=np.ones(1),
        direction=np.array([1.2, 1.6]),
    )
    assert 1 + 6 * 2.0**-53 <= heads.along(0.5) <= 1 + 4e-15
