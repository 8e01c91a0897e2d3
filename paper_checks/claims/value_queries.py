"""What value queries determine."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from paper_checks.claim import Basis, claim
from paper_checks.claims._layer_by_fractions import (
    Head,
    answer,
    answers_agree,
    contrasts,
    network,
    random_heads,
    rank,
    sigmoid,
    vanishing,
    weighted,
    whole,
    wholes,
)
from paper_checks.comparison import Comparison, at_least, at_most, equal
from paper_checks.faults import Fault, given
from runs import Scale
from studies.noise import derivative
from upper import counting_floor

_NEGATED = Fault(
    "paper_checks.claims._layer_by_fractions:powers_of_two",
    given(lambda logits: -logits),
    "the odds of the negated logits",
)
# central differences of order 8, and their weights
_POINTS = np.array([-4, -3, -2, -1, 1, 2, 3, 4]) / 10
_WEIGHTS = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) * 10


@claim(
    "value-queries/two-tokens",
    source="derived here, from the definition of the layer",
    basis=Basis.PROVED,
    fault=_NEGATED,
)
def two_tokens(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The answer to x and x - delta is b + (x - delta) sum W_i + g(x) in row 1 and with g(x - delta) in row 2, where
    g(x) = sum sigmoid(u_i.x + beta_i) v_i, u_i = Theta_i delta, beta_i = c_i.delta, v_i = delta W_i. With n_1 and n_2
    copies of the tokens, beta_i grows by ln(n_1/n_2). Tokens that all equal x have the answer b + x sum W_i, so d + 1
    queries give b and the sum of the W_i.

    Parameters and tokens are whole numbers and logits multiples of ln 2, so answers are fractions. Both rows of the
    answers to random pairs are compared with the network, also with several copies of each token.
    """
    dim, pairs = (3, 20) if scale is Scale.QUICK else (6, 100)
    heads, bias = random_heads(3, dim, rng), wholes(rng, dim)
    total = sum(head.w for head in heads)
    for first, second in ((1, 1), (2, 3)):
        right = 0
        for _ in range(pairs):
            x, delta = wholes(rng, 2, dim)
            tokens = np.array([x] * first + [x - delta] * second, dtype=object)
            rows = answer(heads, bias, tokens)[[0, -1]]
            rest = bias + (x - delta) @ total
            rows_of_network = [
                rest + network(heads, at, delta, Fraction(first, second)) for at in (x, x - delta)
            ]
            right += int(np.all(rows == np.array(rows_of_network)))
        yield equal(f"pairs with both rows equal, {first} and {second} copies", right, pairs)
    asked = np.concatenate([np.zeros((1, dim), dtype=int), np.eye(dim, dtype=int)]).astype(object)
    answers = [answer(heads, bias, np.repeat(x[None], 3, axis=0))[0] for x in asked]
    yield equal("b from a query of equal tokens", answers[0], bias)
    yield equal("the sum of W from d such queries", np.array(answers[1:]) - answers[0], total)


@claim(
    "value-queries/independent-sigmoids",
    source="derived here, by the poles nearest to the real axis; for tanh: Sussmann, Neural Networks 5, 1992",
    basis=Basis.PROVED,
    fault={"opposite": -2},
)
def independent_sigmoids(scale: Scale, rng: Generator, *, opposite: int = -1) -> Iterator[Comparison]:
    """1 and sigmoid(u_i.x + beta_i) are linearly independent functions of x if no u_i is 0 and no two (u_i, beta_i) are
    equal or opposite, also where all u_i are parallel. An equal or an opposite pair adds no dimension. So g determines
    its heads up to order and signs.

    The exact rank of the values at random whole points: first of the constant and of different sigmoids, three of them
    with parallel u and two with the same u; then with an equal and an opposite one of each added. A rank at some points
    is a lower bound of the number of independent functions, so the first part is proved for the draw.
    """
    dim, many = (3, 4) if scale is Scale.QUICK else (5, 12)
    pairs = [(wholes(rng, dim, most=4) * 2 + 1, int(rng.integers(-3, 4))) for _ in range(many)]
    u, beta = pairs[0]
    pairs += [(2 * u, beta), (-3 * u, 1 - beta), (u, beta + 1), (-u, 7 - beta)]
    reversed_pairs = [(opposite * v, opposite * gamma) for v, gamma in pairs]
    points = wholes(rng, 3 * len(pairs), dim)
    for name, those in (
        ("different", pairs),
        ("with equal and opposite ones", [*pairs, *pairs, *reversed_pairs]),
    ):
        rows = [whole(np.array([1, *(sigmoid(v @ x + gamma) for v, gamma in those)])) for x in points]
        yield equal(f"rank of 1 and the sigmoids, {name}", rank(rows), len(pairs) + 1)


