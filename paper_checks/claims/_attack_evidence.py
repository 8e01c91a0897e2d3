"""Claims on the figures of attacks: chance, near misses, advantage."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from lwe import TERNARY, Budget, LeastSquaresAttack, LWEParameters, distinguish
from lwe.attacks.distinguishing import sufficient_examples
from paper_checks.check import Constants, Scale
from paper_checks.claims._heads_by_hand import label, uniform_secret
from paper_checks.claims.tables import checks
from paper_checks.comparison import (
    Comparison,
    close,
    covers,
    equal,
    may_be_at_least,
    may_be_at_most,
    surely_above,
)
from paper_checks.faults import returned
from studies.intervals import Interval, mean_interval, proportion_interval

_NO_CLOCK = Budget(seconds=None)


@checks("attacks/near-secrets", lambda right: lambda t, q, p: right(t, q, 2 * p))
def near_secrets(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the exact law of T over all covariates with a_j = 1 by dynamic programming, n = 40. Labels
    differ where T mod q/p is its last residue. The two are equal up to the distance of T from uniform.
    """
    n = 40
    for q, p in ((64, 2), (128, 8)):
        v = uniform_secret(n, q, rng)
        law = np.zeros(q)
        law[v[0] % q] = 1.0  # a_1 = 1
        for step in v[1:]:
            law = (law + np.roll(law, step)) / 2
        differ = 0.5 * sum(law[t] for t in range(q) if label(t, q, p) != label(t + 1, q, p))
        yield close(
            f"share of labels that differ, q = {q}, p = {p}", differ, claim.share * p / q, absolute=claim.off
        )


@checks("attacks/chance-of-maximum")
def chance_of_maximum(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the mean of the maximum over drawn wrong secrets, n = 24, q = 64, and the exact mean of the
    maximum of independent binomials. That the figure comes from 25 and 1000 is our assumption.
    """
    from scipy.stats import binom

    number, guesses, q = claim.labels, claim.candidates, 64
    best, single = [], []
    for _ in range(80 if scale is Scale.QUICK else 1000):
        rows = rng.integers(2, size=(number, 24))
        labels, guessed = (2 * (rows @ rng.integers(q, size=(24, k)) % q) // q for k in (1, guesses))
        shares = (labels == guessed).mean(axis=0)
        best.append(float(shares.max()))
        single.append(float(shares[0]))
    exact = float((1 - binom.cdf(np.arange(number), number, 0.5) ** guesses).sum()) / number
    yield covers(
        "share of the best", mean_interval(best, confidence=0.9999), claim.reads, margin=claim.margin
    )
    yield close("the same for independent guesses, exactly", exact, claim.reads, absolute=claim.margin)
    yield covers("share of one", mean_interval(single, confidence=0.9999), claim.single, margin=claim.margin)


@checks("attacks/distinguisher")
def distinguisher(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's distinguisher 20 times on labels of fresh secrets and 20 times on random labels (100
    in full). It has its own interval for the advantage, at the confidence .999 (two intervals of .9995).
    """
    parameters = LWEParameters(claim.n, claim.modulus, 2, Xs=TERNARY)
    found = distinguish(
        LeastSquaresAttack(), parameters, runs=20 if scale is Scale.QUICK else 100, examples=200, fresh=300,
        false_alarm=claim.delta, confidence=0.999, budget=_NO_CLOCK, rng=rng,
    )  # fmt: skip
    low, high = found.interval
    yield surely_above(
        "advantage",
        Interval(low, found.advantage, high, 0.999, "two of Clopper and Pearson"),
        claim.no_advantage,
    )
    yield may_be_at_most(
        "share of random labels taken for real",
        proportion_interval(found.random_detected, found.runs),
        claim.delta,
    )


@checks("attacks/sufficient-examples", returned(lambda number: number // 2))
def sufficient(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the library's number with the formula. Writes out the test sum(2hb - h^2) >= 2 ln(1/delta). It
    runs on labels that agree with b' with E b b' = sqrt(eps), h = sqrt(eps) b', and on random labels. How few
    examples suffice is not covered.
    """
    delta, runs = claim.delta, 300 if scale is Scale.QUICK else 3000
    gains = (0.5, 0.1, 0.02)
    formula = [math.ceil(claim.factor * math.log(1 / delta) / gain**claim.power) for gain in gains]
    gain, number = gains[0], sufficient_examples(gains[0], delta)
    size = math.sqrt(gain)
    taken = []
    for correlation in (size, 0.0):
        agree = rng.random((runs, number)) < (1 + correlation) / 2
        terms = np.where(agree, 2 * size - gain, -2 * size - gain)
        taken.append(int((terms.sum(axis=1) >= 2 * math.log(1 / delta)).sum()))
    yield equal("examples for eps = .5, .1, .02", [sufficient_examples(one, delta) for one in gains], formula)
    yield may_be_at_least(
        "share of real labels taken for real", proportion_interval(taken[0], runs), 1 - delta
    )
    yield may_be_at_most("share of random labels taken for real", proportion_interval(taken[1], runs), delta)
