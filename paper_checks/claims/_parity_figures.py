"""Claims on hidden parities that state figures: errors, coefficients, correlations, leaks."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS, REVERSED_COEFFICIENTS
from paper_checks.claims._gated_parities import (
    all_inputs,
    hidden_parity,
    known_part,
    minimal_heads,
    row_gap,
    saturated_heads,
    secrets_of,
    staircase_layer,
)
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from paper_checks.faults import given
from sq import parity_heads

_DIGITS = 30


@checks("parities/saturation-error", HALF_LOGITS)
def saturation_error(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.parity_heads have the proof. Computes the largest 2-norm of a row of the layer minus
    the target over all 4096 inputs of two tokens of 6 signs, l = 1 to 5.
    """
    x = all_inputs(2, 6)
    for beta, figure in zip((2.0, 10.0, 20.0), claim.figures, strict=True):
        bound = claim.numerator / (np.exp(beta) + 1)
        for bits in (1, 2, 3, 4, 5):
            t, c = saturated_heads(bits)
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, c, np.full(bits, beta))
            known = known_part(x, -1.0 if bits % 2 else 0.0, 0.0 if bits % 2 else -1.0)
            error = row_gap(layer(x), known + hidden_parity(x, secret), np.eye(6)[0])
            name = f"beta = {beta:g}, l = {bits}: error"
            if bits > 2:
                yield at_most(name, error, bound + claim.rounding)
                continue
            wanted = bound * (claim.share_of_one_bit if bits == 1 else 1)
            yield close(name, error, wanted, absolute=claim.rounding)
            if bits == 2:
                yield close(f"{name}, the figure", error, figure, relative=claim.figure)