@claim(
    "value-queries/copies-tell-signs",
    source="derived here, by the poles nearest to the real axis",
    basis=Basis.PROVED,
    fault={"odds": 1},
)
def copies_tell_signs(scale: Scale, rng: Generator, *, odds: int = 2) -> Iterator[Comparison]:
    """With unequal numbers of copies, of ratio e^L, 1 and the sigmoids of u_i.x + beta_i + L are independent functions
    of x if no u_i is 0 and all (u_i, beta_i) are different, opposite pairs among them, unless u_i = -u_j and
    beta_i + beta_j = -2 L. So are the functions t sigmoid(t gamma_i + L) of t for different gamma_i: heads with
    Theta = 0. With equal numbers opposite ones add no dimension. So three tokens determine the signs of all heads.

    Exact ranks of the values at random whole points, for two copies against one. A rank at some points is a lower bound
    of the number of independent functions, so the statement is proved for the draw.
    """
    dim, many = (3, 4) if scale is Scale.QUICK else (4, 8)
    pairs = [(wholes(rng, dim, most=4) * 2 + 1, int(rng.integers(1, 4))) for _ in range(many)]
    pairs += [(-u, -beta) for u, beta in pairs]
    points = wholes(rng, 3 * len(pairs), dim)
    rows = [
        whole(np.array([1, *(sigmoid(u @ x + beta, Fraction(odds)) for u, beta in pairs)])) for x in points
    ]
    yield equal("rank of 1 and sigmoids in opposite pairs", rank(rows), len(pairs) + 1)
    gammas = [*range(-many, many + 1)]
    rows = [
        whole(np.array([t * sigmoid(t * gamma, Fraction(odds)) for gamma in gammas]))
        for t in range(-len(gammas), len(gammas) + 1)
    ]
    yield equal("rank of t sigmoid(t gamma + L), opposite gamma", rank(rows), len(gammas))


@claim(
    "value-queries/two-token-fibre",
    source="derived here",
    basis=Basis.PROVED,
    fault={"taken": 1},
)
def two_token_fibre(scale: Scale, rng: Generator, *, taken: int = 2) -> Iterator[Comparison]:
    """On two tokens, the sign of every head is free if one head, with Theta = c = 0, may take the difference: negating
    (Theta_i, c_i, W_i) for i in a set S and adding twice the sum of their W_i to its W_0 changes no answer. Three
    tokens show every such change.

    Three heads with biases and a uniform one. Every set of heads is negated in turn, and the exact answers to random
    queries are compared.
    """
    dim, queries = (2, 6) if scale is Scale.QUICK else (4, 20)
    heads, bias = random_heads(3, dim, rng), wholes(rng, dim)
    zero = 0 * heads[0].theta
    w = wholes(rng, dim, dim)
    uniform = Head(zero, 0 * heads[0].key_bias, w)
    for name, k, expected in (("two", 2, 8), ("three", 3, 1)):
        apart = 5 * np.arange(k).astype(object)[:, None]  # no two tokens are equal
        asked = [wholes(rng, k, dim) + apart for _ in range(queries)]
        same = 0
        for signs in itertools.product((1, -1), repeat=3):
            others = [
                Head(sign * head.theta, sign * head.key_bias, sign * head.w)
                for sign, head in zip(signs, heads, strict=True)
            ]
            moved = sum((head.w for sign, head in zip(signs, heads, strict=True) if sign < 0), zero)
            others.append(uniform._replace(w=w + taken * moved))
            same += all(answers_agree([*heads, uniform], bias, others, bias, x) for x in asked)
        yield equal(f"choices of signs with the same answers to {name} tokens", same, expected)


