"""Claims: Rounding: attacks. Where one fails, that is a lower bound on its strength and no claim of security."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lwe import (
    BINARY,
    TERNARY,
    Budget,
    ExhaustiveAttack,
    LatticeAttack,
    LeastSquaresAttack,
    LinearisationAttack,
    LWEParameters,
    MeetInTheMiddleAttack,
    make_samples,
)
from lwe.attacks.linearisation import label_monomials
from lwe.labels import low_degree_weights
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import OPPOSITE_SECRET
from paper_checks.claims._heads_by_hand import all_bits, label, uniform_secret
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, covers, equal, surely_below
from paper_checks.faults import returned
from studies.intervals import mean_interval, median_interval, proportion_interval

_LAWS = {"binary": BINARY, "ternary": TERNARY}
_NO_CLOCK = Budget(seconds=None)


@checks("attacks/least-squares-reads", OPPOSITE_SECRET)
def least_squares_reads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws secrets of a given span and 3000 samples. Runs the library's attack, and for positive secrets a
    plain regression whose coefficients are rounded. Enough samples make the rounding right. How few suffice
    is not checked.
    """
    n, q, p = (claim[name] for name in ("n", "q", "p"))
    parameters, by_library, by_hand = LWEParameters(n, q, p), [], []
    for _ in range(1 if scale is Scale.QUICK else 10):
        sizes = _sizes_of_span(n, claim.span_over_q * q, rng)
        samples, _ = make_samples(parameters, 3000, secret=sizes, rng=rng)
        design = np.column_stack([samples.public, np.ones(len(samples))])
        found = np.linalg.lstsq(design, samples.labels * q / p, rcond=None)[0][:n]
        by_hand.append(int((np.rint(found) == sizes).sum()))
        signed = sizes * rng.choice([-1, 1], size=n)
        samples, own = make_samples(parameters, 3000, secret=signed, rng=rng)
        secret = LeastSquaresAttack()(samples, parameters, budget=_NO_CLOCK).secret
        by_library.append(0 if secret is None else int((secret == own).sum()))
    yield at_least("coordinates read by a plain regression, fewest", float(min(by_hand)), claim.coordinates)
    yield at_least(
        "coordinates read by the library's attack, fewest", float(min(by_library)), claim.coordinates
    )


