"""Claims: Rounding: attacks. Where one fails, that is a lower bound on its strength and no claim of security."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import (
    BinaryLaw,
    Budget,
    ExhaustiveAttack,
    LeastSquaresAttack,
    LinearisationAttack,
    LWRParameters,
    MeetInTheMiddleAttack,
    TernaryLaw,
    low_degree_weights,
    make_samples,
)
from lwe.attacks.linearisation import label_monomials
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims import _attack_evidence as evidence
from paper_checks.claims import _attack_lattices as lattices
from paper_checks.claims._faults import OPPOSITE_SECRET
from paper_checks.claims._heads_by_hand import all_bits, label, uniform_secret
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    covers,
    equal,
    surely_below,
)
from paper_checks.faults import Fault, returned
from paper_checks.intervals import mean_interval, median_interval, proportion_interval

_LAWS = {"binary": BinaryLaw(), "ternary": TernaryLaw()}
_NO_CLOCK = Budget(seconds=None)


@check(
    "attacks/least-squares-reads",
    claim="Where <v, a> spans less than q, least squares on the labels reads every coordinate of the secret: n = "
    "24, q = 251, p = 32; that it fails elsewhere is no claim of security.",
    source="folklore; Bootle, Delaplace, Espitau, Fouque and Tibouchi 2018 for regression without wrapping",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="Drawn secrets of a given span and 3000 samples: the library's attack, and for positive secrets a plain "
    "regression whose coefficients are rounded. Enough samples make the rounding right; how few do is not checked.",
    constants={"n": 24, "q": 251, "p": 32, "span_over_q": 0.95, "coordinates": 24.0},
    wrong=OPPOSITE_SECRET,
)
def least_squares_reads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Count the coordinates that come out."""
    n, q, p = (constants[name] for name in ("n", "q", "p"))
    parameters, by_library, by_hand = LWRParameters(n, q, p), [], []
    for _ in range(1 if scale is Scale.QUICK else 10):
        sizes = _sizes_of_span(n, constants["span_over_q"] * q, rng)
        samples, _ = make_samples(parameters, 3000, secret=sizes, rng=rng)
        design = np.column_stack([samples.public, np.ones(len(samples))])
        found = np.linalg.lstsq(design, samples.labels * q / p, rcond=None)[0][:n]
        by_hand.append(int((np.rint(found) == sizes).sum()))
        signed = sizes * rng.choice([-1, 1], size=n)
        samples, own = make_samples(parameters, 3000, secret=signed, rng=rng)
        secret = LeastSquaresAttack()(samples, parameters, budget=_NO_CLOCK).secret
        by_library.append(0 if secret is None else int((secret == own).sum()))
    return [
        at_least(
            "coordinates read by a plain regression, fewest", float(min(by_hand)), constants["coordinates"]
        ),
        at_least(
            "coordinates read by the library's attack, fewest",
            float(min(by_library)),
            constants["coordinates"],
        ),
    ]