@claim(
    "value-queries/pencil",
    source="derived here",
    basis=Basis.PROVED,
    fault={"second_point": 2},
)
def pencil(
    scale: Scale, rng: Generator, *, second_point: int = 1, accuracy: float = 1e-6, gap: float = 1e-7
) -> Iterator[Comparison]:
    """If the u_i = Theta_i delta and the v_i = delta W_i are both independent, the Jacobians of g at 0 and xi have the
    m generalised eigenvalues sigmoid'(z_i(xi)) / sigmoid'(z_i(0)), and their eigenvectors are dual to the v_i. Then
    v_1 + ... + v_m = delta sum W_i gives all scales and signs. If the u_i are dependent, the pencil is singular.

    Jacobians by differences of order 8 of the answers alone, in the row space of the values; eigenvalues and the v_i of
    the sum rule against those of the parameters. Then with Theta_2 = 2 Theta_1, where u_1 and u_2 are parallel.
    """
    m, dim = (3, 8) if scale is Scale.QUICK else (8, 24)
    nice = make_nice_layer(heads=m, dim=dim, rng=rng)
    layer = AttentionLayer(nice.theta, nice.w, rng.standard_normal((m, dim)), rng.standard_normal(dim))
    xi, delta = rng.standard_normal((2, dim)) / 2
    jacobians = [_jacobian(layer, at, delta) for at in (0 * xi, second_point * xi)]
    space = np.linalg.svd(np.concatenate(jacobians))[2][:m].T
    first, second = (matrix @ space for matrix in jacobians)
    values, vectors = np.linalg.eig(np.linalg.lstsq(first, second, rcond=None)[0])
    logits = [at @ layer.theta @ delta + layer.key_bias @ delta for at in (0 * xi, xi)]
    ratios = np.cosh(logits[0] / 2) ** 2 / np.cosh(logits[1] / 2) ** 2
    order, computed = np.argsort(ratios), np.argsort(values.real)
    difference = np.abs(values[computed] / ratios[order] - 1).max()
    yield at_most("eigenvalues against sigmoid'(z(xi)) / sigmoid'(z(0)), relative", difference, accuracy)
    total = delta @ layer.w.sum(axis=0) @ space
    dual = vectors[:, computed] / (total @ vectors[:, computed])
    rows = np.linalg.pinv(dual) @ space.T
    wanted = (delta @ layer.w)[order]
    error = float(np.linalg.norm(rows - wanted) / np.linalg.norm(wanted))
    yield at_most("rows delta W_i of the pencil and the sum rule, relative", error, 10 * accuracy)
    theta = np.array([nice.theta[0], 2 * nice.theta[0], *nice.theta[2:]])
    parallel = AttentionLayer(theta, layer.w, layer.key_bias, layer.bias)
    for name, heads, compare in (("nice", layer, at_least), ("parallel", parallel, at_most)):
        singular = np.linalg.svd(_jacobian(heads, 0 * xi, delta), compute_uv=False)
        share = singular[m - 1] / singular[0]
        yield compare(f"singular value number m over the first, {name} heads", share, gap)


