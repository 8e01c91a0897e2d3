import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import Staircase


def brute_force(x, form, thresholds, coefficients, slopes, gate, direction):
    """The definition, one input at a time, in Python's own arithmetic."""
    out = np.zeros_like(x)
    total = sum(coefficients)
    for n, (first, second) in enumerate(x):
        t = sum(int(v) for v, a, b in zip(form, first, second, strict=True) if a != b)
        value = sum(
            c * math.tanh(b * (t - own)) for c, b, own in zip(coefficients, slopes, thresholds, strict=True)
        )
        on_gate = first[gate] != second[gate]
        for r, token in enumerate((first, second)):
            out[n, r] = token[gate] * (value if on_gate else total) * direction
    return out


@st.composite
def staircases(draw):
    d = draw(st.integers(2, 6))
    gate = draw(st.integers(0, d - 1))
    form = np.array(draw(st.lists(st.integers(-9, 9), min_size=d, max_size=d)))
    form[gate] = 0
    m = draw(st.integers(1, 4))
    thresholds = np.array(draw(st.lists(st.integers(-20, 20), min_size=m, max_size=m))) + 0.5
    numbers = st.floats(-4, 4, allow_nan=False).map(lambda c: round(c, 3))
    coefficients = np.array(draw(st.lists(numbers, min_size=m, max_size=m)))
    slopes = np.array(draw(st.lists(st.floats(0.05, 45), min_size=m, max_size=m)))
    direction = np.array(draw(st.lists(numbers, min_size=d, max_size=d)))
    return Staircase(
        form=form,
        thresholds=thresholds,
        coefficients=coefficients,
        slopes=slopes,
        gate=gate,
        direction=direction,
    )


