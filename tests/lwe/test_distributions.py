import math
import pickle

import numpy as np
import pytest

from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    UNIFORM,
    CentredBinomial,
    DiscreteGaussian,
    Flips,
    SparseSigned,
    parse_distribution,
)
from lwe.parameters import LWEParameters
from lwe.residues import rounded

NARROW = [
    NO_NOISE,
    BINARY,
    TERNARY,
    CentredBinomial(2),
    CentredBinomial(5),
    DiscreteGaussian(0.7),
    DiscreteGaussian(3.2),
    Flips(0.125),
]


@pytest.mark.parametrize(
    "distribution", [UNIFORM, *NARROW, DiscreteGaussian(40.0), CentredBinomial(70)], ids=str
)
@pytest.mark.parametrize("modulus", [2, 3, 7, 64, 65])
def test_draws_have_the_frequencies_of_the_support(distribution, modulus):
    values, weights = distribution.support(modulus)
    assert np.all(np.diff(values) > 0)
    assert np.all((2 * values > -modulus) & (2 * values <= modulus))
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    drawn = distribution.draw(40_000, modulus, rng=0)
    assert distribution.allows(drawn, modulus)
    seen = np.array([np.mean(drawn == value) for value in values])
    # four standard deviations each
    assert np.all(np.abs(seen - weights) <= 4 * np.sqrt(weights / 40_000) + 1e-12)
    assert distribution.is_uniform(modulus) == (
        len(values) == modulus and np.all(np.abs(weights - 1 / modulus) <= 1e-15)
    )
    assert distribution.secrets(10, modulus) == 10 * math.log2(len(values))


def test_a_binomial_number_is_a_difference_of_two_sums_of_bits():
    for eta in (1, 2, 3):
        bits = 1 << np.arange(2 * eta)
        every = (np.arange(4**eta)[:, None] & bits) > 0
        sums = every[:, :eta].sum(axis=1) - every[:, eta:].sum(axis=1)
        values, weights = CentredBinomial(eta).support(31)
        np.testing.assert_allclose(weights, [np.mean(sums == value) for value in values], atol=1e-15)
    values, weights = CentredBinomial(5000).support(1 << 20)
    exact = math.comb(10000, 5090) / 4**5000
    assert weights[values == 90][0] == pytest.approx(exact, rel=1e-12)


def test_sparse_vectors_have_their_weight():
    distribution, counts = SparseSigned(3), np.zeros(8)
    for seed in range(400):
        vector = distribution.draw(8, 5, rng=seed)
        assert np.count_nonzero(vector) == 3
        assert set(vector) <= {-1, 0, 1}
        assert distribution.allows(vector, 5)
        counts += vector != 0
    assert np.all(np.abs(counts - 150) < 4 * math.sqrt(150))
    assert distribution.secrets(8, 5) == pytest.approx(math.log2(math.comb(8, 3) * 8))
    assert distribution.secrets(8, 2) == pytest.approx(math.log2(math.comb(8, 3)))
    assert not distribution.allows([1, 1, 1, 1], 5)
    assert not distribution.allows([1, 2, 1, 0], 5)
    assert not distribution.is_uniform(3)
    with pytest.raises(ValueError, match="at most the 2 entries"):
        distribution.secrets(2, 5)
    with pytest.raises(ValueError, match="no table"):
        distribution.support(5)


@pytest.mark.parametrize(
    "distribution", [UNIFORM, *NARROW, SparseSigned(4), DiscreteGaussian(1 / 3)], ids=str
)
def test_words_give_a_distribution_back(distribution):
    assert parse_distribution(distribution.words) == distribution == pickle.loads(pickle.dumps(distribution))
    assert len({distribution, parse_distribution(distribution.words)}) == 1


def test_the_uniform_distribution_answers_at_a_modulus_of_2_to_the_31_without_a_list():
    q = 1 << 31
    assert UNIFORM.is_uniform(q)
    assert UNIFORM.secrets(3, q) == 93
    assert len(np.unique(UNIFORM.draw(1000, q, rng=0))) == 1000
    with pytest.raises(ValueError, match=r"at most 2\^22 values"):
        UNIFORM.support(q)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"p": 16, "Xe": CentredBinomial(1), "matrix": "uniform"}, "learning with errors"),
        (
            {"p": 16, "Xe": CentredBinomial(1), "Xs": CentredBinomial(1), "matrix": "gadget"},
            "learning with errors",
        ),
        ({"p": 16, "Xe": CentredBinomial(1)}, "a variant of learning with errors"),
        ({"p": 2, "q": 2, "Xe": Flips(0.3)}, "learning parity with noise"),
        ({"matrix": "uniform"}, "learning with rounding"),
        ({"matrix": "ternary"}, "a variant of learning with rounding"),
        ({"matrix": "uniform", "Xs": TERNARY}, "a variant of learning with rounding"),
    ],
)
def test_assumptions_name_the_problem(changes, problem):
    assert LWEParameters(**({"n": 4, "q": 16, "p": 2} | changes)).assumption == problem


@pytest.mark.parametrize(
    ("modulus", "levels", "noise"),
    [
        (2, 2, Flips(0.2)),
        (16, 16, CentredBinomial(2)),
        (17, 5, CentredBinomial(3)),
        (30, 4, DiscreteGaussian(4.0)),
    ],
)
def test_best_accuracy_is_the_share_of_labels_that_an_error_leaves_alone(modulus, levels, noise):
    residues, expected = np.arange(modulus), 0.0
    for error, chance in zip(*noise.support(modulus), strict=True):
        same = rounded(residues + error, modulus, levels) == rounded(residues, modulus, levels)
        expected += chance * np.mean(same)
    parameters = LWEParameters(4, modulus, levels, Xe=noise)
    assert parameters.best_accuracy == pytest.approx(expected, rel=1e-12)
    assert parameters.updated(Xe=NO_NOISE).best_accuracy == 1


def test_parameters_of_older_files_are_read_by_their_older_names():
    old = {
        "secret_dim": 16,
        "modulus": 256,
        "levels": 2,
        "matrix": "gadget",
        "secret": "sparse:4",
        "noise": "flip:0.1",
    }
    found = LWEParameters.from_json(old)
    assert found == LWEParameters(16, 256, 2, "gadget", SparseSigned(4), Flips(0.1))
    assert LWEParameters.from_json(found.to_json()) == found
