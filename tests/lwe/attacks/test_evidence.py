import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from lwe.attacks.evidence import (
    accuracy_bar,
    as_likely_as_own,
    fits_in_order,
    label_probabilities,
    pairing_evidence,
    secret_score,
    surpasses,
)
from lwe.laws import NO_NOISE, BinomialLaw, FlipLaw, GaussianLaw, UniformLaw
from lwe.parameters import LWRParameters, rounded
from lwe.samples import LWRSamples, inner_products, make_samples


def parameters(q=16, p=4, **other):
    return LWRParameters(**{"secret_dim": 3, "modulus": q, "levels": p, "matrix": "uniform", **other})


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_evidence_has_mean_one_over_all_orders_of_any_labels(number, values, seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(values, size=number)  # with repetitions
    functions = generator.exponential(size=(number, values)) ** 3
    found = [
        np.exp(pairing_evidence(functions[:, list(order)]))
        for order in itertools.permutations(labels.tolist())
    ]
    assert np.mean(found) == pytest.approx(1)


def test_evidence_against_constant_labels_is_none_and_that_of_n_labels_at_most_n_factorial():
    generator = np.random.default_rng(0)
    column = generator.exponential(size=(50, 1))
    assert pairing_evidence(np.repeat(column, 50, axis=1)) == pytest.approx(0, abs=1e-12)
    assert pairing_evidence(np.eye(7)) == pytest.approx(math.log(math.factorial(7)))
    assert pairing_evidence(np.zeros((3, 3))) == 0


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.97, 0.03), (0.7, 0.1, 0.1, 0.1)])
def test_labels_without_rows_reach_a_level_at_most_so_often(weights):
    # scores that are steep and skew, against labels of a law that nobody fitted
    generator = np.random.default_rng(1)
    level, runs, number = 0.05, 2000, 30
    reached = 0
    for _ in range(runs):
        functions = generator.dirichlet(np.full(len(weights), 0.3), size=number)
        labels = generator.choice(len(weights), size=number, p=weights)
        reached += pairing_evidence(functions[:, labels]) >= -math.log(level)
    assert binomtest(reached, runs, level, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(("q", "p"), [(17, 17), (16, 4), (23, 5), (2, 2)])
@pytest.mark.parametrize("noise", [NO_NOISE, BinomialLaw(3), GaussianLaw(2.0), UniformLaw()])
def test_probabilities_of_labels_are_sums_over_errors(q, p, noise):
    made = parameters(q, p, noise=noise)
    found = label_probabilities(made)(np.arange(q)[:, None], np.arange(p))
    expected = np.zeros((q, p))
    for t, (error, weight) in itertools.product(range(q), zip(*noise.support(q), strict=True)):
        expected[t, rounded(np.array([t + error]), q, p)[0]] += weight
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
def test_the_largest_modulus_takes_no_more_memory_than_its_errors():
    made = parameters(1 << 31, 1 << 31, noise=GaussianLaw(3.0))
    samples, secret = make_samples(made, 200, rng=0)
    own = secret_score(samples, made)
    assert own(secret) > 200 * math.log(1e-6)
    assert own(secret + np.array([1, 0, 0])) == pytest.approx(200 * math.log(1e-300))
    uniform = label_probabilities(made.updated(noise=UniformLaw()))(np.array([5]), np.array([7]))
    assert uniform.tolist() == [2.0**-31]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.sampled_from([0.01, 0.3])
)
def test_one_prediction_surpasses_another_by_the_tosses_of_a_coin(both, level):
    right, other = np.array(both).T
    only, only_other = sum(a and not b for a, b in both), sum(b and not a for a, b in both)
    tail = sum(binom.pmf(k, only + only_other, 0.5) for k in range(only, only + only_other + 1))
    if abs(tail - level) > 1e-9:
        assert surpasses(right, other, level=level) is bool(tail <= level)


def test_labels_are_as_likely_as_a_secrets_own_down_to_about_four_standard_deviations():
    made = parameters(2, 2, noise=FlipLaw(0.3))
    samples, secret = make_samples(made, 2000, rng=0)
    exact = inner_products(samples.public, secret, 2)
    mean, deviation = 2000 * 0.3, math.sqrt(2000 * 0.3 * 0.7)
    for off, told in ((-20.0, True), (0.0, True), (3.9, True), (4.5, False), (8.0, False)):
        flipped = np.arange(2000) < mean + off * deviation
        labels = LWRSamples(samples.public, (exact + flipped) % 2)
        assert as_likely_as_own(secret, labels, made) == told, off


@pytest.mark.parametrize("noise", [BinomialLaw(3), GaussianLaw(200.0), GaussianLaw(2000.0)], ids=str)
@pytest.mark.parametrize("p", [64, 1 << 14])
def test_a_secrets_own_labels_are_as_likely_however_skew_and_those_of_others_are_not(noise, p):
    made = parameters(1 << 14, p, noise=noise)
    passed = 0
    for seed in range(30):
        samples, secret = make_samples(made, 100, rng=seed)
        passed += as_likely_as_own(secret, samples, made)
        assert not as_likely_as_own(secret + np.array([0, 1 << 12, 0]), samples, made)
    assert passed >= 29  # one in 3000 is refused at the most
    assert as_likely_as_own(secret, samples, made.updated(noise=UniformLaw()))  # as any secret is


@pytest.mark.parametrize(("q", "p"), [(97, 97), (96, 6), (23, 5)])
def test_a_secret_is_refused_its_own_labels_hardly_ever_where_few_of_them_are_uncertain(q, p):
    made = parameters(q, p, noise=BinomialLaw(1), secret_dim=1)
    public, refused = np.arange(40)[:, None], 0
    generator = np.random.default_rng(q)
    for _ in range(150):
        labels = rounded(public[:, 0] + made.noise.draw(40, q, rng=generator), q, p)
        refused += not as_likely_as_own(np.array([1]), LWRSamples(public, labels), made)
    assert refused <= 1  # one in 3000 at the most


def test_the_bar_of_accuracy_is_four_deviations_below_the_secrets_own_share():
    noisy = parameters(97, 97, noise=BinomialLaw(1))  # an error is 0 with probability 1/2
    assert accuracy_bar(noisy, 400) == pytest.approx(0.5 - 4 * math.sqrt(0.25 / 400))
    assert accuracy_bar(noisy.updated(noise=NO_NOISE), 400) == 1
    assert accuracy_bar(noisy.updated(noise=UniformLaw()), 400) < 0


def test_labels_fit_their_own_order_only():
    made = parameters(97, 97, noise=GaussianLaw(3.0))
    samples, secret = make_samples(made, 100, rng=0)
    turned = LWRSamples(samples.public, np.roll(samples.labels, 1))
    assert fits_in_order(secret, samples, made, level=1e-4)
    assert not fits_in_order(secret, turned, made, level=1e-4)
