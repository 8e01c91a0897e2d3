"""Claims: Rounding: secrets and certificates."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import TERNARY, LWEParameters
from lwe.labels import low_degree_weights, root_mean_square_correlation
from lwe.uniformity import log2_distance_from_uniform, total_variation_from_uniform, wrap_ratio
from paper_checks.check import Constants, Scale
from paper_checks.claims._heads_by_hand import all_bits, label, uniform_secret
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, covers, equal, surely_below
from paper_checks.faults import returned
from studies.intervals import mean_interval, median_interval

_TINY = -400.0  # in place of log10 0, in medians


@checks("secrets/distance-by-counting", returned(lambda distance: 2 * distance), share=Fraction(1, 2))
def distance_by_counting(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws secrets of n = 3 to 11 and q = 2 to 64. Compares the library's fraction with a count of all 2^n
    covariates.
    """
    library, counted = [], []
    for n, q in ((3, 2), (5, 3), (6, 8), (8, 17), (10, 16), (11, 64)):
        for _ in range(3 if scale is Scale.QUICK else 30):
            v = uniform_secret(n, q, rng)
            law = np.bincount(_products(v) % q, minlength=q)
            library.append(total_variation_from_uniform(np.array(v), q))
            counted.append(claim.share * sum(abs(Fraction(int(one), 2**n) - Fraction(1, q)) for one in law))
    yield equal("distances of drawn secrets", library, counted)


