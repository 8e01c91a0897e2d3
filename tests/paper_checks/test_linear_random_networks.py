"""Random networks: the threshold is D whatever the number of heads, and noise costs s^2 D / N."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paper_checks.linear_attention.random_networks import (
    around_the_threshold,
    noise_row,
    random_network_rows,
)
from upper.linear_attention import cubic_features, feature_count, make_linear_attention, regress
from upper.linear_attention.populations import population_moment


def test_eight_dimensions_need_exactly_288_examples():
    rows = {
        (row.examples, row.method): row
        for row in random_network_rows(
            8, 8, around_the_threshold(288), test_examples=300, rng=np.random.default_rng(0)
        )
    }
    assert rows[287, "svd"].error > 1e-2
    assert rows[287, "svd"].rank == 287
    assert rows[288, "svd"].error < 1e-11
    assert rows[1152, "cholesky"].error < 1e-13
    assert {row.rank for row in rows.values() if row.examples >= 288} == {288}


@given(d=st.integers(2, 5), heads=st.integers(1, 6), seed=st.integers(0, 999))
@settings(max_examples=15, deadline=None)
def test_the_threshold_is_the_number_of_features_whatever_the_heads(d, heads, seed):
    features = feature_count(d)
    examples = (features - 1, "svd"), (features, "svd"), (4 * features, "auto")
    below, at, more = random_network_rows(
        d, heads, examples, test_examples=100, rng=np.random.default_rng(seed)
    )
    assert (below.examples, at.examples, more.examples) == (
        below.rank,
        feature_count(d),
        4 * feature_count(d),
    )
    assert at.rank == more.rank == feature_count(d)
    assert below.error > 1e-4  # 2e-2 typically: one random direction of D is missing
    assert at.error < min(1e-7, 1e-5 * below.error)
    assert more.error < 1e-13


def test_moments_alone_lose_digits_where_singular_values_do_not():
    found = random_network_rows(
        6, 3, [(126, "svd"), (126, "moments")], test_examples=200, rng=np.random.default_rng(2)
    )
    rows = {row.method: row for row in found}
    assert {row.examples for row in rows.values()} == {126}
    assert rows["svd"].error < 1e-11
    assert 10 * rows["svd"].error < rows["moments"].error < 1e-5


def test_the_excess_of_noisy_labels_is_the_noise_times_features_over_examples():
    """Many outputs average the noise of one set of examples; the predicted excess is 1.0e-4."""
    row = noise_row(outputs=200, rng=np.random.default_rng(3))
    assert (row.d, row.features, row.examples) == (4, 40, 4000)
    assert row.predicted == pytest.approx(1.0e-4)
    assert 0.95 < row.excess / row.predicted < 1.15
    assert row.excess > row.predicted * 0.95


def test_the_excess_given_the_examples_is_a_trace():
    """Exact in the inputs: the mean over the noise of the population error, 6 standard errors of 400 outputs."""
    rng = np.random.default_rng(4)
    model = make_linear_attention(heads=2, dim=3, outputs=400, rng=rng)
    x = rng.standard_normal((200, 5, 3))
    learned = regress(x, model(x) + 0.1 * rng.standard_normal((200, 400)))
    clean = regress(x, model(x))
    wrong = learned.coefficients - clean.coefficients
    population, phi = population_moment("gaussian", 3, 5), cubic_features(x)
    excess = np.einsum("ip,ij,jp->p", wrong, population, wrong)
    expected = 0.1**2 * np.trace(population @ np.linalg.inv(phi.T @ phi))
    assert abs(excess.mean() - expected) < 6 * excess.std() / np.sqrt(400)
    assert abs(excess.mean() / expected - 1) < 0.2


def test_without_noise_there_is_no_excess():
    row = noise_row(d=2, heads=1, examples=50, noise=0.0, rng=np.random.default_rng(5))
    assert row.predicted == 0
    assert row.excess < 1e-25
