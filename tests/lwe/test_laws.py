import math
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from lwe.laws import (
    NO_NOISE,
    UNIFORM,
    BinaryLaw,
    BinomialLaw,
    FlipLaw,
    GaussianLaw,
    IntegerLaw,
    SparseLaw,
    TernaryLaw,
    UniformLaw,
    law_from_json,
)

INDEPENDENT = [
    UNIFORM,
    NO_NOISE,
    BinaryLaw(),
    TernaryLaw(),
    BinomialLaw(2),
    BinomialLaw(5),
    GaussianLaw(0.7),
    GaussianLaw(3.2),
    FlipLaw(0.125),
]


@pytest.mark.parametrize("law", INDEPENDENT, ids=str)
@pytest.mark.parametrize("modulus", [2, 7, 64])
def test_drawn_frequencies_are_the_probabilities(law, modulus):
    chances = law.probabilities(modulus)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    number = 40_000
    drawn = law.draw(number, modulus, rng=0)
    assert np.all((2 * drawn > -modulus) & (2 * drawn <= modulus))
    assert law.allows(drawn, modulus)
    seen = np.bincount(np.mod(drawn, modulus), minlength=modulus) / number
    # four standard deviations each
    assert np.all(np.abs(seen - chances) <= 4 * np.sqrt(chances / number) + 1e-12)
    assert law.deviation(modulus) == pytest.approx(np.sqrt(np.mean(drawn.astype(float) ** 2)), rel=0.03)


def test_a_binomial_number_is_a_difference_of_two_sums_of_bits():
    for eta in (1, 2, 3):
        bits = 1 << np.arange(2 * eta)
        every = (np.arange(4**eta)[:, None] & bits) > 0
        values = every[:, :eta].sum(axis=1) - every[:, eta:].sum(axis=1)
        expected = np.bincount(np.mod(values, 31), minlength=31) / 4**eta
        np.testing.assert_allclose(BinomialLaw(eta).probabilities(31), expected, atol=1e-15)
        assert BinomialLaw(eta).deviation(31) == pytest.approx(math.sqrt(eta / 2))


def test_sparse_vectors_have_their_weight():
    law, counts = SparseLaw(3), np.zeros(8)
    for seed in range(400):
        vector = law.draw(8, 5, rng=seed)
        assert np.count_nonzero(vector) == 3
        assert set(vector) <= {-1, 0, 1}
        assert law.allows(vector, 5)
        counts += vector != 0
    assert np.all(np.abs(counts - 150) < 4 * math.sqrt(150))
    assert law.secrets(8, 5) == pytest.approx(math.log2(math.comb(8, 3) * 8))
    assert law.secrets(8, 2) == pytest.approx(math.log2(math.comb(8, 3)))
    assert not law.allows(np.array([1, 1, 1, 1]), 5)
    assert not law.allows(np.array([1, 2, 1, 0]), 5)
    for refused in (lambda: law.draw(2, 5), lambda: law.secrets(2, 5)):
        with pytest.raises(ValueError, match="at most the 2 entries"):
            refused()
    with pytest.raises(ValueError, match="depend on one another"):
        law.probabilities(5)


def test_numbers_of_secrets():
    for law, size in ((UNIFORM, 64), (BinaryLaw(), 2), (TernaryLaw(), 3), (BinomialLaw(2), 5), (NO_NOISE, 1)):
        assert law.secrets(10, 64) == pytest.approx(10 * math.log2(size))
    assert TernaryLaw().secrets(10, 2) == 10


@pytest.mark.parametrize("law", [*INDEPENDENT, SparseLaw(4), GaussianLaw(1 / 3)], ids=str)
def test_laws_keep_their_numbers_in_files(law):
    assert isinstance(law, IntegerLaw)
    assert law_from_json(law.to_json()) == law
    assert law_from_json(law.words) == law
    assert pickle.loads(pickle.dumps(law)) == law
    assert len({law, law_from_json(law.words)}) == 1


@pytest.mark.parametrize("law", [*INDEPENDENT, GaussianLaw(40.0), BinomialLaw(70)], ids=str)
@pytest.mark.parametrize("modulus", [2, 3, 7, 64, 65])
def test_supports_are_the_residues_of_positive_probability(law, modulus):
    values, weights = law.support(modulus)
    assert np.all(np.diff(values) > 0)
    assert np.all((2 * values > -modulus) & (2 * values <= modulus))
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_array_equal(law.probabilities(modulus)[np.mod(values, modulus)], weights)
    assert np.count_nonzero(law.probabilities(modulus)) == len(values)
    assert law.error_rate(modulus) == pytest.approx(weights[values != 0].sum(), abs=1e-14)


@pytest.mark.parametrize("law", [law for law in INDEPENDENT if law != UNIFORM], ids=str)
def test_narrow_laws_take_no_memory_at_a_modulus_of_2_to_the_31(law):
    law.support(1 << 31)  # imports
    tracemalloc.start()
    values, _ = law.support(1 << 31)
    assert len(values) < 200
    assert len(law.draw(100, 1 << 31, rng=0)) == 100
    assert law.allows(values, 1 << 31)
    assert law.deviation(1 << 31) < 4
    assert law.secrets(10, 1 << 31) == 10 * math.log2(len(values))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("law", [UNIFORM, GaussianLaw(1e10), GaussianLaw(1e300)], ids=str)
