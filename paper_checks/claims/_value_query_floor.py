"""Claims: how many value queries are needed, whatever the learner asks and however it computes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import Generator

from attention import make_nice_layer
from paper_checks.check import Constants, Scale
from paper_checks.claims._layer_by_fractions import Head, answer, pattern, random_heads, vanishing, wholes
from paper_checks.claims.identifiability import jacobian
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, equal
from upper import counting_floor


@checks("value-queries/same-contrasts")
def same_contrasts(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Random whole queries; a whole (D, e), not 0, with x_a D (x_b - x_1) + e . (x_b - x_1) = 0 for all rows a and
    tokens b of them, from elimination. Exact answers of (Theta_1 + D, c_1 + e) are compared. At the fresh query
    0, e_1, .., e_d the logits differ.
    """
    for dim, k in ((3, 2), (4, 3)) if scale is Scale.QUICK else ((3, 2), (4, 3), (5, 2), (5, 4)):
        heads, bias = random_heads(2, dim, rng), wholes(rng, dim)
        asked = [wholes(rng, k, dim) for _ in range(-(-(dim**2 + dim) // (k * (k - 1))) - claim.fewer)]
        change = vanishing(np.vstack([_contrasts(x) for x in asked]))
        size = f"d = {dim}, k = {k}"
        yield equal(f"there is a change that the queries do not show, {size}", change is not None, True)
        moved = [*heads]
        if change is not None:
            theta, c = change[: dim**2].reshape(dim, dim), change[dim**2 :]
            moved[0] = heads[0]._replace(theta=heads[0].theta + theta, key_bias=heads[0].key_bias + c)
        same = all(np.all(answer(heads, bias, x) == answer(moved, bias, x)) for x in asked)
        fresh = np.concatenate([0 * np.eye(1, dim, dtype=int), np.eye(dim, dtype=int)]).astype(object)
        apart = change is not None and bool(np.any(_contrasts(fresh) @ change))
        yield equal(
            f"same answers to all, other logits at a fresh query, {size}", [same, apart], [True, True]
        )


@checks("value-queries/same-rows")
def same_rows(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """An answer is linear in b and the W_i, through k vectors of 1 + m d weighted tokens. A vector n, not 0, that is
    orthogonal to all of them is found by elimination; n s^T is added for a random s, and exact answers are compared.
    """
    for m, dim, k in ((2, 2, 2), (2, 3, 3)) if scale is Scale.QUICK else ((2, 2, 2), (2, 3, 3), (3, 3, 2)):
        heads, bias = random_heads(m, dim, rng), wholes(rng, dim)
        asked = [wholes(rng, k, dim) for _ in range(-(-(m * dim + 1) // k) - claim.fewer)]
        rows = np.vstack([_weighted(heads, x) for x in asked])
        change = vanishing(rows)
        size = f"m = {m}, d = {dim}, k = {k}"
        yield equal(f"there is a change that the queries do not show, {size}", change is not None, True)
        moved, other = [*heads], bias
        if change is not None:
            s = wholes(rng, dim) * 2 + 1
            other = bias + change[0] * s
            parts = np.outer(change[1:], s).reshape(m, dim, dim)
            moved = [head._replace(w=head.w + part) for head, part in zip(heads, parts, strict=True)]
        same = all(np.all(answer(heads, bias, x) == answer(moved, other, x)) for x in asked)
        fresh = [wholes(rng, k, dim) for _ in range(m * dim + 1)]
        apart = not all(np.all(answer(heads, bias, x) == answer(moved, other, x)) for x in fresh)
        yield equal(
            f"same answers to all queries, another to a fresh one, {size}", [same, apart], [True, True]
        )


@checks("value-queries/counting")
def counting(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Numeric rank of the derivative of the answers to random queries by all Theta_i and W_i, at random heads. That it
    is smaller below the bound is proved; that it is full just above is measured.
    """
    sizes = ((1, 3, 2), (2, 3, 2), (2, 4, 2), (2, 3, 3))
    for m, dim, k in sizes if scale is Scale.QUICK else (*sizes, (4, 4, 2), (4, 4, 4), (3, 4, 3)):
        layer = make_nice_layer(heads=m, dim=dim, rng=rng)
        least, parameters = counting_floor(heads=m, tokens=k, dim=dim), 2 * m * dim**2
        for queries, bound in ((least - claim.fewer, at_most), (least + claim.more, at_least)):
            x = rng.standard_normal((queries, k, dim))
            singular = np.linalg.svd(jacobian(layer, x), compute_uv=False)
            found = int((singular > claim.gap * singular[0]).sum())
            few = bound is at_most
            yield bound(
                f"rank, m = {m}, d = {dim}, k = {k}, {'one query less' if few else 'one query more'}",
                float(found),
                float(parameters - few),
            )


def _contrasts(tokens: np.ndarray) -> np.ndarray:
    """The k (k - 1) linear functions of (Theta, c) that are the logits of a query against its first token."""
    others = [y - tokens[0] for y in tokens[1:]]
    return np.array([[*np.outer(x, y).ravel(), *y] for x in tokens for y in others], dtype=object)


def _weighted(heads: Sequence[Head], tokens: np.ndarray) -> np.ndarray:
    """The k vectors (1, P_1 X, ..., P_m X) of the rows of an answer."""
    ones = np.ones((len(tokens), 1), dtype=int).astype(object)
    return np.hstack([ones, *(pattern(head, tokens) @ tokens for head in heads)])