@claim(
    "value-queries/pencil-error",
    source="derived here; Bauer and Fike, Numerische Mathematik 2, 1960, for the eigenvalues",
    basis=Basis.PROVED,
    fault={"between": 1},
)
def pencil_error(
    scale: Scale, rng: Generator, *, between: int = -1, size: float = 1e-8, accuracy: float = 1e-3
) -> Iterator[Comparison]:
    """Errors E_0 and E_1 of the Jacobians J_0 = U^T D_0 V and J_1 = U^T D_1 V change M = J_0^-1 J_1 by M' =
    J_0^-1 (E_1 - E_0 M), to first order. Its eigenvectors p_i, dual to the rows v_i of V, move by the sum over j != i
    of p_j (v_j M' p_i) / (l_i - l_j). So |M'| is at most (|E_1| + |E_0| |M|) / (s(U) s(V) min D_0) with the least
    singular values s, an eigenvalue l_i moves by at most cond(V) |M'|, and p_i by that share over the gap of l_i.

    Random U and V, and eigenvalues from 1/2 to 3/2, with errors so small that squares do not count. The eigenvectors of
    the pencil with errors, scaled so that v_i p_i = 1, against those without and the formula.
    """
    m = 3 if scale is Scale.QUICK else 8
    sides = (np.linalg.qr(rng.standard_normal((m, m)))[0] for _ in range(4))
    u, v = (next(sides) * rng.uniform(0.5, 2.0, m) @ next(sides) for _ in range(2))
    first = rng.uniform(0.1, 0.25, m)
    second = first * np.linspace(0.5, 1.5, m)
    j_0, j_1 = (u.T @ (slopes[:, None] * v) for slopes in (first, second))
    e_0, e_1 = size * rng.standard_normal((2, m, m))
    duals, values = np.linalg.inv(v), second / first
    moved = np.linalg.solve(j_0, e_1 - e_0 @ np.linalg.solve(j_0, j_1))
    found, vectors = np.linalg.eig(np.linalg.solve(j_0 + e_0, j_1 + e_1))
    vectors = vectors[:, [int(np.argmin(np.abs(found - value))) for value in values]].real
    vectors = vectors / np.einsum("ij,ji->i", v, vectors)
    gaps = values + between * values[:, None] + np.diag(np.full(m, np.inf))
    predicted = duals @ ((v @ moved @ duals) / gaps)
    moves, size_of = vectors - duals, partial(np.linalg.norm, axis=0)
    off = float(np.max(size_of(moves - predicted) / size_of(moves)))
    yield at_most("moves of the eigenvectors against the formula, relative", off, accuracy)
    change = np.linalg.norm(e_1, 2) + np.linalg.norm(e_0, 2) * np.linalg.norm(np.linalg.solve(j_0, j_1), 2)
    change *= np.linalg.norm(np.linalg.inv(u), 2) * np.linalg.norm(duals, 2) / first.min()
    moved_by = np.linalg.norm(moved, 2)
    yield at_most("the change of M over its bound", float(moved_by / change), 1.0)
    growth = np.linalg.cond(v) * moved_by
    apart = np.abs(np.sort(found.real) - np.sort(values)).max()
    yield at_most(
        "moves of the eigenvalues over that of Bauer and Fike", float(apart / growth), 1.0 + accuracy
    )
    share = float(np.max(size_of(moves) / size_of(duals) * np.abs(gaps).min(axis=0) / growth))
    yield at_most("moves of the eigenvectors over their bound", share, 1.0 + accuracy)


@claim(
    "value-queries/sum-zero",
    source="derived here; Bhattamishra, Shah, Hahn and Kanade, arXiv 2601.16873, abstract: multi-head attention is not "
    "identifiable from queries",
    basis=Basis.PROVED,
    fault={"same_on_tokens": 3},
)
def sum_zero(scale: Scale, rng: Generator, *, same_on_tokens: int = 2) -> Iterator[Comparison]:
    """If the W_i of a set S of heads add up to 0, two tokens cannot tell (Theta_i, c_i, W_i) on S from its negative; of
    all sets of five heads, only such an S has this property. Three tokens tell them.

    Five heads with biases, the first three with W_1 + W_2 + W_3 = 0. Every set of heads is negated in turn, and the
    exact answers to random queries are compared.
    """
    dim, queries = (2, 6) if scale is Scale.QUICK else (4, 20)
    heads, bias = random_heads(5, dim, rng), wholes(rng, dim)
    heads[2] = heads[2]._replace(w=-heads[0].w - heads[1].w)
    sets = [s for size in range(6) for s in itertools.combinations(range(5), size)]
    for name, k, expected in (("two", same_on_tokens, "{} {0, 1, 2}"), ("three", 3, "{}")):
        asked = [wholes(rng, k, dim) for _ in range(queries)]
        same = []
        for negated in sets:
            others = [
                Head(-head.theta, -head.key_bias, -head.w) if i in negated else head
                for i, head in enumerate(heads)
            ]
            if all(answers_agree(heads, bias, others, bias, x) for x in asked):
                same.append("{" + ", ".join(map(str, negated)) + "}")
        yield equal(f"sets whose negation no {name} tokens show", " ".join(same), expected)


