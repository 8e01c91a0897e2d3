"""How many heads learning with rounding takes; part of the claims on its realisation."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import LWEParameters
from lwe.heads import lwr_heads
from lwe.parameters import covariate_form
from paper_checks.check import Constants, Scale
from paper_checks.claims import _heads_by_hand as by_hand
from paper_checks.claims._faults import NO_PADS
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, covers, equal, surely_above
from studies.intervals import mean_interval, proportion_interval


@checks("rounding/head-count", NO_PADS, share=Fraction(1, 4))
def head_count(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The mean of p |v|_1/q is a sum over all residues (q even, 2 to 256). Heads of drawn secrets at n = 64
    are counted by walking along f and by the library. Proof of the bound: the least and the greatest T are
    |v|_1 apart. Between them f jumps once for each multiple of q/p, rounded up.
    """
    n, secrets = 64, 2 if scale is Scale.QUICK else 200
    means = {
        Fraction(p * n, q) * Fraction(sum(min(r, q - r) for r in range(q)), q) / (p * n)
        for p in (2, 4, 8)
        for q in range(2, 257, 2)
    }
    off, same = Fraction(0), True
    for q, p in ((16, 2), (64, 2), (256, 4), (1024, 2), (101, 7), (10, 4)):
        parameters = LWEParameters(n=n, q=q, p=p)
        for _ in range(secrets):
            v = by_hand.uniform_secret(n, q, rng)
            counted = len(by_hand.jumps(*by_hand.ends(v), q, p)) + claim.pads
            same &= len(lwr_heads(np.array(v), parameters)) == counted
            off = max(off, abs(counted - 2 - Fraction(p * sum(map(abs, v)), q)))
    yield equal("means of |v|_1/(n q) over uniform secrets, even q", sorted(means), [claim.share])
    yield equal("the library's heads are the jumps and the pads", same, True)
    yield equal("heads less 2 are within the bound", off < claim.most_off, True)


@checks("rounding/jump-count-quarter")
def jump_count_quarter(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws secrets of several sizes and counts jumps by walking along f. The claim follows from
    rounding/head-count: with J >= 8 jumps, p |v|_1/q is within 1 of J, so J is off by less than 1/7 of it.
    """
    worst, seen = 0.0, 0
    for n, q, p in ((12, 16, 4), (24, 64, 2), (32, 128, 4), (40, 17, 2), (64, 64, 2)):
        for _ in range(10 if scale is Scale.QUICK else 200):
            v = by_hand.uniform_secret(n, q, rng)
            found = len(by_hand.jumps(*by_hand.ends(v), q, p))
            if found >= claim.least_jumps:
                formula = claim.jumps_per_wrap * p * sum(map(abs, v)) / q
                worst, seen = max(worst, abs(found - formula) / formula), seen + 1
    yield at_least("secrets with so many jumps", float(seen), 20.0)
    yield at_most("largest relative gap", worst, claim.within)


@checks("rounding/truncation", NO_PADS)
def truncation(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts the share exactly for one secret, by whole numbers and dynamic programming over T. Counts heads
    by arithmetic from sums of v for many secrets, and by the library for some. The bound is proved. The
    averages are pn/4 + 2 and 6p sqrt(n/12) + 2 up to 1, measured here.
    """
    n, q, p, deviations = (claim[name] for name in ("n", "q", "p", "deviations"))
    parameters = LWEParameters(n=n, q=q, p=p)
    v = np.mod(rng.integers(q, size=(4000 if scale is Scale.QUICK else 20_000, n)), q)
    v[2 * v > q] -= q
    low, high = np.where(v < 0, v, 0).sum(axis=1), np.where(v > 0, v, 0).sum(axis=1)
    middle, reach = v.sum(axis=1) / 2, deviations * np.sqrt((v * v).sum(axis=1)) / 2
    every = _multiples(low, high, q // p) + 2
    kept = _multiples(np.ceil(middle - reach), np.floor(middle + reach), q // p) + 2
    same = all(
        (len(lwr_heads(one, parameters)), len(lwr_heads(one, parameters, deviations=deviations))) == (a, b)
        for one, a, b in zip(v[:20], every[:20], kept[:20], strict=True)
    )
    typical = float(np.median(kept[every == claim.example]))
    yield at_most(
        "share of covariates beyond, exactly counted",
        _tail(v[0].tolist(), deviations),
        2 * math.exp(-(deviations**2) / claim.exponent_divisor),
    )
    yield equal("the library has as many heads", same, True)
    yield covers(
        "heads", mean_interval(every.astype(float), confidence=0.9999), claim.all, margin=claim.margin
    )
    yield covers(
        "heads that are kept",
        mean_interval(kept.astype(float), confidence=0.9999),
        claim.kept,
        margin=claim.margin,
    )
    yield at_least("median kept, of secrets with 121 heads", typical, claim.example_kept[0])
    yield at_most("median kept, of secrets with 121 heads", typical, claim.example_kept[1])


@checks("rounding/gadget-size", NO_PADS)
def gadget_size(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts heads from sums of v by arithmetic, and by the library for 20 secrets. More than 3/4 of secrets
    are in the range named. It is no bound.
    """
    n, q, p = (claim[name] for name in ("n", "q", "p"))
    parameters = LWEParameters(n, q, p, matrix="gadget")
    secrets = rng.integers(q, size=(4000 if scale is Scale.QUICK else 40_000, n))
    kappa = q.bit_length() - 1
    v = np.concatenate([secrets * 2**i % q for i in range(kappa)], axis=1)
    v[2 * v > q] -= q
    heads = 2 + _multiples(np.where(v < 0, v, 0).sum(axis=1), np.where(v > 0, v, 0).sum(axis=1), q // p)
    same = all(
        len(lwr_heads(covariate_form(s, parameters), parameters)) == m
        for s, m in zip(secrets[:20], heads[:20], strict=True)
    )
    within = int(((heads >= claim.least) & (heads <= claim.most)).sum())
    yield equal("d", parameters.dim, claim.d)
    yield equal("d as n' log2 q and the gate", n * kappa + 1, claim.d)
    yield equal("the library has as many heads", same, True)
    yield covers(
        "heads", mean_interval(heads.astype(float), confidence=0.9999), claim.mean, margin=claim.margin
    )
    yield surely_above(
        "share of secrets in the range",
        proportion_interval(within, len(heads), confidence=0.9999),
        claim.share,
    )


def _multiples(low: np.ndarray, high: np.ndarray, step: int) -> np.ndarray:
    """How many multiples of the step are in (low, high]. Where p divides q, these are the jumps of f with q/p
    = step.
    """
    return np.floor_divide(high, step).astype(int) - np.floor_divide(low, step).astype(int)


def _tail(v: list[int], deviations: float) -> float:
    """The share of bits a with |<v, a> - sum(v)/2| > deviations |v|_2 / 2, counted in whole numbers."""
    low, high = by_hand.ends(v)
    counts = np.zeros(high - low + 1, dtype=object)
    counts[-low] = 1
    for step in v:
        moved = np.zeros_like(counts)
        moved[max(step, 0) : len(counts) + min(step, 0)] = counts[max(-step, 0) : len(counts) - max(step, 0)]
        counts = counts + moved
    twice = 2 * np.arange(low, high + 1) - sum(v)
    beyond = twice**2 > deviations**2 * sum(one * one for one in v)
    return float(Fraction(int(counts[beyond].sum()), 2 ** len(v)))