@checks("parities/float-saturation", given(lambda logits: 2 * logits))
def float_saturation(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Tries whole slopes from 30 to 45, l = 1 to 3, at all inputs of two tokens of 4 signs, with this
    implementation of the softmax. That 1 + e^-38 rounds to 1 is IEEE arithmetic.
    """
    x, exact = all_inputs(2, 4), {}
    for beta in range(30, 46):
        gaps = []
        for bits in (1, 2, 3):
            t, c = saturated_heads(bits)
            layer = staircase_layer(range(1, bits + 1), 4, t, c, np.full(bits, float(beta)))
            known = known_part(x, -1.0 if bits % 2 else 0.0, 0.0 if bits % 2 else -1.0)
            gaps.append(row_gap(layer(x), known + hidden_parity(x, range(1, bits + 1)), np.eye(4)[0]))
        exact[beta] = max(gaps) == 0
    first = min(beta for beta in exact if all(exact[one] for one in exact if one >= beta))
    yield equal("least slope without an error from there on", first, claim.slope)


@checks("parities/minimal-coefficients", REVERSED_COEFFICIENTS)
def minimal_coefficients(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves the linear system to 30 digits and compares with the coefficients of sq.parity_heads to four
    decimals.
    """
    import sympy

    for bits, slopes, wanted in ((3, (0.5, 1.0), claim.two), (5, (0.5, 1.0, 2.0), claim.three)):
        m = len(slopes)
        places = [a - sympy.Rational(claim.offset) for a in range(1, m + 1)]
        rows = [
            [sympy.tanh(sympy.Rational(str(beta)) * place).evalf(_DIGITS) for beta in slopes]
            for place in places
        ]
        right = sympy.Matrix([(-1) ** (m - 1 + a) for a in range(1, m + 1)])
        solved = list(sympy.Matrix(rows).LUsolve(right))
        numbers = [float(one) for one in [*solved, sum(solved)]]
        for i, (number, figure) in enumerate(zip(numbers, wanted, strict=True)):
            name = f"m = {m}: " + (f"c_{i + 1}" if i < m else "C")
            yield close(name, number, figure, absolute=claim.half_a_digit)
        heads = parity_heads("D", bits=bits)
        gap = np.abs(np.append(heads.coefficients, heads.c) - numbers).max()
        yield at_most(f"m = {m}: the library's, difference", float(gap), claim.rounding)


@checks("parities/exact-coefficients")
def exact_coefficients(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves the linear system with the constant as an unknown to 30 digits and compares with
    sq.parity_heads.
    """
    import sympy

    for bits, wanted in ((2, claim.two), (3, claim.three)):
        t = [i - sympy.Rational(claim.shift) for i in range(1, bits + 1)]
        rows = [[-1, *(sympy.tanh(n - one).evalf(_DIGITS) for one in t)] for n in range(bits + 1)]
        right = sympy.Matrix([(-1) ** n for n in range(bits + 1)])
        c0, *c = (float(one) for one in sympy.Matrix(rows).LUsolve(right))
        constant, size = (c0 if bits == 2 else sum(c)), sum(abs(one) for one in c)
        yield close(f"l = {bits}: sum of |c|", size, wanted[0], relative=claim.digits)
        name = "c0" if bits == 2 else "C"
        yield close(f"l = {bits}: {name}", constant, wanted[1], relative=claim.digits)
        heads = parity_heads("C", bits=bits, beta=1.0)
        gap = max(np.abs(heads.coefficients - c).max(), abs(heads.c0 - c0))
        yield at_most(f"l = {bits}: the library's, difference", float(gap), claim.rounding)


@checks("parities/minimal-slopes")
def minimal_slopes(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes sum_i c_i tanh(beta_i (N - t)) at N = 0, ..., 2m - 1 in float64, with the system solved by
    LAPACK. Figures change by some factor with the solver, so orders of magnitude are claimed. Runs gave
    1.4e-14, 6e-14, 2e-13 and 1e-6.
    """
    for m in (4, 5, 6):
        error = _profile_error(np.geomspace(1 / m, claim.largest, m))
        yield at_most(f"m = {m}, geometric: error", error, claim.kept)
    doubling = 0.5 * 2.0 ** np.arange(6)
    yield at_least("m = 6, doubling: error", _profile_error(doubling), claim.lost)


@checks("parities/saturated-slopes")
def saturated_slopes(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts the distinct columns of the float64 matrix tanh(beta_b (a - 1/2)), and checks that
    sq.parity_heads refuses such slopes.
    """
    slopes = 0.5 * claim.ratio ** np.arange(6)
    matrix = np.tanh(np.multiply.outer(np.arange(1, 7) - 0.5, slopes))
    distinct = len(np.unique(matrix, axis=1).T)
    try:
        parity_heads("D", bits=11, slopes=slopes.tolist())
        refused = False
    except ValueError:
        refused = True
    yield equal("distinct columns", distinct, claim.distinct)
    yield equal("refused", refused, claim.refused)


@checks("parities/single-precision")
def single_precision(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the layer in float32 at all 4096 inputs of two tokens of 6 signs. The exact figure depends on the
    order of the sums, so only its order of magnitude is claimed.
    """
    kind = np.dtype(f"float{claim.bits_of_float}")
    t, c = minimal_heads((0.5, 1.0))
    x, secret = all_inputs(2, 6), (1, 2, 3)
    layer = staircase_layer(secret, 6, t, c, (0.5, 1.0)).map(lambda array: array.astype(kind))
    wanted = known_part(x, float(c.sum()), 0.0) + hidden_parity(x, secret)
    error = row_gap(layer(x.astype(kind)).astype(np.float64), wanted, np.eye(6)[0])
    yield at_least("error", error, claim.least)
    yield at_most("error", error, claim.most)


@checks("parities/gram")
def gram(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Sums products of the layers' outputs over all inputs of two tokens of 5 signs, for all secrets. C = sum
    c_i and c0 come from the construction.
    """
    x = all_inputs(2, 5)
    for name, bits in (("B", 2), ("B", 3), ("D", 2), ("D", 3)):
        slopes = np.full(bits, 40.0) if name == "B" else np.array([0.5, 1.0])
        t, c = saturated_heads(bits) if name == "B" else minimal_heads(slopes.tolist())
        c0 = -1.0 if name == "B" and bits == 2 else 0.0
        outputs = np.array([staircase_layer(s, 5, t, c, slopes)(x)[..., 0] for s in secrets_of(5, bits)])
        flat = outputs.reshape(len(outputs), -1)
        matrix = flat @ flat.T / len(x)
        known = c.sum() ** 2 + claim.weight_of_c0 * c0**2
        wanted = known + claim.hidden * np.eye(len(flat))
        gap = np.abs(matrix - wanted).max()
        yield at_most(f"{name}, l = {bits}: largest difference", float(gap), claim.rounding)
        off = float(matrix[0, 1])
        figure = claim[name.lower()]
        yield close(f"{name}, l = {bits}: off the diagonal", off, figure, absolute=claim.half_a_digit)


@checks(
    "parities/finite-slope-leak", HALF_LOGITS, mean=Fraction(1, 8), gate=Fraction(1, 2), saturated=Fraction(0)
)
def leak(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all inputs of two tokens of 5 signs and compares labels to within 1e-14. If one of i, j is not
    secret, the mean is 0.
    """
    x = all_inputs(2, 5)
    gate = x[:, 0, 0] != x[:, 1, 0]
    n = (x[:, 0, 1:4] != x[:, 1, 1:4]).sum(axis=1)
    t, c = saturated_heads(3)
    for beta in (2.0, 5.0, 10.0, 20.0, 30.0, 40.0):
        labels = staircase_layer((1, 2, 3), 5, t, c, np.full(3, beta))(x)[:, 0, 0]
        values = np.unique(labels[gate & np.isin(n, (0, 3))])
        near = np.abs(labels[:, None] - values).min(axis=1) <= claim.digits
        whole = claim.saturated if beta == 40 else claim.mean
        for i, j, wanted in ((1, 2, whole), (2, 3, whole), (1, 4, Fraction(0))):
            y = (x[:, 0, i] * x[:, 1, i] * x[:, 0, j] * x[:, 1, j]).astype(int)
            mean = Fraction(int(y[gate & near].sum()), len(x))
            yield equal(f"beta = {beta:g}: y_{i} y_{j}", mean, wanted)
        y = x[:, 0, 1] * x[:, 1, 1] * x[:, 0, 2] * x[:, 1, 2]
        given = Fraction(int(y[gate & near].sum()), int(gate.sum()))
        yield equal(f"beta = {beta:g}: given the gate", given, whole / claim.gate)


@checks("parities/two-valued-labels")
def rounding_remedy(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes the distinct values of row 1 on the gate over all inputs of two tokens of 5 signs, l = 3. Only if
    there are two do the bounds for correlational queries cover all statistical queries.
    """
    x = all_inputs(2, 5)
    gate = x[:, 0, 0] != x[:, 1, 0]
    saturated = saturated_heads(3)
    exact = parity_heads("C", bits=3, beta=1.0)
    minimal = minimal_heads((0.5, 1.0))
    for name, t, c, slopes in (
        ("B", *saturated, np.full(3, 40.0)),
        ("C", exact.thresholds, exact.coefficients, exact.slopes),
        ("D", *minimal, np.array([0.5, 1.0])),
    ):
        labels = staircase_layer((1, 2, 3), 5, t, c, slopes)(x)[gate, 0, 0]
        if name == "B":
            yield equal("B, as they are", len(np.unique(labels)), claim.values)
            continue
        rounded = len(np.unique(np.round(labels, claim.decimals)))
        yield equal(f"{name}, rounded", rounded, claim.values)
        more = len(np.unique(labels)) > claim.values
        yield equal(f"{name}, unrounded: more than two values", more, True)


def _profile_error(slopes: np.ndarray) -> float:
    t, c = minimal_heads(slopes.tolist())
    n = np.arange(2 * len(slopes))
    g = np.tanh(slopes * np.subtract.outer(n, t)) @ c
    return float(np.abs(g - (-1.0) ** n).max())
