import itertools

import numpy as np
import pytest
from scipy.stats import binom

from lwe.attacks.dual import permutation_p_value, sequential_p_value


def test_p_value_without_early_end_is_the_share_of_orders_with_as_large_a_value():
    labels, weights = np.array([0, 1, 3]), np.array([1.0, 2.0, 4.0])
    orders = [np.array(one) @ weights for one in itertools.permutations(labels)]
    exact = np.mean([value >= labels @ weights for value in orders])
    found = permutation_p_value(
        lambda rows: rows @ weights, labels, np.random.default_rng(0), most=20_000, enough=20_000
    )
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))


@pytest.mark.parametrize("enough", [1, 5, 20])
def test_probability_of_a_p_value_is_at_most_itself(enough):
    rng, runs = np.random.default_rng(enough), 3000
    weights = rng.standard_exponential(12) ** 3  # far from normal
    found = []
    for _ in range(runs):
        labels = (rng.random(12) < 0.3).astype(np.int64)
        found.append(permutation_p_value(lambda rows: rows @ weights, labels, rng, most=400, enough=enough))
    for level in (0.005, 0.02, 0.1, 0.5):
        assert np.sum(np.array(found) <= level) <= binom.isf(1e-4, runs, level)


def test_looks_at_independent_blocks_keep_the_level():
    rng, runs, level = np.random.default_rng(0), 4000, 0.05
    found = [min(sequential_p_value(rng.random(k).tolist()) for k in (12,)) for _ in range(runs)]
    assert np.sum(np.array(found) <= level) <= binom.isf(1e-4, runs, level)
    falling = rng.random(10).tolist()
    combined = [sequential_p_value(falling[:k]) for k in range(11)]
    assert np.all(np.diff(combined) <= 0)
    # blocks with a little evidence each add up
    assert sequential_p_value([0.05] * 40) < 1e-6
