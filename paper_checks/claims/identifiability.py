"""Claims about what examples or queries can determine of the heads, and what they cannot."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ConstantCoordinateInputs,
    GaussianInputs,
    make_nice_layer,
)
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims._faults import HALF_LOGITS, NEGATED_LOGITS
from paper_checks.claims._query_learners import learn_from_one, learn_from_pairs, learn_from_scalars
from paper_checks.claims._rational_rank import rank
from paper_checks.comparison import Comparison, Kind, at_least, at_most, equal
from paper_checks.faults import Fault, given, returned

_QUERIES = "Bhattamishra, Shah, Hahn and Kanade, arXiv 2601.16873"


@check(
    "identifiability/spare-heads",
    claim="Heads with the same Theta show only the sum of their W_i, and a head with W_i = 0 shows nothing of its "
    "Theta_i. So different sets of heads, not reorderings of each other, can be the same function.",
    source=f"{_QUERIES}, abstract: several heads are not identifiable in general; these cases: derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Three heads, the first two sharing a Theta. A random matrix is moved from W_1 to W_2, and a head with W = 0 "
    "and a random Theta is added; F on Gaussian tokens stays. Both follow from F being linear in the W_i.",
    constants={"moved_back": -1, "rounding": 1e-13},
    wrong={"moved_back": 1},
)
def spare_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The same function from other heads; the W_i differ by far more than by order."""
    dim = 12 if scale is Scale.QUICK else 48
    first, second, third = make_nice_layer(heads=3, dim=dim, rng=rng).theta
    w1, w2, w3, moved = make_nice_layer(heads=4, dim=dim, rng=rng).w
    heads = [(first, w1), (first, w2), (second, w3)]
    others = [
        (first, w1 + moved),
        (first, w2 + constants["moved_back"] * moved),
        (second, w3),
        (third, 0 * w3),
    ]
    x = GaussianInputs(4, dim).sample(50, rng=rng)
    gap = _largest_difference(_layer_of(heads), _layer_of(others), x)
    nearest = min(np.linalg.norm(w - v) / np.linalg.norm(w) for w in (w1, w2) for _, v in others[:2])
    return [
        at_most("largest difference of the two F, relative", gap, constants["rounding"]),
        at_least("nearest W of the other set, relative distance", float(nearest), 0.1),
    ]


