import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs
from sq.models import CSQ, STAT, VSTAT
from sq.queries import (
    CorrelationalQueries,
    CorrelationalQuery,
    GroupQuery,
    StatisticalQuery,
    statistical_means,
)


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


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GroupQuery(np.array([1, 1]), np.ones(2)), "twice"),
        (lambda: GroupQuery(np.array([1]), np.ones(2)), "one length"),
        (lambda: GroupQuery(np.array([], dtype=int), np.ones(0)), "at least 1"),
        (lambda: GroupQuery(np.array([-1]), np.ones(1)), "number -1"),
        (lambda: GroupQuery(np.array([1]), np.array([np.nan])), "finite"),
        (lambda: GroupQuery([0.0, 1.0], [0.5, 0.5]), "numbers holds float64 such as"),
        (lambda: GroupQuery([0, 1], [0.5j, 0.5]), "are of complex128"),
        (lambda: GroupQuery.single(-1), "number is -1"),
        (lambda: GroupQuery.signed(5), r"of shape \(\) and \(0,\): vectors"),
        (lambda: CorrelationalQueries(lambda x: x, size=0), "size is 0"),
    ],
)
def test_bad_groups_are_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.bad_input
@pytest.mark.parametrize("model", [CSQ, STAT])
@pytest.mark.parametrize("tau", [0, 1, -0.1, 1.5, float("nan"), float("inf"), "much", "1e-400"])
def test_a_tolerance_outside_zero_and_one_is_refused_by_name(model, tau):
    with pytest.raises(ValueError, match="tolerance is"):
        model(tau)


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


@pytest.mark.bad_input
def test_values_that_are_no_real_numbers_of_the_right_shape_are_refused():
    x = BooleanInputs(2, 3).sample(4, rng=0)
    with pytest.raises(ValueError, match="are of complex128: real numbers"):
        CorrelationalQuery(lambda x: 1j * x[..., 0])(x)
    with pytest.raises(ValueError, match="are of complex128: real numbers"):
        statistical_means([StatisticalQuery(lambda x, y: 1j * x[:, 0, 0])], x, x)
    with pytest.raises(ValueError, match="no array"):
        CorrelationalQuery(lambda x: [[0.0], [0.0, 1.0]])(x)
    with pytest.raises(ValueError, match=r"shape \(4, 2, 3\): \(4, 2, 1\) is needed"):
        CorrelationalQueries(lambda x: x / 2, size=1)(x)
    with pytest.raises(ValueError, match=r"shape \(4, 2, 3\): \(4, 2\) is needed"):
        CorrelationalQuery(lambda x: x / 2)(x)
    assert CorrelationalQuery(lambda x: (x[..., 0] > 0).astype(np.int8))(x).dtype == np.float64
