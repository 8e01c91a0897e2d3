import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs
from sq.models import CSQ, STAT, VSTAT
from sq.queries import CorrelationalQueries, GroupQuery, StatisticalQuery, statistical_means


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 6))
def test_signed_groups_have_norm_one_and_one_sign_each_half(plus, minus):
    query = GroupQuery.signed(np.arange(plus), np.arange(plus, plus + minus))
    assert query.norm == pytest.approx(1, abs=1e-15)
    assert np.sign(query.weights).tolist() == [1.0] * plus + [-1.0] * minus


def test_a_vector_of_queries_is_the_sequence_of_its_coordinates():
    vector = CorrelationalQueries(lambda x: x / 2, size=3, name="entries")
    x = BooleanInputs(2, 3).sample(5, rng=0)
    assert len(vector) == 3
    for place, one in enumerate(vector):
        np.testing.assert_array_equal(one(x), vector(x)[..., place])
    assert [one.name for one in vector] == ["entries 0", "entries 1", "entries 2"]
    np.testing.assert_array_equal(vector[-1](x), x[..., 2] / 2)


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


@pytest.mark.parametrize("wrong", [2, 4])
def test_a_family_of_queries_must_give_one_mean_a_query(wrong):
    class Family(list):
        def means(self, x, y):
            return np.zeros(wrong)

    x = BooleanInputs(2, 3).sample(5, rng=0)
    with pytest.raises(ValueError, match="one a query, 3"):
        statistical_means(Family([StatisticalQuery(lambda x, y: x[:, 0, 0])] * 3), x, x)
