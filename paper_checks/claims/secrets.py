"""Claims: Rounding: secrets and certificates."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import (
    LWRParameters,
    TernaryLaw,
    distance_from_uniform,
    log2_distance_from_uniform,
    low_degree_weights,
    total_variation_from_uniform,
    wrap_ratio,
)
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims import _secret_correlations as correlations
from paper_checks.claims._heads_by_hand import all_bits, label, uniform_secret
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    close,
    covers,
    equal,
    surely_below,
)
from paper_checks.faults import Fault, returned
from paper_checks.intervals import mean_interval, median_interval

_TINY = -400.0  # in place of log10 0, in medians


@check(
    "secrets/distance-by-counting",
    claim="The total variation distance (1/2) sum_r |P(T = r mod q) - 1/q| of T = <v, a>, a uniform bits, is given "
    "exactly by dynamic programming over the coordinates.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Drawn secrets of n = 3 to 11 and q = 2 to 64: the library's fraction against a count of all 2^n "
    "covariates.",
    constants={"share": Fraction(1, 2)},
    wrong=Fault(
        "lwe.uniformity:total_variation_from_uniform",
        returned(lambda distance: 2 * distance),
        "the distance without the factor 1/2",
    ),
)
def distance_by_counting(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Fractions against fractions."""
    library, counted = [], []
    for n, q in ((3, 2), (5, 3), (6, 8), (8, 17), (10, 16), (11, 64)):
        for _ in range(3 if scale is Scale.QUICK else 30):
            v = uniform_secret(n, q, rng)
            law = np.bincount(_products(v) % q, minlength=q)
            library.append(total_variation_from_uniform(np.array(v), q))
            counted.append(
                constants["share"] * sum(abs(Fraction(int(one), 2**n) - Fraction(1, q)) for one in law)
            )
    return [equal("distances of drawn secrets", library, counted)]


