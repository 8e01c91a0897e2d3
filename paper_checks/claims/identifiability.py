"""Claims: what examples or queries can and cannot determine about the heads."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, GaussianInputs, make_nice_layer
from paper_checks.check import Constants, Scale
from paper_checks.claims._faults import HALF_LOGITS, NEGATED_LOGITS
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, equal
from paper_checks.faults import given, returned


@checks("identifiability/spare-heads")
def spare_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes three heads, the first two with the same Theta. Moves a random matrix from W_1 to W_2, and adds a
    head with W = 0 and a random Theta. F on Gaussian tokens stays. Both follow because F is linear in the
    W_i.
    """
    dim = 12 if scale is Scale.QUICK else 48
    first, second, third = make_nice_layer(heads=3, dim=dim, rng=rng).theta
    w1, w2, w3, moved = make_nice_layer(heads=4, dim=dim, rng=rng).w
    heads = [(first, w1), (first, w2), (second, w3)]
    others = [(first, w1 + moved), (first, w2 + claim.moved_back * moved), (second, w3), (third, 0 * w3)]
    x = GaussianInputs(4, dim).sample(50, rng=rng)
    gap = _largest_difference(_layer_of(heads), _layer_of(others), x)
    nearest = min(np.linalg.norm(w - v) / np.linalg.norm(w) for w in (w1, w2) for _, v in others[:2])
    yield at_most("largest difference of the two F, relative", gap, claim.rounding)
    yield at_least("nearest W of the other set, relative distance", float(nearest), 0.1)


