"""Key-value memory: the construction, the ranks of its data, and what they leave open on orthonormal keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention import cubic_features, regress
from upper.linear_attention.certificate import another_minimiser, certify
from upper.linear_attention.tasks.key_value import KEYS, KeyValueMemory

ORTHONORMAL = tuple(keys for keys in KEYS if keys != "gaussian")


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


@pytest.mark.bad_input
def test_what_is_no_memory_is_refused():
    with pytest.raises(ValueError, match="keys is 'uniform': 'haar' or 'gaussian'"):
        KeyValueMemory("uniform")
    with pytest.raises(ValueError, match="dk is 1: a whole number of at least 2"):
        KeyValueMemory("haar", dk=1)
    with pytest.raises(ValueError, match="number is 0"):
        KeyValueMemory("haar").examples(0)
