import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lower import query_lower_bound
from lower.bounds import eliminated_per_query, exact_fraction


@given(st.integers(2, 3000))
def test_a_tolerance_of_one_over_root_is_exact_whatever_its_form(root):
    tau = Fraction(1, root)
    assert eliminated_per_query(tau) == root**2 - 1
    assert eliminated_per_query(f"1/{root}") == root**2 - 1
    assert eliminated_per_query(1 / 3) == 9  # as a float it is below 1/3


@given(st.integers(1, 9999))
def test_a_float_stands_for_the_decimal_it_prints(thousandths):
    decimal = Fraction(thousandths, 10_000)
    for given_as in (thousandths / 10_000, np.float64(thousandths / 10_000), str(thousandths / 10_000)):
        assert eliminated_per_query(given_as) == math.ceil(1 / decimal**2) - 1


@given(
    st.integers(1, 50),
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
    st.fractions(0, 3),
    st.fractions(Fraction(1, 50), 1),
)
def test_no_number_of_queries_is_enough_where_none_rules_out_a_target(targets, tau, eigenvalue, success):
    bound = query_lower_bound(targets, tau, success=success, eigenvalue=eigenvalue)
    if success * targets <= 1:  # a guess is right often enough
        assert bound == 0
    elif eigenvalue <= tau**2:  # no answer is off by more than the tolerance
        assert bound == math.inf
    else:  # `bound` queries rule out enough, and one less do not
        most = min(targets, math.ceil(eigenvalue / tau**2) - 1)
        assert most * (bound - 1) < success * targets - 1 <= most * bound


@pytest.mark.bad_input  # they are no floats by type
def test_numbers_of_numpy_are_read_as_they_print_and_truth_values_are_none():
    assert exact_fraction("x", np.float64(0.1)) == exact_fraction("x", 0.1) == Fraction(1, 10)
    assert exact_fraction("x", np.float16(0.5)) == exact_fraction("x", np.float32(0.5)) == Fraction(1, 2)
    for value in (Decimal("1e-999999999"), True, np.bool_(True)):
        with pytest.raises(ValueError, match=r"needed|exponents of up to 999"):
            exact_fraction("x", value)