@checks("attacks/least-squares-blind")
def least_squares_blind(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the adjusted R^2 of a plain regression on 3000 samples for 40 secrets each, and the library's
    R^2 for one. Compares it with W_1 from characters over the variance of the label.
    """
    n, q = claim.n, claim.q
    parameters = LWEParameters(n, q, claim.p)
    # entries uniform in [-k, k] have rho = sqrt(n k (k + 1)/3)/(2q)
    k = round(math.sqrt(3 / n) * 2 * q * claim.rho)
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
    for name, values in found.items():
        yield surely_below(f"R^2, {name}", median_interval(values), claim[name])
    yield covers("R^2 less W_1", mean_interval(gaps), 0.0, margin=claim.rounding)
    yield at_most("R^2 of the library's attack, a uniform secret", float(r_squared), 5 * claim.uniform)


@checks("attacks/label-degree", returned(lambda degree: degree + 1), degree_over_q=Fraction(1, 2))
def label_degree_of(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the Moebius transform over GF(2) of all 2^n labels at n = 9 and q = 2, 4, 8 and 16. The
    secrets are drawn ones and one of odd entries.
    """
    n, within, reached = 9, True, []
    stated = [max(1, int(claim.degree_over_q * q)) for q in (2, 4, 8, 16)]
    for q, degree in zip((2, 4, 8, 16), stated, strict=True):
        for _ in range(5 if scale is Scale.QUICK else 100):
            v = uniform_secret(n, q, rng)
            drawn, odd = _degree(v, q), sum(one % 2 for one in v)
            within &= drawn <= degree and (drawn == degree) == (odd >= degree)
        reached.append(_degree([1] * n, q))
    yield equal("drawn secrets have at most that degree, and it with so many odd entries alone", within, True)
    yield equal("degrees at odd entries, q = 2, 4, 8, 16", reached, stated)


@checks(
    "attacks/monomial-count",
    lambda right: lambda parameters, degree: right(parameters, degree - 1),
    degree_over_q=Fraction(1, 2),
)
def monomial_count(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Lists one by one the sets of covariates and the products of bits in which the bit of weight 2^l counts
    2^l. Compares their numbers with the library's.
    """
    listed, library = [], []
    for n, q in ((32, 4), (64, 4), (20, 8)):
        degree = int(claim.degree_over_q * q)
        listed.append(sum(1 for j in range(degree + 1) for _ in itertools.combinations(range(n), j)))
        library.append(label_monomials(LWEParameters(n, q, 2), degree).size)
    uniform = [(3, 8), (2, 16)]
    # one monomial for each choice of n non-negative numbers with a sum of at most q/2
    by_hand = [
        sum(sum(one) <= q // 2 for one in itertools.product(range(q // 2 + 1), repeat=n)) for n, q in uniform
    ]
    found = [label_monomials(LWEParameters(n, q, 2, matrix="uniform"), q // 2).size for n, q in uniform]
    yield equal("sets of at most q/2 covariates", listed, claim.unknowns)
    yield equal("the library's unknowns", library, claim.unknowns)
    yield equal("the library's unknowns, uniform rows", found, by_hand)
    yield equal("C(n + q/2, n)", [math.comb(n + q // 2, n) for n, q in uniform], by_hand)


@checks("attacks/linearisation", lambda right: lambda parameters, degree: right(parameters, degree - 1))
def linearisation(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's attack on drawn secrets. Counts its correct predictions again on new covariates,
    with labels by whole numbers. Full scale adds q = 4 at n = 64 and q = 8 at n = 20.
    """
    cases = [(32, 4, 1200)]
    if scale is Scale.FULL:
        cases += [(64, 4, 3000), (20, 8, 8500)]
    for n, q, number in cases:
        parameters = LWEParameters(n, q, 2)
        samples, secret = make_samples(parameters, number, rng=rng)
        degree = claim.degree * q // 4
        result = LinearisationAttack(degree=degree)(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(2, size=(500, n))
        right = [label(sum(map(int, row * secret)), q, 2) for row in rows]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        yield at_least(f"share of new labels, n = {n}, q = {q}", share, claim.accuracy)
        if (n, q) == (32, 4):
            yield equal("unknowns", int(result.details["unknowns"]), claim.unknowns)


@checks("attacks/degree-too-low")
def degree_too_low(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's linearisation at the given degree, n = 12, on drawn secrets with at least five odd
    entries. Fresh labels are pooled. Labels are not exactly balanced at this n, hence a margin.
    """
    n, q = 12, claim.q
    parameters, right, fresh, fits = LWEParameters(n, q, claim.p), 0, 0, []
    for _ in range(5 if scale is Scale.QUICK else 60):
        v = next(v for v in iter(lambda: uniform_secret(n, q, rng), None) if sum(one % 2 for one in v) >= 5)
        samples, _ = make_samples(parameters, 4000, secret=v, rng=rng)
        result = LinearisationAttack(degree=claim.degree)(samples, parameters, rng=rng, budget=_NO_CLOCK)
        fits.append(bool(result.details["consistent"]))
        fresh += result.tested
        right += round((result.accuracy or 0.0) * result.tested)
    yield equal("secrets whose labels the polynomial fits", sum(fits), 0)
    yield covers(
        "share of fresh labels",
        proportion_interval(right, fresh, confidence=0.9999),
        claim.chance,
        margin=claim.margin,
    )


@checks("attacks/small-secret-search", OPPOSITE_SECRET)
def small_secret_search(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's attacks on drawn ternary secrets at n = 10, and at 14 in full. The secret found
    predicts all new labels, counted by whole numbers. The attacks are complete without errors, so a fault
    would show.
    """
    n, q = 10 if scale is Scale.QUICK else 14, claim.q
    parameters = LWEParameters(n, q, 2, Xs=_LAWS[claim.law])
    secret = TERNARY.draw(n, q, rng=rng)
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
        yield equal(f"candidates, {attack.name}", int(result.details["candidates"]), claim.values**n)
        yield at_least(f"share of new labels, {attack.name}", share, claim.accuracy)
    yield equal("ternary secrets of 14 entries", claim.values**14, claim.in_full)


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
    """The degree over GF(2) of the label's polynomial in the bits, by the Moebius transform of all its
    values.
    """
    n = len(v)
    bits = all_bits(n)
    values = (2 * (bits @ np.array(v) % q) // q).reshape([2] * n)
    for axis in range(n):
        low, high = np.split(values, 2, axis=axis)
        values = np.concatenate([low, low ^ high], axis=axis)
    # axis i of the table is bit n - 1 - i of the index; sizes of sets do not depend on the order
    return int(bits.sum(axis=1)[values.ravel() == 1].max(initial=0))


_NO_CLOCK = Budget(seconds=None)


@checks("attacks/lattice")
def lattice(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's attack on a drawn secret with one basis and blocks of at most 10. Labels of new rows
    are computed by whole numbers. With up to six bases and blocks of 38 it also runs p = 8, 4, 2 at n' = 12,
    8, 4. In full it runs n' = 56, 28, 14, 6 for p = 32, 8, 4, 2.
    """
    q, others = claim.q, claim["others" if scale is Scale.QUICK else "others_in_full"]
    cases = [(claim.levels, claim.n), *others]
    for p, n in cases:
        parameters = LWEParameters(n, q, p, matrix="uniform")
        samples, secret = make_samples(parameters, 600, rng=rng)
        # without a clock, so that the result does not depend on the machine; LLL is enough for the first case
        first = (p, n) == cases[0]
        attack = LatticeAttack(rounds=1 if first else 6, largest_block=10 if first else 38)
        result = attack(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(q, size=(300, n))
        right = [
            label(sum(x * y for x, y in zip(row, secret.tolist(), strict=True)), q, p)
            for row in rows.tolist()
        ]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        yield at_least(f"share of new labels, p = {p}, n' = {n}", share, claim.accuracy)


@checks("attacks/lattice-bits")
def lattice_bits(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the library's attack on a drawn secret with one basis and blocks of at most 10. Labels of new rows
    are computed by whole numbers. In full it uses up to six bases and blocks of 30, and adds n = 32 and 40.
    That p = 2 resists shows in the wrong run alone, at n = 48.
    """
    q, p = claim.q, claim.levels
    attack = LatticeAttack(rounds=1, largest_block=10)
    if scale is Scale.FULL:
        attack = LatticeAttack(rounds=6, largest_block=30)
    for n in claim["n" if scale is Scale.QUICK else "n_in_full"]:
        parameters = LWEParameters(n, q, p)
        samples, secret = make_samples(parameters, 1500, rng=rng)
        result = attack(samples, parameters, rng=rng, budget=_NO_CLOCK)
        rows = rng.integers(2, size=(500, n))
        right = [label(sum(map(int, row * secret)), q, p) for row in rows]
        share = 0.0 if result.predict is None else float(np.mean(result.predict(rows) == right))
        yield at_least(f"share of new labels, n = {n}", share, claim.accuracy)


@checks("attacks/short-columns")
def short_columns(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the mean squares of columns and of centred rounding errors exactly, over bits and over
    residues, for q/p = 2 to 64.
    """
    columns, gap, crossing = float(np.mean(all_bits(4) ** 2)), 0.0, []
    for width in range(2, 65):
        residues = np.arange(width) - (width - 1) / 2
        exact = float(np.mean(residues**2))
        gap = max(gap, abs(exact - (width**2 - 1) / claim.errors))
        crossing.append(exact > columns)
    yield close("mean square of an entry of a column", columns, claim.columns, absolute=claim.rounding)
    yield at_most("gap of the errors' mean square to ((q/p)^2 - 1)/12", gap, claim.rounding)
    yield equal(
        "widths q/p whose errors are longer than columns start at", 2 + crossing.index(True), claim.from_width
    )


@checks("attacks/unit-pivots")
def unit_pivots(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Searches for the inverse of every 2 x 2 matrix over Z_4. Searches for a factor that makes 1 for every
    residue at q = 4 to 64. In general the determinant is a unit exactly where it is odd.
    """
    odd_only = all(
        any(one * other % q == 1 for other in range(q)) == (one % 2 == claim.unit_remainder)
        for q in (4, 8, 16, 32, 64)
        for one in range(q)
    )
    matrices = np.array(list(itertools.product(range(4), repeat=4))).reshape(-1, 2, 2)
    products = np.einsum("aij,bjk->abik", matrices, matrices) % 4
    invertible = (products == np.eye(2, dtype=int)).all(axis=(2, 3)).any(axis=1)
    determinants = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] * matrices[:, 1, 0]
    odd = determinants % 2 == claim.unit_remainder
    yield equal("units are the odd residues", odd_only, True)
    yield equal("invertible matrices are those of odd determinant", bool((invertible == odd).all()), True)
    yield equal("invertible 2 x 2 matrices mod 4", int(invertible.sum()), claim.invertible)
