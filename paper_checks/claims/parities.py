"""Claims: Parities hidden by heads."""

from collections.abc import Iterator, Sequence
from math import comb

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer
from paper_checks.check import Constants, Scale
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
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, equal
from sq import parity_heads

_SIZES = (1, 2, 3, 4, 5)
_SLOPES = {1: (1.0,), 2: (0.5, 1.0), 3: (0.5, 1.0, 2.0)}


@checks("parities/identity", HALF_LOGITS)
def identity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of lower.Heads have the proof. Compares random heads with the formula at every input of two
    tokens and on both rows, in floating point, so to rounding.
    """
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
        g = (c * np.tanh(claim.half_logit * beta * (n[:, None] - t))).sum(axis=1)
        u, a = (x[:, 0, 0] - x[:, 1, 0]) / 2, (x[:, 0, 0] + x[:, 1, 0]) / 2
        wanted = np.stack([c.sum() * a + u * g, c.sum() * a - u * g], axis=1)
        worst = max(worst, row_gap(layer(x), wanted, w))
    yield at_most("largest row norm of the difference", worst, claim.rounding)


@checks("parities/linear-heads", REVERSED_COEFFICIENTS)
def linear_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.parity_heads have the proof. Takes all 4096 inputs of two tokens of 6 signs, both rows,
    l = 1 to 5. S is the first l coordinates.
    """
    for bits in _SIZES:
        order = np.arange(1, 2 * bits + 1)
        secret = range(1, bits + 1)
        layer = linear_layer(secret, 6, order - bits - 0.5, (-1.0) ** (order + bits), 40.0)
        error = _error(layer, secret, 0.0, (-1.0) ** (bits + claim.sign))
        yield at_most(f"l = {bits}, {layer.heads} heads: error", error, claim.error)
        library = parity_heads("A", bits=bits).placed(secret, dim=6).layer()
        error = _error(library, secret, 0.0, (-1.0) ** (bits + claim.sign))
        yield at_most(f"l = {bits}: error of the library's", error, claim.error)


@checks("parities/saturated-heads", REVERSED_COEFFICIENTS)
def saturated_heads_realise(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.parity_heads have the proof. Takes all 4096 inputs of two tokens of 6 signs, both rows,
    l = 1 to 5.
    """
    for bits in _SIZES:
        t, coefficients = saturated_heads(bits, shift=claim.shift)
        secret = range(1, bits + 1)
        layer = staircase_layer(secret, 6, t, coefficients, np.full(bits, 40.0))
        known = claim["odd" if bits % 2 else "even"]
        error = _error(layer, secret, *known)
        yield at_most(f"l = {bits}, {layer.heads} heads: error", error, claim.error)
        error = _error(parity_heads("B", bits=bits).placed(secret, dim=6).layer(), secret, *known)
        yield at_most(f"l = {bits}: error of the library's", error, claim.error)


@checks("parities/exact-heads", REVERSED_COEFFICIENTS)
def exact_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves the equations for beta = 1, 2, 4 and l = 2, 3, 4. Then compares the layer at all 4096 inputs of
    two tokens of 6 signs on both rows. Smaller slopes lose digits, as the coefficients grow (1.2e-13 at beta
    = 1/2, l = 4). It is not proved that the equations can be solved for every beta.
    """
    for bits in _SIZES[1:4]:
        for beta in (1.0, 2.0, 4.0):
            t = saturated_heads(bits - claim.heads_less_than_bits)[0]
            n = np.arange(bits + 1)
            system = np.column_stack([np.tanh(beta * np.subtract.outer(n, t)), -np.ones(bits + 1)])
            solved = np.linalg.lstsq(system, (-1.0) ** n)[0]
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, solved[:-1], np.full(len(t), beta))
            error = _error(layer, secret, solved[:-1].sum(), solved[-1])
            yield at_most(f"l = {bits}, beta = {beta}: error", error, claim.error)
            own = parity_heads("C", bits=bits, beta=beta)
            error = _error(own.placed(secret, dim=6).layer(), secret, own.c, own.c0)
            yield at_most(f"l = {bits}, beta = {beta}: error of the library's", error, claim.error)


@checks("parities/minimal-heads", REVERSED_COEFFICIENTS)
def minimal_heads_realise(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves the equations M c = r with M_ab = tanh(beta_b (a - 1/2)) and r_a = (-1)^(m-1+a). Takes all 4096
    inputs of two tokens of 6 signs, both rows, l = 1 to 5. That fewer heads do not suffice is another claim.
    """
    for m in (1, 2, 3):
        t, coefficients = minimal_heads(_SLOPES[m])
        most = claim.per_head * m - claim.less
        for bits in range(max(1, most - 1), min(most, 5) + 1):
            secret = range(1, bits + 1)
            layer = staircase_layer(secret, 6, t, coefficients, _SLOPES[m])
            error = _error(layer, secret, coefficients.sum(), 0.0)
            yield at_most(f"m = {m}, l = {bits}: error", error, claim.error)
            own = parity_heads("D", bits=bits)
            error = _error(own.placed(secret, dim=6).layer(), secret, own.c, 0.0)
            yield at_most(f"m = {m}, l = {bits}: error of the library's", error, claim.error)


@checks("parities/fewer-heads")
def fewer_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes best uniform fits by linear programming over slopes and thresholds drawn at random and those
    of D, l = 2 to 6. One head is monotone, so for one head the claim is proved. For more heads a search
    proves nothing. The wrong value gives D its full number of heads.
    """
    draws = 25 if scale is Scale.QUICK else 800
    for bits in (2, 3, 4, 5) if scale is Scale.QUICK else (2, 3, 4, 5, 6):
        m = bits // 2 + 1 - claim.missing
        tried = [(np.full(m, m - 0.5), np.array([0.5, 1.0, 2.0, 4.0][:m]))]
        tried += [(rng.uniform(0, bits, m), 10 ** rng.uniform(-1, 1, m)) for _ in range(draws)]
        least = min(_best_residual(t, beta, bits) for t, beta in tried)
        yield at_least(f"l = {bits}, m = {m}: least largest residual", least, claim.residual)


@checks("parities/orthogonal-targets", lambda right: lambda d, bits: right(d, bits, first=0))
def orthogonal_targets(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The hidden parts are distinct products of characters of X. Uses whole numbers over every input of two
    tokens, d = 5 and 6, m = 1, 2, 3.
    """
    for d in (5, 6):
        x = all_inputs(2, d)
        for m in (1, 2, 3) if d > 5 else (1, 2):
            bits = 2 * m - 1
            values = np.array([hidden_parity(x, secret).ravel() for secret in secrets_of(d, bits)])
            whole = values.astype(np.int64)
            many = comb(d - claim.left_out, bits)
            yield equal(f"d = {d}, m = {m}: number of targets", len(whole), many)
            products = whole @ whole.T
            expected = claim.norm * len(x) * np.eye(len(whole), dtype=np.int64)
            yield equal(f"d = {d}, m = {m}: orthonormal", bool(np.array_equal(products, expected)), True)


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
