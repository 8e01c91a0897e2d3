"""Parities hidden by heads."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, prod

import numpy as np
from numpy.random import Generator
from sympy import Poly, Rational, symbols

from attention import BooleanInputs
from lower import Heads, all_sign_matrices
from lower.walsh import walsh_hadamard
from paper_checks.claim import Basis, claim
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.claims._layer_by_fractions import rank
from paper_checks.comparison import Comparison, at_least, at_most, close, equal
from paper_checks.faults import Fault, returned
from runs import Scale
from sq import make_parity_instance

_SOURCE = "derived here; Chen and Li, arXiv 2402.04084, state d^Omega(m) already for two tokens"


@claim("parities/identity", source=_SOURCE, basis=Basis.PROVED, fault=HALF_LOGITS)
def identity(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """On two tokens let Theta_i = beta_i (sum_{j in S} e_j e_j^T - t_i e_1 e_1^T) and W_i = c_i e_1 w^T. Then F =
    C a_1 [1;1] w^T + u_1 g(N_S) [1;-1] w^T with g(N) = sum_i c_i tanh(beta_i (N - t_i)) and C = sum_i c_i. Here u =
    (x_1 - x_2)/2, a = (x_1 + x_2)/2, and N_S is the number of j in S with x_1j != x_2j.

    The notes of lower.Heads have the proof. Compares random heads with the formula at every input of two tokens and
    on both rows, in floating point, so to rounding.
    """
    d, draws = (5, 3) if scale is Scale.QUICK else (6, 20)
    x, worst = all_sign_matrices(2, d), 0.0
    for _ in range(draws):
        m, bits = int(rng.integers(1, 5)), int(rng.integers(1, d))
        secret = rng.choice(np.arange(1, d), size=bits, replace=False)
        t, c, beta = rng.uniform(-1, bits + 1, m), rng.normal(size=m), rng.uniform(0.1, 3, m)
        w = rng.normal(size=d)
        layer = Heads(np.isin(np.arange(d), secret).astype(int), t, c, beta, direction=w).layer()
        n = (x[:, 0, secret] != x[:, 1, secret]).sum(axis=1)
        g = (c * np.tanh(beta * (n[:, None] - t))).sum(axis=1)
        u, a = (x[:, 0, 0] - x[:, 1, 0]) / 2, (x[:, 0, 0] + x[:, 1, 0]) / 2
        wanted = np.stack([c.sum() * a + u * g, c.sum() * a - u * g], axis=1)[..., None] * w
        worst = max(worst, float(np.linalg.norm(layer(x) - wanted, axis=2).max()))
    yield at_most("largest row norm of the difference", worst, 1e-12)


@claim("parities/constructions", source=_SOURCE, basis=Basis.DERIVED, fault=HALF_LOGITS)
def constructions(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Four constructions hide the parity of S, |S| = l: A with 2l heads of slope 40, B with l heads of slope 40, C with
    the l thresholds of B at any slope, D with m = floor(l/2) + 1 heads of distinct slopes. So m heads hide 2m - 1 bits:
    two heads hide three. D has c = (-19.0359, 12.2529), C = -6.7831 for l = 3, so the known part has 46/47 of the
    labels' energy, C^2/(C^2 + 1); and c = (-20.0411, 28.6109, -12.2285), C = -3.6587 for l = 5. C at slope 1 has sum_i
    |c_i| = 8.312 for l = 2 and 17.23 for l = 3.

    Takes all 4096 inputs of two tokens of 6 signs, both rows, l = 1 to 5. The notes of sq.parity_heads have the
    coefficients. For A and B they have the proof; that the equations of C and D can be solved is computed.
    """
    x = all_sign_matrices(2, 6)
    for name, bound in (("A", 1e-14), ("B", 1e-14), ("C", 1e-13), ("D", 1e-12)):
        for bits in range(1, 6):
            secret = range(1, bits + 1)
            instance = make_parity_instance(dim=6, secret=secret, construction=name)
            heads = {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[name]
            gap = instance.layer(x) - instance.known(x)
            gap[..., 0] -= _hidden(x, secret)
            yield equal(f"{name}, l = {bits}: heads", instance.layer.heads, heads)
            yield at_most(f"{name}, l = {bits}: error", float(np.linalg.norm(gap, axis=2).max()), bound)
    c = make_parity_instance(dim=6, bits=3).layer.w[:, 0, 0]
    for name, value, figure in zip(
        ("c_1", "c_2", "C", "C^2"),
        (*c, c.sum(), c.sum() ** 2),
        (-19.0359, 12.2529, -6.7831, 46.0101),
        strict=True,
    ):
        yield close(f"D, l = 3: {name}", float(value), figure, absolute=5.01e-5)
    c = make_parity_instance(dim=6, bits=5).layer.w[:, 0, 0]
    for name, value, figure in zip(
        ("c_1", "c_2", "c_3", "C"), (*c, c.sum()), (-20.0411, 28.6109, -12.2285, -3.6587), strict=True
    ):
        yield close(f"D, l = 5: {name}", float(value), figure, absolute=5.01e-5)
    for bits, figure in ((2, 8.312), (3, 17.23)):
        c = make_parity_instance(dim=6, bits=bits, construction="C").layer.w[:, 0, 0]
        yield close(f"C, l = {bits}: sum of |c|", float(np.abs(c).sum()), figure, relative=3e-4)


@claim(
    "parities/solvable-slopes",
    source="derived here, by the poles nearest to 0",
    basis=Basis.PROVED,
    fault={"repeated": True},
)
def solvable_slopes(scale: Scale, rng: Generator, *, repeated: bool = False) -> Iterator[Comparison]:
    """The equations of construction D, sum_b c_b tanh(beta_b (a - 1/2)) = y_a for a = 1, ..., m, have a solution for
    every number m of heads and almost all slopes beta. So m heads hide 2m - 1 bits. That they have one for all
    different slopes is open.

    The functions tanh((2a - 1) t) are independent, as the one with the largest a has a pole nearest to 0 that no other
    has. So the determinant, which is analytic in the slopes, is not 0 everywhere. Exact determinants at random slopes
    that are different multiples of ln 2; a repeated slope makes it 0.
    """
    for m in (2, 3, 5) if scale is Scale.QUICK else (2, 3, 5, 8, 10):
        slopes = rng.permutation(2 * m)[:m] + 1
        if repeated:
            slopes[1] = slopes[0]
        # tanh(x) at e^(2 x) = 2^z
        rows = [
            [Fraction(2**z - 1, 2**z + 1) for z in ((2 * a - 1) * int(b) for b in slopes)]
            for a in range(1, m + 1)
        ]
        yield equal(f"m = {m}: rank of the equations", rank(rows), m)


@claim(
    "parities/heads-against-bits",
    source="derived here, by Descartes' rule of signs",
    basis=Basis.PROVED,
    fault={"more": 1},
)
def heads_against_bits(scale: Scale, rng: Generator, *, more: int = 0) -> Iterator[Comparison]:
    """sum_i c_i tanh(beta_i (N - t_i)) + c of m heads has at most 2^m - 1 zeros N. The parity of l bits needs l of
    them, so m heads of this form hide at most 2^m - 1 bits. Construction D hides 2m - 1: it is optimal for one and two
    heads. For three, 5 bits are hidden and 7 is the bound.

    Times the product of the e^(2 beta_i (N - t_i)) + 1 the sum is one of at most 2^m exponentials, which has fewer
    zeros than terms. Sturm sequences count the zeros of random sums, with slopes that are multiples of one number, and
    of the parity of three bits by two heads.
    """
    draws = 20 if scale is Scale.QUICK else 100
    y = symbols("y")
    for m in (1, 2, 3):
        most = 0
        for draw in range(draws):
            powers = rng.integers(1, 6, m)
            signs = (rng.integers(1, 30, (2, m + 1)) * rng.choice([-1, 1], (2, m + 1))).tolist()
            c = [Rational(a, abs(b)) for a, b in zip(*signs, strict=True)]
            thresholds = [Rational(*row) for row in rng.integers(1, 60, (m, 2)).tolist()]
            if draw == 0 and m <= 2:  # nearly construction D: y is 2^N, N from the middle
                powers, thresholds, c = np.array([1, 3])[:m], [1] * m, [[1, 0], [-20, 9, 0]][m - 1]
            odds = [t * y ** int(b) for t, b in zip(thresholds, powers, strict=True)]
            total = c[-1] * prod(one + 1 for one in odds)
            for i in range(m):
                total += c[i] * (odds[i] - 1) * prod(odds[j] + 1 for j in range(m) if j != i)
            polynomial = Poly(total, y)
            if not polynomial.is_zero:
                most = max(most, polynomial.count_roots(0, None) - int(polynomial.eval(0) == 0))
        yield at_most(f"m = {m}: most zeros", float(most + more), float(2**m - 1))


@claim(
    "parities/fewer-heads",
    source="derived here; Hsu, arXiv 2605.12171, has a related proved bound",
    basis=Basis.MEASURED,
    fault={"missing": 0},
)
def fewer_heads(scale: Scale, rng: Generator, *, missing: int = 1) -> Iterator[Comparison]:
    """Take fewer than floor(l/2) + 1 heads of the form c_i tanh(beta_i (N - t_i)) and a constant, and fit (-1)^N on N =
    0, ..., l. No fit found by search leaves a largest residual below 1.00. The zero function leaves 1.00.

    Computes best uniform fits by linear programming over slopes and thresholds drawn at random and those of D, l = 2 to
    6. That no fit has alternating signs is proved up to l = 5, by parities/heads-against-bits.
    """
    draws = 25 if scale is Scale.QUICK else 800
    for bits in (2, 3, 4, 5) if scale is Scale.QUICK else (2, 3, 4, 5, 6):
        m = bits // 2 + 1 - missing
        tried = [(np.full(m, m - 0.5), np.array([0.5, 1.0, 2.0, 4.0][:m]))]
        tried += [(rng.uniform(0, bits, m), 10 ** rng.uniform(-1, 1, m)) for _ in range(draws)]
        least = min(_best_residual(t, beta, bits) for t, beta in tried)
        yield at_least(f"l = {bits}: least largest residual", least, 0.995)


@claim(
    "parities/orthogonal-targets",
    source=_SOURCE,
    basis=Basis.PROVED,
    fault=Fault(
        "paper_checks.claims.parities:_hidden", returned(lambda f: 2 * f), "targets of twice the size"
    ),
)
def orthogonal_targets(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The hidden parts u_1 chi_S(y) [1;-1] of the C(d-1, l) sets S of l coordinates are orthonormal in E sum_a f_S(X)_a
    f_T(X)_a. Each row has two Fourier coefficients of size 1/2, at degree 2l + 1, and no other. Two targets are at the
    squared distance 2, so a hypothesis with E|H - F|^2 below 1/2 identifies S, and one half-way between two does not.

    They are distinct products of characters of X. Uses whole numbers over every input of two tokens, d = 4 and 5, and
    all coefficients at d = 4. The rest is the triangle inequality: sqrt 2 - sqrt(1/2) = sqrt(1/2).
    """
    for d, bits in ((4, 1), (4, 2), (4, 3), (5, 2), (5, 3)):
        x, name = all_sign_matrices(2, d), f"d = {d}, l = {bits}"
        hidden = [_hidden(x, secret) for secret in combinations(range(1, d), bits)]
        flat = np.array([f.ravel() for f in hidden]).astype(int)
        orthonormal = np.array_equal(flat @ flat.T, len(x) * np.eye(len(flat)))
        yield equal(f"{name}: targets, orthonormal", [len(flat), orthonormal], [comb(d - 1, bits), True])
        if len(flat) > 1:
            middle = Fraction(int(((flat[1] - flat[0]) ** 2).sum()), 4 * len(x))
            yield equal(f"{name}: error half-way between two targets", middle, Fraction(1, 2))
        if d == 4:
            sizes = np.abs(walsh_hadamard(hidden[0].T))
            seen = np.nonzero(sizes > 1e-12)
            yield equal(f"{name}: degrees, both rows", np.bitwise_count(seen[1]), [2 * bits + 1] * 4)
            yield at_most(f"{name}: sizes off 1/2", float(np.abs(sizes[seen] - 0.5).max()), 1e-12)


@claim("parities/saturation", source="derived here", basis=Basis.PROVED, fault=HALF_LOGITS)
def saturation(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """At slope beta construction B misses the parity of l bits by at most 4/(e^beta + 1). At l = 2 the error is exactly
    that: 4.768e-1, 1.816e-4 and 8.245e-9 for beta = 2, 10 and 20. From slope 38 on, and not at 37, the float64 softmax
    is saturated, and the layer equals its limit in every bit.

    Computes the largest distance of a row of the layer from the target over all inputs of two tokens of 6 signs, l = 1
    to 5. The notes of sq.parity_heads have the proof. The slope 38 is measured; that 1 + e^-38 rounds to 1 is IEEE
    arithmetic.
    """
    for beta, figure in ((2.0, 4.768e-1), (10.0, 1.816e-4), (20.0, 8.245e-9)):
        errors = [_saturated_error(bits, beta) for bits in range(1, 6)]
        yield close(f"beta = {beta:g}: error at l = 2", errors[1], figure, relative=2e-4)
        yield at_most(f"beta = {beta:g}: largest error", max(errors), 4 / (np.exp(beta) + 1) + 1e-14)
    inexact = [beta for beta in range(30, 46) if any(_saturated_error(bits, beta) for bits in (1, 2, 3))]
    yield equal("least slope without an error from there on", max(inexact, default=0) + 1, 38)


@claim("parities/leak", source="derived here", basis=Basis.DERIVED, fault=HALF_LOGITS)
def leak(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """At a finite slope the labels of construction B, l = 3, show the secret in their low digits. The statistical query
    1[label of row 1 takes a value it has at N in {0, 3}] y_i y_j with i, j secret has mean 1/8 for beta = 2 to 30 and 0
    at beta = 40, where labels on the gate have two values. Those of C and D have two after rounding to 1e-9, and more
    without. Only then do bounds for correlational queries cover all statistical ones.

    Takes all inputs of two tokens of 5 signs and compares labels to within 1e-14.
    """
    x = all_sign_matrices(2, 5)
    gate = x[:, 0, 0] != x[:, 1, 0]
    n = (x[:, 0, 1:4] != x[:, 1, 1:4]).sum(axis=1)
    y = (x[:, 0] * x[:, 1]).astype(int)
    for beta in (2.0, 5.0, 10.0, 20.0, 30.0, 40.0):
        labels = _saturated(3, beta, 5).layer()(x)[:, 0, 0]
        values = np.unique(labels[gate & np.isin(n, (0, 3))])
        near = gate & (np.abs(labels[:, None] - values).min(axis=1) <= 1e-14)
        means = [Fraction(int((y[:, i] * y[:, j])[near].sum()), len(x)) for i, j in ((1, 2), (2, 3), (1, 4))]
        wanted = Fraction(0 if beta == 40 else 1, 8)
        yield equal(f"beta = {beta:g}: y_1 y_2, y_2 y_3 and y_1 y_4", means, [wanted, wanted, 0])
    for name in "BCD":
        layer = make_parity_instance(dim=5, secret=[1, 2, 3], construction=name).layer
        labels = layer(x)[gate, 0, 0]
        counts = [len(np.unique(labels)) == 2, len(np.unique(np.round(labels, 9))) == 2]
        yield equal(f"{name}: two values, and after rounding", counts, [name == "B", True])


@claim("parities/any-k", source="derived here", basis=Basis.PROVED, fault=HALF_LOGITS)
def any_k(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """On k tokens of signs take heads Theta_i = beta_i v_i e_1^T, W_i = c_i e_1 w^T. Row r is sum_i c_i tanh(beta_i
    <v_i, x_r> + (1/2) ln(n+/n-)) w, where n+ and n- are the numbers of tokens with x_b1 = 1 and -1. So for every k the
    l heads v_i = 1_S - t_i e_2, t = -(l-1), -(l-3), ..., l-1, c = 1, -1, ..., beta = 40 hide the parity of each token,
    x_r2^(l+1) chi_S(x_r), where the x_b1 are not all equal.

    For row r token b has the weight exp(beta <v, x_r> x_b1); the rest is the definition of tanh. Takes random heads and
    inputs for k = 2 to 16, and the l heads for k = 2, 3, 5 and odd l = 1, 3, where nothing else is on the gate. The
    notes of sq.TokenParityFamily have the proof and the rest.
    """
    for k in (2, 3, 4, 8, 16):
        x = BooleanInputs(k, 8).sample(400 if scale is Scale.QUICK else 20_000, rng=rng)
        x = x[np.any(x[:, :, 0] != x[:, :1, 0], axis=1)]
        v, t = np.isin(np.arange(8), (2, 3, 5)).astype(int), rng.normal(size=2)
        c, beta = rng.normal(size=2), rng.uniform(0.2, 2, 2)
        plus = (x[:, :, 0] > 0).sum(axis=1)
        shift = np.log(plus / (k - plus))[:, None] / 2
        wanted = sum(c[i] * np.tanh(beta[i] * (x @ v - t[i] * x[:, :, 1]) + shift) for i in range(2))
        gap = np.abs(Heads(v, t, c, beta, columns=0, offset=1).layer()(x)[..., 0] - wanted).max()
        yield at_most(f"k = {k}: rows, largest difference", float(gap), 1e-12)
        for bits in (1, 3):
            form = np.isin(np.arange(8), range(2, 2 + bits)).astype(int)
            steps, signs = np.arange(1.0 - bits, bits, 2), (-1.0) ** np.arange(bits)
            layer = Heads(form, steps, signs, np.full(bits, 40.0), columns=0, offset=1).layer()
            gap = np.abs(layer(x)[..., 0] - x[:, :, 2 : 2 + bits].prod(axis=2)).max()
            yield at_most(f"k = {k}, l = {bits}: parity, largest difference", float(gap), 1e-12)


def _hidden(x: np.ndarray, secret: Sequence[int]) -> np.ndarray:
    """u_1 chi_S(y) [1; -1], coordinate 0 of the arrays being the gate; (n, 2)."""
    value = (x[:, 0, 0] - x[:, 1, 0]) / 2 * x[:, :, list(secret)].prod(axis=(1, 2))
    return np.stack([value, -value], axis=1)


def _saturated(bits: int, beta: float, dim: int) -> Heads:
    """Construction B: thresholds i - 1/2 and coefficients (-1)^i, i = 1, ..., l."""
    order = np.arange(1, bits + 1)
    form = np.isin(np.arange(dim), order).astype(int)
    return Heads(form, order - 0.5, (-1.0) ** order, np.full(bits, float(beta)))


def _saturated_error(bits: int, beta: float) -> float:
    """The largest distance of a row from C a_1 [1; 1] + (c0 + parity) u_1 [1; -1]."""
    x = all_sign_matrices(2, 6)
    u, a = (x[:, 0, :1] - x[:, 1, :1]) / 2, (x[:, 0, :1] + x[:, 1, :1]) / 2
    known = -a if bits % 2 else np.array([-1, 1]) * u
    outputs = _saturated(bits, beta, 6).layer()(x)
    return float(np.abs(outputs[..., 0] - known - _hidden(x, range(1, bits + 1))).max())


def _best_residual(thresholds: np.ndarray, slopes: np.ndarray, bits: int) -> float:
    """The largest residual of the best uniform fit of (-1)^N."""
    from scipy.optimize import linprog

    n = np.arange(bits + 1)
    basis = np.column_stack([np.tanh(slopes * np.subtract.outer(n, thresholds)), np.ones(len(n))])
    wanted, cost = (-1.0) ** n, np.append(np.zeros(basis.shape[1]), 1.0)
    sides = [np.column_stack([sign * basis, -np.ones(len(n))]) for sign in (1, -1)]
    solved = linprog(cost, np.vstack(sides), np.append(wanted, -wanted), bounds=(None, None))
    return float(solved.fun) if solved.success else 1.0
