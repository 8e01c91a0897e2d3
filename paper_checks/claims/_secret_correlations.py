"""How alike the labels of two secrets are; part of the claims on secrets."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import LWRParameters, label_correlation, root_mean_square_correlation
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._heads_by_hand import all_bits, label, uniform_secret
from paper_checks.comparison import Comparison, Kind, at_most, close, equal
from paper_checks.faults import Fault, returned


@check(
    "secrets/correlation-exact",
    claim="With g the label less its mean over residues, the correlation E_a g g' / E g^2 of two independent "
    "uniform secrets has mean square exactly 2^-n for p = 2 and even q, so root mean square 2^(-n/2); in general it "
    "is ((2^n - 1) (E g^2)^2 + g(0)^4)/(4^n (E g^2)^2).",
    source="derived here (proof: docstring of lwe.root_mean_square_correlation)",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All pairs of secrets at n = 2 to 5 for small q, in whole numbers; the second formula for p = 4 and odd q.",
    constants={"base": 2, "power": 1},
    wrong=Fault(
        "paper_checks.claims._secret_correlations:_mean_square",
        returned(lambda square: square**2),
        "the mean square squared",
    ),
)
def correlation_exact(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Sum all squares."""
    pairs = [(_mean_square(n, q, 2), Fraction(1, constants["base"] ** (constants["power"] * n)))
             for n, q in ((2, 4), (3, 4), (4, 4), (3, 6), (3, 8), (5, 2))]  # fmt: skip
    general = []
    for n, q, p in ((2, 8, 4), (3, 8, 4), (3, 5, 2), (3, 7, 3)):
        mean = Fraction(sum(label(t, q, p) for t in range(q)), q)
        g = [label(t, q, p) - mean for t in range(q)]
        square = sum((one * one for one in g), Fraction(0)) / q
        general.append((_mean_square(n, q, p), ((2**n - 1) * square**2 + g[0] ** 4) / (4**n * square**2)))
    return [
        equal("mean squares, p = 2 and even q", *map(list, zip(*pairs, strict=True))),
        equal("mean squares, other p and q", *map(list, zip(*general, strict=True))),
    ]


@check(
    "secrets/correlation-computed",
    claim="The correlation of the labels of two secrets is a double sum over characters, and its root mean square "
    "over secrets 2^(-n/2) for p = 2 and even q: 2^-12 at n = 24.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The library's character sum for drawn pairs at n = 10 against the correlation coefficient over all 2^n "
    "covariates, and its closed form against the power.",
    constants={"n": 24, "rate": 0.5, "rounding": 1e-10},
    wrong=Fault(
        "lwe.correlation:root_mean_square_correlation",
        returned(lambda root: root**2),
        "the mean square in place of its root",
    ),
)
def correlation_computed(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Pairs, and the closed form."""
    worst = 0.0
    for q, p in ((8, 2), (16, 4), (17, 2)):
        parameters = LWRParameters(10, q, p)
        for _ in range(3 if scale is Scale.QUICK else 30):
            one, other = (np.array(uniform_secret(10, q, rng)) for _ in range(2))
            labels = [p * ((all_bits(10) @ v) % q) // q for v in (one, other)]
            exact = float(np.corrcoef(*labels)[0, 1])
            worst = max(worst, abs(label_correlation(one, other, parameters) - exact))
    n = constants["n"]
    return [
        at_most("largest gap of a correlation", worst, constants["rounding"]),
        close(
            "root mean square at n = 24",
            root_mean_square_correlation(LWRParameters(n, 64, 2)),
            2.0 ** (-constants["rate"] * n),
            relative=constants["rounding"],
        ),
    ]


@check(
    "secrets/statistical-dimension",
    claim="Since mean squared correlations are 2^-n (p = 2, even q), any share 1/D of the secrets has mean squared "
    "correlation at most D^2 2^-n, so mean |correlation| at most D 2^(-n/2): statistical dimension at least 2^(n/4), "
    "for average correlation 2^(-n/4).",
    source="derived here; average correlation as in Feldman, Grigorescu, Reyzin, Vempala and Xiao 2017",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The proof is that a subset's sum of squares is at most the whole sum. Tried in whole numbers on subsets "
    "that are chosen to be alike: those most correlated with one secret, for n = 4, q = 4. It bounds statistical "
    "queries alone, with tolerance well above the correlations; other algorithms are not concerned.",
    constants={"power": 2, "base": 2},
    wrong={"power": 0},
)
def statistical_dimension(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The subsets that come nearest to breaking it."""
    n, q = 4, 4
    gram = _gram(n, q, 2)
    squares, within = gram**2, True
    for share in (2, 4, 8, 16, 32):
        for own in range(0, len(gram), 1 if scale is Scale.FULL else 8):
            chosen = np.argsort(-squares[own], kind="stable")[: len(gram) // share]
            mean = Fraction(int(squares[np.ix_(chosen, chosen)].sum()), len(chosen) ** 2 * 4**n)
            within &= mean <= Fraction(share ** constants["power"], constants["base"] ** n)
    return [equal("subsets are within the bound", within, True)]


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
