"""Claims on the neighbours of the two-token parities: pairs, hidden gates, any number of tokens."""

from collections.abc import Iterator
from math import comb

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS
from paper_checks.claims._gated_parities import (
    all_inputs,
    characters,
    known_part,
    minimal_heads,
    saturated_heads,
    secrets_of,
    staircase_layer,
)
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, close, equal


@checks("parities/pairs")
def pair_family(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.PairFamily have the proof. Sums over every input of two tokens of 5 signs and all pairs
    at beta = 1. The parts with K subtracted are checked at beta = 0.3.
    """
    d = 5
    x = all_inputs(2, d)
    a1 = (x[:, 0, 0] + x[:, 1, 0]) / 2
    pairs = secrets_of(d, 2)
    yield equal("number of pairs", len(pairs), comb(d - claim.left_out, 2))
    for beta in (1.0, 0.3):
        outputs = np.array([_pair_layer(d, a, b, beta)(x)[..., 0] for a, b in pairs])
        raw = outputs.reshape(len(pairs), -1)
        products = raw @ raw.T / len(x)
        if beta == 1.0:
            for name, value in (("on", products[0, 0]), ("off", products[0, 1])):
                figure = claim[name]
                yield close(f"raw, {name} the diagonal", float(value), figure, absolute=claim.half_a_digit)
        known = np.stack([a1, a1], axis=1) / np.tanh(beta)
        hidden = (outputs - known).reshape(len(pairs), -1)
        wanted = claim.energy * np.eye(len(pairs))
        gap = np.abs(hidden @ hidden.T / len(x) - wanted).max()
        yield at_most(f"beta = {beta}: K off, largest difference", float(gap), claim.rounding)


@checks("parities/hidden-gate")
def hidden_gate(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.HiddenGateFamily have the proof. Takes all inputs of two tokens of 4 signs and layers
    of construction D, l = 2, 3. Computes the Gram matrix of the layers with the added head, and degree 1 with
    and without it. Construction B with l = 2 checks c0.
    """
    d = 4
    x, slopes = all_inputs(2, d), np.array([0.5, 1.0])
    t, c = minimal_heads(slopes.tolist())
    for bits in (2, 3):
        outputs = []
        for gate in range(d):
            others = [one for one in range(d) if one != gate]
            for places in secrets_of(d - 1, bits, first=0):
                chosen = [others[place] for place in places]
                layer = staircase_layer(chosen, d, t, c, slopes, gate=gate)
                outputs.append(_with_zero_head(layer, gate, claim.added * c.sum())(x)[..., 0])
        flat = np.array(outputs).reshape(len(outputs), -1)
        yield equal(f"l = {bits}: targets", len(flat), d * comb(d - 1, bits))
        gap = np.abs(flat @ flat.T / len(x) - np.eye(len(flat))).max()
        yield at_most(f"l = {bits}: off orthonormal by", float(gap), claim.rounding)
        seen = _largest_degree_one(x, np.array(outputs))
        yield at_most(f"l = {bits}: largest coefficient of degree 1", seen, claim.rounding)
    bare = staircase_layer((1, 2, 3), d, t, c, slopes)(x)[None, ..., 0]
    wanted = abs(c.sum()) * claim.half
    yield close("C kept: degree 1", _largest_degree_one(x, bare), wanted, absolute=claim.rounding)
    t, c = saturated_heads(2)
    even = staircase_layer((1, 2), d, t, c, np.full(2, 40.0))(x)[None, ..., 0]
    wanted = claim.half
    yield close("c0 = -1: degree 1", _largest_degree_one(x, even), wanted, absolute=claim.rounding)


@checks("parities/any-k-row")
def any_k_identity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For row r token b has the weight exp(beta <v, x_r> x_b1). The rest is the definition of tanh. Takes
    random heads, and inputs where both signs occur, k = 2, 3, 4, 8, 16.
    """
    d = 8
    for k in (2, 3, 4, 8, 16):
        x = BooleanInputs(k, d).sample(400 if scale is Scale.QUICK else 20_000, rng=rng)
        x = x[np.any(x[:, :, 0] != x[:, :1, 0], axis=1)]
        v, beta, c = rng.normal(size=d), float(rng.uniform(0.2, 2)), float(rng.normal())
        theta, w = np.zeros((1, d, d)), np.zeros((1, d, d))
        theta[0, :, 0], w[0, 0, 0] = beta * v, c
        plus = (x[:, :, 0] > 0).sum(axis=1, keepdims=True)
        wanted = c * np.tanh(beta * (x @ v) + claim.half * np.log(plus / (k - plus)))
        gap = np.abs(AttentionLayer(theta=theta, w=w)(x)[..., 0] - wanted).max()
        yield at_most(f"k = {k}: largest difference", float(gap), claim.rounding)


@checks("parities/any-k-parity")
def any_k_parity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The notes of sq.TokenParityFamily have the proof. Takes all inputs for k = 2, 3 and drawn ones for k =
    5, with l = 1, 2, 3. Orthogonality is in whole numbers at k = 2, 3.
    """
    for k, d in ((2, 6), (3, 5), (5, 6)):
        x = all_inputs(k, d) if k < 5 else BooleanInputs(k, d).sample(5000, rng=rng)
        gate = np.any(x[:, :, 0] != x[:, :1, 0], axis=1)[:, None]
        for bits in (1, 2, 3):
            secret, c = list(range(2, 2 + bits)), float(bits % 2)
            t = np.arange(1 - bits, bits, 2, dtype=np.float64)
            theta, w = np.zeros((bits, d, d)), np.zeros((bits, d, d))
            theta[:, secret, 0], theta[:, 1, 0] = 40.0, -40.0 * t
            w[:, 0, 0] = (-1.0) ** np.arange(bits)
            parity = x[:, :, secret].prod(axis=2) * x[:, :, 1] ** (bits + claim.power)
            on = (1 - c) * x[:, :, 1] + (-1.0) ** (bits + 1) * parity
            wanted = np.where(gate, on, c * x[:, :1, 0])
            gap = np.abs(AttentionLayer(theta=theta, w=w)(x)[..., 0] - wanted).max()
            yield at_most(f"k = {k}, l = {bits}: largest difference", float(gap), claim.rounding)
    for k, d in ((2, 6), (3, 5)):
        x = all_inputs(k, d)
        gate = np.any(x[:, :, 0] != x[:, :1, 0], axis=1)[:, None]
        for bits in (2, 3):
            parts = [
                (gate * x[:, :, list(secret)].prod(axis=2)).ravel() for secret in secrets_of(d, bits, first=2)
            ]
            whole = np.array(parts).astype(np.int64)
            products = whole @ whole.T
            yield equal(f"k = {k}, l = {bits}: targets", len(whole), comb(d - claim.left_out, bits))
            diagonal = np.diag(np.diag(products))
            yield equal(f"k = {k}, l = {bits}: orthogonal", bool(np.array_equal(products, diagonal)), True)


@checks("parities/finite-slopes-need-two-tokens")
def only_two_tokens(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes heads beta_i 1_S e_1^T with slopes (1/2, 1) and l = 3. The two coefficients are solved for sum_j
    x_rj = 1, 3 without a shift. The result is the largest difference on the gate for k = 2 and 3. Other ways
    to use finite slopes are not covered.
    """
    gaps = {}
    for k in (claim.exact_tokens, claim.shifted_tokens):
        d, slopes = 4, np.array([0.5, 1.0])
        # the parity of three signs is 1, -1 at sums 3, 1, and odd
        c = np.linalg.solve(np.tanh(np.multiply.outer([1.0, 3.0], slopes)), [-1.0, 1.0])
        x = all_inputs(k, d)
        x = x[np.any(x[:, :, 0] != x[:, :1, 0], axis=1)]
        theta, w = np.zeros((2, d, d)), np.zeros((2, d, d))
        theta[:, 1:4, 0], w[:, 0, 0] = slopes[:, None], c
        outputs = AttentionLayer(theta=theta, w=w)(x)[..., 0]
        gaps[k] = float(np.abs(outputs - x[:, :, 1:4].prod(axis=2)).max())
    few, more = claim.exact_tokens, claim.shifted_tokens
    yield at_most(f"k = {few}: largest difference", gaps[few], claim.exact)
    yield at_least(f"k = {more}: largest difference", gaps[more], claim.missed)


@checks("parities/lowest-degree", HALF_LOGITS)
def lowest_degree(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """u_1 chi_S(y) is half a difference of two characters. The matrix of characters gives all 256
    coefficients of both rows of the layers of construction D minus the known part, d = 4, l = 1, 2, 3.
    """
    x, table = all_inputs(2, 4), characters(2, 4)
    degrees = np.bitwise_count(np.arange(256))
    for bits in (1, 2, 3):
        slopes = (1.0,) if bits == 1 else (0.5, 1.0)
        t, c = minimal_heads(slopes)
        layer = staircase_layer(range(1, bits + 1), 4, t, c, slopes)
        hidden = layer(x)[..., 0] - known_part(x, float(c.sum()), 0.0)
        degree = claim.per_bit * bits + claim.more
        for row in range(2):
            sizes = np.abs(table @ hidden[:, row] / 256)
            seen = sizes > claim.rounding
            name = f"l = {bits}, row {row + 1}"
            yield equal(f"{name}: degrees met", sorted(degrees[seen].tolist()), [degree, degree])
            gap = np.abs(sizes[seen] - claim.size).max()
            yield at_most(f"{name}: sizes off 1/2 by", float(gap), claim.rounding)


def _pair_layer(d: int, a: int, b: int, beta: float) -> AttentionLayer:
    theta, w = np.zeros((1, d, d)), np.zeros((1, d, d))
    theta[0, a, b], w[0, 0, 0] = beta, 1 / np.tanh(beta)
    return AttentionLayer(theta=theta, w=w)


def _with_zero_head(layer: AttentionLayer, gate: int, coefficient: float) -> AttentionLayer:
    # Theta = 0 reads both tokens alike
    d = layer.dim
    w = np.zeros((1, d, d))
    w[0, gate, 0] = coefficient
    return AttentionLayer(
        theta=np.concatenate([layer.theta, np.zeros((1, d, d))]), w=np.concatenate([layer.w, w])
    )


def _largest_degree_one(x: np.ndarray, outputs: np.ndarray) -> float:
    # E F(X)_a x_bj over all rows a, entries (b, j) and targets
    flat = x.reshape(len(x), -1)
    return float(np.abs(np.einsum("tna,ne->tae", outputs, flat) / len(x)).max())