@given(stairs=staircases(), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_layer_is_sum_c_tanh_beta_times_form_minus_threshold_on_the_gate_and_sum_c_off_it(stairs, seed):
    x = 2.0 * np.random.default_rng(seed).integers(2, size=(40, 2, stairs.dim)) - 1
    expected = brute_force(
        x, stairs.form, stairs.thresholds, stairs.coefficients, stairs.slopes, stairs.gate, stairs.direction
    )
    np.testing.assert_allclose(stairs.layer()(x), expected, atol=1e-11)


@given(stairs=staircases())
@settings(max_examples=30, deadline=None)
def test_reachable_values_are_the_subset_sums(stairs):
    sums = {sum(own) for own in itertools.product(*[(0, int(v)) for v in stairs.form])}
    np.testing.assert_array_equal(stairs.reachable(), sorted(sums))


@given(stairs=staircases())
@settings(max_examples=30, deadline=None)
def test_error_is_the_supremum_over_reachable_values_and_below_its_bound(stairs):
    t = stairs.reachable()
    direct = np.abs(stairs.values(t) - stairs.limit(t)).max()
    assert stairs.error() == pytest.approx(direct, rel=1e-9, abs=1e-13)
    assert stairs.error() <= stairs.error_bound().value * (1 + 1e-12)


@given(
    thresholds=st.sets(st.integers(-6, 12), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
    beta=st.floats(0.1, 60),
)
@settings(max_examples=30, deadline=None)
def test_closed_bound_holds_and_is_nearly_attained_by_alternating_steps(thresholds, seed, beta):
    coefficients = np.random.default_rng(seed).uniform(-2, 2, len(thresholds))
    stairs = Staircase(
        form=np.array([0, 1, 2, 3, -2]),
        thresholds=np.array(sorted(thresholds)) + 0.5,
        coefficients=coefficients,
        slopes=beta,
    )
    bound = stairs.error_bound()
    closed = 4 * np.abs(coefficients).max() * math.exp(-beta) / (1 - math.exp(-2 * beta))
    assert bound.value == pytest.approx(closed, rel=1e-9)
    assert "one slope" in bound.reason
    assert stairs.error() <= bound.value * (1 + 1e-12)

    # with steps of alternating signs about an infinite comb of thresholds the bound is what the errors add up to
    comb = np.arange(-40, 40) + 0.5
    alternating = Staircase(
        form=np.array([0, 1]), thresholds=comb, coefficients=np.where(comb < 0, 1.0, -1.0), slopes=beta
    )
    tight = 4 * math.exp(-beta) / (1 - math.exp(-2 * beta)) / (1 + math.exp(-beta))
    assert 0.99 * tight <= alternating.error() <= alternating.error_bound().value * (1 + 1e-12)


def test_bound_says_when_it_enumerated():
    repeated = Staircase(
        form=np.array([0, 1, 1]),
        thresholds=np.array([0.5, 0.5]),
        coefficients=np.array([1.0, -2.0]),
        slopes=3.0,
    )
    assert "enumerated" in repeated.error_bound().reason
    assert repeated.error_bound().value == repeated.error()
    assert "enumerated" in str(repeated.error_bound())
    assert float(repeated.error_bound()) == repeated.error()


def test_error_keeps_its_digits_below_machine_precision():
    stairs = Staircase(
        form=np.array([0, 1]), thresholds=np.array([0.5]), coefficients=np.array([1.0]), slopes=40.0
    )
    assert stairs.error() == pytest.approx(2 / (math.exp(40) + 1), rel=1e-12)
    assert np.all(stairs.values(stairs.reachable()) == stairs.limit(stairs.reachable()))


def test_decimal_values_agree_with_float_ones():
    stairs = Staircase(
        form=np.array([0, 2, -1]),
        thresholds=np.array([0.5, -0.5, 1.5]),
        coefficients=np.array([0.3, -2.0, 1.1]),
        slopes=np.array([0.2, 1.0, 3.0]),
    )
    exact = stairs.decimal_values(stairs.reachable())
    np.testing.assert_allclose([float(one) for one in exact], stairs.values(stairs.reachable()), atol=1e-14)


@pytest.mark.parametrize("beta", [38.0, 40.0, 400.0])
def test_from_slope_38_on_the_float64_layer_is_the_limit_exactly(beta):
    stairs = Staircase(
        form=np.array([0, 1, 1, 1]),
        thresholds=np.array([0.5, 1.5, 2.5]),
        coefficients=np.array([-1.0, 1.0, -1.0]),
        slopes=beta,
    )
    x = np.array(list(itertools.product([-1.0, 1.0], repeat=8))).reshape(-1, 2, 4)
    t = (x[:, 0] != x[:, 1]) @ stairs.form
    on_gate = x[:, 0, 0] != x[:, 1, 0]
    value = np.where(on_gate, stairs.limit(t), -1.0)
    np.testing.assert_array_equal(stairs.layer()(x)[..., 0], x[..., 0] * value[:, None])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"form": np.array([1, 1])}, "gate"),
        ({"form": np.array([0.0, 1.0])}, "whole numbers"),
        ({"thresholds": np.array([1.0])}, "half-integers"),
        ({"thresholds": np.array([np.nan])}, "NaN"),
        ({"slopes": 0.0}, "above 0"),
        ({"slopes": np.array([1.0, 2.0])}, "slopes"),
        ({"coefficients": np.array([1.0, 2.0])}, "thresholds"),
        ({"gate": 2}, "coordinate"),
        ({"direction": np.array([1.0])}, "direction"),
        ({"coefficients": "many"}, "numbers"),
    ],
)
def test_bad_arguments_are_explained(changes, word):
    good = {
        "form": np.array([0, 1]),
        "thresholds": np.array([0.5]),
        "coefficients": np.array([1.0]),
    }
    with pytest.raises(ValueError, match=word):
        Staircase(**(good | changes))


def test_arrays_are_read_only_copies():
    form = np.array([0, 1])
    stairs = Staircase(form=form, thresholds=np.array([0.5]), coefficients=np.array([1.0]))
    form[1] = 5
    assert stairs.form[1] == 1
    with pytest.raises(ValueError, match="read-only"):
        stairs.form[1] = 2


@pytest.mark.bad_input
def test_steps_that_float64_cannot_add_up_are_refused():
    with pytest.raises(ValueError, match="coefficients have absolute values that sum to"):
        Staircase(
            form=np.array([0, 1]), thresholds=np.array([0.5, 1.5]), coefficients=np.array([1e308, 1e308])
        )


def test_slopes_beyond_all_exponents_are_saturated():
    stairs = Staircase(
        form=np.array([0, 1, 1]), thresholds=np.array([0.5]), coefficients=np.array([2.0]), slopes=1e308
    )
    assert stairs.decimal_values([0, 1, 2]) == [-2, 2, 2]
    assert stairs.values(np.array([0.0, 1e308])).tolist() == [-2, 2]
