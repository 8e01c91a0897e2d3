"""Claims: Parities hidden by heads."""

from collections.abc import Sequence
from math import comb, factorial

import numpy as np
from numpy.random import Generator
from sympy import integer_nthroot

from attention import AttentionLayer
from lower import parity_targets
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import HALF_LOGITS, REVERSED_COEFFICIENTS
from paper_checks.claims._gated_parities import (
    all_inputs,
    hidden_parity,
    known_part,
    linear_layer,
    minimal_heads,
    row_gap,
    saturated_heads,
    secrets_of,
    staircase_layer,
)
from paper_checks.claims._parity_families import (
    any_k_identity,
    any_k_parity,
    hidden_gate,
    lowest_degree,
    only_two_tokens,
    pair_family,
)
from paper_checks.claims._parity_figures import (
    exact_coefficients,
    float_saturation,
    gram,
    leak,
    minimal_coefficients,
    minimal_slopes,
    rounding_remedy,
    saturated_slopes,
    saturation_error,
    single_precision,
)
from paper_checks.comparison import Comparison, Kind, at_least, at_most, equal
from paper_checks.faults import Fault, given
from sq import heads_needed, parity_heads

__all__ = [
    "any_k_identity",
    "any_k_parity",
    "exact_coefficients",
    "exact_heads",
    "fewer_heads",
    "float_saturation",
    "gram",
    "hidden_gate",
    "identity",
    "leak",
    "linear_heads",
    "lowest_degree",
    "minimal_coefficients",
    "minimal_heads_realise",
    "minimal_slopes",
    "only_two_tokens",
    "orthogonal_targets",
    "pair_family",
    "queries_or_tolerance",
    "query_exponent",
    "rounding_remedy",
    "saturated_heads_realise",
    "saturated_slopes",
    "saturation_error",
    "single_precision",
]

_OURS = "derived here; Chen and Li, arXiv 2402.04084, state d^Omega(m) already for two tokens"
_SIZES = (1, 2, 3, 4, 5)
_SLOPES = {1: (1.0,), 2: (0.5, 1.0), 3: (0.5, 1.0, 2.0)}