@claim(
    "value-queries/merged-heads",
    source="derived here; an instance of the sentence of arXiv 2601.16873 that heads are not identifiable from queries",
    basis=Basis.PROVED,
    fault={"average": 1},
)
def merged_heads(scale: Scale, rng: Generator, *, average: int = 2) -> Iterator[Comparison]:
    """Heads with equal Theta and c are one head with the sum of their W. On two tokens, heads with opposite Theta and c
    and outputs W_1, W_2 are one head with W_1 - W_2 and an average with 2 W_2. So the function is determined, and the
    parameters are not.

    Heads with any whole W_1 and W_2, with the same Theta and c, and with opposite ones. Exact answers to random queries
    of two and of three tokens. Proof: patterns depend on Theta and c alone, and sigmoid(-z) = 1 - sigmoid(z).
    """
    dim, queries = (2, 10) if scale is Scale.QUICK else (5, 40)
    theta, c, bias = wholes(rng, dim, dim), wholes(rng, dim) * 2 + 1, wholes(rng, dim)
    first, second = wholes(rng, dim, dim), 2 * wholes(rng, dim, dim) + 1  # odd entries: W_2 is not 0
    equal_heads = [Head(theta, c, first), Head(theta, c, second)], [Head(theta, c, first + second)]
    opposite = (
        [Head(theta, c, first), Head(-theta, -c, second)],
        [Head(theta, c, first - second), Head(0 * theta, 0 * c, average * second)],
    )
    for name, (heads, merged), k, expected in (
        ("equal Theta and c, three tokens", equal_heads, 3, queries),
        ("opposite Theta and c, two tokens", opposite, 2, queries),
        ("opposite Theta and c, three tokens", opposite, 3, 0),
    ):
        apart = 5 * np.arange(k).astype(object)[:, None]  # no two tokens are equal
        asked = [wholes(rng, k, dim) + apart for _ in range(queries)]
        same = sum(answers_agree(heads, bias, merged, bias, x) for x in asked)
        yield equal(f"queries with the same answer, {name}", same, expected)


