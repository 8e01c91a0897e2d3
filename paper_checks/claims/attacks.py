"""Rounding: attacks. Where one fails, that is a lower bound on its strength and no claim of security."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from lwe import (
    Budget,
    LeastSquaresAttack,
    LinearisationAttack,
    LWEParameters,
    make_samples,
)
from lwe.attacks.distinguishing import sufficient_examples
from lwe.attacks.linearisation import label_monomials
from lwe.labels import low_degree_weights
from lwe.residues import centred, rounded
from paper_checks.claim import Basis, claim
from paper_checks.comparison import (
    Comparison,
    at_least,
    covers,
    equal,
    may_be_at_most,
    surely_below,
)
from paper_checks.faults import Fault, returned
from runs import Scale
from studies.intervals import mean_interval, median_interval, proportion_interval

# without a clock, so that no result depends on the machine
_NO_CLOCK = Budget(seconds=None)


@claim(
    "attacks/least-squares",
    source="Bootle, Delaplace, Espitau, Fouque and Tibouchi 2018 without wrapping; figures measured here",
    basis=Basis.MEASURED,
    fault=Fault(
        "lwe.samples:make_samples",
        returned(lambda made: (made[0], -made[1])),
        "the secret with the opposite sign",
    ),
    false_alarm=0.002,
)
def least_squares(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """If <v, a> spans less than q, least squares on the labels finds every coordinate of the secret: n = 24, q = 251, p
    = 32. Where <v, a> wraps around, the label has no linear part left. The regression's R^2 is W_1 over the label's
    variance. At n = 24, q = 64, p = 2 its median is below .02 for uniform secrets. Other attacks may still work: a
    failed attack is no claim of security.

    Draws secrets of a span of .95 q and 3000 samples and runs the library's attack. For uniform secrets it computes the
    adjusted R^2 of a plain regression on 3000 samples, and compares it with W_1 from characters over the variance of
    the label.
    """
    parameters, fewest = LWEParameters(24, 251, 32), 24
    for _ in range(1 if scale is Scale.QUICK else 10):
        sizes = np.maximum(1, np.floor(0.95 * 251 * rng.dirichlet(np.full(24, 4.0)))).astype(int)
        samples, secret = make_samples(parameters, 3000, secret=sizes * rng.choice([-1, 1], 24), rng=rng)
        found = LeastSquaresAttack()(samples, parameters, budget=_NO_CLOCK).secret
        fewest = min(fewest, 0 if found is None else int((found == secret).sum()))
    yield equal("fewest coordinates found", fewest, 24)
    parameters, found_r_squared, gaps = LWEParameters(24, 64, 2), [], []
    for _ in range(40 if scale is Scale.QUICK else 400):
        samples, secret = make_samples(parameters, 3000, rng=rng)
        design = np.column_stack([samples.public, np.ones(3000)])
        left = samples.labels - design @ np.linalg.lstsq(design, samples.labels, rcond=None)[0]
        found_r_squared.append(1 - float((left**2).sum()) / (3000 - 25) / float(samples.labels.var(ddof=1)))
        # of the variance of the labels -1 and 1, where W_1 is a share of their mean square, 1
        linear = low_degree_weights(secret, parameters)[0].value / (4 * float(samples.labels.var()))
        gaps.append(found_r_squared[-1] - linear)
    yield surely_below("R^2 of uniform secrets", median_interval(found_r_squared), 0.02)
    yield covers("R^2 less W_1", mean_interval(gaps), 0.0, margin=0.001)


@claim(
    "attacks/label-degree",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "paper_checks.claims.attacks:_degree", returned(lambda degree: degree + 1), "degrees one too high"
    ),
)
def label_degree(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For q a power of two and p = 2 the label is a polynomial over GF(2) of degree at most q/2 in the bits a. The
    degree is exactly q/2 if and only if at least q/2 entries of the secret are odd. A high degree is no claim of
    security.

    The docstring of lwe.LinearisationAttack has the proof. Computes the Moebius transform over GF(2) of all 2^n labels
    at n = 9 and q = 2, 4, 8 and 16. The secrets are drawn ones and one of odd entries.
    """
    for q, half in ((2, 1), (4, 2), (8, 4), (16, 8)):
        secrets = rng.integers(q, size=(5 if scale is Scale.QUICK else 100, 9))
        degrees = np.array([_degree(v, q) for v in secrets])
        yield equal(f"q = {q}: no degree above q/2", bool(degrees.max() <= half), True)
        many_odd = (secrets % 2).sum(axis=1) >= half
        yield equal(
            f"q = {q}: degree q/2 with q/2 odd entries alone", ((degrees == half) == many_odd).all(), True
        )
        yield equal(f"q = {q}: degree at odd entries", _degree(np.ones(9, int), q), half)


