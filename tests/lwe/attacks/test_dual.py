import itertools

import numpy as np
import pytest
from scipy.stats import binom

from lwe import LWEParameters
from lwe.attacks.dual import DualAttack, dual_statistic, permutation_p_value, sequential_p_value
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.outcome import AttackOutcome, Budget
from lwe.distributions import BINARY, TERNARY, UNIFORM, DiscreteGaussian
from lwe.samples import LWRSamples, make_samples

WITHOUT = "fpylll is not installed (extra `lattice`)"
CASES = [
    LWEParameters(20, 128, 32, matrix="uniform"),
    LWEParameters(12, 128, 8, matrix="uniform"),
    LWEParameters(16, 128, 4),
    LWEParameters(20, 97, 97, matrix="uniform", Xs=TERNARY, Xe=DiscreteGaussian(2.0)),
    LWEParameters(20, 97, 97, matrix="uniform", Xs=BINARY, Xe=DiscreteGaussian(2.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", CASES, ids=str)
def test_labels_of_a_secret_are_told_from_the_same_labels_in_random_order(parameters):
    pytest.importorskip("fpylll", reason=WITHOUT)
    samples, _ = make_samples(parameters, 1200, rng=1)
    result = DualAttack()(samples, parameters, rng=0, budget=Budget(30.0))
    assert result.outcome is AttackOutcome.DISTINGUISHED, result
    assert result.details["p_value"] < 1e-4
    assert result.accuracy is None
    random = LWRSamples(samples.public, np.random.default_rng(5).permutation(samples.labels))
    result = DualAttack()(random, parameters, rng=0, budget=Budget(1.5))
    assert not result.outcome.succeeded, result


@pytest.mark.parametrize("q", [97, 2**31 - 1, 2**31, 2**40, 2**52])
def test_products_with_short_vectors_are_exact_for_every_modulus(q):
    parameters = LWEParameters(4, q, q, matrix="uniform")
    rng = np.random.default_rng(q)
    for reach in (3, q // 2):
        vectors, labels = rng.integers(-reach, reach + 1, size=(5, 30)), rng.integers(q, size=(2, 30))
        exact = (labels.astype(object) @ vectors.T.astype(object)) % q
        expected = np.cos(2 * np.pi * exact.astype(float) / q).sum(axis=1)
        np.testing.assert_allclose(
            dual_statistic(vectors, np.ones(5), labels, parameters), expected, atol=1e-6
        )


def test_a_large_modulus_takes_no_table_of_its_residues():
    pytest.importorskip("fpylll", reason=WITHOUT)
    for law in (UNIFORM, TERNARY):
        parameters = LWEParameters(8, 2**31, 2**20, matrix="uniform", Xs=law, Xe=DiscreteGaussian(1e5))
        samples, _ = make_samples(parameters, 300, rng=0)
        result = DualAttack()(samples, parameters, rng=0, budget=Budget(20.0, memory=2**24))
        assert result.outcome is AttackOutcome.DISTINGUISHED, result


def test_statistic_is_the_sum_of_cosines_of_the_products_with_the_middles():
    parameters = LWEParameters(4, 30, 6)
    rng = np.random.default_rng(0)
    vectors, weights, labels = rng.integers(-3, 4, size=(7, 9)), rng.random(7), rng.integers(6, size=9)
    middles = 5 * labels + 2
    expected = np.sum(weights * np.cos(2 * np.pi * (vectors @ middles) / 30))
    assert float(dual_statistic(vectors, weights, labels, parameters)) == pytest.approx(expected)
    offsets = rng.random(7)
    expected = np.sum(weights * np.cos(2 * np.pi * (vectors @ middles - offsets) / 30))
    assert float(dual_statistic(vectors, weights, labels, parameters, offsets)) == pytest.approx(expected)


@pytest.mark.parametrize("attack", [DualAttack(), LatticeAttack()])
def test_without_fpylll_it_says_what_to_install(attack, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    parameters = LWEParameters(8, 128, 8)
    samples, _ = make_samples(parameters, 100, rng=0)
    result = attack(samples, parameters, rng=0)
    assert result.outcome is AttackOutcome.MISSING
    assert "pip install fpylll cysignals" in result.explanation


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