@checks("secrets/distance-by-characters", returned(lambda logs: logs / 2))
def distance_by_characters(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the sum over characters, written out in complex numbers, and the library's logarithms with
    exact fractions of drawn secrets. n goes up to 300 at q = 15, where distances are below 1e-25. The
    distance by subtraction is shown beside them.
    """
    worst = 0.0
    for n, q in ((6, 9), (10, 16), (16, 64)):
        v = np.array([*uniform_secret(n - 1, q, rng), 1])
        exact = float(total_variation_from_uniform(v, q))
        w, r = np.arange(1, q), np.arange(q)
        turns = claim.angle * np.multiply.outer(w, v) / q
        own = np.prod(np.exp(1j * turns) * np.cos(turns), axis=1)
        deviations = np.exp(-2j * np.pi * np.multiply.outer(r, w) / q) @ own / q
        worst = max(worst, abs(float(np.abs(deviations).sum()) / 2 - exact) / max(exact, 1e-6))
    # without an entry of q/2 in any multiple: odd q, so that the distance is never 0
    v = np.array(uniform_secret(300, 15, rng))
    tiny = total_variation_from_uniform(v, 15)
    law = np.zeros(15)
    law[0] = 1.0
    for step in v:
        law = (law + np.roll(law, int(step))) / 2
    by_subtraction = float(np.abs(law - 1 / 15).sum()) / 2
    yield at_most("gap of the sum over characters, relative", worst, claim.relative)
    yield at_most("an exact distance at n = 300", float(tiny), claim.far)
    yield close(
        "its log2 in the library",
        log2_distance_from_uniform(v, 15),
        _log2(tiny),
        absolute=claim.log2_rounding,
    )
    yield at_least("the same by subtraction", by_subtraction, claim.floor)


@checks("secrets/distance-rate", returned(lambda log2: log2 / 2))
def distance_rate(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Fits a line through ln(distance) against rho^2 for secrets with entries in [-4, 4], n = 2000, q from 45
    to 145. The bound on the first character is cos x <= e^(-x^2/2) up to pi/2, tried on uniform secrets. For
    uniform secrets other characters can be larger. There the rate is an order of magnitude, see
    secrets/medians.
    """
    rate = claim.rate * math.pi**2
    v = rng.integers(-4, 5, size=2000)
    moduli = range(45, 146, 4)
    squares = np.array([float(v @ v) / (2 * q) ** 2 for q in moduli])
    logs = math.log(2) * np.array([log2_distance_from_uniform(v, q) for q in moduli])
    slope, height = np.polyfit(squares, logs, 1)
    over = 0.0
    for n, q in ((8, 16), (16, 64), (24, 64), (12, 17)):
        for _ in range(50):
            one = np.array(uniform_secret(n, q, rng))
            first = abs(float(np.prod(np.cos(np.pi * one / q))))
            over = max(over, first / math.exp(-rate * float(one @ one) / (2 * q) ** 2))
    half = round(math.sqrt(float(v @ v)) / (2 * claim.least_rho))
    yield close("slope of ln(distance) against rho^2", float(slope), -rate, relative=claim.slope_off)
    yield close("factor in front", math.exp(float(height)), claim.front, relative=claim.front_off)
    yield at_most("first character over the bound", over, 1 + 1e-9)
    yield at_most("distance at rho = 1/2", 2.0 ** log2_distance_from_uniform(v, half), claim.at_least_rho)


@checks("secrets/medians", returned(lambda logs: logs / 2))
def medians(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes intervals for the medians of the decimal logarithms by the library's certificates.
    secrets/distance-by-counting and secrets/low-degree-weights compare those with enumeration. The figures
    are medians of 20,000 other secrets, so they are taken as uncertain by 0.04 decades.
    """
    for place, n in enumerate(claim.n):
        drawn = _certificates(n, claim.q, 300 if scale is Scale.QUICK else 4000, rng)
        for column, name in enumerate(("distance", "first", "second")):
            yield covers(
                f"log10 of the {name}, n = {n}",
                median_interval(drawn[:, column], confidence=0.9999),
                math.log10(claim[name][place]),
                margin=claim.decades,
            )


@checks("secrets/acceptance", returned(lambda logs: logs / 8))
def acceptance(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes intervals for the medians over 25 drawn secrets (200 in full). A small distance and small
    weights rule out some ways to learn the label, not all: this is no claim of security.
    """
    drawn = _certificates(claim.n, claim.q, 25 if scale is Scale.QUICK else 200, rng)
    for column, name in enumerate(("distance", "first")):
        yield surely_below(f"log10 of the {name}", median_interval(drawn[:, column]), math.log10(claim[name]))


@checks(
    "secrets/low-degree-weights", returned(lambda found: replace(found, phases=np.ones_like(found.phases)))
)
def low_degree(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws secrets with n up to 12. Compares the library's character products with all 2^n values of the
    label in whole numbers, summed with the signs of each set.
    """
    worst = [0.0, 0.0]
    for n, q, p in ((6, 8, 2), (9, 16, 4), (10, 64, 2), (8, 7, 3), (12, 4, 2)):
        for _ in range(2 if scale is Scale.QUICK else 20):
            v = uniform_secret(n, q, rng)
            # 2f - (p - 1), so that all numbers are whole
            values = np.array([2 * label(int(t), q, p) - (p - 1) for t in _products(v)])
            signs = 1 - 2 * all_bits(n)
            moment = Fraction(int((values * values).sum()), 2**n)
            weights = low_degree_weights(np.array(v), LWEParameters(n, q, p))
            for place, found in enumerate((weights.first, weights.second)):
                total = sum(
                    int((values * signs[:, list(one)].prod(axis=1)).sum()) ** 2
                    for one in itertools.combinations(range(n), claim.degrees[place])
                )
                worst[place] = max(worst[place], abs(found - float(Fraction(total, 4**n) / moment)))
    for degree, gap in zip((1, 2), worst, strict=True):
        yield at_most(f"largest gap of W_{degree}", gap, claim.rounding)


@checks("secrets/small-secrets", returned(lambda ratio: 2 * ratio))
def small_secrets(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws ternary secrets. The library computes rho and the distance, and rho is also computed as
    sqrt(2n/3)/(2q).
    """
    n, q = claim.n, claim.q
    secrets = [TERNARY.draw(n, q, rng=rng) for _ in range(200 if scale is Scale.QUICK else 4000)]
    typical = math.sqrt(2 * n / 3) / 2
    yield covers(
        "rho",
        mean_interval([wrap_ratio(v, q) for v in secrets], confidence=0.9999),
        claim.rho,
        margin=claim.rho_margin,
    )
    yield covers(
        "distance",
        median_interval([2.0 ** log2_distance_from_uniform(v, q) for v in secrets], confidence=0.9999),
        claim.distance,
        margin=claim.distance_margin,
    )
    yield equal(
        "largest modulus with a typical rho of 1/2",
        max(q for q in range(2, 100) if typical / q >= claim.least_rho),
        claim.largest,
    )


@checks("secrets/distance-zero")
def distance_zero(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all secrets at q = 4 and 8, n = 3, and at q = 3, 5, 7, n = 3, by exact counts. Full adds n = 4 at
    q = 16 with a first entry 1. Proof: cos(pi w v_j/q) = 0 exactly if w v_j is an odd multiple of q/2, and T
    is uniform exactly if all characters are 0.
    """
    same, zeros, odd = True, 0, 0
    for kappa, n, first in ((2, 3, None), (3, 3, None), (4, 4, 1))[: 2 if scale is Scale.QUICK else 3]:
        q = 2**kappa
        for v in itertools.product(range(q) if first is None else (first,), *[range(q)] * (n - 1)):
            has = {(one & -one).bit_length() - 1 for one in v if one}
            wanted = set(range(kappa - claim.powers_left_out))
            zero = total_variation_from_uniform(np.array(v), q) == 0
            zeros += zero
            same &= zero == (wanted <= has)
    for q in (3, 5, 7):
        odd += sum(
            total_variation_from_uniform(np.array(v), q) == 0 for v in itertools.product(range(q), repeat=3)
        )
    yield equal("secrets with distance 0 are those", same, True)
    yield equal("there are such", zeros > 0, True)
    yield equal("secrets with distance 0 at odd q", odd, claim.odd_with_zero)


def _products(v: Sequence[int] | np.ndarray) -> np.ndarray:
    """<v, a> for all 2^n vectors of bits."""
    return all_bits(len(v)) @ np.array(v)


def _log2(share: Fraction) -> float:
    return math.log2(share.numerator) - math.log2(share.denominator)


def _certificates(n: int, q: int, secrets: int, rng: Generator) -> np.ndarray:
    """Decimal logarithms of the distance, W_1 and W_2 of so many uniform secrets."""
    parameters, found = LWEParameters(n, q, 2), np.empty((secrets, 3))
    for row in found:
        v = np.array(uniform_secret(n, q, rng))
        weights = low_degree_weights(v, parameters)
        row[:] = log2_distance_from_uniform(v, q), weights.log2_first, weights.log2_second
    return np.maximum(found * math.log10(2), _TINY)


@checks("secrets/correlation-exact", returned(lambda square: square**2))
def correlation_exact(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all pairs of secrets at n = 2 to 5 for small q, in whole numbers. The second formula is checked
    for p = 4 and odd q.
    """
    pairs = [(_mean_square(n, q, 2), Fraction(1, claim.base ** (claim.power * n)))
             for n, q in ((2, 4), (3, 4), (4, 4), (3, 6), (3, 8), (5, 2))]  # fmt: skip
    general = []
    for n, q, p in ((2, 8, 4), (3, 8, 4), (3, 5, 2), (3, 7, 3)):
        mean = Fraction(sum(label(t, q, p) for t in range(q)), q)
        g = [label(t, q, p) - mean for t in range(q)]
        square = sum((one * one for one in g), Fraction(0)) / q
        general.append((_mean_square(n, q, p), ((2**n - 1) * square**2 + g[0] ** 4) / (4**n * square**2)))
    yield equal("mean squares, p = 2 and even q", *map(list, zip(*pairs, strict=True)))
    yield equal("mean squares, other p and q", *map(list, zip(*general, strict=True)))


@checks("secrets/correlation-computed", returned(lambda root: root**2))
def correlation_computed(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares the library's closed form with the sum over all pairs of secrets and all covariates at n = 2
    to 4, and with the power.
    """
    gaps = [
        abs(root_mean_square_correlation(LWEParameters(n, q, p)) - float(_mean_square(n, q, p)) ** 0.5)
        for n, q, p in ((2, 8, 2), (3, 8, 4), (3, 7, 2), (4, 4, 2), (2, 17, 5))
    ]
    n = claim.n
    yield at_most("largest gap of the root mean square", max(gaps), claim.rounding)
    yield close(
        "root mean square at n = 24",
        root_mean_square_correlation(LWEParameters(n, 64, 2)),
        2.0 ** (-claim.rate * n),
        relative=claim.rounding,
    )


def _gram(n: int, q: int, p: int) -> np.ndarray:
    """Inner products over all covariates of 2(f - mean) q of all secrets, in whole numbers."""
    values = np.array([p * t // q for t in range(q)])
    centre = 2 * q * values - 2 * int(values.sum())
    centre //= np.gcd.reduce(centre)
    secrets = np.array(list(itertools.product(range(q), repeat=n)))
    table = centre[secrets @ all_bits(n).T % q]
    found: np.ndarray = table @ table.T
    return found


def _mean_square(n: int, q: int, p: int) -> Fraction:
    """The mean over all pairs of secrets of (E g g')^2 over (E g^2)^2, exactly."""
    values = np.array([p * t // q for t in range(q)])
    centre = 2 * q * values - 2 * int(values.sum())
    centre //= np.gcd.reduce(centre)
    square = Fraction(int((centre * centre).sum()), q)
    gram = _gram(n, q, p)
    return Fraction(int((gram * gram).sum()), len(gram) ** 2 * 4**n) / square**2
