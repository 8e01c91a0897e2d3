import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq.models import CSQ, STAT, VSTAT
from sq.queries import GroupQuery


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 6))
def test_signed_groups_have_norm_one_and_one_sign_each_half(plus, minus):
    query = GroupQuery.signed(np.arange(plus), np.arange(plus, plus + minus))
    assert query.norm == pytest.approx(1, abs=1e-15)
    assert np.sign(query.weights).tolist() == [1.0] * plus + [-1.0] * minus


@settings(deadline=None)
@given(st.integers(1, 1000), st.floats(0, 1))
def test_vstat_error_is_the_larger_of_one_over_n_and_the_standard_error(n, p):
    expected = max(1 / n, (p * (1 - p) / n) ** 0.5)
    assert float(VSTAT(n).errors(p)) == pytest.approx(expected, rel=1e-12)
    assert VSTAT(n).errors(p) <= max(1 / n, 1 / (2 * n**0.5)) + 1e-15


@settings(deadline=None)
@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0.01, 0.99))
def test_a_reply_is_allowed_where_it_is_within_tau(value, reply, tau):
    if abs(abs(value - reply) - tau) < 1e-9:
        return
    for model in (CSQ(tau), STAT(tau)):
        assert model.allows(np.array([value]), reply)[0] == (abs(value - reply) < tau)