@check(
    "attacks/least-squares-blind",
    claim="Where <v, a> wraps around, nothing linear is left of the label: the regression's R^2 is W_1 over the "
    "label's variance, with a median below .05 at rho = .38 and below .02 for uniform secrets (n = 24, q = 64, p = "
    "2); other attacks may still work: a failed attack is no claim of security.",
    source="measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="Adjusted R^2 of a plain regression on 3000 samples for 40 secrets each (the library's R^2 for one), beside "
    "W_1 from characters over the variance of the label.",
    constants={"n": 24, "q": 64, "p": 2, "rho": 0.38, "some_wrap": 0.05, "uniform": 0.02, "rounding": 1e-3},
    wrong={"rho": 0.15},
    false_alarm=3e-3,
)
def least_squares_blind(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """R^2 of two kinds of secrets."""
    n, q = constants["n"], constants["q"]
    parameters = LWRParameters(n, q, constants["p"])
    # entries uniform in [-k, k] have rho = sqrt(n k (k + 1)/3)/(2q)
    k = round(math.sqrt(3 / n) * 2 * q * constants["rho"])
    found: dict[str, list[float]] = {"some_wrap": [], "uniform": []}
    gaps = []
    for _ in range(40 if scale is Scale.QUICK else 400):
        for name, secrets in found.items():
            v = np.array(uniform_secret(n, q, rng)) if name == "uniform" else rng.integers(-k, k + 1, size=n)
            samples, _ = make_samples(parameters, 3000, secret=v, rng=rng)
            secrets.append(_adjusted_r_squared(samples.public, samples.labels))
            # of the variance of the labels -1 and 1, where W_1 is a share of their mean square, 1
            share = low_degree_weights(v, parameters).first / (4 * float(samples.labels.var()))
            gaps.append(secrets[-1] - share)
    samples, _ = make_samples(parameters, 1000, rng=rng)
    r_squared = LeastSquaresAttack()(samples, parameters, budget=_NO_CLOCK).details["r_squared"]
    return [
        *(
            surely_below(f"R^2, {name}", median_interval(values, confidence=0.999), constants[name])
            for name, values in found.items()
        ),
        covers("R^2 less W_1", mean_interval(gaps, confidence=0.999), 0.0, margin=constants["rounding"]),
        at_most("R^2 of the library's attack, a uniform secret", float(r_squared), 5 * constants["uniform"]),
    ]


@check(
    "attacks/label-degree",
    claim="For q a power of two and p = 2 the label is a polynomial over GF(2) of degree at most q/2 in the bits a, "
    "exactly q/2 just where q/2 entries of the secret or more are odd; that a degree is high is no claim of "
    "security.",
    source="derived here (proof: docstring of lwe.LinearisationAttack)",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Moebius transform over GF(2) of all 2^n labels, n = 9, q = 2, 4, 8 and 16, drawn secrets and one of odd "
    "entries.",
    constants={"degree_over_q": Fraction(1, 2)},
    wrong=Fault(
        "paper_checks.claims.attacks:_degree", returned(lambda degree: degree + 1), "degrees one too high"
    ),
)
def label_degree_of(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The degree from the algebraic normal form."""
    n, within, reached = 9, True, []
    stated = [max(1, int(constants["degree_over_q"] * q)) for q in (2, 4, 8, 16)]
    for q, degree in zip((2, 4, 8, 16), stated, strict=True):
        for _ in range(5 if scale is Scale.QUICK else 100):
            v = uniform_secret(n, q, rng)
            drawn, odd = _degree(v, q), sum(one % 2 for one in v)
            within &= drawn <= degree and (drawn == degree) == (odd >= degree)
        reached.append(_degree([1] * n, q))
    return [
        equal("drawn secrets have at most that degree, and it with so many odd entries alone", within, True),
        equal("degrees at odd entries, q = 2, 4, 8, 16", reached, stated),
    ]


@check(
    "attacks/monomial-count",
    claim="Linearisation has D = sum_{j <= q/p} C(n, j) unknowns for bits and C(n + q/p, n) for uniform rows: 529 "
    "at q = 4, n = 32, 2081 at n = 64, 6196 at q = 8, n = 20, p = 2; a size, and no claim of security where it is "
    "large.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Sets of covariates, and products of bits in which the bit of weight 2^l counts 2^l, are listed one by one, "
    "and held to the library's numbers.",
    constants={"unknowns": (529, 2081, 6196), "degree_over_q": Fraction(1, 2)},
    wrong=Fault(
        "lwe.attacks.linearisation:label_monomials",
        lambda right: lambda parameters, degree: right(parameters, degree - 1),
        "monomials of one degree less",
    ),
)
def monomial_count(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """List them."""
    listed, library = [], []
    for n, q in ((32, 4), (64, 4), (20, 8)):
        degree = int(constants["degree_over_q"] * q)
        listed.append(sum(1 for j in range(degree + 1) for _ in itertools.combinations(range(n), j)))
        library.append(label_monomials(LWRParameters(n, q, 2), degree).size)
    uniform = [(3, 8), (2, 16)]
    # one monomial for each way to give the n entries a number of their own, q/2 in all at the most
    by_hand = [
        sum(sum(one) <= q // 2 for one in itertools.product(range(q // 2 + 1), repeat=n)) for n, q in uniform
    ]
    found = [label_monomials(LWRParameters(n, q, 2, matrix="uniform"), q // 2).size for n, q in uniform]
    return [
        equal("sets of at most q/2 covariates", listed, constants["unknowns"]),
        equal("the library's unknowns", library, constants["unknowns"]),
        equal("the library's unknowns, uniform rows", found, by_hand),
        equal("C(n + q/2, n)", [math.comb(n + q // 2, n) for n, q in uniform], by_hand),
    ]


@check(
    "attacks/linearisation",
    claim="Linearisation at degree q/2 breaks q = 4, p = 2 at n = 32: 529 unknowns, all fresh labels right; where "
    "q/2 is too large for it, that is no claim of security.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The library's attack on drawn secrets; what it predicts is counted again on new covariates, with labels by "
    "whole numbers. In full also q = 4 at n = 64 and q = 8 at n = 20.",
    constants={"degree": 2, "unknowns": 529, "accuracy": 1.0},
    wrong=Fault(
        "lwe.attacks.linearisation:label_monomials",
        lambda right: lambda parameters, degree: right(parameters, degree - 1),
        "monomials of one degree less",
    ),
)
def linearisation(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Attack, and count again."""
    found, cases = [], [(32, 4, 1200)]
    if scale is Scale.FULL:
        cases += [(64, 4, 3000), (20, 8, 8500)]
    for n, q, number in cases:
        parameters = LWRParameters(n, q, 2)
        samples, secret = make_samples(parameters, number, rng=rng)
        degree = constants["degree"] * q // 4
        result = LinearisationAttack(degree=degree)(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(2, size=(500, n))
        right = [label(sum(map(int, row * secret)), q, 2) for row in rows]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        found.append(at_least(f"share of new labels, n = {n}, q = {q}", share, constants["accuracy"]))
        if (n, q) == (32, 4):
            found.append(equal("unknowns", int(result.details["unknowns"]), constants["unknowns"]))
    return found


@check(
    "attacks/degree-too-low",
    claim="At q = 8, p = 2 a polynomial of degree 2 in place of 4 does not fit the labels and predicts fresh ones "
    "at chance, .50; that says nothing on higher degrees or other attacks, and is no claim of security.",
    source="measured here",
    kind=Kind.STATISTICAL,
    basis=Basis.MEASURED,
    how="The library's linearisation at the given degree, n = 12, drawn secrets with five odd entries or more; "
    "fresh labels are pooled. Labels are not exactly balanced at this n, hence a margin.",
    constants={"q": 8, "p": 2, "degree": 2, "chance": 0.5, "margin": 0.03},
    wrong={"degree": 4},
    false_alarm=1e-4,
)
def degree_too_low(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Pool fresh labels."""
    n, q = 12, constants["q"]
    parameters, right, fresh, fits = LWRParameters(n, q, constants["p"]), 0, 0, []
    for _ in range(5 if scale is Scale.QUICK else 60):
        v = next(v for v in iter(lambda: uniform_secret(n, q, rng), None) if sum(one % 2 for one in v) >= 5)
        samples, _ = make_samples(parameters, 4000, secret=v, rng=rng)
        result = LinearisationAttack(degree=constants["degree"])(
            samples, parameters, rng=rng, budget=_NO_CLOCK
        )
        fits.append(bool(result.details["consistent"]))
        fresh += result.fresh
        right += round((result.accuracy or 0.0) * result.fresh)
    return [
        equal("secrets whose labels the polynomial fits", sum(fits), 0),
        covers(
            "share of fresh labels",
            proportion_interval(right, fresh, confidence=0.9999),
            constants["chance"],
            margin=constants["margin"],
        ),
    ]


@check(
    "attacks/small-secret-search",
    claim="Exhaustive search with early abort and meeting in the middle both find a ternary secret among 3^n (q = "
    "5, p = 2): 4.8 million at n = 14; that larger n is out of their reach is no claim of security.",
    source="folklore; derived here for windows of rounding",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The library's attacks on drawn ternary secrets at n = 10 (14 in full): the secret found predicts all new "
    "labels, counted by whole numbers. The attacks are complete without errors, so a fault would show.",
    constants={"q": 5, "law": "ternary", "values": 3, "in_full": 4_782_969, "accuracy": 1.0},
    wrong=OPPOSITE_SECRET,
)
def small_secret_search(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Search, and count again."""
    n, q, found = 10 if scale is Scale.QUICK else 14, constants["q"], []
    parameters = LWRParameters(n, q, 2, secret=_LAWS[constants["law"]])
    secret = TernaryLaw().draw(n, q, rng=rng)
    secret[:2] = 1, -1  # an entry that a smaller law does not have
    samples, _ = make_samples(parameters, 400, secret=secret, rng=rng)
    rows = rng.integers(2, size=(500, n))
    right = [label(sum(map(int, row * secret)), q, 2) for row in rows]
    for attack in (ExhaustiveAttack(), MeetInTheMiddleAttack()):
        result = attack(samples, parameters, rng=rng, budget=_NO_CLOCK)
        predicted = (
            [] if result.secret is None else [label(sum(map(int, row * result.secret)), q, 2) for row in rows]
        )
        share = float(np.mean([a == b for a, b in zip(predicted, right, strict=False)])) if predicted else 0.0
        found += [
            equal(f"candidates, {attack.name}", int(result.details["candidates"]), constants["values"] ** n),
            at_least(f"share of new labels, {attack.name}", share, constants["accuracy"]),
        ]
    found.append(equal("ternary secrets of 14 entries", constants["values"] ** 14, constants["in_full"]))
    return found


# checks of this group that are written in a module of their own
lattice, lattice_bits = lattices.lattice, lattices.lattice_bits
short_columns, unit_pivots = lattices.short_columns, lattices.unit_pivots
near_secrets, chance_of_maximum = evidence.near_secrets, evidence.chance_of_maximum
distinguisher, sufficient = evidence.distinguisher, evidence.sufficient


def _sizes_of_span(n: int, span: float, rng: Generator) -> np.ndarray:
    """Positive whole numbers whose sum is just below the span."""
    shares = rng.dirichlet(np.full(n, 4.0))
    return np.maximum(1, np.floor(shares * span)).astype(int)


def _adjusted_r_squared(rows: np.ndarray, labels: np.ndarray) -> float:
    design = np.column_stack([rows, np.ones(len(rows))])
    solution = np.linalg.lstsq(design, labels, rcond=None)[0]
    left = float(((labels - design @ solution) ** 2).sum()) / (len(rows) - rows.shape[1] - 1)
    return 1 - left / float(labels.var(ddof=1))


def _degree(v: Sequence[int], q: int) -> int:
    """The degree over GF(2) of the label's polynomial in the bits, by the Moebius transform of all its values."""
    n = len(v)
    bits = all_bits(n)
    values = (2 * (bits @ np.array(v) % q) // q).reshape([2] * n)
    for axis in range(n):
        low, high = np.split(values, 2, axis=axis)
        values = np.concatenate([low, low ^ high], axis=axis)
    # axis i of the table is bit n - 1 - i of the place, and sizes of sets do not mind the order
    return int(bits.sum(axis=1)[values.ravel() == 1].max(initial=0))
