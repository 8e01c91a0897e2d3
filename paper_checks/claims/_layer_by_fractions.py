"""A layer with biases in exact fractions: its logits are whole multiples of ln 2, so all weights are rational."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped
from numpy.random import Generator
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

# arrays of whole numbers and fractions, of dtype object
Exact = Shaped[Any, "..."]


class Head(NamedTuple):
    """One head; its logits are (x Theta + c) . y times ln 2."""

    theta: Exact  # (d, d)
    key_bias: Exact  # c (d,)
    w: Exact  # (d, d)


def wholes(rng: Generator, *shape: int, most: int = 2) -> Exact:
    """Random whole numbers of at most that size."""
    return rng.integers(-most, most + 1, size=shape).astype(object)


def random_heads(m: int, d: int, rng: Generator) -> list[Head]:
    """Heads with random whole parameters."""
    return [Head(wholes(rng, d, d, most=1), wholes(rng, d), wholes(rng, d, d, most=9)) for _ in range(m)]


def answer(heads: Sequence[Head], bias: Exact, tokens: Exact) -> Exact:
    """F(X) = 1 b^T + sum_i softmax(ln 2 (X Theta_i X^T + 1 (X c_i)^T)) X W_i at whole tokens (k, d)."""
    total = 0 * tokens + bias
    for head in heads:
        total = total + pattern(head, tokens) @ tokens @ head.w
    return total


def network(heads: Sequence[Head], x: Exact, delta: Exact, odds: Fraction) -> Exact:
    """g(x; delta) = sum_i sigmoid(x Theta_i delta + c_i . delta + ln odds) delta W_i."""
    return sum(
        sigmoid(int((x @ head.theta + head.key_bias) @ delta), odds) * (delta @ head.w) for head in heads
    )


def answers_agree(heads: Sequence[Head], bias: Exact, others: Sequence[Head], other: Exact, x: Exact) -> bool:
    """Whether two layers answer a query alike."""
    return bool(np.all(answer(heads, bias, x) == answer(others, other, x)))


def contrasts(tokens: Exact) -> Exact:
    """The k (k - 1) linear functions of (Theta, c) that are the logits of a query against its first token."""
    others = [y - tokens[0] for y in tokens[1:]]
    return np.array([[*np.outer(x, y).ravel(), *y] for x in tokens for y in others], dtype=object)


def weighted(heads: Sequence[Head], tokens: Exact) -> Exact:
    """The k vectors (1, P_1 X, ..., P_m X) of the rows of an answer."""
    ones = np.ones((len(tokens), 1), dtype=int).astype(object)
    return np.hstack([ones, *(pattern(head, tokens) @ tokens for head in heads)])


def pattern(head: Head, tokens: Exact) -> Exact:
    """The weights of one head, (k, k), from its logits against the first token."""
    logits = tokens @ head.theta @ tokens.T + tokens @ head.key_bias
    odds = powers_of_two(logits - logits[:, :1])
    return odds / odds.sum(axis=1, keepdims=True)


def powers_of_two(logits: Exact) -> Exact:
    """2 to the power of every entry."""
    return np.vectorize(lambda z: Fraction(2) ** int(z), otypes=[object])(logits)


def sigmoid(z: int, odds: int | Fraction = 1) -> Fraction:
    """1 / (1 + e^-t) at t = z ln 2 + ln(odds)."""
    ratio = odds * Fraction(2) ** int(z)
    return ratio / (1 + ratio)


def rank(rows: Exact | Sequence[Any]) -> int:
    """The rank of a matrix of whole numbers and fractions."""
    return len(_reduced(np.array(list(rows), dtype=object))[1])


def vanishing(matrix: Exact) -> Exact | None:
    """A vector of whole numbers, not 0, with `matrix` v = 0; None if there is none."""
    rows, pivots = _reduced(matrix)
    free = [column for column in range(matrix.shape[1]) if column not in pivots]
    if not free:
        return None
    vector = np.array([Fraction(0)] * matrix.shape[1], dtype=object)
    vector[free[0]] = Fraction(1)
    vector[list(pivots)] = -rows[: len(pivots), free[0]]
    return whole(vector)


def whole(row: Exact) -> Exact:
    """The row times the least whole number that makes all its entries whole."""
    fractions = [Fraction(entry) for entry in row]
    factor = math.lcm(*(entry.denominator for entry in fractions))
    return np.array([int(factor * entry) for entry in fractions], dtype=object)


def _reduced(matrix: Exact) -> tuple[Exact, tuple[int, ...]]:
    """The reduced row echelon form, and the columns of its pivots."""
    entries = [[QQ(*Fraction(entry).as_integer_ratio()) for entry in row] for row in matrix.tolist()]
    rows, pivots = DomainMatrix(entries, matrix.shape, QQ).rref()
    fractions = [
        [Fraction(int(entry.numerator), int(entry.denominator)) for entry in row] for row in rows.to_list()
    ]
    return np.array(fractions, dtype=object).reshape(matrix.shape), pivots