@check(
    "secrets/distance-by-characters",
    claim="The deviations from 1/q are (1/q) sum_{w != 0} e^(-2 pi i w r/q) prod_j e^(pi i w v_j/q) cos(pi w "
    "v_j/q); built from these, in logarithms, the distance keeps its digits far below 1e-16, where subtracting 1/q "
    "in double precision leaves only rounding.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The sum over characters, written out in complex numbers, and the library's logarithms against exact "
    "fractions of drawn secrets, up to n = 300 at q = 15 where distances are below 1e-25; the distance by "
    "subtraction beside it.",
    constants={"angle": math.pi, "relative": 1e-8, "log2_rounding": 1e-8, "floor": 1e-18, "far": 1e-25},
    wrong=Fault("lwe.characters:_log_cosines", returned(lambda logs: logs / 2), "the roots of the cosines"),
)
def distance_by_characters(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Three ways to the same number."""
    worst = 0.0
    for n, q in ((6, 9), (10, 16), (16, 64)):
        v = np.array([*uniform_secret(n - 1, q, rng), 1])
        exact = float(total_variation_from_uniform(v, q))
        w, r = np.arange(1, q), np.arange(q)
        turns = constants["angle"] * np.multiply.outer(w, v) / q
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
    return [
        at_most("gap of the sum over characters, relative", worst, constants["relative"]),
        at_most("an exact distance at n = 300", float(tiny), constants["far"]),
        close(
            "its log2 in the library",
            log2_distance_from_uniform(v, 15),
            _log2(tiny),
            absolute=constants["log2_rounding"],
        ),
        at_least("the same by subtraction", by_subtraction, constants["floor"]),
    ]


@check(
    "secrets/distance-rate",
    claim="With rho = |v|_2/(2q) the distance of T mod q from uniform is about e^(-2 pi^2 rho^2) for secrets of "
    "small entries (2/pi times it, once rho is above 0.4), and the first character is at most that for every centred "
    "secret; at rho = 1/2 it is below 0.72 %.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Line through ln(distance) against rho^2 for secrets with entries in [-4, 4], n = 2000, q from 45 to 145. "
    "The bound on the first character is cos x <= e^(-x^2/2) up to pi/2, tried on uniform secrets. For these other "
    "characters can be larger: there the rate is an order of magnitude, see secrets/medians.",
    constants={
        "rate": 2.0,
        "slope_off": 0.02,
        "front": 2 / math.pi,
        "front_off": 0.15,
        "least_rho": 0.5,
        "at_least_rho": 0.0072,
    },
    wrong=Fault("lwe.characters:distance_from_uniform", returned(math.sqrt), "the root of the distance"),
)
def distance_rate(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The slope, the factor in front, and the bound."""
    rate = constants["rate"] * math.pi**2
    v = rng.integers(-4, 5, size=2000)
    moduli = range(45, 146, 4)
    squares = np.array([float(v @ v) / (2 * q) ** 2 for q in moduli])
    logs = np.log([distance_from_uniform(v, q) for q in moduli])
    slope, height = np.polyfit(squares, logs, 1)
    over = 0.0
    for n, q in ((8, 16), (16, 64), (24, 64), (12, 17)):
        for _ in range(50):
            one = np.array(uniform_secret(n, q, rng))
            first = abs(float(np.prod(np.cos(np.pi * one / q))))
            over = max(over, first / math.exp(-rate * float(one @ one) / (2 * q) ** 2))
    half = round(math.sqrt(float(v @ v)) / (2 * constants["least_rho"]))
    return [
        close("slope of ln(distance) against rho^2", float(slope), -rate, relative=constants["slope_off"]),
        close(
            "factor in front", math.exp(float(height)), constants["front"], relative=constants["front_off"]
        ),
        at_most("first character over the bound", over, 1 + 1e-9),
        at_most("distance at rho = 1/2", distance_from_uniform(v, half), constants["at_least_rho"]),
    ]


@check(
    "secrets/medians",
    claim="For uniform secrets, q = 64, p = 2, the medians of the distance from uniform and of the label's weights "
    "W_1 and W_2 of degree 1 and 2 fall from (.16, 5e-3, 5e-2) at n = 8 to (1.3e-6, 8e-13, 7e-11) at n = 32.",
    source="measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Intervals for the medians of the decimal logarithms, by the library's certificates, which "
    "secrets/distance-by-counting and secrets/low-degree-weights hold to enumeration. The figures are medians of 25 "
    "to 40 secrets, so they are taken as uncertain by 0.3 decades.",
    constants={
        "q": 64,
        "n": (8, 16, 24, 32),
        "distance": (0.16, 5e-3, 5e-5, 1.3e-6),
        "first": (5e-3, 5e-6, 3e-9, 8e-13),
        "second": (5e-2, 1e-4, 1e-7, 7e-11),
        "decades": 0.3,
    },
    wrong=Fault("lwe.characters:_log_cosines", returned(lambda logs: logs / 2), "the roots of the cosines"),
    false_alarm=1.2e-3,
)
def medians(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Twelve medians."""
    found = []
    for place, n in enumerate(constants["n"]):
        drawn = _certificates(n, constants["q"], 80 if scale is Scale.QUICK else 2000, rng)
        for column, name in enumerate(("distance", "first", "second")):
            found.append(
                covers(
                    f"log10 of the {name}, n = {n}",
                    median_interval(drawn[:, column], confidence=0.9999),
                    math.log10(constants[name][place]),
                    margin=constants["decades"],
                )
            )
    return found


@check(
    "secrets/acceptance",
    claim="At n = 24, q = 64, p = 2, uniform secrets have a median distance from uniform below 1e-2 and a median "
    "weight W_1 below 1e-5 over 25 secrets.",
    source="derived here: acceptance figures of the project",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Intervals for the medians over 25 drawn secrets (200 in full). A small distance and small weights rule out "
    "some ways to learn the label, not all: no claim of security.",
    constants={"n": 24, "q": 64, "distance": 1e-2, "first": 1e-5},
    wrong=Fault(
        "lwe.characters:_log_cosines", returned(lambda logs: logs / 8), "the eighth roots of the cosines"
    ),
    false_alarm=2e-3,
)
def acceptance(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both medians."""
    drawn = _certificates(constants["n"], constants["q"], 25 if scale is Scale.QUICK else 200, rng)
    return [
        surely_below(
            f"log10 of the {name}",
            median_interval(drawn[:, column], confidence=0.999),
            math.log10(constants[name]),
        )
        for column, name in enumerate(("distance", "first"))
    ]


@check(
    "secrets/low-degree-weights",
    claim="W_j, the sum of the label's squared Fourier coefficients over sets of exactly j covariates as a share of "
    "E (f - (p-1)/2)^2, follows for j = 1 and 2 from products of characters.",
    source="derived here (proof: docstring of lwe.low_degree_weights)",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Drawn secrets, n up to 12: the library's character products against all 2^n values of the label in whole "
    "numbers, summed with the signs of each set.",
    constants={"degrees": (1, 2), "rounding": 1e-11},
    wrong=Fault(
        "lwe.characters:characters",
        returned(lambda found: replace(found, phases=np.ones_like(found.phases))),
        "characters without their phases",
    ),
)
def low_degree(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All sets of one and of two covariates."""
    worst = [0.0, 0.0]
    for n, q, p in ((6, 8, 2), (9, 16, 4), (10, 64, 2), (8, 7, 3), (12, 4, 2)):
        for _ in range(2 if scale is Scale.QUICK else 20):
            v = uniform_secret(n, q, rng)
            # 2f - (p - 1), so that all numbers are whole
            values = np.array([2 * label(int(t), q, p) - (p - 1) for t in _products(v)])
            signs = 1 - 2 * all_bits(n)
            moment = Fraction(int((values * values).sum()), 2**n)
            weights = low_degree_weights(np.array(v), LWRParameters(n, q, p))
            for place, found in enumerate((weights.first, weights.second)):
                total = sum(
                    int((values * signs[:, list(one)].prod(axis=1)).sum()) ** 2
                    for one in itertools.combinations(range(n), constants["degrees"][place])
                )
                worst[place] = max(worst[place], abs(found - float(Fraction(total, 4**n) / moment)))
    return [
        at_most(f"largest gap of W_{degree}", gap, constants["rounding"])
        for degree, gap in zip((1, 2), worst, strict=True)
    ]


@check(
    "secrets/small-secrets",
    claim="Ternary secrets of n = 40 entries hardly wrap around even at q = 17: rho is about .15 and the distance "
    "of T mod q from uniform about .4; rho reaches 1/2 only for q up to 5.",
    source="measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Drawn ternary secrets; rho and the distance by the library, rho also as sqrt(2n/3)/(2q).",
    constants={
        "n": 40,
        "q": 17,
        "rho": 0.15,
        "rho_margin": 0.003,
        "distance": 0.4,
        "distance_margin": 0.02,
        "largest": 5,
        "least_rho": 0.5,
    },
    wrong=Fault("lwe.uniformity:wrap_ratio", returned(lambda ratio: 2 * ratio), "|v|/q in place of |v|/(2q)"),
    false_alarm=2e-4,
)
def small_secrets(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Rho, the distance, and the moduli that would do."""
    n, q = constants["n"], constants["q"]
    secrets = [TernaryLaw().draw(n, q, rng=rng) for _ in range(200 if scale is Scale.QUICK else 4000)]
    typical = math.sqrt(2 * n / 3) / 2
    return [
        covers(
            "rho",
            mean_interval([wrap_ratio(v, q) for v in secrets], confidence=0.9999),
            constants["rho"],
            margin=constants["rho_margin"],
        ),
        covers(
            "distance",
            median_interval([distance_from_uniform(v, q) for v in secrets], confidence=0.9999),
            constants["distance"],
            margin=constants["distance_margin"],
        ),
        equal(
            "largest modulus with a typical rho of 1/2",
            max(q for q in range(2, 100) if typical / q >= constants["least_rho"]),
            constants["largest"],
        ),
    ]


@check(
    "secrets/distance-zero",
    claim="The distance can be exactly 0: for q = 2^kappa just where the secret has, for each i < kappa, an entry "
    "that is an odd multiple of 2^i, as each of these makes the characters of one power of two 0; for odd q never.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All secrets at q = 4 and 8, n = 3, and at q = 3, 5, 7, n = 3, by exact counts (in full also n = 4 at q = "
    "16 with a first entry 1). Proof: cos(pi w v_j/q) = 0 just where w v_j is an odd multiple of q/2, and T is "
    "uniform just where all characters are 0.",
    constants={"powers_left_out": 0, "odd_with_zero": 0},
    wrong={"powers_left_out": 1},
)
def distance_zero(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Valuations against exact counts."""
    same, zeros, odd = True, 0, 0
    for kappa, n, first in ((2, 3, None), (3, 3, None), (4, 4, 1))[: 2 if scale is Scale.QUICK else 3]:
        q = 2**kappa
        for v in itertools.product(range(q) if first is None else (first,), *[range(q)] * (n - 1)):
            has = {(one & -one).bit_length() - 1 for one in v if one}
            wanted = set(range(kappa - constants["powers_left_out"]))
            zero = total_variation_from_uniform(np.array(v), q) == 0
            zeros += zero
            same &= zero == (wanted <= has)
    for q in (3, 5, 7):
        odd += sum(
            total_variation_from_uniform(np.array(v), q) == 0 for v in itertools.product(range(q), repeat=3)
        )
    return [
        equal("secrets with distance 0 are those", same, True),
        equal("there are such", zeros > 0, True),
        equal("secrets with distance 0 at odd q", odd, constants["odd_with_zero"]),
    ]


# checks of this group that are written in a module of their own
correlation_exact, correlation_computed = correlations.correlation_exact, correlations.correlation_computed
statistical_dimension = correlations.statistical_dimension


def _products(v: Sequence[int] | np.ndarray) -> np.ndarray:
    """<v, a> for all 2^n vectors of bits."""
    return all_bits(len(v)) @ np.array(v)


def _log2(share: Fraction) -> float:
    return math.log2(share.numerator) - math.log2(share.denominator)


def _certificates(n: int, q: int, secrets: int, rng: Generator) -> np.ndarray:
    """Decimal logarithms of the distance, W_1 and W_2 of so many uniform secrets."""
    parameters, found = LWRParameters(n, q, 2), np.empty((secrets, 3))
    for row in found:
        v = np.array(uniform_secret(n, q, rng))
        weights = low_degree_weights(v, parameters)
        row[:] = log2_distance_from_uniform(v, q), weights.log2_first, weights.log2_second
    return np.maximum(found * math.log10(2), _TINY)
