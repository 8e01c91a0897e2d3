"""Rounding: secrets and certificates."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import LWEParameters
from lwe.labels import root_mean_square_correlation
from lwe.residues import rounded
from lwe.uniformity import log2_distance_from_uniform, total_variation_from_uniform
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_most, close, equal
from paper_checks.faults import Fault, returned
from runs import Scale


@claim("secrets/distance-zero", source="derived here", basis=Basis.PROVED, fault={"powers_left_out": 1})
def distance_zero(scale: Scale, rng: Generator, *, powers_left_out: int = 0) -> Iterator[Comparison]:
    """The distance of T = <v, a> mod q from uniform can be exactly 0. For q = 2^kappa it is 0 exactly if the secret
    has, for each i < kappa, an entry that is an odd multiple of 2^i. Each of these makes the characters of one power of
    two 0. For odd q it is never 0.

    Takes all secrets at q = 4 and 8, n = 3, and at q = 3, 5, 7, n = 3, by exact counts. Full adds n = 4 at q = 16 with
    a first entry 1. Proof: cos(pi w v_j/q) = 0 exactly if w v_j is an odd multiple of q/2, and T is uniform exactly if
    all characters are 0.
    """
    for kappa, n, first in ((2, 3, None), (3, 3, None), (4, 4, 1))[: 2 if scale is Scale.QUICK else 3]:
        q, same, zeros = 2**kappa, True, 0
        for v in itertools.product(range(q) if first is None else (first,), *[range(q)] * (n - 1)):
            powers = {(one & -one).bit_length() - 1 for one in v if one}
            zero = total_variation_from_uniform(np.array(v), q) == 0
            zeros += zero
            same &= zero == (set(range(kappa - powers_left_out)) <= powers)
        yield equal(f"q = {q}: some have distance 0, and exactly those", zeros > 0 and same, True)
    for q in (3, 5, 7):
        secrets = itertools.product(range(q), repeat=3)
        odd = sum(total_variation_from_uniform(np.array(v), q) == 0 for v in secrets)
        yield equal(f"q = {q}: secrets with distance 0", odd, 0)


@claim(
    "secrets/distance-rate",
    source="derived here",
    basis=Basis.DERIVED,
    fault=Fault(
        "lwe.uniformity:log2_distance_from_uniform",
        returned(lambda log2: log2 / 2),
        "the root of the distance",
    ),
)
def distance_rate(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let rho = |v|_2/(2q). For secrets of small entries the distance of T mod q from uniform is about e^(-2 pi^2
    rho^2), and 2/pi times it once rho is above 0.4. At rho = 1/2 it is
    below 0.72 %.

    Fits a line through ln(distance) against rho^2 for secrets with entries in [-4, 4], n = 2000, q from 45 to 145. The
    first character is at most that, because cos x <= e^(-x^2/2) up to pi/2. For uniform secrets other characters can be
    larger; there the rate is an order of magnitude.
    """
    v = rng.integers(-4, 5, size=2000)
    moduli = range(45, 146, 4)
    squares = np.array([float(v @ v) / (2 * q) ** 2 for q in moduli])
    logs = math.log(2) * np.array([log2_distance_from_uniform(v, q) for q in moduli])
    slope, height = np.polyfit(squares, logs, 1)
    yield close("slope of ln(distance) against rho^2", float(slope), -2 * math.pi**2, relative=0.02)
    yield close("factor in front", math.exp(float(height)), 2 / math.pi, relative=0.15)
    half = round(math.sqrt(float(v @ v)))
    yield at_most("distance at rho = 1/2", 2.0 ** log2_distance_from_uniform(v, half), 0.0072)


@claim(
    "secrets/correlation",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "lwe.labels:root_mean_square_correlation",
        returned(lambda root: root**2),
        "the mean square in place of its root",
    ),
)
def correlation(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let g be the label less its mean over residues. For p = 2 and even q the correlation E_a g g' / E g^2 of two
    independent uniform secrets has mean square exactly 2^-n, so root mean square 2^(-n/2): 2^-12 at n = 24. In general
    the mean square is ((2^n - 1) (E g^2)^2 + g(0)^4)/(4^n (E g^2)^2).

    The docstring of lwe.root_mean_square_correlation has the proof. Takes all pairs of secrets at n = 2 to 5 for small
    q, in whole numbers, and the library's closed form.
    """
    for n, q, p in (
        (2, 4, 2),
        (3, 4, 2),
        (3, 6, 2),
        (3, 8, 2),
        (5, 2, 2),
        (2, 8, 4),
        (3, 8, 4),
        (3, 5, 2),
        (3, 7, 3),
    ):
        labels = rounded(np.arange(q), q, p)
        g = q * labels - labels.sum()  # q times the label less its mean
        secrets = np.array(list(itertools.product(range(q), repeat=n)))
        bits = np.array(list(itertools.product((0, 1), repeat=n)))
        table = g[secrets @ bits.T % q]
        gram = table @ table.T
        square = Fraction(int((g * g).sum()), q)
        mean_square = Fraction(int((gram * gram).sum()), len(gram) ** 2 * 4**n) / square**2
        name = f"n = {n}, q = {q}, p = {p}"
        formula = ((2**n - 1) * square**2 + int(g[0]) ** 4) / (4**n * square**2)
        yield equal(
            f"{name}: mean square", mean_square, Fraction(1, 2**n) if p == 2 and q % 2 == 0 else formula
        )
        root = root_mean_square_correlation(LWEParameters(n, q, p))
        yield close(f"{name}: its root", root, float(mean_square) ** 0.5, absolute=1e-10)
    root = root_mean_square_correlation(LWEParameters(24, 64, 2))
    yield close("n = 24, q = 64, p = 2: root mean square", root, 2.0**-12, relative=1e-10)