@check(
    "identifiability/one-token",
    claim="On one token F(x) = x sum_i W_i: examples with k = 1 show the sum of the W_i and nothing of any Theta_i.",
    source="derived here, from the definition of the layer",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All Boolean x at d = 6 with integer W and random Theta_i: the softmax of one logit is 1, so the layer's own "
    "numbers are whole and equal to those of the integer product.",
    constants={"tokens": 1},
    wrong={"tokens": 2},
)
def one_token(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Inputs on which F is the mean token times the sum: all of them for one token."""
    dim, tokens = (6 if scale is Scale.QUICK else 12), constants["tokens"]
    w = 2 * rng.integers(-9, 10, size=(3, dim, dim))
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=dim)))[:, None, :]
    x = np.concatenate([x, *(rng.permutation(x) for _ in range(tokens - 1))], axis=1)
    y = AttentionLayer(theta=3 * rng.standard_normal((3, dim, dim)), w=w)(x)
    mean = x.astype(int).sum(axis=1) @ w.sum(axis=0)
    same = int((tokens * y == mean[:, None, :]).all(axis=(1, 2)).sum())
    return [equal(f"x with F(x) = x sum W, of all {len(x)}", same, len(x))]


@check(
    "identifiability/constant-coordinate",
    claim="If coordinate 0 is 1 in every token, Theta_i + u e_0^T is the same function for every vector u, and only "
    "the sum over heads of row 0 of the W_i shows. Theta_i + e_0 u^T is another function.",
    source="derived here; says what absorbed biases leave undetermined",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random heads, u and Boolean tokens: u e_0^T adds x_a u to every logit of row a, and a softmax does not see "
    "what all logits share; row 0 of W_i is added once a row, whatever the pattern.",
    constants={"column_is_free": True, "rounding": 1e-13},
    wrong={"column_is_free": False},
)
def constant_coordinate(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The free direction is the column, not the row, that belongs to the constant."""
    dim = 12 if scale is Scale.QUICK else 48
    layer = make_nice_layer(heads=2, dim=dim + 1, rng=rng)
    x = ConstantCoordinateInputs(BooleanInputs(3, dim)).sample(50, rng=rng)
    theta, row, w = np.array(layer.theta), np.array(layer.theta), np.array(layer.w)
    u, v = rng.standard_normal((2, dim + 1))
    theta[0, :, -1] += u
    row[0, -1, :] += u
    w[0, -1] += v
    w[1, -1] -= v
    free, fixed = (theta, row) if constants["column_is_free"] else (row, theta)
    bound = constants["rounding"]
    return [
        at_most(
            "Theta and W moved, largest difference",
            _largest_difference(layer, AttentionLayer(theta=free, w=w), x),
            bound,
        ),
        at_least(
            "the other direction, largest difference",
            _largest_difference(layer, AttentionLayer(theta=fixed, w=layer.w), x),
            1e-3,
        ),
    ]


@check(
    "identifiability/opposite-heads",
    claim="On k = 2 tokens, heads (Theta_1, W), (Theta_2, -W) and (-Theta_1, -W), (-Theta_2, W) are the same function "
    "on all inputs: not even the signs are determined. Three tokens tell the two sets apart.",
    source=f"{_QUERIES}, abstract: several heads are not identifiable in general; this pair: derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random heads and Gaussian tokens. By the hyperbolic form (layer/two-tokens-tanh) tanh(-z) (-W) = tanh(z) W, "
    "and the part without attention is the sum of the W_i, here 0 in both sets.",
    constants={"same_on_tokens": 2, "apart_on_tokens": 3, "rounding": 1e-13},
    wrong={"same_on_tokens": 3},
)
def opposite_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Two sets of heads without a head in common."""
    dim = 12 if scale is Scale.QUICK else 48
    nice = make_nice_layer(heads=2, dim=dim, rng=rng)
    (one, two), w = nice.theta, nice.w[0]
    heads, others = _layer_of([(one, w), (two, -w)]), _layer_of([(-one, -w), (-two, w)])
    same, apart = (
        _largest_difference(
            heads, others, GaussianInputs(constants[f"{name}_on_tokens"], dim).sample(50, rng=rng)
        )
        for name in ("same", "apart")
    )
    return [
        at_most("largest difference where they are the same, relative", same, constants["rounding"]),
        at_least("largest difference where they are told apart, relative", apart, 0.01),
    ]


@check(
    "identifiability/saturated-heads",
    claim="On Boolean tokens a head with Theta = c I and W = I copies X up to 2 (k - 1) e^(-2c) in every entry. So "
    "from c = 20 on no double-precision example shows c: large logits hide Theta.",
    source="derived here",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="All Boolean X of k = 3 tokens in d = 4, c from 1 to 3, then c = 20 against c = 40. A token beats every other "
    "one by c times twice the number of coordinates in which they differ, so by 2c at least, and layer/margin applies.",
    constants={"rate": 2, "factor": 2, "hidden_from": 20},
    wrong=HALF_LOGITS,
)
def saturated_heads(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The bound, and two heads that are one in float64."""
    tokens, dim = (3, 4) if scale is Scale.QUICK else (4, 4)
    x = _all_boolean(tokens, dim)

    def copied(c: float) -> Any:
        return AttentionLayer(theta=c * np.eye(dim)[None], w=np.eye(dim)[None])(x)

    compared = []
    for c in (1.0, 2.0, 3.0):
        bound = constants["factor"] * (tokens - 1) * math.exp(-constants["rate"] * c)
        compared.append(at_most(f"|F(X) - X|, c = {c:g}", float(np.abs(copied(c) - x).max()), bound))
    one, two = copied(float(constants["hidden_from"])), copied(2.0 * constants["hidden_from"])
    return [
        *compared,
        at_most("difference of the two large c", float(np.abs(one - two).max()), 2 * np.finfo(float).eps),
    ]


@check(
    "identifiability/rank-of-logits",
    claim="Over Boolean tokens the contrasts x Theta (x - y) determine all d^2 entries of Theta; the logits x Theta x "
    "of a token on itself only 1 + d(d-1)/2 numbers; where one of the d coordinates is constant, contrasts leave d "
    "numbers free.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The rank over the rationals of each linear map, on all Boolean x and y, for d = 2, 3 (quick) and 4. In words: "
    "the monomials x_i y_j are independent; x_i^2 = 1 leaves the trace; the constant's column cancels.",
    constants={"contrast_free": 0, "self": (1, 1), "constant_free": 1},
    wrong=Fault(
        "paper_checks.claims._rational_rank:rank",
        given(lambda rows: [row[:-1] for row in rows]),
        "the rank without the last entry of Theta",
    ),
)
def rank_of_logits(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Each map as an integer matrix: a row for each pair of tokens, a column for each entry of Theta."""
    compared = []
    alone, pairs = constants["self"]
    for dim in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        cube = np.array(list(itertools.product((-1, 1), repeat=dim)))
        fixed = cube[cube[:, 0] == 1]
        contrast, constant = (
            [np.outer(x, x - y).ravel() for x in some for y in some] for some in (cube, fixed)
        )
        compared += [
            equal(f"contrasts, d = {dim}", rank(contrast), dim**2 - constants["contrast_free"]),
            equal(
                f"a token on itself, d = {dim}",
                rank([np.outer(x, x).ravel() for x in cube]),
                alone + pairs * dim * (dim - 1) // 2,
            ),
            equal(
                f"constant coordinate among d = {dim}",
                rank(constant),
                dim**2 - constants["constant_free"] * dim,
            ),
        ]
    return compared


@check(
    "identifiability/factors",
    claim="A head's query and key maps, 2dh numbers, determine a Theta from a set of dimension 2dh - h^2 only: any "
    "invertible A of size h gives the same Theta from A W_Q and A^-T W_K.",
    source="the known change of basis inside a head; counted here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The rank over the rationals of the derivative of (W_Q, W_K) -> W_Q^T W_K at random integer maps of full rank.",
    constants={"lost": 1},
    wrong=Fault(
        "paper_checks.claims._rational_rank:rank",
        given(lambda rows: rows[::2]),
        "the derivative by the query map alone",
    ),
)
def factors(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The derivative takes (dQ, dK) to dQ^T K + Q^T dK."""
    compared = []
    for dim, size in ((3, 1), (4, 2)) if scale is Scale.QUICK else ((3, 1), (4, 2), (5, 2), (5, 4)):
        query, key = rng.integers(-99, 100, size=(2, size, dim))
        rows = []
        for place in np.ndindex(size, dim):
            step = np.zeros((size, dim), dtype=int)
            step[place] = 1
            rows += [(step.T @ key).ravel(), (query.T @ step).ravel()]
        compared.append(
            equal(f"d = {dim}, h = {size}", rank(rows), 2 * dim * size - constants["lost"] * size**2)
        )
    return compared


@check(
    "identifiability/locally-determined",
    claim="On all Boolean X of k = 2 tokens, F moves with all 2 m d^2 parameters of m random heads in independent "
    "directions as long as 2 m d^2 <= d^2 + d 2^(d-1) (2^d - 1); more parameters are never determined.",
    source="derived here; in line with 'Generic fibers and functional dimension of multi-head attention' (openreview "
    "7vPmnHdAPl), whose abstract says that heads have no hidden symmetries at generic parameters",
    kind=Kind.NUMERIC,
    basis=Basis.MEASURED,
    how="Numeric rank of the Jacobian at random heads. That the right side is a ceiling is proved: F is fixed by sum W "
    "and one row vector for each pair of unequal tokens up to sign. That the rank reaches it is measured, at d = 2, 3.",
    constants={"mean": 1, "halved": 1, "gap": 1e-11},
    wrong=Fault(
        "paper_checks.claims.identifiability:_jacobian",
        returned(lambda jacobian: jacobian[:, : jacobian.shape[1] // 2]),
        "the derivative by the Theta_i alone",
    ),
)
def locally_determined(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Numbers of heads below, at and above the ceiling."""
    compared = []
    for dim, numbers in (
        ((2, (1, 2, 3)), (3, (2, 6))) if scale is Scale.QUICK else ((2, (1, 2, 3)), (3, (1, 2, 4, 6)))
    ):
        ceiling = constants["mean"] * dim**2 + dim * 2**dim * (2**dim - 1) // 2 ** constants["halved"]
        for heads in numbers:
            layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
            values = np.linalg.svd(_jacobian(layer, _all_boolean(2, dim)), compute_uv=False)
            found = int((values > constants["gap"] * values[0]).sum())
            compared.append(equal(f"rank, d = {dim}, m = {heads}", found, min(2 * heads * dim**2, ceiling)))
    return compared


@check(
    "identifiability/one-head-by-queries",
    claim="One head with a single real output, f(X) = v . (last row of softmax(X Theta X^T) X), v not 0, is learned "
    "exactly, v and all of Theta, from d^2 + d queries of at most two tokens: one query a parameter.",
    source=f"{_QUERIES}: O(d^2) queries learn one head exactly; this learner and its count: derived here",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="The learner runs: d single tokens read v; for z_j off the kernel of v, f(e_i - z_j, e_i) gives e_i Theta z_j "
    "as a log-odds. Queries are counted, also at a v with zeros. Outputs without noise; errors are those of float64.",
    constants={"square": 1, "linear": 1, "accuracy": 1e-8, "log_odds_sign": 1},
    wrong={"log_odds_sign": -1},
)
def one_head_by_queries(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The head answers queries and counts them; the learner sees nothing else."""
    compared = []
    for dim, zeros in (
        ((3, 0), (8, 0), (8, 5)) if scale is Scale.QUICK else ((3, 0), (8, 5), (32, 0), (48, 20))
    ):
        theta = np.asarray(make_nice_layer(heads=1, dim=dim, rng=rng).theta[0])
        v = rng.choice([-1, 1], size=dim) * rng.uniform(0.5, 2, size=dim)
        v[:zeros] = 0
        queries = 0

        def answer(*tokens: Any, theta: Any = theta, v: Any = v) -> float:
            nonlocal queries
            queries += 1
            x = np.array(tokens)
            logits = x[-1] @ theta @ x.T
            odds = np.exp(logits - logits.max())
            return float(odds @ x @ v / odds.sum())

        found_v, found = learn_from_scalars(answer, dim, constants["log_odds_sign"])
        name = f"d = {dim}, {zeros} zeros in v"
        compared += [
            equal(f"queries, {name}", queries, constants["square"] * dim**2 + constants["linear"] * dim),
            at_most(f"error of v, {name}", float(np.abs(found_v - v).max()), constants["accuracy"]),
            at_most(f"error of Theta, {name}", float(np.abs(found - theta).max()), constants["accuracy"]),
        ]
    return compared


@check(
    "identifiability/one-head-by-matrix-queries",
    claim="If a query returns all of F(X), one head with invertible W is learned exactly from d(d + 3)/2 queries of at "
    "most two tokens, and from d + 1 queries of at most d + 1 tokens.",
    source=f"counted here, beside the O(d^2) queries of {_QUERIES}",
    kind=Kind.NUMERIC,
    basis=Basis.DERIVED,
    how="Both learners run and their queries are counted. A pair (e_i, e_j) gives two log-odds, one a row; the tokens "
    "0, e_1, .., e_d at once give all of them. Outputs without noise.",
    constants={"times": 1, "plus": 3, "long": 1, "accuracy": 1e-8},
    wrong=NEGATED_LOGITS,
)
def one_head_by_matrix_queries(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """W from single tokens, then Theta from pairs, or from one long query."""
    compared = []
    for dim in (3, 8) if scale is Scale.QUICK else (3, 8, 48):
        layer = make_nice_layer(heads=1, dim=dim, rng=rng)
        # orthogonal up to a factor: the accuracy is to be that of the queries, not of an unlucky W
        layer = AttentionLayer(theta=layer.theta, w=np.linalg.qr(layer.w)[0])
        for name, learner, count in (
            ("pairs", learn_from_pairs, constants["times"] * dim * (dim + constants["plus"]) // 2),
            ("one long query", learn_from_one, dim + constants["long"]),
        ):
            asked: list[int] = []

            def answer(x: Any, layer: AttentionLayer = layer, asked: list[int] = asked) -> Any:
                asked.append(len(x))
                return layer(x)

            w, theta = learner(answer, dim)
            error = max(np.abs(w - layer.w[0]).max(), np.abs(theta - layer.theta[0]).max())
            compared += [
                equal(f"queries, {name}, d = {dim}", len(asked), count),
                at_most(f"largest error, {name}, d = {dim}", float(error), constants["accuracy"]),
            ]
    return compared


def _jacobian(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "nkd p"]:
    """Derivatives of all outputs on x by the entries of all Theta_i, then of all W_i."""
    by_theta, by_w = [], []
    for theta, w in zip(layer.theta, layer.w, strict=True):
        odds = np.exp(x @ theta @ x.swapaxes(1, 2))
        p = odds / odds.sum(axis=-1, keepdims=True)
        for r, c in np.ndindex(layer.dim, layer.dim):
            step = x[:, :, r, None] * x[:, None, :, c]
            moved = p * (step - (p * step).sum(axis=-1, keepdims=True))
            by_theta.append((moved @ x @ w).ravel())
            change = np.zeros(x.shape)
            change[:, :, c] = (p @ x)[:, :, r]
            by_w.append(change.ravel())
    return np.stack(by_theta + by_w, axis=1)


def _layer_of(heads: Sequence[tuple[Any, Any]]) -> AttentionLayer:
    return AttentionLayer(theta=np.array([theta for theta, _ in heads]), w=np.array([w for _, w in heads]))


def _largest_difference(one: AttentionLayer, other: AttentionLayer, x: Any) -> float:
    y = one(x)
    return float(np.abs(other(x) - y).max() / np.abs(y).max())


def _all_boolean(tokens: int, dim: int) -> Float[np.ndarray, "n k d"]:
    signs = list(itertools.product((-1.0, 1.0), repeat=tokens * dim))
    return np.array(signs).reshape(-1, tokens, dim)
