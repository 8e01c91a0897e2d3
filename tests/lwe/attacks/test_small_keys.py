"""Few samples: small public keys and puzzles are broken and said to be, random labels are not; noise near 1/2."""

import numpy as np
import pytest

from lwe import BKWAttack, ExhaustiveAttack, LatticeAttack, MeetInTheMiddleAttack
from lwe.attacks.attack import AttackOutcome
from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    CentredBinomial,
    DiscreteGaussian,
    Interval,
    SparseBinary,
    SparseSigned,
    SparseTernary,
)
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples


def key(n, q, law):
    return LWEParameters(n, q, q, "uniform", Xs=law, Xe=law)


@pytest.mark.parametrize("law", [TERNARY, CentredBinomial(2)], ids=str)
@pytest.mark.parametrize(("n", "q"), [(16, 251), (20, 257), (24, 251), (24, 257)])
def test_public_keys_of_as_many_samples_as_entries_are_broken_and_surely(n, q, law):
    pytest.importorskip("fpylll")
    for seed in range(2):
        samples, secret = make_samples(key(n, q, law), n, rng=seed)
        result = LatticeAttack()(samples, key(n, q, law), rng=0)
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret)
        assert result.log10_false < -12
        assert result.tested == n
        random = LWRSamples(samples.public, np.random.default_rng(seed).integers(q, size=n))
        assert not LatticeAttack(rounds=1)(random, key(n, q, law), rng=0).outcome.succeeded


@pytest.mark.parametrize(
    ("n", "q", "p", "secrets", "errors", "m", "rounding"),
    [
        (24, 257, 0, BINARY, CentredBinomial(3), 35, "down"),
        (26, 97, 0, BINARY, TERNARY, 40, "down"),
        (32, 1021, 0, SparseSigned(5), CentredBinomial(3), 32, "down"),
        (18, 3329, 0, SparseBinary(6), Interval(-2, 2), 26, "down"),
        (20, 97, 0, DiscreteGaussian(2.0), CentredBinomial(2), 27, "down"),
        (28, 251, 15, TERNARY, NO_NOISE, 35, "nearest"),
        (30, 2048, 128, SparseTernary(4, 4), NO_NOISE, 34, "nearest"),
        (16, 17, 0, SparseSigned(5), DiscreteGaussian(1.0), 29, "down"),
        (19, 31, 8, SparseTernary(4, 4), NO_NOISE, 25, "down"),
    ],
)
def test_public_keys_of_other_kinds_are_broken(n, q, p, secrets, errors, m, rounding):
    pytest.importorskip("fpylll")
    parameters = LWEParameters(n, q, p, "uniform", Xs=secrets, Xe=errors)
    rng = np.random.default_rng(0)
    secret = secrets.draw(n, q, rng=rng)
    if secrets == BINARY:
        secret = (np.arange(n) < 0.8 * n).astype(int)  # more ones than usual
    samples, secret = make_samples(parameters, m, secret=secret, rounding=rounding, rng=rng)
    result = LatticeAttack()(samples, parameters, rng=0)
    assert result.outcome is AttackOutcome.BROKEN, result
    np.testing.assert_array_equal(result.secret, secret)
    labels = rng.integers(parameters.p, size=m)
    random = LWRSamples(samples.public, labels, rounding)
    assert not LatticeAttack(rounds=1, largest_block=20)(random, parameters, rng=0).outcome.succeeded


@pytest.mark.parametrize(
    ("n", "number", "sure"), [(16, 5, True), (11, 4, True), (16, 4, False), (3, 3, True)]
)
def test_a_puzzle_of_few_labels_is_broken_where_its_secret_is_unique(n, number, sure):
    puzzle = LWEParameters(n, 251, 251, "uniform", Xs=TERNARY)
    samples, secret = make_samples(puzzle, number, rng=0)
    result = MeetInTheMiddleAttack()(samples, puzzle, rng=0)
    assert result.outcome is (AttackOutcome.BROKEN if sure else AttackOutcome.TOO_FEW_SAMPLES), result
    assert result.log10_false == pytest.approx(n * np.log10(3) - number * np.log10(251), abs=0.02)
    assert not sure or np.array_equal(result.secret, secret)


@pytest.mark.parametrize(("q", "p", "number"), [(8192, 1024, 24), (251, 32, 40), (256, 4, 60)])
def test_labels_rounded_to_the_nearest_are_broken(q, p, number):
    pytest.importorskip("fpylll")
    saber = LWEParameters(12, q, p, "uniform", Xs=TERNARY)
    samples, secret = make_samples(saber, number, rounding="nearest", rng=1)
    for attack in (MeetInTheMiddleAttack(), ExhaustiveAttack(), LatticeAttack()):
        result = attack(samples, saber, rng=0)
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret)
    down = LWRSamples(samples.public, samples.labels)
    assert MeetInTheMiddleAttack()(down, saber, rng=0).outcome is AttackOutcome.NOTHING


@pytest.mark.parametrize(
    "attack", [ExhaustiveAttack(), MeetInTheMiddleAttack(), LatticeAttack(), BKWAttack()]
)
@pytest.mark.parametrize("number", [1, 2, 4])
def test_attacks_end_with_a_reason_on_the_fewest_samples(attack, number):
    samples, _ = make_samples(key(16, 251, TERNARY), number, rng=0)
    result = attack(samples, key(16, 251, TERNARY), rng=0)
    assert result.outcome in (AttackOutcome.TOO_FEW_SAMPLES, AttackOutcome.NOTHING, AttackOutcome.MISSING), (
        result
    )
