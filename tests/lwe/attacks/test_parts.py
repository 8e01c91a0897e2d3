"""What attacks are made of, each held to its definition: evidence, monomials, chances, embeddings."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower.gf2 import unpack_gf2
from lwe.attacks.attack import AttackOutcome
from lwe.attacks.bkw import BKWAttack
from lwe.attacks.decoding import ZeroColumns
from lwe.attacks.embedding import primal_embedding
from lwe.attacks.evidence import (
    as_likely_as_own,
    label_probabilities,
    label_residues,
    log_evidence,
    secret_predictor,
)
from lwe.attacks.linearisation import BinomialMonomials
from lwe.costs.combinatorial import agreement_chances
from lwe.costs.primal import primal_shape
from lwe.distributions import (
    NO_NOISE,
    TERNARY,
    UNIFORM,
    CentredBinomial,
    DiscreteGaussian,
    Flips,
)
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples, inner_products, make_samples, rounded_labels


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


@settings(deadline=None)
@given(
    columns=st.integers(1, 4), degree=st.integers(1, 5), largest=st.integers(1, 7), seed=st.integers(0, 2**32)
)
def test_values_are_products_of_binomial_coefficients(columns, degree, largest, seed):
    monomials = BinomialMonomials(columns, degree, largest)
    rng = np.random.default_rng(seed)
    public = rng.integers(8, size=(70, columns))
    expected = [
        [math.prod(math.comb(int(a), int(k)) for a, k in zip(row, powers, strict=True)) % 2 for row in public]
        for powers in monomials.table()
    ]
    np.testing.assert_array_equal(unpack_gf2(monomials.packed(public), 70), expected)
    bits = rng.integers(2, size=70).astype(bool)
    rows = unpack_gf2(monomials.rows(public, bits), monomials.size + 1)
    np.testing.assert_array_equal(rows, np.vstack([np.array(expected), bits]).T)
    chosen = rng.integers(2, size=monomials.size).astype(bool)
    np.testing.assert_array_equal(
        monomials.evaluate(chosen, public), np.array(expected)[chosen].sum(axis=0) % 2 == 1
    )


@pytest.mark.parametrize("largest", [1, 2, 1 << 29])
def test_sizes_beyond_every_index_are_whole_numbers_found_at_once(largest):
    degree, n = 1 << 29, 1024
    expected = {1: 2**n, 2: 3**n}.get(largest, math.comb(n + degree, n))
    assert BinomialMonomials(n, degree, largest).size == expected


def noisy(n, rate):
    return LWEParameters(n, q=2, p=2, Xe=Flips(rate))


@pytest.mark.parametrize(("matrix", "q"), [("binary", 2), ("binary", 64), ("ternary", 7), ("uniform", 5)])
def test_the_chance_that_rows_agree_is_that_of_enumeration(matrix, q):
    law = {"binary": [0, 1], "ternary": [-1, 0, 0, 1], "uniform": range(q)}[matrix]
    found = agreement_chances(LWEParameters(8, q, 2, matrix), 3)
    entries = np.array(list(law))
    for step in range(3):
        equal = np.mod(entries[:, None] - entries, q) == 0
        np.testing.assert_allclose(found[step], equal.mean(), rtol=1e-12)
        if step < 2:
            entries = np.subtract.outer(entries, entries).ravel()
    assert np.all(np.diff(found) <= 0)


def test_labels_without_any_secret_give_nothing():
    # claimed to be noisy parities at a rate of .1, and in truth coins
    samples, _ = make_samples(noisy(16, 0.5), 5_000, rng=0)
    result = BKWAttack()(samples, noisy(16, 0.1), rng=0)
    assert result.outcome is AttackOutcome.NOTHING
    assert result.log10_false > -4


BITS = LWEParameters(n=16, q=64, p=2)


def test_fresh_rows_support_the_right_secret_and_with_random_labels_none_more_often_than_said():
    parameters = BITS.updated(n=24)
    samples, secret = make_samples(parameters, 8000, rng=0)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    assert zeros.evidence(secret[zeros.others][None], 40)[0] < -100
    random = np.random.default_rng(3).integers(2, size=6400)
    samples = LWRSamples(samples.public[:6400], random)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    evidence = zeros.evidence(np.random.default_rng(0).integers(64, size=(2000, 18)), 40)
    # four standard deviations of the share at most 1/10
    assert abs(np.mean(evidence <= np.log(0.1)) - 0.1) < 4 * np.sqrt(0.09 / 2000)


@pytest.mark.parametrize("secret", [TERNARY, CentredBinomial(2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("q", "p"), [(128, 16), (97, 97), (30, 5)])
def test_embedding_holds_the_errors_and_gives_the_secret_back(secret, weighted, q, p):
    parameters = LWEParameters(n=6, q=q, p=p, matrix="uniform", Xs=secret)
    samples, own = make_samples(parameters, 40, rng=1)
    embedding = primal_embedding(samples, parameters, primal_shape(parameters, 30, weighted=weighted))
    first, after = label_residues(samples.labels[:30], parameters)
    errors = embedding.scale * (2 * inner_products(samples.public[:30], own, q) - first - after + 1) // 2
    planted = np.zeros(len(embedding.basis), dtype=np.int64)
    planted[:30] = -errors
    if weighted:
        weight = embedding.basis[0, 30]
        planted[30:-1] = -weight * own
    planted[-1] = embedding.factor
    # an integer combination of the rows
    solved = np.linalg.solve(embedding.basis.T.astype(float), planted.astype(float))
    np.testing.assert_allclose(solved, np.rint(solved), atol=1e-6)
    np.testing.assert_array_equal(centred(embedding.secret(planted), q), own)
    np.testing.assert_array_equal(centred(embedding.secret(-planted), q), own)
    assert embedding.secret(2 * planted) is None