@check(
    "parities/identity",
    claim="On two tokens, heads Theta_i = beta_i (sum_{j in S} e_j e_j^T - t_i e_1 e_1^T), W_i = c_i e_1 w^T give "
    "F = C a_1 [1;1] w^T + u_1 g(N_S) [1;-1] w^T with g(N) = sum_i c_i tanh(beta_i (N - t_i)), C = sum_i c_i, "
    "u = (x_1 - x_2)/2, a = (x_1 + x_2)/2 and N_S the number of j in S with x_1j != x_2j.",
    source=_OURS,
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The proof is in the notes of lower.Staircase. Heads drawn at random against the formula, at every input of "
    "two tokens and on both rows; in floating point, so to rounding.",
    constants={"half_logit": 1.0, "rounding": 1e-12},
    wrong=HALF_LOGITS,
)
def identity(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Half the logit difference is beta (N - t)."""
    d, draws = (5, 3) if scale is Scale.QUICK else (6, 20)
    x, worst = all_inputs(2, d), 0.0
    for _ in range(draws):
        m, bits = int(rng.integers(1, 5)), int(rng.integers(1, d))
        secret = sorted(rng.choice(np.arange(1, d), size=bits, replace=False).tolist())
        t, c, beta = rng.uniform(-1, bits + 1, m), rng.normal(size=m), rng.uniform(0.1, 3, m)
        w = rng.normal(size=d)
        w /= np.linalg.norm(w)
        layer = staircase_layer(secret, d, t, c, beta, direction=w)
        n = (x[:, 0, secret] != x[:, 1, secret]).sum(axis=1)
        g = (c * np.tanh(constants["half_logit"] * beta * (n[:, None] - t))).sum(axis=1)
        u, a = (x[:, 0, 0] - x[:, 1, 0]) / 2, (x[:, 0, 0] + x[:, 1, 0]) / 2
        wanted = np.stack([c.sum() * a + u * g, c.sum() * a - u * g], axis=1)
        worst = max(worst, row_gap(layer(x), wanted, w))
    return [at_most("largest row norm of the difference", worst, constants["rounding"])]


@check(
    "parities/linear-heads",
    claim="Construction A: the 2l heads Theta_i = beta e_1 (1_S - t_i e_1)^T, t_i = -l+1/2, ..., l-1/2, c_i = "
    "(-1)^(i+l), beta = 40 hide the parity of S, |S| = l, with C = 0 and c0 = (-1)^(l+1), up to 1e-14.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.parity_heads. All 4096 inputs of two tokens of 6 signs, both rows, l = 1 to 5, S "
    "the first l coordinates.",
    constants={"sign": 1, "error": 1e-14},
    wrong=REVERSED_COEFFICIENTS,
)
def linear_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The heads see L = x_11 sum_{j in S} u_j in the place of N."""
    found = []
    for bits in _SIZES:
        order = np.arange(1, 2 * bits + 1)
        secret = range(1, bits + 1)
        layer = linear_layer(secret, 6, order - bits - 0.5, (-1.0) ** (order + bits), 40.0)
        error = _error(layer, secret, 0.0, (-1.0) ** (bits + constants["sign"]))
        found.append(at_most(f"l = {bits}, {layer.heads} heads: error", error, constants["error"]))
        library = parity_heads("A", bits=bits).layer(secret, dim=6)
        error = _error(library, secret, 0.0, (-1.0) ** (bits + constants["sign"]))
        found.append(at_most(f"l = {bits}: error of the library's", error, constants["error"]))
    return found


@check(
    "parities/saturated-heads",
    claim="Construction B: l heads, t_i = i - 1/2, c_i = (-1)^i, beta = 40 hide the parity of S, |S| = l, up to 1e-14, "
    "with C = -1, c0 = 0 for odd l and C = 0, c0 = -1 for even l.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Proved in the notes of sq.parity_heads. All 4096 inputs of two tokens of 6 signs, both rows, l = 1 to 5.",
    constants={"shift": 0.5, "odd": (-1.0, 0.0), "even": (0.0, -1.0), "error": 1e-14},
    wrong=REVERSED_COEFFICIENTS,
)
def saturated_heads_realise(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Steps of alternating sign."""
    found = []
    for bits in _SIZES:
        t, coefficients = saturated_heads(bits, shift=constants["shift"])
        secret = range(1, bits + 1)
        layer = staircase_layer(secret, 6, t, coefficients, np.full(bits, 40.0))
        known = constants["odd" if bits % 2 else "even"]
        error = _error(layer, secret, *known)
        found.append(at_most(f"l = {bits}, {layer.heads} heads: error", error, constants["error"]))
        error = _error(parity_heads("B", bits=bits).layer(secret, dim=6), secret, *known)
        found.append(at_most(f"l = {bits}: error of the library's", error, constants["error"]))
    return found


@check(
    "parities/exact-heads",
    claim="Construction C: with the l thresholds i - 1/2 of B and any one slope beta, the coefficients that solve "
    "sum_i c_i tanh(beta (N - t_i)) - c0 = (-1)^N for N = 0, ..., l hide the parity up to 1e-13.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The equations are solved for beta = 1, 2, 4 and l = 2, 3, 4; the layer is then compared at all 4096 inputs of "
    "two tokens of 6 signs on both rows. Smaller slopes lose digits, as the coefficients grow (1.2e-13 at beta = 1/2, "
    "l = 4); that the equations can be solved for every beta is not proved.",
    constants={"heads_less_than_bits": 0, "error": 1e-13},
    wrong=REVERSED_COEFFICIENTS,
)
def exact_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """As many heads as bits, and a constant."""
    found = []
    for bits in _SIZES[1:4]:
        for beta in (1.0, 2.0, 4.0):
            t = saturated_heads(bits - constants["heads_less_than_bits"])[0]
            n = np.arange(bits + 1)
            system = np.column_stack([np.tanh(beta * np.subtract.outer(n, t)), -np.ones(bits + 1)])
            solved = np.linalg.lstsq(system, (-1.0) ** n)[0]
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, solved[:-1], np.full(len(t), beta))
            error = _error(layer, secret, solved[:-1].sum(), solved[-1])
            found.append(at_most(f"l = {bits}, beta = {beta}: error", error, constants["error"]))
            own = parity_heads("C", bits=bits, beta=beta)
            error = _error(own.layer(secret, dim=6), secret, own.c, own.c0)
            found.append(
                at_most(f"l = {bits}, beta = {beta}: error of the library's", error, constants["error"])
            )
    return found


@check(
    "parities/minimal-heads",
    claim="Construction D: floor(l/2) + 1 heads of the one threshold m - 1/2 and slopes 1/2, 1, 2 hide the parity of l "
    "bits with c0 = 0 up to 1e-12, so that m heads hide l = 2m - 1 bits: two heads hide three.",
    source=_OURS,
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The equations M c = r, M_ab = tanh(beta_b (a - 1/2)), r_a = (-1)^(m-1+a), solved here; all 4096 inputs of two "
    "tokens of 6 signs, both rows, l = 1 to 5. That no fewer heads do is another claim.",
    constants={"per_head": 2, "less": 1, "error": 1e-12},
    wrong=REVERSED_COEFFICIENTS,
)
def minimal_heads_realise(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """All bits up to 2m - 1 of m heads."""
    found = []
    for m in (1, 2, 3):
        t, coefficients = minimal_heads(_SLOPES[m])
        most = constants["per_head"] * m - constants["less"]
        for bits in range(max(1, most - 1), min(most, 5) + 1):
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, coefficients, _SLOPES[m])
            error = _error(layer, secret, coefficients.sum(), 0.0)
            found.append(at_most(f"m = {m}, l = {bits}: error", error, constants["error"]))
            own = parity_heads("D", bits=bits)
            error = _error(own.layer(secret, dim=6), secret, own.c, 0.0)
            found.append(at_most(f"m = {m}, l = {bits}: error of the library's", error, constants["error"]))
    return found


@check(
    "parities/fewer-heads",
    claim="With fewer than floor(l/2) + 1 heads of the form c_i tanh(beta_i (N - t_i)) and a constant, no fit of "
    "(-1)^N on N = 0, ..., l found by search leaves a largest residual below 1.00, what the zero function leaves.",
    source="derived here; Hsu, arXiv 2605.12171, has a related proved bound",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="Best uniform fits by linear programming over slopes and thresholds drawn at random and those of D, l = 2 to "
    "6. One head is monotone, so there it is proved; a search proves nothing beyond. wrong gives D its full number.",
    constants={"missing": 1, "residual": 0.995},
    wrong={"missing": 0},
)
def fewer_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The least of the largest residuals."""
    draws, found = 25 if scale is Scale.QUICK else 800, []
    for bits in (2, 3, 4, 5) if scale is Scale.QUICK else (2, 3, 4, 5, 6):
        m = bits // 2 + 1 - constants["missing"]
        tried = [(np.full(m, m - 0.5), np.array([0.5, 1.0, 2.0, 4.0][:m]))]
        tried += [(rng.uniform(0, bits, m), 10 ** rng.uniform(-1, 1, m)) for _ in range(draws)]
        least = min(_best_residual(t, beta, bits) for t, beta in tried)
        found.append(at_least(f"l = {bits}, m = {m}: least largest residual", least, constants["residual"]))
    return found


@check(
    "parities/orthogonal-targets",
    claim="The hidden parts u_1 chi_S(y) [1;-1] of the C(d-1, l) sets S of l = 2m - 1 coordinates are orthonormal in "
    "E sum_a f_S(X)_a f_T(X)_a.",
    source=_OURS,
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Distinct products of characters of X. Whole numbers over every input of two tokens, d = 5 and 6, m = 1, 2, 3.",
    constants={"left_out": 1, "norm": 1},
    wrong=Fault(
        "paper_checks.claims._gated_parities:secrets_of",
        lambda right: lambda d, bits: right(d, bits, first=0),
        "secrets that may hold the gate",
    ),
)
def orthogonal_targets(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """A Gram matrix in whole numbers."""
    found = []
    for d in (5, 6):
        x = all_inputs(2, d)
        for m in (1, 2, 3) if d > 5 else (1, 2):
            bits = 2 * m - 1
            values = np.array([hidden_parity(x, secret).ravel() for secret in secrets_of(d, bits)])
            whole = values.astype(np.int64)
            many = comb(d - constants["left_out"], bits)
            found.append(equal(f"d = {d}, m = {m}: number of targets", len(whole), many))
            products = whole @ whole.T
            expected = constants["norm"] * len(x) * np.eye(len(whole), dtype=np.int64)
            found.append(
                equal(f"d = {d}, m = {m}: orthonormal", bool(np.array_equal(products, expected)), True)
            )
    return found


@check(
    "parities/query-exponent",
    claim="The number C(d-1, 2m-1) of orthogonal targets of m heads is a polynomial in d of degree 2m - 1 with leading "
    "coefficient 1/(2m-1)!: the explicit exponent in d^Omega(m).",
    source="derived here; Chen and Li, arXiv 2402.04084, state the form without the constant",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="Differences of the counts C(d-1, l), l the most bits of m heads: the one of order 2m - 1 is 1 and the next 0; "
    "the degree of lower.parity_targets beside it. m = 1 to 6.",
    constants={"slope": 2, "offset": -1},
    wrong=Fault(
        "lower.bounds:parity_targets", given(lambda heads: heads + 1), "the targets of one head more"
    ),
)
def query_exponent(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Finite differences of exact counts."""
    found = []
    for m in range(1, 7):
        bits = max(one for one in range(1, 40) if heads_needed("D", one) == m)
        degree = constants["slope"] * m + constants["offset"]
        counts = np.array([comb(d - 1, bits) for d in range(1, 60)], dtype=object)
        steps = np.diff(counts, n=degree)
        found.append(equal(f"m = {m}: difference of order {degree} is", sorted(set(steps.tolist())), [1]))
        polynomial = parity_targets(m)
        found.append(equal(f"m = {m}: degree in d", polynomial.degree(), degree))
        found.append(equal(f"m = {m}: leading coefficient", polynomial.LC() * factorial(degree), 1))
    return found


@check(
    "parities/queries-or-tolerance",
    claim="A deterministic learner of the parities that m heads hide in two tokens, by q correlational queries of "
    "tolerance tau, has max(q, 1/tau) >= (N - 1)^(1/3), N = C(d-1, 2m-1) their number: d^Omega(m) "
    "queries or inverse tolerance.",
    source="Chen and Li, arXiv 2402.04084, for d^Omega(m) queries or inverse tolerance; the exponent is derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="q (ceil(1/tau^2) - 1) >= N - 1 (queries/lower-bound) gives q > (N - 1) tau^2, so that not both can be below "
    "the cube root. In whole numbers, with the largest 1/tau^2 below its bound, where q is least; m = 1 to 6, "
    "d to 4096.",
    constants={"power": 1, "root": 3},
    wrong={"root": 2},
)
def queries_or_tolerance(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The worst tolerance for the learner's bound, by whole roots."""
    power, root = constants["power"], constants["root"]
    below = []
    sizes = [(m, d) for m in range(1, 7) for d in (16, 48, 256, 1024, 4096)]
    for m, d in sizes:
        others = comb(d - 1, 2 * m - 1) - 1
        # the largest whole n = 1/tau^2 with sqrt(n) < others^(power/root)
        squares = int(integer_nthroot(others ** (2 * power) - 1, root)[0])
        queries = -(-others // (squares - 1)) if squares > 1 else others
        if queries**root < others**power:
            below.append((m, d))
    return [equal(f"sizes (m, d) with both below, of {len(sizes)}", len(below), 0)]


def _error(layer: AttentionLayer, secret: Sequence[int], c: float, c0: float) -> float:
    # at every input of two tokens of 6 signs, rows in the 2-norm
    x = all_inputs(2, 6)
    return row_gap(layer(x), known_part(x, c, c0) + hidden_parity(x, secret), np.eye(6)[0])


def _best_residual(thresholds: np.ndarray, slopes: np.ndarray, bits: int) -> float:
    from scipy.optimize import linprog

    n = np.arange(bits + 1)
    basis = np.column_stack([np.tanh(slopes * np.subtract.outer(n, thresholds)), np.ones(len(n))])
    wanted, ones = (-1.0) ** n, np.ones((len(n), 1))
    solved = linprog(
        np.append(np.zeros(basis.shape[1]), 1.0),
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.concatenate([wanted, -wanted]),
        bounds=[(None, None)] * basis.shape[1] + [(0, None)],
    )
    return float(solved.fun) if solved.success else 1.0