@claim(
    "attacks/linearisation",
    source="derived here; what a degree that is too low gives is measured here",
    basis=Basis.DERIVED,
    fault=Fault(
        "lwe.attacks.linearisation:label_monomials",
        lambda right: lambda parameters, degree: right(parameters, degree - 1),
        "monomials of one degree less",
    ),
    false_alarm=0.0001,
)
def linearisation(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Linearisation at degree q/2 breaks p = 2: it predicts all fresh labels. It has D = sum_{j <= q/2} C(n, j)
    unknowns for bits: 529 at q = 4, n = 32; 2081 at q = 4, n = 64; and 6196 at q = 8, n = 20. At q = 8 a polynomial of
    degree 2 in place of 4 does not fit the labels, and predicts fresh ones at chance. That a larger q/2 is out of its
    reach is no claim of security.

    Runs the library's attack on drawn secrets and predicts labels of new covariates; quick runs q = 4, n = 32 alone.
    Degree 2 runs at n = 12 on secrets with five odd entries or more, and fresh labels are pooled. Labels are not
    exactly balanced at this n, hence a margin of .03.
    """
    for n, q, number, unknowns in ((32, 4, 1200, 529), (64, 4, 3000, 2081), (20, 8, 8500, 6196)):
        parameters = LWEParameters(n, q, 2)
        yield equal(f"n = {n}, q = {q}: unknowns", label_monomials(parameters, q // 2).size, unknowns)
        if n == 32 or scale is Scale.FULL:
            samples, secret = make_samples(parameters, number, rng=rng)
            result = LinearisationAttack(degree=q // 2)(samples, parameters, rng=rng, budget=_NO_CLOCK)
            yield at_least(
                f"n = {n}, q = {q}: share of new labels", _share(result, secret, parameters, rng), 1.0
            )
    parameters, right, fresh, fits = LWEParameters(12, 8, 2), 0, 0, 0
    for _ in range(5 if scale is Scale.QUICK else 60):
        v = rng.integers(8, size=12)
        v[:5] |= 1
        samples, _ = make_samples(parameters, 4000, secret=centred(v, 8), rng=rng)
        result = LinearisationAttack(degree=2)(samples, parameters, rng=rng, budget=_NO_CLOCK)
        fits += bool(result.details["consistent"])
        fresh += result.tested
        right += round((result.accuracy or 0.0) * result.tested)
    yield equal("q = 8, degree 2: secrets whose labels the polynomial fits", fits, 0)
    interval = proportion_interval(right, fresh, confidence=0.9999)
    yield covers("q = 8, degree 2: share of fresh labels", interval, 0.5, margin=0.03)


@claim(
    "attacks/distinguisher",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "lwe.attacks.distinguishing:sufficient_examples",
        returned(lambda number: number // 2),
        "half of the examples",
    ),
    false_alarm=0.002,
)
def distinguisher(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """A hypothesis with E(h - b)^2 <= 1 - eps on labels b of -1 and 1 tells them from random labels. With 32
    ln(1/delta)/eps^2 fresh examples each of the two errors has probability at most delta. So a learner that predicts
    labels is a distinguisher. That a learner reaches no such eps is no claim of security.

    The docstrings of lwe.distinguish and lwe.sufficient_examples have the proofs. The test is sum(2hb - h^2) >= 2
    ln(1/delta), written out, on labels that agree with b' with E b b' = sqrt(eps), h = sqrt(eps) b', and on random
    labels, at eps = .5, delta = .05. How few examples suffice is not covered. The tests run lwe.distinguish.
    """
    for gain in (0.5, 0.1, 0.02):
        number = math.ceil(32 * math.log(20) / gain**2)
        yield equal(f"eps = {gain}: examples", sufficient_examples(gain, 0.05), number)
    runs, number = 300 if scale is Scale.QUICK else 3000, math.ceil(32 * math.log(20) / 0.5**2)
    for name, correlation in (("real", math.sqrt(0.5)), ("random", 0.0)):
        agree = rng.random((runs, number)) < (1 + correlation) / 2
        terms = np.where(agree, 1, -1) * 2 * math.sqrt(0.5) - 0.5
        wrong = (terms.sum(axis=1) >= 2 * math.log(20)) != (name == "real")
        yield may_be_at_most(f"{name} labels: errors", proportion_interval(int(wrong.sum()), runs), 0.05)


def _share(result: object, secret: np.ndarray, parameters: LWEParameters, rng: Generator) -> float:
    """The share of 300 new labels that the result of an attack predicts."""
    values = parameters.q if parameters.matrix == "uniform" else 2
    rows = rng.integers(values, size=(300, len(secret)))
    predict = getattr(result, "predict", None)
    right = rounded(rows @ secret, parameters.q, parameters.p)
    return 0.0 if predict is None else float(np.mean(predict(rows) == right))


def _degree(v: np.ndarray, q: int) -> int:
    """The degree over GF(2) of the label's polynomial in the bits, by the Moebius transform of all its values."""
    bits = np.arange(2 ** len(v))[:, None] >> np.arange(len(v)) & 1
    values = rounded(bits @ v, q, 2).reshape([2] * len(v))
    for axis in range(len(v)):
        low, high = np.split(values, 2, axis=axis)
        values = np.concatenate([low, low ^ high], axis=axis)
    return int(bits.sum(axis=1)[values.ravel() == 1].max(initial=0))
