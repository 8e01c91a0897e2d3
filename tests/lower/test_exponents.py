from fractions import Fraction

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lower.exponents import compare_exponents


@given(
    st.fractions(Fraction(1, 50), 3, max_denominator=50),
    st.fractions(0, 2, max_denominator=8),
    st.fractions(0, 4, max_denominator=8),
)
def test_exponents_are_compared_exactly(constant, kappa, t):
    found = compare_exponents(constant, tokens_exponent=kappa, tolerance_exponent=t, most_heads=30)
    assert found.heads == tuple(range(1, 31))
    # two tokens hide 2m - 1 bits, many only m
    hidden = [m if kappa else 2 * m - 1 for m in range(1, 31)]
    below = [m for m in range(1, 31) if constant * (1 + kappa) * m**3 < hidden[m - 1] - 2 * t]
    assert list(found.contradicted) == below
    assert found.least_constant == max(found.lower(m) / ((1 + kappa) * m**3) for m in found.heads)
    # the least constant is the least one
    at_least = compare_exponents(found.least_constant or 1, tokens_exponent=kappa, tolerance_exponent=t)
    assert at_least.contradicted == ()
    if found.least_constant:
        slower = compare_exponents(
            found.least_constant * Fraction(999, 1000),
            tokens_exponent=kappa,
            tolerance_exponent=t,
            most_heads=30,
        )
        assert slower.contradicted
        assert (constant < found.least_constant) == bool(below)


def test_exponents_cross_where_the_cubic_vanishes():
    found = compare_exponents("1/4", most_heads=4)
    assert found.contradicted == (1, 2)
    assert found.least_constant == 1
    first, second = found.crossings()
    for root in (first, second):
        assert abs(sympy.N(root**3 / 4 - 2 * root + 1, 30)) < 1e-25
    assert 0 < first < 1 < 2 < second < 3
    assert compare_exponents(2).crossings() == ()
    # a touch at m = 1 only: m^3 - 2m + 1 vanishes there
    assert compare_exponents(1).contradicted == ()
    assert compare_exponents(1).crossings()[-1] == 1


def test_a_finer_tolerance_lowers_the_query_bound():
    # at tau = d^-t as many queries as 1/tau are enough once 3t = 2m - 1
    found = compare_exponents("1/8", tolerance_exponent="5/3", most_heads=3)
    assert [found.lower(m) for m in (1, 2, 3)] == [0, 0, Fraction(5, 3)]
    assert [found.upper(m) for m in (1, 2, 3)] == [Fraction(1, 8), 1, Fraction(27, 8)]


def test_the_comparison_reads_well():
    said = str(compare_exponents("1/4", tokens_exponent=1, tolerance_exponent="1/2", most_heads=2))
    assert "(dk)^(1/4 m^3)" in said
    assert "d^(m-1) (k = d^1, tau = d^-1/2)" in said
    assert "held to d^(2m-1) at k = 2 as well" in said
    assert "d^(2m-1-1) (k = 2, tau = d^-1/2)" in str(compare_exponents(1, tolerance_exponent="1/2"))
    assert "below the query bound" not in said.splitlines()[2]


@pytest.mark.bad_input
def test_exponents_that_cannot_be_are_explained():
    for arguments, words in (
        ({"constant": 0}, "constant is 0"),
        ({"constant": "much"}, "constant is 'much'"),
        ({"constant": 1, "tokens_exponent": -1}, "tokens_exponent is -1"),
        ({"constant": 1, "tolerance_exponent": -0.5}, "tolerance_exponent is -0.5"),
        ({"constant": 1, "most_heads": 0}, "most_heads is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            compare_exponents(**arguments)
