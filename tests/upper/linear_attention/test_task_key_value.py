"""Key-value memory: the construction, the ranks of its data, and what they leave open on orthonormal keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paper_checks.linear_attention.key_value import key_value_rows, rare_key_rows
from upper.linear_attention import cubic_features, regress
from upper.linear_attention.certificate import another_minimiser, certify
from upper.linear_attention.tasks.key_value import KEYS, KeyValueMemory

ORTHONORMAL = tuple(keys for keys in KEYS if keys != "gaussian")


@pytest.fixture(scope="module")
def rows():
    return {
        row.keys: row for row in key_value_rows(KEYS, examples=1500, others=5, rng=np.random.default_rng(0))
    }


def _queried(x, dk):
    """The number of the key that is queried, in each example."""
    return np.argmax(np.einsum("nik,nk->ni", x[:, :-1, :dk], x[:, -1, :dk]), axis=1)


@given(keys=st.sampled_from(ORTHONORMAL), dk=st.integers(2, 5), dv=st.integers(1, 3), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_one_head_returns_the_value_of_the_key_that_is_queried(keys, dk, dv, seed):
    x, y = KeyValueMemory(keys, dk, dv).examples(20, rng=seed)
    gram = x[:, :-1, :dk] @ x[:, :-1, :dk].transpose(0, 2, 1)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-12)
    values = x[np.arange(20), _queried(x, dk), dk:]
    np.testing.assert_allclose(y, values, atol=1e-12)
    np.testing.assert_allclose(KeyValueMemory(keys, dk, dv).model()(x), values, atol=1e-12)
    assert KeyValueMemory(keys, dk, dv).model().heads == 1


def test_on_gaussian_keys_the_head_returns_the_values_weighted_by_overlap():
    x, y = KeyValueMemory("gaussian").examples(50, rng=1)
    overlaps = np.einsum("nik,nk->ni", x[:, :-1, :4], x[:, -1, :4])
    np.testing.assert_allclose(y, np.einsum("ni,niv->nv", overlaps, x[:, :-1, 4:]), atol=1e-12)
    assert not np.allclose(y, x[np.arange(50), _queried(x, 4), 4:])


def test_haar_keys_have_no_preferred_direction():
    """Entries of a Haar matrix have mean 0 and mean square 1/dk; those of a QR factor alone do not."""
    x, _ = KeyValueMemory("haar").examples(20_000, rng=2)
    keys = x[:, :4, :4]
    assert np.all(np.abs(keys.mean(axis=0)) < 5 * 0.5 / np.sqrt(20_000))
    assert np.all(np.abs((keys**2).mean(axis=0) - 0.25) < 5 * 0.25 / np.sqrt(20_000))


@given(
    keys=st.sampled_from([keys for keys in KEYS if keys != "zipf"]),
    dk=st.integers(2, 4),
    dv=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_the_rank_of_each_distribution_is_its_closed_form(keys, dk, dv, seed):
    x, _ = KeyValueMemory(keys, dk, dv).examples(600, rng=seed)
    assert np.linalg.matrix_rank(cubic_features(x), tol=1e-8) == KeyValueMemory(keys, dk, dv).rank


def test_the_ranks_are_those_of_the_table(rows):
    wanted = {"haar": 92, "gaussian": 112, "fixed": 76, "two-keys": 108, "half-queried": 38, "plane": 55}
    assert {keys: row.rank for keys, row in rows.items() if keys != "zipf"} == wanted
    assert {keys: KeyValueMemory(keys).rank for keys in wanted} == wanted


def test_the_deficits_on_haar_keys_are_those_of_the_table(rows):
    wanted = {"haar": 0, "gaussian": 0, "fixed": 16, "two-keys": 4, "half-queried": 54, "plane": 40}
    assert {keys: row.deficit for keys, row in rows.items() if keys != "zipf"} == wanted
    assert rows["zipf"].deficit == 92 - rows["zipf"].rank


def test_minimisers_are_right_on_haar_keys_exactly_if_the_deficit_is_zero(rows):
    for row in rows.values():
        assert np.isfinite(row.factor) == (row.deficit == 0)
        assert (row.another_error < 1e-26) == (row.deficit == 0)
    # of least norm they may be right by luck: the keys' block does not occur in the labels
    for keys in ("haar", "gaussian", "fixed", "two-keys"):
        assert rows[keys].least_norm_error < 1e-26
    for keys, error in (("half-queried", 0.49), ("plane", 0.25)):
        assert abs(rows[keys].least_norm_error - error) < 0.05


def test_zipf_queries_leave_the_rarest_key_open():
    """Of 4000 it gets about seven, which is Poisson: the rank is 57 and so many."""
    [row] = key_value_rows(["zipf"], examples=4000, others=5, rng=np.random.default_rng(1))
    assert (row.examples, row.deficit) == (4000, 92 - row.rank)
    assert 57 <= row.rank < 73 < KeyValueMemory("zipf").rank
    assert 0.1 < row.least_norm_error < 0.4
    assert row.least_norm_error < row.another_error < 1


def test_other_minimisers_are_as_wrong_as_in_the_table(rows):
    """Its entries are single draws; these are means of five, and the spread of one is about half of it."""
    for keys, error in (("fixed", 0.017), ("two-keys", 0.012), ("half-queried", 1.3), ("plane", 0.48)):
        assert error / 2 < rows[keys].another_error < 2 * error


def test_a_minimiser_from_a_fixed_basis_that_differs_on_haar_keys():
    x, y = KeyValueMemory("fixed").examples(400, rng=3)
    haar, truth = KeyValueMemory("haar").examples(400, rng=4)
    certificate = certify(x, haar)
    one = regress(x, y)
    two = another_minimiser(one, certificate, rng=5)
    assert np.mean((two(x) - y) ** 2) < 1e-24
    assert np.mean((one(haar) - truth) ** 2) < 1e-24 < 0.01 < np.mean((two(haar) - truth) ** 2)


@given(seed=st.integers(0, 99), number=st.integers(1, 120))
@settings(max_examples=20, deadline=None)
def test_each_key_of_a_basis_adds_its_queries_to_the_rank_up_to_nineteen(seed, number):
    assert KeyValueMemory("zipf").rank_of_a_key == 19
    for keys in ("zipf", "fixed", "half-queried"):
        x, _ = KeyValueMemory(keys).examples(number, rng=seed)
        queries = np.bincount(_queried(x, 4), minlength=4)
        rank = np.linalg.matrix_rank(cubic_features(x), tol=1e-8)
        assert rank == sum(min(19, int(m)) for m in queries)


def test_a_rare_key_needs_exactly_nineteen_queries():
    seventeen, eighteen, nineteen = rare_key_rows(
        [17, 18, 19], examples=600, fresh=300, rng=np.random.default_rng(6)
    )
    assert (seventeen.rank, eighteen.rank, nineteen.rank) == (74, 75, 76)
    assert nineteen.full_rank == 76
    assert eighteen.error > 1e-3
    assert nineteen.error < 1e-18


def test_a_key_that_is_never_queried_is_not_known_at_all():
    [row] = rare_key_rows([0], examples=300, fresh=300, rng=np.random.default_rng(7))
    assert row.rank == 57
    assert row.error == pytest.approx(1)


@pytest.mark.bad_input
def test_what_is_no_memory_is_refused():
    with pytest.raises(ValueError, match="keys is 'uniform': 'haar' or 'gaussian'"):
        KeyValueMemory("uniform")
    with pytest.raises(ValueError, match="dk is 1: a whole number of at least 2"):
        KeyValueMemory("haar", dk=1)
    with pytest.raises(ValueError, match="number is 0"):
        KeyValueMemory("haar").examples(0)
