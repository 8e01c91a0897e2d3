import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lwe.attacks.evidence import as_likely_as_own, label_probabilities, pairing_evidence, surpasses
from lwe.distributions import NO_NOISE, UNIFORM, CentredBinomial, DiscreteGaussian
from lwe.parameters import LWEParameters, rounded
from lwe.samples import make_samples


def parameters(q=16, p=4, **other):
    return LWEParameters(**{"n": 3, "q": q, "p": p, "matrix": "uniform", **other})


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


@pytest.mark.parametrize(("q", "p"), [(17, 17), (16, 4), (23, 5), (2, 2)])
@pytest.mark.parametrize("noise", [NO_NOISE, CentredBinomial(3), DiscreteGaussian(2.0), UNIFORM])
def test_probabilities_of_labels_are_sums_over_errors(q, p, noise):
    made = parameters(q, p, Xe=noise)
    found = label_probabilities(made)(np.arange(q)[:, None], np.arange(p))
    expected = np.zeros((q, p))
    for t, (error, weight) in itertools.product(range(q), zip(*noise.support(q), strict=True)):
        expected[t, rounded(np.array([t + error]), q, p)[0]] += weight
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.sampled_from([0.01, 0.3])
)
def test_one_prediction_surpasses_another_by_the_tosses_of_a_coin(both, level):
    right, other = np.array(both).T
    only, only_other = sum(a and not b for a, b in both), sum(b and not a for a, b in both)
    tail = sum(binom.pmf(k, only + only_other, 0.5) for k in range(only, only + only_other + 1))
    if abs(tail - level) > 1e-9:
        assert surpasses(right, other, level=level) is bool(tail <= level)


@pytest.mark.parametrize(
    "noise", [CentredBinomial(3), DiscreteGaussian(200.0), DiscreteGaussian(2000.0)], ids=str
)
@pytest.mark.parametrize("p", [64, 1 << 14])
def test_a_secrets_own_labels_are_as_likely_however_skew_and_those_of_others_are_not(noise, p):
    made = parameters(1 << 14, p, Xe=noise)
    passed = 0
    for seed in range(30):
        samples, secret = make_samples(made, 100, rng=seed)
        passed += as_likely_as_own(secret, samples, made)
        assert not as_likely_as_own(secret + np.array([0, 1 << 12, 0]), samples, made)
    assert passed >= 29  # one in 3000 is refused at the most
    assert as_likely_as_own(secret, samples, made.updated(Xe=UNIFORM))  # as any secret is
