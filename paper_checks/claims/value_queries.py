"""Claims: each step by which value queries determine the heads of a layer with biases, and where they do not."""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, make_nice_layer
from paper_checks.check import Constants, Scale
from paper_checks.claims._layer_by_fractions import (
    Head,
    answer,
    logarithm,
    random_heads,
    sigmoid,
    solution,
    whole,
    wholes,
)
from paper_checks.claims.identifiability import rank
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, equal
from paper_checks.faults import Fault, given

_NEGATED = Fault(
    "paper_checks.claims._layer_by_fractions:powers_of_two",
    given(lambda logits: -logits),
    "the odds of the negated logits",
)
# central differences of order 8, and their weights
_POINTS = np.array([-4, -3, -2, -1, 1, 2, 3, 4]) / 10
_WEIGHTS = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) * 10


@checks("value-queries/equal-tokens")
def equal_tokens(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Heads, biases and tokens of whole numbers, logits that are multiples of ln 2: answers are fractions."""
    dim, k = (4, 3) if scale is Scale.QUICK else (8, 5)
    heads, bias = random_heads(3, dim, rng), wholes(rng, dim)
    asked = np.concatenate([np.zeros((1, dim), dtype=int), np.eye(dim, dtype=int)]).astype(object)
    found = []
    for x in asked:
        tokens = np.repeat(x[None], k, axis=0)
        tokens[-1] = tokens[-1] + claim.moved
        found.append(answer(heads, bias, tokens)[0])
    yield equal("b", found[0], bias)
    yield equal(
        "entries of the sum of W that are right",
        int(np.sum(found[1:] - found[0] == _sum_of_w(heads))),
        dim**2,
    )


@checks("value-queries/two-tokens", _NEGATED)
def two_tokens(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Both rows of the answers to random pairs against the network, in fractions; then several copies of each token."""
    dim, pairs = (3, 20) if scale is Scale.QUICK else (6, 100)
    heads, bias = random_heads(3, dim, rng), wholes(rng, dim)
    for first, second in claim.copies:
        right = 0
        for _ in range(pairs):
            x, delta = wholes(rng, 2, dim)
            tokens = np.array([x] * first + [x - delta] * second, dtype=object)
            rows = answer(heads, bias, tokens)[[0, -1]]
            rest = bias + (x - delta) @ _sum_of_w(heads)
            network = [rest + _network(heads, at, delta, Fraction(first, second)) for at in (x, x - delta)]
            right += int(np.all(rows == np.array(network)))
        yield equal(f"pairs with both rows equal, {first} and {second} copies", right, pairs)


@checks("value-queries/independent-sigmoids")
def independent_sigmoids(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The exact rank of the values at random whole points: first of the constant and of different sigmoids, three of
    them with parallel u and two with the same u; then with an equal and an opposite one of each added. A rank at
    some points is a lower bound of the number of independent functions, so the first part is proved for the draw.
    """
    dim, many = (3, 4) if scale is Scale.QUICK else (5, 12)
    pairs = [(wholes(rng, dim, most=4) * 2 + 1, int(rng.integers(-3, 4))) for _ in range(many)]
    u, beta = pairs[0]
    pairs += [(2 * u, beta), (-3 * u, 1 - beta), (u, beta + 1), (-u, 7 - beta)]
    opposite = [(claim.opposite * v, claim.opposite * gamma) for v, gamma in pairs]
    points = wholes(rng, 3 * len(pairs), dim)
    for name, those in (("different", pairs), ("with equal and opposite ones", [*pairs, *pairs, *opposite])):
        rows = [whole(np.array([1, *(sigmoid(v @ x + gamma) for v, gamma in those)])) for x in points]
        yield equal(f"rank of 1 and the sigmoids, {name}", rank(rows), len(pairs) + 1)


@checks("value-queries/pencil")
def pencil(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Jacobians by differences of order 8 of the answers alone, in the row space of the values; eigenvalues and the
    v_i of the sum rule against those of the parameters. Then with Theta_2 = 2 Theta_1, where u_1 and u_2 are parallel.
    """
    m, dim = (3, 8) if scale is Scale.QUICK else (8, 24)
    nice = make_nice_layer(heads=m, dim=dim, rng=rng)
    layer = AttentionLayer(nice.theta, nice.w, rng.standard_normal((m, dim)), rng.standard_normal(dim))
    xi, delta = rng.standard_normal((2, dim)) / 2
    jacobians = [_jacobian(layer, at, delta) for at in (0 * xi, claim.second_point * xi)]
    space = np.linalg.svd(np.concatenate(jacobians))[2][:m].T
    first, second = (one @ space for one in jacobians)
    values, vectors = np.linalg.eig(np.linalg.lstsq(first, second, rcond=None)[0])
    logits = [at @ layer.theta @ delta + layer.key_bias @ delta for at in (0 * xi, xi)]
    ratios = np.cosh(logits[0] / 2) ** 2 / np.cosh(logits[1] / 2) ** 2
    order, found = np.argsort(ratios), np.argsort(values.real)
    difference = np.abs(values[found] / ratios[order] - 1).max()
    yield at_most(
        "eigenvalues against sigmoid'(z(xi)) / sigmoid'(z(0)), relative", difference, claim.accuracy
    )
    total = delta @ layer.w.sum(axis=0) @ space
    dual = vectors[:, found] / (total @ vectors[:, found])
    rows = np.linalg.pinv(dual) @ space.T
    wanted = (delta @ layer.w)[order]
    error = float(np.linalg.norm(rows - wanted) / np.linalg.norm(wanted))
    yield at_most("rows delta W_i of the pencil and the sum rule, relative", error, claim.accuracy_of_rows)
    theta = np.array([nice.theta[0], 2 * nice.theta[0], *nice.theta[2:]])
    parallel = AttentionLayer(theta, layer.w, layer.key_bias, layer.bias)
    for name, one, sign in (("nice", layer, at_least), ("parallel", parallel, at_most)):
        singular = np.linalg.svd(_jacobian(one, 0 * xi, delta), compute_uv=False)
        yield sign(
            f"singular value number m over the first, {name} heads", singular[m - 1] / singular[0], claim.gap
        )


@checks("value-queries/sum-rule")
def sum_rule(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Directions are rows delta W_i times random factors of both signs; the scales are solved for in fractions. All
    choices of signs are then tried.
    """
    m, dim = (3, 4) if scale is Scale.QUICK else (8, 10)
    heads, bias = random_heads(m, dim, rng), wholes(rng, dim)
    delta = wholes(rng, dim) * 2 + 1
    answers = [
        answer(heads, bias, np.array([x, x], dtype=object))[0] for x in (claim.length * delta, 0 * delta)
    ]
    total = answers[0] - answers[1]
    rows = np.array([delta @ head.w for head in heads])
    factors = np.array([Fraction(int(s), int(n)) for s, n in zip(*rng.integers(1, 9, (2, m)), strict=True)])
    factors = factors * rng.choice([-1, 1], size=m).astype(object)
    directions = factors[:, None] * rows
    scales = solution(directions.T, total)[:, 0]
    yield equal(
        "rows recovered with scale and sign",
        int(np.all(scales[:, None] * directions == rows, axis=1).sum()),
        m,
    )
    signs = itertools.product((1, -1), repeat=m)
    same = sum(bool(np.all(np.array(s, dtype=object) @ rows == total)) for s in signs)
    yield equal(f"choices of signs with that sum, of 2^{m}", same, 1)


@checks("value-queries/linearity")
def linearity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Rows at delta, at e_j and at delta + e_j, in random orders. All pairs of orders are tried; the one that is
    additive puts the rows at e_j into the order of those at delta. After all j these rows are the W_i.
    """
    m, dim = (3, 4) if scale is Scale.QUICK else (4, 8)
    w = wholes(rng, m, dim, dim, most=9)
    delta = wholes(rng, dim) * 2 + 1
    at_delta = delta @ w
    found, orders = [], []
    for unit in np.eye(dim, dtype=int).astype(object):
        other, both = (rng.permutation(at @ w) for at in (unit, delta + claim.multiple * unit))
        fits = [
            list(one)
            for one in itertools.permutations(range(m))
            for two in itertools.permutations(range(m))
            if np.all(at_delta + other[list(one)] == both[list(two)])
        ]
        orders.append(len(fits))
        found.append(other[fits[0] if fits else list(range(m))])
    yield equal("orders that are additive, for each e_j", orders, [1] * dim)
    yield equal("heads whose W is recovered", int(np.all(np.stack(found, axis=1) == w, axis=(1, 2)).sum()), m)


@checks("value-queries/logits", _NEGATED)
def logits(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """W and b are given. Two tokens: weights are the coefficients of g(x; delta) in the basis delta W_i. Then one query
    of 1 + d/m tokens, whose weights solve one linear system a row. Logarithms to base 2 of odds are whole, so Theta_i
    and c_i are compared exactly.
    """
    m, dim = (2, 4) if scale is Scale.QUICK else (3, 9)
    heads, bias = random_heads(m, dim, rng), wholes(rng, dim)
    total, unit = _sum_of_w(heads), np.eye(dim, dtype=int).astype(object)
    theta, c, asked = np.zeros((m, dim, dim), dtype=object), np.zeros((m, dim), dtype=object), 0
    for j, delta in enumerate(unit):
        basis = np.array([delta @ head.w for head in heads]).T
        for i, x in enumerate((0 * delta, *unit)):
            row = answer(heads, bias, np.array([x, x - delta]))[0]
            asked += 1
            weights = solution(basis, row - bias - (x - delta) @ total)[:, 0]
            read = np.array([logarithm(weight / (1 - weight)) for weight in weights], dtype=object)
            if i:
                theta[:, i - 1, j] = read - c[:, j]
            else:
                c[:, j] = read
    yield equal("two-token queries", asked, dim * (dim + claim.more))
    right = [np.sum(theta == [head.theta for head in heads]), np.sum(c == [head.key_bias for head in heads])]
    yield equal("entries of Theta and of c that are right", right, [m * dim**2, m * dim])
    tokens = np.concatenate([0 * unit[:1], unit[: dim // m]])
    columns = np.array([x @ head.w for head in heads for x in tokens[1:]]).T
    exact = 0
    for a, row in enumerate(answer(heads, bias, tokens)):
        weights = solution(columns, row - bias).reshape(m, -1)
        odds = weights / (1 - weights.sum(axis=1, keepdims=True))
        for head, one in zip(heads, odds, strict=True):
            wanted = tokens[1:] @ (tokens[a] @ head.theta + head.key_bias)
            exact += sum(logarithm(ratio) == logit for ratio, logit in zip(one, wanted, strict=True))
    yield equal("logits of one long query that are right", exact, m * (dim // m) * len(tokens))


@checks("value-queries/sum-zero")
def sum_zero(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Five heads with biases, the first three with W_1 + W_2 + W_3 = 0. Every set of heads is negated in turn, and the
    exact answers to random queries are compared.
    """
    dim, queries = (2, 6) if scale is Scale.QUICK else (4, 20)
    heads, bias = random_heads(5, dim, rng), wholes(rng, dim)
    heads[2] = heads[2]._replace(w=-heads[0].w - heads[1].w)
    sets = [s for size in range(6) for s in itertools.combinations(range(5), size)]
    for name, k in (("two", claim.same_on_tokens), ("three", claim.apart_on_tokens)):
        asked = [wholes(rng, k, dim) for _ in range(queries)]
        right = [answer(heads, bias, x) for x in asked]
        same = []
        for chosen in sets:
            others = [head.flipped() if i in chosen else head for i, head in enumerate(heads)]
            if all(np.all(answer(others, bias, x) == y) for x, y in zip(asked, right, strict=True)):
                same.append(chosen)
        yield equal(f"sets whose negation no {name} tokens show", _sets(same), _sets(claim[name]))


@checks("value-queries/merged-heads")
def merged_heads(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Heads with any whole W_1 and W_2, with the same Theta and c, and with opposite ones. Exact answers to random
    queries of two and of three tokens. Proof: patterns depend on Theta and c alone, and sigmoid(-z) = 1 - sigmoid(z).
    """
    dim, queries = (2, 10) if scale is Scale.QUICK else (5, 40)
    theta, c, bias = wholes(rng, dim, dim), wholes(rng, dim) * 2 + 1, wholes(rng, dim)
    one, two = wholes(rng, dim, dim), 2 * wholes(rng, dim, dim) + 1  # odd entries: W_2 is not 0
    equal_heads = [Head(theta, c, one), Head(theta, c, two)], [Head(theta, c, one + two)]
    opposite = (
        [Head(theta, c, one), Head(-theta, -c, two)],
        [Head(theta, c, one - two), Head(0 * theta, 0 * c, claim.average * two)],
    )
    for name, (first, second), k, expected in (
        ("equal Theta and c, three tokens", equal_heads, 3, queries),
        ("opposite Theta and c, two tokens", opposite, 2, queries),
        ("opposite Theta and c, three tokens", opposite, 3, 0),
    ):
        apart = 5 * np.arange(k).astype(object)[:, None]  # no two tokens are equal
        asked = [wholes(rng, k, dim) + apart for _ in range(queries)]
        same = sum(bool(np.all(answer(first, bias, x) == answer(second, bias, x))) for x in asked)
        yield equal(f"queries with the same answer, {name}", same, expected)


def _network(heads: Sequence[Head], x: Any, delta: Any, odds: Fraction) -> Any:
    """g(x; delta) = sum_i sigmoid(x Theta_i delta + c_i . delta + ln odds) delta W_i."""
    return sum(
        sigmoid(int((x @ head.theta + head.key_bias) @ delta), odds) * (delta @ head.w) for head in heads
    )


def _sets(those: Sequence[Sequence[int]]) -> str:
    return " ".join("{" + ", ".join(map(str, one)) + "}" for one in those)


def _sum_of_w(heads: Sequence[Head]) -> Any:
    return sum(head.w for head in heads)


def _jacobian(layer: AttentionLayer, x: Any, delta: Any) -> Any:
    """The derivative by x of row 1 of the answers to (x, x - delta), without that of the linear part."""
    steps = x + _POINTS[:, None, None] * np.eye(len(x))
    rows = layer(np.stack([steps, steps - delta], axis=-2).reshape(-1, 2, len(x)))[:, 0]
    slopes = np.tensordot(_WEIGHTS, rows.reshape(*steps.shape), 1)
    return slopes - layer.w.sum(axis=0)
