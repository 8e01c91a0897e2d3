import itertools

import numpy as np
import pytest

from lwe.attacks.evidence import (
    as_likely_as_own,
    label_probabilities,
    label_residues,
    log_evidence,
    secret_predictor,
)
from lwe.distributions import (
    NO_NOISE,
    UNIFORM,
    CentredBinomial,
    DiscreteGaussian,
    Flips,
)
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples, rounded_labels


def parameters(q=16, p=4, **other):
    return LWEParameters(**{"n": 3, "q": q, "p": p, "matrix": "uniform", **other})


NOISES = [NO_NOISE, CentredBinomial(1), Flips(0.2)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize(("q", "p"), [(2, 2), (3, 3), (5, 2)])
@pytest.mark.parametrize("rounding", ["down", "nearest"])
def test_evidence_has_a_mean_of_at_most_one_over_all_random_labels(q, p, noise, rounding):
    made = parameters(q, p, Xe=noise)
    public, secret = np.random.default_rng(0).integers(q, size=(4, 3)), np.array([1, 0, 1])
    predicted = secret_predictor(secret, made, rounding)(public)
    residues = rounded_labels(np.arange(q), made, rounding)
    chances = np.bincount(residues, minlength=p) / q
    total = np.zeros(2)
    for labels in itertools.product(range(p), repeat=4):
        chance = np.prod(chances[list(labels)])
        samples = LWRSamples(public, np.array(labels), rounding)
        total += chance * np.exp([log_evidence(predicted, samples, made, s) for s in (None, secret)])
    assert np.all(total <= 1 + 1e-9)
    assert total[1] > 0.02


@pytest.mark.parametrize(("q", "p"), [(17, 17), (16, 4), (23, 5), (2, 2)])
@pytest.mark.parametrize("noise", [NO_NOISE, CentredBinomial(3), DiscreteGaussian(2.0), UNIFORM], ids=str)
@pytest.mark.parametrize("rounding", ["down", "nearest"])
def test_probabilities_of_labels_are_sums_over_errors(q, p, noise, rounding):
    made = parameters(q, p, Xe=noise)
    found = label_probabilities(made, rounding)(np.arange(q)[:, None], np.arange(p))
    expected = np.zeros((q, p))
    half = 0 if rounding == "down" else q
    for t, (error, weight) in itertools.product(range(q), zip(*noise.support(q), strict=True)):
        expected[t, (2 * p * ((t + error) % q) + half) // (2 * q) % p] += weight
    np.testing.assert_allclose(found, expected, atol=1e-12)
    first, after = label_residues(np.arange(p), made, rounding)
    runs = [sorted(t % q for t in range(*ends)) for ends in zip(first, after, strict=True)]
    own = rounded_labels(np.arange(q), made, rounding)
    assert runs == [np.flatnonzero(own == label).tolist() for label in range(p)]


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
