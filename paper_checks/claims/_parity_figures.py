"""Claims on hidden parities that state figures: errors, coefficients, correlations, leaks."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from paper_checks.check import Basis, Constants, Scale, check
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
from paper_checks.comparison import Comparison, Kind, at_least, at_most, close, equal
from paper_checks.faults import Fault, given
from sq import parity_heads

__all__ = [
    "exact_coefficients",
    "float_saturation",
    "gram",
    "leak",
    "minimal_coefficients",
    "minimal_slopes",
    "rounding_remedy",
    "saturated_slopes",
    "saturation_error",
    "single_precision",
]

_DIGITS = 30


@check(
    "parities/saturation-error",
    claim="Construction B misses the parity of l bits by at most 4/(e^beta + 1), exactly by that at l = 2 and by half "
    "of it at l = 1: 4.768e-1, 1.816e-4, 8.245e-9 at l = 2, beta = 2, 10, 20.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.parity_heads. The largest 2-norm of a row of the layer minus the target over all "
    "4096 inputs of two tokens of 6 signs, l = 1 to 5.",
    constants={
        "numerator": 4.0,
        "share_of_one_bit": 0.5,
        "figures": (0.4768, 1.816e-4, 8.245e-9),
        "figure": 2e-4,
        "rounding": 1e-14,
    },
    wrong=HALF_LOGITS,
)
def saturation_error(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Deficits alternate in sign, so the first on either side decides."""
    found, x = [], all_inputs(2, 6)
    for beta, figure in zip((2.0, 10.0, 20.0), constants["figures"], strict=True):
        bound = constants["numerator"] / (np.exp(beta) + 1)
        for bits in (1, 2, 3, 4, 5):
            t, c = saturated_heads(bits)
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, c, np.full(bits, beta))
            known = known_part(x, -1.0 if bits % 2 else 0.0, 0.0 if bits % 2 else -1.0)
            error = row_gap(layer(x), known + hidden_parity(x, secret), np.eye(6)[0])
            name = f"beta = {beta:g}, l = {bits}: error"
            if bits > 2:
                found.append(at_most(name, error, bound + constants["rounding"]))
                continue
            wanted = bound * (constants["share_of_one_bit"] if bits == 1 else 1)
            found.append(close(name, error, wanted, absolute=constants["rounding"]))
            if bits == 2:
                found.append(close(f"{name}, the figure", error, figure, relative=constants["figure"]))
    return found


