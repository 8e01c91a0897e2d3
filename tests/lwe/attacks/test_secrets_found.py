"""Every attack finds the secrets of the problems that it is for, to the last entry."""

from importlib.util import find_spec

import numpy as np
import pytest

from lwe import (
    BINARY,
    TERNARY,
    BKWAttack,
    CentredBinomial,
    DecodingAttack,
    DiscreteGaussian,
    ExhaustiveAttack,
    Flips,
    Interval,
    LatticeAttack,
    LeastSquaresAttack,
    LinearisationAttack,
    LWEParameters,
    LWRSamples,
    MeetInTheMiddleAttack,
    SparseBinary,
    SparseSigned,
    make_samples,
)
from lwe.attacks.attack import AttackOutcome, Budget
from lwe.attacks.linearisation import label_degree

POWER, PRIME = 2**40, 8589934609  # products of two residues overflow 64 bits
BITS = LWEParameters(16, 64, 2)
SLOW = pytest.mark.slow


def noisy(n, rate):
    return LWEParameters(n, 2, 2, Xe=Flips(rate))


def uniform(n, q, p=0, **other):
    return LWEParameters(n, q, p, "uniform", **other)


SMALL = {"Xs": TERNARY}
BKW = [
    (noisy(14, 0.3), 3000),
    (noisy(32, 0.1), 5_000),
    (LWEParameters(24, 64, 2), 20_000),  # rows of bits
    (LWEParameters(16, 64, 2, "ternary"), 20_000),
    (LWEParameters(6, 64, 8, "gadget"), 20_000),
    (uniform(4, 60, 3), 20_000),
    (LWEParameters(16, 16, 16, Xe=CentredBinomial(1)), 5_000),
    (uniform(5, 31, Xe=CentredBinomial(2)), 20_000),
]
SEARCHED = [
    uniform(10, 64, 2, **SMALL),
    uniform(10, 64, 8, **SMALL),
    uniform(10, 100, 7, Xs=BINARY),
    uniform(16, 64, 8, Xs=SparseSigned(3)),
    uniform(7, 101, **SMALL, Xe=DiscreteGaussian(2.0)),
    uniform(6, 127, 16, Xs=CentredBinomial(2), Xe=CentredBinomial(2)),
    uniform(5, 3329, Xs=DiscreteGaussian(1.0), Xe=DiscreteGaussian(3.0)),
    LWEParameters(2, 128, 4, "gadget"),
    uniform(3, 17, 2),
    *(uniform(8, q, 2**10, **SMALL) for q in (PRIME, POWER)),
]
LINEARISED = [
    *(LWEParameters(300, 2, 2, matrix) for matrix in ("binary", "ternary", "gadget")),
    *(LWEParameters(n, q, 2, "gadget") for n, q in ((12, 8), (30, 4))),
    LWEParameters(32, 4, 2),
    uniform(5, 16, 2),
    LWEParameters(12, 8, 2, "ternary"),
    LWEParameters(10, 256, 128),
    LWEParameters(10, 1 << 16, 1 << 14, "gadget"),
    uniform(10, 64, 64),
    LWEParameters(10, 64, 16, "ternary"),
    uniform(6, POWER, POWER // 2),
]
REDUCED = [
    *(uniform(n, 128, levels) for n, levels in ((40, 32), (20, 8), (12, 4), (4, 2))),
    uniform(30, 97, **SMALL, Xe=DiscreteGaussian(1.5)),
    uniform(24, 60, 12, Xs=CentredBinomial(2)),
    LWEParameters(20, 101, 25, "ternary"),
    *(uniform(10, q, p) for q, p in ((POWER, 2**30), (PRIME, 2**20))),
    uniform(10, POWER, Xe=DiscreteGaussian(1000.0)),
    # no label is right: the likelihood shows the secret
    *(uniform(16, 2**20, Xe=DiscreteGaussian(sigma)) for sigma in (200.0, 5000.0)),
]
DECODED = [
    BITS.updated(n=24),
    BITS.updated(n=20, matrix="ternary"),
    BITS.updated(n=40, p=8),
    BITS.updated(n=20, q=97, p=97, Xe=DiscreteGaussian(12.0)),
]
# public keys of as many samples as entries or a few more, and labels rounded to the nearest
KEYS = [
    *(
        uniform(n, q, Xs=law, Xe=law, m=n)
        for n, q in ((16, 251), (24, 257))
        for law in (TERNARY, CentredBinomial(2))
    ),
    uniform(26, 97, Xs=BINARY, Xe=TERNARY, m=40),
    uniform(32, 1021, Xs=SparseSigned(5), Xe=CentredBinomial(3), m=32),
    uniform(18, 3329, Xs=SparseBinary(6), Xe=Interval(-2, 2), m=26),
    uniform(20, 97, Xs=DiscreteGaussian(2.0), Xe=CentredBinomial(2), m=27),
    uniform(16, 17, Xs=SparseSigned(5), Xe=DiscreteGaussian(1.0), m=29),
]
NEAREST = [uniform(12, q, p, **SMALL, m=m) for q, p, m in ((8192, 1024, 24), (251, 32, 40), (256, 4, 60))]
NEAREST += [uniform(28, 251, 15, **SMALL, m=35)]
# the attack, the problem, how many samples, how many seeds
FOUND = [
    *((BKWAttack(), made, number, 1) for made, number in BKW),
    *(
        (search, made, 500, 2 if made.q < PRIME else 1)
        for made in SEARCHED
        for search in (ExhaustiveAttack(), MeetInTheMiddleAttack())
    ),
    *((LinearisationAttack(), made, 2500, 1) for made in LINEARISED),
    (LeastSquaresAttack(), LWEParameters(24, 251, 32, Xs=TERNARY), 5000, 1),
    *((LatticeAttack(), made, 1000, 1) for made in REDUCED),
    (LatticeAttack(), uniform(60, 113, Xs=SparseSigned(4), Xe=DiscreteGaussian(3.0)), 1500, 2),
    *((DecodingAttack(), made, 20_000, 2) for made in DECODED),
    *((LatticeAttack(), made, made.m, 1) for made in KEYS),
    *(
        pytest.param(*row, 1, marks=SLOW)
        for row in (
            (BKWAttack(), noisy(48, 0.125), 100_000),
            (DecodingAttack(), BITS.updated(n=32), 20_000),
            (DecodingAttack(), BITS.updated(n=56, p=4), 20_000),
        )
    ),
]


@pytest.mark.parametrize(("attack", "made", "number", "seeds"), FOUND, ids=str)
def test_the_secret_is_found(attack, made, number, seeds):
    if attack.name in ("lattice", "bdd") and find_spec("fpylll") is None:
        pytest.skip("fpylll is not installed (extra `lattice`)")
    for seed in range(seeds):
        samples, secret = make_samples(made, number, rng=seed + 1)
        result = attack(samples, made, rng=seed, budget=Budget(60.0))
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret, err_msg=str(result))
        right = made.best_accuracy
        assert abs(result.accuracy - right) < 4 * np.sqrt(right * (1 - right) / number) + 1e-12
        if attack.name == "bkw":  # the samples that are left are as many as planned
            np.testing.assert_allclose(result.details["samples"], result.details["expected"], rtol=0.3)
        if made.m is not None:
            assert result.log10_false < -4
            random = LWRSamples(samples.public, np.random.default_rng(0).permutation(samples.labels))
            assert not LatticeAttack(rounds=1, largest_block=20)(random, made, rng=0).outcome.succeeded
        if attack.name == "linearisation":
            assert result.details["degree"] == label_degree(made) == made.q // made.p
        assert made.n != 60 or result.details["columns_left_out"] > 0


@pytest.mark.parametrize("made", NEAREST, ids=str)
def test_labels_rounded_to_the_nearest_give_the_secret(made):
    pytest.importorskip("fpylll")
    samples, secret = make_samples(made, made.m, rounding="nearest", rng=1)
    searches = (MeetInTheMiddleAttack(), ExhaustiveAttack()) if made.n < 20 else ()
    for attack in (LatticeAttack(), *searches):
        result = attack(samples, made, rng=0)
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret)
    down = LWRSamples(samples.public, samples.labels)
    assert made.n > 20 or MeetInTheMiddleAttack()(down, made, rng=0).outcome is AttackOutcome.NOTHING
