"""What the figures of attacks say: chance, near misses, advantage; part of the claims on attacks."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from lwe import Budget, LeastSquaresAttack, LWRParameters, TernaryLaw, distinguish, sufficient_examples
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._heads_by_hand import label, uniform_secret
from paper_checks.comparison import (
    Comparison,
    Kind,
    close,
    covers,
    equal,
    may_be_at_least,
    may_be_at_most,
    surely_above,
)
from paper_checks.faults import Fault, returned
from paper_checks.intervals import Interval, mean_interval, proportion_interval

_NO_CLOCK = Budget(seconds=None)


@check(
    "attacks/near-secrets",
    claim="A secret off by one in one entry still predicts a share of about 1 - p/(2q) of the labels of bits (63/64 "
    "at q = 64, p = 2), so attacks are scored by labels of fresh rows and not by recovery alone; a score at chance "
    "is no claim of security.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The exact law of T over all covariates with a_j = 1, by dynamic programming, n = 40: labels differ where T "
    "mod q/p is its last residue. Equal up to the distance of T from uniform.",
    constants={"share": 0.5, "off": 2e-3},
    wrong=Fault(
        "paper_checks.claims._heads_by_hand:label",
        lambda right: lambda t, q, p: right(t, q, 2 * p),
        "labels of twice as many levels",
    ),
)
def near_secrets(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The law of T, entry by entry."""
    n, found = 40, []
    for q, p in ((64, 2), (128, 8)):
        v = uniform_secret(n, q, rng)
        law = np.zeros(q)
        law[v[0] % q] = 1.0  # a_1 = 1
        for step in v[1:]:
            law = (law + np.roll(law, step)) / 2
        differ = 0.5 * sum(law[t] for t in range(q) if label(t, q, p) != label(t + 1, q, p))
        found.append(
            close(
                f"share of labels that differ, q = {q}, p = {p}",
                differ,
                constants["share"] * p / q,
                absolute=constants["off"],
            )
        )
    return found


@check(
    "attacks/chance-of-maximum",
    claim="The best of 25 guessed secrets has about .53 of 1000 labels (p = 2) right by chance alone, so an "
    "accuracy that is a maximum over candidates reads .53 and not .50 where nothing was learned; no claim of "
    "security.",
    source="derived here, for the .53 seen in attacks",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="Mean of the maximum over drawn wrong secrets, n = 24, q = 64, and the exact mean of the maximum of "
    "independent binomials. That 25 and 1000 are the numbers behind the figure is an assumption of ours.",
    constants={"candidates": 25, "labels": 1000, "reads": 0.53, "margin": 0.003, "single": 0.5},
    wrong={"candidates": 1},
    false_alarm=2e-4,
)
def chance_of_maximum(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Guess, and take the best."""
    from scipy.stats import binom

    number, guesses, q = constants["labels"], constants["candidates"], 64
    best, single = [], []
    for _ in range(80 if scale is Scale.QUICK else 1000):
        rows = rng.integers(2, size=(number, 24))
        labels, guessed = (2 * (rows @ rng.integers(q, size=(24, k)) % q) // q for k in (1, guesses))
        shares = (labels == guessed).mean(axis=0)
        best.append(float(shares.max()))
        single.append(float(shares[0]))
    exact = float((1 - binom.cdf(np.arange(number), number, 0.5) ** guesses).sum()) / number
    return [
        covers(
            "share of the best",
            mean_interval(best, confidence=0.9999),
            constants["reads"],
            margin=constants["margin"],
        ),
        close(
            "the same for independent guesses, exactly",
            exact,
            constants["reads"],
            absolute=constants["margin"],
        ),
        covers(
            "share of one",
            mean_interval(single, confidence=0.9999),
            constants["single"],
            margin=constants["margin"],
        ),
    ]


@check(
    "attacks/distinguisher",
    claim="A learner that predicts labels tells them from random ones: least squares on ternary secrets, n = 16, q "
    "= 64, p = 2, has an advantage above 0, and takes random labels for real in a share of at most delta = .01; "
    "where no advantage is seen, that is no claim of security.",
    source="derived here (proof of the level: docstring of lwe.distinguish)",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="The library's distinguisher, 20 runs on labels of fresh secrets and 20 on random labels (100 in full), "
    "with its own interval for the advantage, at the confidence .999 (two intervals of .9995).",
    constants={"n": 16, "modulus": 64, "delta": 0.01, "no_advantage": 0.0},
    wrong={"modulus": 4},
    false_alarm=2e-3,
)
def distinguisher(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Run it on both kinds of labels."""
    parameters = LWRParameters(constants["n"], constants["modulus"], 2, secret=TernaryLaw())
    found = distinguish(
        LeastSquaresAttack(), parameters, runs=20 if scale is Scale.QUICK else 100, examples=200, fresh=300,
        false_alarm=constants["delta"], confidence=0.999, budget=_NO_CLOCK, rng=rng,
    )  # fmt: skip
    low, high = found.interval
    return [
        surely_above(
            "advantage",
            Interval(low, found.advantage, high, 0.999, "two of Clopper and Pearson"),
            constants["no_advantage"],
        ),
        may_be_at_most(
            "share of random labels taken for real",
            proportion_interval(found.random_detected, found.runs, confidence=0.999),
            constants["delta"],
        ),
    ]


@check(
    "attacks/sufficient-examples",
    claim="A hypothesis with E(h - b)^2 <= 1 - eps on labels b of -1 and 1 tells them from random ones, up to "
    "errors delta on both sides, with 32 ln(1/delta)/eps^2 fresh examples; that a learner reaches no such eps is no "
    "claim of security.",
    source="derived here (proof: docstrings of lwe.distinguish and lwe.sufficient_examples)",
    kind=Kind.STATISTICAL,
    basis=Basis.PROVED,
    how="The library's number against the formula, and the test written out, sum(2hb - h^2) >= 2 ln(1/delta), on "
    "labels that agree with b' with E b b' = sqrt(eps), h = sqrt(eps) b', and on random labels. How few examples do "
    "is open.",
    constants={"factor": 32, "power": 2, "delta": 0.05},
    wrong=Fault(
        "lwe.reduction:sufficient_examples", returned(lambda number: number // 2), "half of the examples"
    ),
    false_alarm=2e-3,
)
def sufficient(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The number, and both errors of the test."""
    delta, runs = constants["delta"], 300 if scale is Scale.QUICK else 3000
    gains = (0.5, 0.1, 0.02)
    formula = [
        math.ceil(constants["factor"] * math.log(1 / delta) / gain ** constants["power"]) for gain in gains
    ]
    gain, number = gains[0], sufficient_examples(gains[0], delta)
    size = math.sqrt(gain)
    taken = []
    for correlation in (size, 0.0):
        agree = rng.random((runs, number)) < (1 + correlation) / 2
        terms = np.where(agree, 2 * size - gain, -2 * size - gain)
        taken.append(int((terms.sum(axis=1) >= 2 * math.log(1 / delta)).sum()))
    return [
        equal("examples for eps = .5, .1, .02", [sufficient_examples(one, delta) for one in gains], formula),
        may_be_at_least(
            "share of real labels taken for real",
            proportion_interval(taken[0], runs, confidence=0.999),
            1 - delta,
        ),
        may_be_at_most(
            "share of random labels taken for real",
            proportion_interval(taken[1], runs, confidence=0.999),
            delta,
        ),
    ]