@check(
    "parities/float-saturation",
    claim="From slope 38 on, and not at 37, the float64 softmax of construction B is saturated: the layer is its limit "
    "in every bit.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.MEASURED,
    how="Whole slopes from 30 to 45, l = 1 to 3, at all inputs of two tokens of 4 signs; of this implementation of the "
    "softmax. That 1 + e^-38 rounds to 1 is IEEE arithmetic.",
    constants={"slope": 38},
    wrong=Fault(
        "attention.layer:attention_pattern",
        given(lambda logits: 2 * logits),
        "the softmax of twice the logits",
    ),
)
def float_saturation(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """No difference left at all."""
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
    return [equal("least slope without an error from there on", first, constants["slope"])]


@check(
    "parities/minimal-coefficients",
    claim="Construction D has c = (-19.0359, 12.2529), C = -6.7831 at slopes (1/2, 1) and c = (-20.0411, 28.6109, "
    "-12.2285), C = -3.6587 at slopes (1/2, 1, 2).",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The linear system solved to 30 digits, beside the coefficients of sq.parity_heads; four decimals.",
    constants={
        "offset": "0.5",
        "two": (-19.0359, 12.2529, -6.7831),
        "three": (-20.0411, 28.6109, -12.2285, -3.6587),
        "half_a_digit": 5.01e-5,
        "rounding": 1e-11,
    },
    wrong=REVERSED_COEFFICIENTS,
)
def minimal_coefficients(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """M c = r with M_ab = tanh(beta_b (a - 1/2))."""
    import sympy

    found = []
    for bits, slopes, wanted in (
        (3, (0.5, 1.0), constants["two"]),
        (5, (0.5, 1.0, 2.0), constants["three"]),
    ):
        m = len(slopes)
        places = [a - sympy.Rational(constants["offset"]) for a in range(1, m + 1)]
        rows = [
            [sympy.tanh(sympy.Rational(str(beta)) * place).evalf(_DIGITS) for beta in slopes]
            for place in places
        ]
        right = sympy.Matrix([(-1) ** (m - 1 + a) for a in range(1, m + 1)])
        solved = list(sympy.Matrix(rows).LUsolve(right))
        numbers = [float(one) for one in [*solved, sum(solved)]]
        for i, (number, figure) in enumerate(zip(numbers, wanted, strict=True)):
            name = f"m = {m}: " + (f"c_{i + 1}" if i < m else "C")
            found.append(close(name, number, figure, absolute=constants["half_a_digit"]))
        heads = parity_heads("D", bits=bits)
        gap = np.abs(np.append(heads.coefficients, heads.c) - numbers).max()
        found.append(at_most(f"m = {m}: the library's, difference", float(gap), constants["rounding"]))
    return found


@check(
    "parities/exact-coefficients",
    claim="Construction C at beta = 1 has sum_i |c_i| = 8.312 and c0 = -2.841 for l = 2, and sum_i |c_i| = 17.23 and "
    "C = -3.139 for l = 3.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The linear system with the constant as an unknown, solved to 30 digits; beside sq.parity_heads.",
    constants={
        "shift": "0.5",
        "two": (8.312, -2.841),
        "three": (17.23, -3.139),
        "digits": 3e-4,
        "rounding": 1e-11,
    },
    wrong={"shift": "0.25"},
)
def exact_coefficients(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """(1, tanh beta (N - t_i)) times the unknowns is (-1)^N."""
    import sympy

    found = []
    for bits, wanted in ((2, constants["two"]), (3, constants["three"])):
        t = [i - sympy.Rational(constants["shift"]) for i in range(1, bits + 1)]
        rows = [[-1, *(sympy.tanh(n - one).evalf(_DIGITS) for one in t)] for n in range(bits + 1)]
        right = sympy.Matrix([(-1) ** n for n in range(bits + 1)])
        c0, *c = (float(one) for one in sympy.Matrix(rows).LUsolve(right))
        constant, size = (c0 if bits == 2 else sum(c)), sum(abs(one) for one in c)
        found.append(close(f"l = {bits}: sum of |c|", size, wanted[0], relative=constants["digits"]))
        name = "c0" if bits == 2 else "C"
        found.append(close(f"l = {bits}: {name}", constant, wanted[1], relative=constants["digits"]))
        heads = parity_heads("C", bits=bits, beta=1.0)
        gap = max(np.abs(heads.coefficients - c).max(), abs(heads.c0 - c0))
        found.append(at_most(f"l = {bits}: the library's, difference", float(gap), constants["rounding"]))
    return found


@check(
    "parities/minimal-slopes",
    claim="With slopes in a geometric sequence from 1/m to 2, float64 keeps construction D within 1e-12 of the parity "
    "for m = 4, 5, 6; with slopes 1/2, 1, 2, ..., that double, the error has grown past 1e-7 at m = 6.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="sum_i c_i tanh(beta_i (N - t)) at N = 0, ..., 2m - 1 in float64, the system solved by LAPACK; figures move by "
    "some factor with the solver, so orders of magnitude are claimed (1.4e-14, 6e-14, 2e-13 and 1e-6 were seen).",
    constants={"largest": 2.0, "kept": 1e-12, "lost": 1e-7},
    wrong={"largest": 16.0},
)
def minimal_slopes(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The conditioning of the system decides."""
    found = []
    for m in (4, 5, 6):
        error = _profile_error(np.geomspace(1 / m, constants["largest"], m))
        found.append(at_most(f"m = {m}, geometric: error", error, constants["kept"]))
    doubling = 0.5 * 2.0 ** np.arange(6)
    return [*found, at_least("m = 6, doubling: error", _profile_error(doubling), constants["lost"])]


@check(
    "parities/saturated-slopes",
    claim="Two slopes that both saturate make construction D singular in float64: slopes 1/2, 3/2, ..., of ratio 3 for "
    "l = 11 leave a matrix of rank 5 of 6, and are refused.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.MEASURED,
    how="The number of distinct columns of the float64 matrix tanh(beta_b (a - 1/2)), and whether sq.parity_heads "
    "refuses such slopes.",
    constants={"ratio": 3.0, "distinct": 5, "refused": True},
    wrong={"ratio": 2.0},
)
def saturated_slopes(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Columns that are all ones are alike."""
    slopes = 0.5 * constants["ratio"] ** np.arange(6)
    matrix = np.tanh(np.multiply.outer(np.arange(1, 7) - 0.5, slopes))
    distinct = len(np.unique(matrix, axis=1).T)
    try:
        parity_heads("D", bits=11, slopes=slopes.tolist())
        refused = False
    except ValueError:
        refused = True
    return [
        equal("distinct columns", distinct, constants["distinct"]),
        equal("refused", refused, constants["refused"]),
    ]


@check(
    "parities/single-precision",
    claim="float32 leaves an error of order 1e-6 on construction D with two heads (2.7e-6 was seen): above 1e-7, below "
    "1e-5.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="The layer cast to float32 at all 4096 inputs of two tokens of 6 signs; the exact figure depends on the order "
    "of the sums, so only its order is claimed.",
    constants={"bits_of_float": 32, "least": 1e-7, "most": 1e-5},
    wrong={"bits_of_float": 64},
)
def single_precision(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Cancellation between coefficients near 20."""
    kind = np.dtype(f"float{constants['bits_of_float']}")
    t, c = minimal_heads((0.5, 1.0))
    x, secret = all_inputs(2, 6), (1, 2, 3)
    layer = staircase_layer(secret, 6, t, c, (0.5, 1.0)).map(lambda array: array.astype(kind))
    wanted = known_part(x, float(c.sum()), 0.0) + hidden_parity(x, secret)
    error = row_gap(layer(x.astype(kind)).astype(np.float64), wanted, np.eye(6)[0])
    return [
        at_least("error", error, constants["least"]),
        at_most("error", error, constants["most"]),
    ]


@check(
    "parities/gram",
    claim="E sum_a <F_S(X)_a, F_T(X)_a> of the layers themselves is C^2 + c0^2 off the diagonal and 1 more on it: 1 "
    "and 2 for B, 46.0101 and 47.0101 for D with slopes (1/2, 1), l = 2, 3. So for D the known part is 46/47 of the "
    "labels' energy, and errors are to be reported with it taken off.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="A sum over all inputs of two tokens of 5 signs of products of the layers' outputs, for all secrets; C = sum "
    "c_i and c0 from the construction.",
    constants={
        "weight_of_c0": 1.0,
        "hidden": 1.0,
        "d": 46.0101,
        "b": 1.0,
        "half_a_digit": 5.01e-5,
        "rounding": 1e-10,
    },
    wrong={"weight_of_c0": 0.0},
)
def gram(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Known parts are shared, hidden parts orthonormal."""
    found, x = [], all_inputs(2, 5)
    for name, bits in (("B", 2), ("B", 3), ("D", 2), ("D", 3)):
        slopes = np.full(bits, 40.0) if name == "B" else np.array([0.5, 1.0])
        t, c = saturated_heads(bits) if name == "B" else minimal_heads(slopes.tolist())
        c0 = -1.0 if name == "B" and bits == 2 else 0.0
        outputs = np.array([staircase_layer(s, 5, t, c, slopes)(x)[..., 0] for s in secrets_of(5, bits)])
        flat = outputs.reshape(len(outputs), -1)
        matrix = flat @ flat.T / len(x)
        known = c.sum() ** 2 + constants["weight_of_c0"] * c0**2
        wanted = known + constants["hidden"] * np.eye(len(flat))
        gap = np.abs(matrix - wanted).max()
        found.append(at_most(f"{name}, l = {bits}: largest difference", float(gap), constants["rounding"]))
        off = float(matrix[0, 1])
        figure = constants[name.lower()]
        found.append(
            close(f"{name}, l = {bits}: off the diagonal", off, figure, absolute=constants["half_a_digit"])
        )
    return found


@check(
    "parities/finite-slope-leak",
    claim="At a finite slope the labels of construction B, l = 3, leak in their low digits: the statistical query "
    "1[label of row 1 takes a value it has at N in {0, 3}] y_i y_j, i, j secret, has mean 1/8 (1/4 given the gate) for "
    "beta = 2 to 30 and 0 at beta = 40, so bounds for correlational queries cover it only there.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="All inputs of two tokens of 5 signs, labels compared to within 1e-14; for i, j of which one is not secret the "
    "mean is 0.",
    constants={"mean": Fraction(1, 8), "gate": Fraction(1, 2), "saturated": Fraction(0), "digits": 1e-14},
    wrong=HALF_LOGITS,
)
def leak(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Deficits differ between N in {0, 3} and N in {1, 2}."""
    found, x = [], all_inputs(2, 5)
    gate = x[:, 0, 0] != x[:, 1, 0]
    n = (x[:, 0, 1:4] != x[:, 1, 1:4]).sum(axis=1)
    t, c = saturated_heads(3)
    for beta in (2.0, 5.0, 10.0, 20.0, 30.0, 40.0):
        labels = staircase_layer((1, 2, 3), 5, t, c, np.full(3, beta))(x)[:, 0, 0]
        values = np.unique(labels[gate & np.isin(n, (0, 3))])
        near = np.abs(labels[:, None] - values).min(axis=1) <= constants["digits"]
        whole = constants["saturated"] if beta == 40 else constants["mean"]
        for i, j, wanted in ((1, 2, whole), (2, 3, whole), (1, 4, Fraction(0))):
            y = (x[:, 0, i] * x[:, 1, i] * x[:, 0, j] * x[:, 1, j]).astype(int)
            mean = Fraction(int(y[gate & near].sum()), len(x))
            found.append(equal(f"beta = {beta:g}: y_{i} y_{j}", mean, wanted))
        y = x[:, 0, 1] * x[:, 1, 1] * x[:, 0, 2] * x[:, 1, 2]
        given = Fraction(int(y[gate & near].sum()), int(gate.sum()))
        found.append(equal(f"beta = {beta:g}: given the gate", given, whole / constants["gate"]))
    return found


@check(
    "parities/two-valued-labels",
    claim="Given the gate the hidden part of a label is exactly two-valued for B at beta = 40, and for C and D after "
    "rounding to 1e-9; before, C and D take more than two float64 values.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.MEASURED,
    how="The distinct values of row 1 on the gate over all inputs of two tokens of 5 signs, l = 3. Only then do the "
    "bounds for correlational queries cover all statistical queries.",
    constants={"decimals": 9, "values": 2},
    wrong={"decimals": 15},
)
def rounding_remedy(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Counts of distinct labels."""
    x = all_inputs(2, 5)
    gate = x[:, 0, 0] != x[:, 1, 0]
    saturated = saturated_heads(3)
    exact = parity_heads("C", bits=3, beta=1.0)
    minimal = minimal_heads((0.5, 1.0))
    found = []
    for name, t, c, slopes in (
        ("B", *saturated, np.full(3, 40.0)),
        ("C", exact.thresholds, exact.coefficients, exact.slopes),
        ("D", *minimal, np.array([0.5, 1.0])),
    ):
        labels = staircase_layer((1, 2, 3), 5, t, c, slopes)(x)[gate, 0, 0]
        if name == "B":
            found.append(equal("B, as they are", len(np.unique(labels)), constants["values"]))
            continue
        rounded = len(np.unique(np.round(labels, constants["decimals"])))
        found.append(equal(f"{name}, rounded", rounded, constants["values"]))
        more = len(np.unique(labels)) > constants["values"]
        found.append(equal(f"{name}, unrounded: more than two values", more, True))
    return found


def _profile_error(slopes: np.ndarray) -> float:
    t, c = minimal_heads(slopes.tolist())
    n = np.arange(2 * len(slopes))
    g = np.tanh(slopes * np.subtract.outer(n, t)) @ c
    return float(np.abs(g - (-1.0) ** n).max())