@claim("value-queries/same-answers", source="derived here", basis=Basis.PROVED, fault={"fewer": 0})
def same_answers(scale: Scale, rng: Generator, *, fewer: int = 1) -> Iterator[Comparison]:
    """Below (d^2 + d) / (k (k - 1)) queries of k tokens, adaptive or not, every layer has others, with another Theta_1
    and c_1, that give the same answers to all of them. Below (m d + 1) / k queries others with other W_i and b do.

    Random whole queries. Elimination gives a whole (D, e), not 0, with x_a D (x_b - x_1) + e . (x_b - x_1) = 0 for all
    rows a and tokens b of them, and a whole n, not 0, that is orthogonal to the k vectors of 1 + m d weighted tokens of
    every answer. Exact answers with Theta_1 + D and c_1 + e, and with n s^T added to b and the W_i for a random s, are
    compared. A fresh query shows the change.
    """
    for dim, k in ((3, 2), (4, 3)) if scale is Scale.QUICK else ((3, 2), (4, 3), (5, 2), (5, 4)):
        heads, bias = random_heads(2, dim, rng), wholes(rng, dim)
        asked = [wholes(rng, k, dim) for _ in range(-(-(dim**2 + dim) // (k * (k - 1))) - fewer)]
        change = vanishing(np.vstack([contrasts(x) for x in asked]))
        moved, apart = [*heads], False
        if change is not None:
            theta, c = change[: dim**2].reshape(dim, dim), change[dim**2 :]
            moved[0] = heads[0]._replace(theta=heads[0].theta + theta, key_bias=heads[0].key_bias + c)
            fresh = np.concatenate([0 * np.eye(1, dim, dtype=int), np.eye(dim, dtype=int)]).astype(object)
            apart = bool(np.any(contrasts(fresh) @ change))
        same = all(answers_agree(heads, bias, moved, bias, x) for x in asked)
        what = f"another Theta_1 with the same answers, other logits at a fresh query, d = {dim}, k = {k}"
        yield equal(what, [same, apart], [True, True])
    for m, dim, k in ((2, 2, 2), (2, 3, 3)) if scale is Scale.QUICK else ((2, 2, 2), (2, 3, 3), (3, 3, 2)):
        heads, bias = random_heads(m, dim, rng), wholes(rng, dim)
        asked = [wholes(rng, k, dim) for _ in range(-(-(m * dim + 1) // k) - fewer)]
        change = vanishing(np.vstack([weighted(heads, x) for x in asked]))
        moved, other = [*heads], bias
        if change is not None:
            s = wholes(rng, dim) * 2 + 1
            other = bias + change[0] * s
            parts = np.outer(change[1:], s).reshape(m, dim, dim)
            moved = [head._replace(w=head.w + part) for head, part in zip(heads, parts, strict=True)]
        same = all(answers_agree(heads, bias, moved, other, x) for x in asked)
        unseen = [wholes(rng, k, dim) for _ in range(m * dim + 1)]
        apart = not all(answers_agree(heads, bias, moved, other, x) for x in unseen)
        what = f"other W_i with the same answers, another at a fresh query, m = {m}, d = {dim}, k = {k}"
        yield equal(what, [same, apart], [True, True])


@claim(
    "value-queries/counting",
    source="derived here; that the rank is reached: only measured, at the sizes of the check",
    basis=Basis.PROVED,
    fault={"fewer": 0},
)
def counting(scale: Scale, rng: Generator, *, fewer: int = 1, gap: float = 1e-11) -> Iterator[Comparison]:
    """The answers to q queries or examples of k tokens are q k d numbers, smooth in the 2 m d^2 parameters of a
    layer without biases. Below max(d^2 / (k (k - 1)), 2 m d / k) of them their derivative has a smaller rank, so
    some layers are not determined. One query more than that, at random, reaches full rank, and so do twice as many
    Boolean examples.

    Numeric rank of the derivative of the answers by all Theta_i and W_i, at random heads. That it is smaller below
    the bound is proved; that it is full above is measured, and full rank determines a layer only locally.
    """
    sizes = ((1, 3, 2), (2, 3, 2), (2, 4, 2), (2, 3, 3))
    for m, dim, k in sizes if scale is Scale.QUICK else (*sizes, (4, 4, 2), (4, 4, 4), (3, 4, 3)):
        layer = make_nice_layer(heads=m, dim=dim, rng=rng)
        least, full = counting_floor(heads=m, tokens=k, dim=dim), 2 * m * dim**2
        for name, x, compare, bound in (
            ("one query less", rng.standard_normal((least - fewer, k, dim)), at_most, full - 1),
            ("one query more", rng.standard_normal((least + 1, k, dim)), at_least, full),
            ("twice as many examples", BooleanInputs(k, dim).sample(2 * least, rng=rng), at_least, full),
        ):
            rows = derivative(layer, x).reshape(-1, full)
            singular = np.linalg.svd(rows, compute_uv=False)
            attained = float((singular > gap * singular[0]).sum())
            yield compare(f"rank, m = {m}, d = {dim}, k = {k}, {name}", attained, float(bound))


def _jacobian(layer: AttentionLayer, x: Any, delta: Any) -> Any:
    """The derivative by x of row 1 of the answers to (x, x - delta), without that of the linear part."""
    steps = x + _POINTS[:, None, None] * np.eye(len(x))
    rows = layer(np.stack([steps, steps - delta], axis=-2).reshape(-1, 2, len(x)))[:, 0]
    slopes = np.tensordot(_WEIGHTS, rows.reshape(*steps.shape), 1)
    return slopes - layer.w.sum(axis=0)