def test_uniform_laws_answer_at_a_modulus_of_2_to_the_31_without_a_list(law):
    q = 1 << 31
    assert law.is_uniform(q)
    assert law.error_rate(q) == 1 - 1 / q
    assert law.deviation(q) == pytest.approx(q / math.sqrt(12), rel=1e-9)
    assert law.secrets(3, q) == 93
    assert len(np.unique(law.draw(1000, q, rng=0))) == 1000
    for refused in (law.support, law.probabilities):
        with pytest.raises(ValueError, match=r"at most 2\^24 are listed"):
            refused(q)


def test_wide_gaussians_wrap_around_to_uniform():
    for sigma, modulus in ((1e9, 64), (1e300, 7), (130.0, 64), (14.1, 7)):
        np.testing.assert_allclose(GaussianLaw(sigma).probabilities(modulus), 1 / modulus, rtol=1e-12)
        assert np.all(np.bincount(np.mod(GaussianLaw(sigma).draw(6400, modulus, rng=0), modulus)) > 60)
    # where it does not, the first character says how far it is from uniform
    chances = GaussianLaw(8.0).probabilities(16)
    first = abs(np.sum(chances * np.exp(2j * np.pi * np.arange(16) / 16)))
    rounding = math.sin(math.pi / 16) / (math.pi / 16)
    assert first == pytest.approx(math.exp(-2 * math.pi**2 / 4) * rounding, rel=1e-9)
    with pytest.raises(ValueError, match="narrower law"):
        GaussianLaw(1e9).support(1 << 31)
    assert GaussianLaw(1e9).secrets(2, 1 << 31) == 62
    assert len(GaussianLaw(1e9).draw(5, 1 << 31, rng=0)) == 5


@pytest.mark.parametrize(
    "law",
    [
        *INDEPENDENT,
        *(FlipLaw(rate) for rate in (0.0, 0.4, 0.5 - 1e-14, 0.5)),
        *(BinomialLaw(eta) for eta in (1, 60, 300)),
        *(GaussianLaw(sigma) for sigma in (2.5, 2.8, 6.0, 20.0, 1e12)),
    ],
    ids=str,
)
@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 16])
def test_a_law_is_uniform_where_all_its_probabilities_are_alike(law, modulus):
    alike = np.all(np.abs(law.probabilities(modulus) - 1 / modulus) <= 1e-15)
    assert law.is_uniform(modulus) == alike


def test_laws_that_are_uniform_by_another_name():
    assert FlipLaw(0.5).is_uniform(2)
    assert BinaryLaw().is_uniform(2)
    assert TernaryLaw().is_uniform(3)
    assert all(BinomialLaw(eta).is_uniform(2) for eta in (1, 2, 7, 1 << 32))
    assert not any(BinomialLaw(eta).is_uniform(3) for eta in (1, 10))
    assert not SparseLaw(3).is_uniform(3)
    assert not NO_NOISE.is_uniform(2)
    # as many vectors, and all of them
    assert TernaryLaw().secrets(4, 3) == UNIFORM.secrets(4, 3)


def test_chances_are_the_probabilities_of_single_residues():
    for sigma, q in ((0.7, 17), (5.0, 16), (20.0, 17), (40.0, 17)):
        law = GaussianLaw(sigma)
        np.testing.assert_allclose(law.chances(np.arange(q), q), law.probabilities(q), rtol=1e-9, atol=1e-25)


@pytest.mark.parametrize("eta", [600, 5000])
def test_binomial_laws_of_many_bits_agree_with_whole_numbers(eta):
    values, weights = BinomialLaw(eta).support(1 << 20)
    for k in (0, 1, 17, 90):
        exact = float(Fraction(math.comb(2 * eta, eta + k), 4**eta))
        assert weights[values == k][0] == pytest.approx(exact, rel=1e-12)
    assert BinomialLaw(eta).deviation(1 << 20) == pytest.approx(math.sqrt(eta / 2), rel=1e-12)
    assert BinomialLaw(1 << 32).deviation(1 << 31) == pytest.approx(2**15.5, rel=1e-6)


@pytest.mark.parametrize(
    ("law", "rate"),
    [
        (FlipLaw(0.0), 0.0),
        (GaussianLaw(0.01), 0.0),
        (NO_NOISE, 0.0),
        (GaussianLaw(0.05), 2 * 7.619853024160593e-24),  # 2 Phi(-10)
        (FlipLaw(0.125), 0.125),
        (UniformLaw(), 0.75),
    ],
)
def test_error_rates_keep_what_a_difference_from_1_would_lose(law, rate):
    assert law.error_rate(4) == pytest.approx(rate, rel=1e-9, abs=0)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("tern", "one of uniform"),
        ("ternary:2", "no number"),
        ("sparse", "a number after a colon"),
        ("sparse:many", "a number is needed"),
        ("sparse:0", "weight"),
        ("binomial:5000000000", "GaussianLaw"),
        ("flip:0.7", "at most 1/2"),
        ("gaussian:-1", "sigma"),
        ("gaussian:nan", "sigma"),
        ("binomial:2.5", "number is needed"),
        ({"kind": "flip"}, "other numbers"),
        ({"kind": "ternary", "weight": 2}, "other numbers"),
        ({1: 2}, "one of uniform"),
        (["ternary"], "words such as"),
        (None, "words such as"),
    ],
)
def test_laws_that_are_none_are_explained(value, word):
    with pytest.raises(ValueError, match=word):
        law_from_json(value)


@pytest.mark.parametrize("sigma", [5e-324, 1e-320, 1e-300])
def test_a_tiny_sigma_gives_zeros_and_no_warning(sigma):
    law = GaussianLaw(sigma)
    assert law.error_rate(2**31) == law.deviation(2**31) == 0
    assert law.support(64)[0].tolist() == [0]
    assert not law.draw(9, 64, rng=0).any()