@checks("identifiability/one-token")
def one_token(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all Boolean x at d = 6 with integer W and random Theta_i. The softmax of one logit is 1, so
    the layer's own numbers are whole and equal the integer product.
    """
    dim, tokens = (6 if scale is Scale.QUICK else 12), claim.tokens
    w = 2 * rng.integers(-9, 10, size=(3, dim, dim))
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=dim)))[:, None, :]
    x = np.concatenate([x, *(rng.permutation(x) for _ in range(tokens - 1))], axis=1)
    y = AttentionLayer(theta=3 * rng.standard_normal((3, dim, dim)), w=w)(x)
    mean = x.astype(int).sum(axis=1) @ w.sum(axis=0)
    same = int((tokens * y == mean[:, None, :]).all(axis=(1, 2)).sum())
    yield equal(f"x with F(x) = x sum W, of all {len(x)}", same, len(x))


@checks("identifiability/constant-coordinate")
def constant_coordinate(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random heads, u and Boolean tokens. u e_0^T adds x_a u to every logit of row a, and a softmax
    ignores what all logits share. Row 0 of W_i is added once a row, for any pattern.
    """
    dim = 12 if scale is Scale.QUICK else 48
    layer = make_nice_layer(heads=2, dim=dim + 1, rng=rng)
    x = np.insert(BooleanInputs(3, dim).sample(50, rng=rng), dim, 1.0, axis=2)
    theta, row, w = np.array(layer.theta), np.array(layer.theta), np.array(layer.w)
    u, v = rng.standard_normal((2, dim + 1))
    theta[0, :, -1] += u
    row[0, -1, :] += u
    w[0, -1] += v
    w[1, -1] -= v
    free, fixed = (theta, row) if claim.column_is_free else (row, theta)
    bound = claim.rounding
    yield at_most(
        "Theta and W moved, largest difference",
        _largest_difference(layer, AttentionLayer(theta=free, w=w), x),
        bound,
    )
    yield at_least(
        "the other direction, largest difference",
        _largest_difference(layer, AttentionLayer(theta=fixed, w=layer.w), x),
        1e-3,
    )


@checks("identifiability/opposite-heads")
def opposite_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes random heads and Gaussian tokens. By the hyperbolic form (layer/two-tokens-tanh) tanh(-z) (-W) =
    tanh(z) W. The part without attention is the sum of the W_i, here 0 in both sets.
    """
    dim = 12 if scale is Scale.QUICK else 48
    nice = make_nice_layer(heads=2, dim=dim, rng=rng)
    (one, two), w = nice.theta, nice.w[0]
    heads, others = _layer_of([(one, w), (two, -w)]), _layer_of([(-one, -w), (-two, w)])
    same, apart = (
        _largest_difference(
            heads, others, GaussianInputs(claim[f"{name}_on_tokens"], dim).sample(50, rng=rng)
        )
        for name in ("same", "apart")
    )
    yield at_most("largest difference where they are the same, relative", same, claim.rounding)
    yield at_least("largest difference where they are told apart, relative", apart, 0.01)


@checks("identifiability/saturated-heads", HALF_LOGITS)
def saturated_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Enumerates all Boolean X of k = 3 tokens in d = 4 for c from 1 to 3, then compares c = 20 with c = 40.
    A token's logit exceeds every other one by c times twice the number of coordinates in which they differ,
    so by at least 2c. Then layer/margin applies.
    """
    tokens, dim = (3, 4) if scale is Scale.QUICK else (4, 4)
    x = _all_boolean(tokens, dim)

    def copied(c: float) -> Any:
        return AttentionLayer(theta=c * np.eye(dim)[None], w=np.eye(dim)[None])(x)

    for c in (1.0, 2.0, 3.0):
        bound = claim.factor * (tokens - 1) * math.exp(-claim.rate * c)
        yield at_most(f"|F(X) - X|, c = {c:g}", float(np.abs(copied(c) - x).max()), bound)
    one, two = copied(float(claim.hidden_from)), copied(2.0 * claim.hidden_from)
    yield at_most("difference of the two large c", float(np.abs(one - two).max()), 2 * np.finfo(float).eps)


@checks("identifiability/rank-of-logits", given(lambda rows: [row[:-1] for row in rows]))
def rank_of_logits(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the rank of each linear map over the rationals, on all Boolean x and y, for d = 2, 3 (quick)
    and 4. In words: the monomials x_i y_j are independent; x_i^2 = 1 leaves the trace; the constant's column
    cancels.
    """
    alone, pairs = claim.self
    for dim in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        cube = np.array(list(itertools.product((-1, 1), repeat=dim)))
        fixed = cube[cube[:, 0] == 1]
        contrast, constant = (
            [np.outer(x, x - y).ravel() for x in some for y in some] for some in (cube, fixed)
        )
        yield equal(f"contrasts, d = {dim}", rank(contrast), dim**2 - claim.contrast_free)
        yield equal(
            f"a token on itself, d = {dim}",
            rank([np.outer(x, x).ravel() for x in cube]),
            alone + pairs * dim * (dim - 1) // 2,
        )
        yield equal(
            f"constant coordinate among d = {dim}", rank(constant), dim**2 - claim.constant_free * dim
        )


@checks("identifiability/factors", given(lambda rows: rows[::2]))
def factors(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the rank over the rationals of the derivative of (W_Q, W_K) -> W_Q^T W_K at random integer
    maps of full rank.
    """
    for dim, size in ((3, 1), (4, 2)) if scale is Scale.QUICK else ((3, 1), (4, 2), (5, 2), (5, 4)):
        query, key = rng.integers(-99, 100, size=(2, size, dim))
        rows = []
        for place in np.ndindex(size, dim):
            step = np.zeros((size, dim), dtype=int)
            step[place] = 1
            rows += [(step.T @ key).ravel(), (query.T @ step).ravel()]
        yield equal(f"d = {dim}, h = {size}", rank(rows), 2 * dim * size - claim.lost * size**2)


@checks("identifiability/locally-determined", returned(lambda both: both[:, : both.shape[1] // 2]))
def locally_determined(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Computes the numeric rank of the Jacobian at random heads. The right side is proved to be a ceiling:
    sum W and one row vector for each pair of unequal tokens, up to sign, fix F. That the rank attains it is
    measured at d = 2, 3.
    """
    for dim, numbers in (
        ((2, (1, 2, 3)), (3, (2, 6))) if scale is Scale.QUICK else ((2, (1, 2, 3)), (3, (1, 2, 4, 6)))
    ):
        ceiling = claim.mean * dim**2 + dim * 2**dim * (2**dim - 1) // 2**claim.halved
        for heads in numbers:
            layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
            values = np.linalg.svd(jacobian(layer, _all_boolean(2, dim)), compute_uv=False)
            found = int((values > claim.gap * values[0]).sum())
            yield equal(f"rank, d = {dim}, m = {heads}", found, min(2 * heads * dim**2, ceiling))


@checks("identifiability/one-head-by-queries")
def one_head_by_queries(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs the learner: d single tokens read v. For z_j outside the kernel of v, f(e_i - z_j, e_i) gives e_i
    Theta z_j as a log-odds. Queries are counted, also at a v with zeros. Outputs have no noise; errors are
    those of float64.
    """
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

        found_v, found = learn_from_scalars(answer, dim, claim.log_odds_sign)
        name = f"d = {dim}, {zeros} zeros in v"
        yield equal(f"queries, {name}", queries, claim.square * dim**2 + claim.linear * dim)
        yield at_most(f"error of v, {name}", float(np.abs(found_v - v).max()), claim.accuracy)
        yield at_most(f"error of Theta, {name}", float(np.abs(found - theta).max()), claim.accuracy)


@checks("identifiability/one-head-by-matrix-queries", NEGATED_LOGITS)
def one_head_by_matrix_queries(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs both learners and counts their queries. A pair (e_i, e_j) gives two log-odds, one a row. The
    tokens 0, e_1, .., e_d together give all of them. Outputs have no noise.
    """
    for dim in (3, 8) if scale is Scale.QUICK else (3, 8, 48):
        layer = make_nice_layer(heads=1, dim=dim, rng=rng)
        # orthogonal: errors then come from the queries, not from an ill-conditioned W
        layer = AttentionLayer(theta=layer.theta, w=np.linalg.qr(layer.w)[0])
        for name, learner, count in (
            ("pairs", learn_from_pairs, claim.times * dim * (dim + claim.plus) // 2),
            ("one long query", learn_from_one, dim + claim.long),
        ):
            asked: list[int] = []

            def answer(x: Any, layer: AttentionLayer = layer, asked: list[int] = asked) -> Any:
                asked.append(len(x))
                return layer(x)

            w, theta = learner(answer, dim)
            error = max(np.abs(w - layer.w[0]).max(), np.abs(theta - layer.theta[0]).max())
            yield equal(f"queries, {name}, d = {dim}", len(asked), count)
            yield at_most(f"largest error, {name}, d = {dim}", float(error), claim.accuracy)


def jacobian(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "nkd p"]:
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


def learn_from_scalars(answer: Callable[..., float], dim: int, sign: int) -> tuple[Any, Any]:
    """The v and Theta of f(X) = v . (last row of softmax(X Theta X^T) X)."""
    unit = np.eye(dim)
    v = np.array([answer(one) for one in unit])
    largest = int(np.argmax(np.abs(v)))
    # a basis outside the kernel of v: e_j if v_j is large enough, else e_j plus the coordinate of the largest entry
    off = np.array([one if abs(v @ one) > 0.1 * abs(v[largest]) else one + unit[largest] for one in unit])
    logits = np.zeros((dim, dim))
    for i, j in np.ndindex(dim, dim):
        # the answer is v.x - q v.z; q is the weight of the first token, whose logit is lower by x Theta z
        x, z = unit[i], off[j]
        q = (v @ x - answer(x - z, x)) / (v @ z)
        logits[i, j] = sign * math.log((1 - q) / q)
    return v, np.linalg.solve(off, logits.T).T


def learn_from_pairs(answer: Callable[[Any], Any], dim: int) -> tuple[Any, Any]:
    """W and Theta of one head, two tokens at a time."""
    unit, theta = np.eye(dim), np.zeros((dim, dim))
    w = np.vstack([answer(one[None]) for one in unit])
    back = np.linalg.inv(w)
    for i in range(dim):  # beside the token 0, whose logit is 0
        p = (answer(np.array([unit[i], 0 * unit[i]]))[0] @ back)[i]
        theta[i, i] = math.log(p / (1 - p))
    for i in range(dim):
        for j in range(i):
            p = answer(unit[[i, j]]) @ back
            theta[i, j] = theta[i, i] - math.log(p[0, i] / p[0, j])
            theta[j, i] = theta[j, j] - math.log(p[1, j] / p[1, i])
    return w, theta


def learn_from_one(answer: Callable[[Any], Any], dim: int) -> tuple[Any, Any]:
    """W from single tokens, Theta from 0 and all unit vectors at once."""
    w = np.vstack([answer(one[None]) for one in np.eye(dim)])
    p = answer(np.vstack([np.zeros(dim), np.eye(dim)]))[1:] @ np.linalg.inv(w)
    return w, np.log(p / (1 - p.sum(axis=1, keepdims=True)))


def rank(rows: Sequence[Any]) -> int:
    """The rank of the matrix with these rows of whole numbers.

    Notes
    -----
    Fraction-free elimination (Bareiss): every number in it is a minor of the matrix, and whole. Nothing is rounded.
    """
    left = {tuple(int(entry) for entry in row) for row in rows}  # equal rows count once
    matrix = [list(row) for row in left]
    found, last = 0, 1
    for column in range(len(matrix[0]) if matrix else 0):
        pivot = next((i for i in range(found, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[found], matrix[pivot] = matrix[pivot], matrix[found]
        top = matrix[found]
        for row in matrix[found + 1 :]:
            factor = row[column]
            row[:] = [(top[column] * a - factor * b) // last for a, b in zip(row, top, strict=True)]
        last = top[column]
        found += 1
    return found
