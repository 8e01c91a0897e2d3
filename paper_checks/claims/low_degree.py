"""Claims: Low-degree tests, and noise on labels."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import comb, inf

import numpy as np
from numpy.random import Generator

from lower.low_degree import advantage_within_dimension, dimension_within_advantage
from lower.walsh import walsh_hadamard
from paper_checks.check import Constants, Scale
from paper_checks.claims._gated_parities import all_inputs, hidden_parity, secrets_of
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_most, equal
from paper_checks.faults import returned
from sq import (
    ParityFamily,
    ProfileFamily,
    SQFamily,
)

_SPREAD = (ProfileFamily.bump(dim=12, bits=6), ProfileFamily.designed_steps(dim=12, bits=6, heads_count=4))


@checks(
    "low-degree/advantage",
    lambda right: lambda steps, samples, degree, most: right(steps, samples + 1, degree, most + 1),
)
def advantage(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The likelihood ratio is written out over all inputs and labels of n samples, averaged over all secrets, and
    transformed. Takes d = 3, l = 1 and 2, n = 1, 2 (full: 3), eta = 0 and .125, every D. Row 1 is shown; row 2 is its
    negative. The sum for parities is compared in fractions at d = 40, l = 3.
    """
    for bits, rate in product((1, 2), (0.0, 0.125)):
        pairs = ParityFamily(dim=3, bits=bits, construction="B").secret_pairs.flipped(rate)
        x = all_inputs(2, 3)
        means = [(1 - 2 * rate) * hidden_parity(x, one)[:, 0] for one in secrets_of(3, bits)]
        for samples in (1, 2) if scale is Scale.QUICK else (1, 2, 3):
            ratio = np.mean([_ratio(mean, samples) for mean in means], axis=0)
            norms = np.bincount(np.bitwise_count(np.arange(len(ratio))), weights=walsh_hadamard(ratio) ** 2)
            wanted = np.cumsum(norms)[1:] - 1
            found = [
                float(pairs.squared_advantage(samples=samples, degree=degree))
                for degree in range(1, len(norms))
            ]
            worst = float(np.abs(np.array(found) - wanted).max())
            yield at_most(f"l = {bits}, n = {samples}, eta = {rate}: off by", worst, claim.rounding)
    pairs, targets = ParityFamily(dim=40, bits=3).secret_pairs, comb(39, 3)
    for samples, degree in product((100, 10_000), (7, 8, 16, 40)):
        most = degree // (7 + claim.label)
        wanted_sum = sum(Fraction(comb(samples, t), 2**t * targets) for t in range(1, most + 1))
        found_sum = pairs.squared_advantage(samples=samples, degree=degree)
        yield equal(f"d = 40, l = 3, n = {samples}, D = {degree}", found_sum, wanted_sum)


@checks("low-degree/monotone", returned(lambda factor: (1 + factor) / 2))
def monotone(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """In fractions, for a bump, designed steps and a parity at d = 12: n, D and the touched samples up to 40. Terms of
    t samples are differences over the touched samples.
    """
    for family in (*_SPREAD, ParityFamily(dim=12, bits=3)):
        pairs = family.secret_pairs
        for name, values in (
            ("n", [pairs.squared_advantage(samples=n, degree=21) for n in range(1, 41, 3)]),
            ("D", [pairs.squared_advantage(samples=40, degree=degree) for degree in range(1, 41, 3)]),
            ("touched", [pairs.squared_advantage(samples=40, touched=t) for t in range(1, 41, 3)]),
        ):
            yield equal(f"{family.title}: falls in {name}", any(a > b for a, b in pairwise(values)), False)
        for rate in (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
            flipped = pairs.flipped(float(rate))
            for t in (1, 2, 3):
                clean, noisy = (
                    one.squared_advantage(samples=40, touched=t)
                    - (one.squared_advantage(samples=40, touched=t - 1) if t > 1 else 0)
                    for one in (pairs, flipped)
                )
                wanted = (1 - 2 * rate) ** (claim.power * t) * clean
                yield equal(f"{family.title}: eta = {rate}, term of {t} samples", noisy, wanted)


@checks("low-degree/dimension", returned(lambda found: found / 3))
def dimension(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The docstrings have the proofs. The dimension is also read off all pairs of secrets, sorted, and so are both
    bounds: a bump, designed steps and a parity, m = 4 to 40, n = 8 to 120, k = 2 and 4.
    """
    for family in (*_SPREAD, ParityFamily(dim=12, bits=3)):
        pairs = family.secret_pairs
        for at in (4, 10, 40):
            found = pairs.statistical_dimension(samples=at)
            if not 0 < found < inf:
                continue
            by_hand = _dimension(family, at)
            yield at_most(f"{family.title}, m = {at}: SDA by hand, relative", abs(found / by_hand - 1), 1e-3)
            for samples, touched in product((8, 30, 120), (2, 4)):
                seen = pairs.squared_advantage(samples=samples, touched=touched)
                low = dimension_within_advantage(seen, samples=samples, touched=touched, at=at)
                name = f"{family.title}, m = {at}, n = {samples}, k = {touched}"
                yield at_most(f"{name}: SDA from below, over it", low / found, 1 + claim.slack)
                high = advantage_within_dimension(
                    found, at=at, samples=samples, touched=touched, largest=max(pairs.totals)
                )
                yield at_most(f"{name}: advantage^2 over its bound", float(seen) / high, 1 + claim.slack)


def _ratio(mean: np.ndarray, samples: int) -> np.ndarray:
    """The likelihood ratio at all inputs and labels of n samples; the label is the last bit of a sample."""
    own = np.concatenate([1 + mean, 1 - mean])
    whole = own
    for _ in range(samples - 1):
        whole = np.multiply.outer(own, whole).ravel()
    return whole


def _dimension(family: SQFamily, at: int) -> float:
    """1/sqrt of the smallest share of all pairs, largest correlations first, with an average of at most 1/m."""
    unit = float(max(family.secret_pairs.totals))
    rows = np.stack([family.correlations(one) for one in range(family.secrets.size)])
    averages = np.cumsum(np.sort(np.abs(rows).ravel())[::-1]) / np.arange(1, rows.size + 1)
    return float((int(np.flatnonzero(unit * averages <= 1 / at)[0]) + 1) / rows.size) ** -0.5
