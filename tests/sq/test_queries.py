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
    require_norms,
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
        (lambda: GroupQuery(np.array([3, 1, 3]), np.ones(3)), "twice"),
        (lambda: GroupQuery(np.array([1]), np.ones(2)), "one length"),
        (lambda: GroupQuery(np.array([], dtype=int), np.ones(0)), "at least 1"),
        (lambda: GroupQuery(np.array([-1]), np.ones(1)), "number -1"),
        (lambda: GroupQuery(np.array([1]), np.array([np.nan])), "finite"),
        (lambda: GroupQuery([0.0, 1.0], [0.5, 0.5]), "numbers holds float64 such as"),
        (lambda: GroupQuery([10**30], [1.0]), "whole numbers"),
        (lambda: GroupQuery([0, 1], [0.5j, 0.5]), "are of complex128"),
        (lambda: GroupQuery([0, 1], ["a", "b"]), "real numbers"),
        (lambda: GroupQuery([0, 1], 0.5), "one length"),
        (lambda: GroupQuery.single(1.5), "number is 1.5: a whole number"),
        (lambda: GroupQuery.single(-1), "number is -1"),
        (lambda: GroupQuery.signed(5), r"of shape \(\) and \(0,\): vectors"),
        (lambda: CorrelationalQueries(lambda x: x, size=0), "size is 0"),
        (lambda: CorrelationalQueries(lambda x: x, size=2.5), "size is 2.5"),
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


class Family(list):
    """Queries with a product of matrices behind them."""

    low, high, name = -1.0, 1.0, "entries"
    beyond = 0.0

    def values(self, x, y):
        return x[:, 0, :2] + self.beyond

    def means(self, x, y):
        return self.values(x, y).mean(axis=0)


def test_means_of_a_family_are_those_of_its_queries_one_by_one():
    ones = [StatisticalQuery(lambda x, y, j=j: x[:, 0, j]) for j in range(2)]
    x = BooleanInputs(2, 3).sample(50, rng=0)
    np.testing.assert_allclose(
        statistical_means(Family(ones), x, x), statistical_means(ones, x, x), atol=1e-15
    )


@pytest.mark.bad_input
def test_a_family_that_leaves_its_range_is_caught_on_its_first_examples():
    family = Family([StatisticalQuery(lambda x, y: x[:, 0, 0])] * 2)
    family.beyond = 0.5
    with pytest.raises(ValueError, match=r"value 1\.5"):
        statistical_means(family, *[BooleanInputs(2, 3).sample(50, rng=0)] * 2)


def test_norms_are_checked_to_rounding_on_all_inputs_and_with_slack_on_a_sample():
    x = BooleanInputs(2, 3).sample(400, rng=0)
    half = x[..., 0] / np.sqrt(2)
    require_norms([half], name="half", sampled=False)
    with pytest.raises(ValueError, match=r"The long has norm 1\.01: "):
        require_norms([1.01 * half], name="long", sampled=False)
    gate = np.sqrt(2) * (x[:, :1, 0] > 0) * np.array([1.0, 0.0])  # norm 1, on a sample a little more or less
    require_norms([gate], name="gate", sampled=True)
    with pytest.raises(ValueError, match="on a sample"):
        require_norms([1.5 * gate], name="gate", sampled=True)


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
