"""All logits, and so Theta and c, from queries of several tokens, once the projections are known."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer
from upper.value_queries.queries import LinearPart, Tolerances, TwoTokens


@dataclass(frozen=True)
class _Reading:
    """How logits are read off weights."""

    #: of the d numbers in a row of an answer so many are spent on weights: the system is well conditioned then
    share: float = 0.6
    coarse_share: float = 0.4  #: the same where answers are coarse
    #: a query with a smaller weight loses two digits: it is asked again with shorter tokens
    small: float = 1e-2
    halvings: int = 8  #: so often at most
    numbers: int = 4_000_000  #: queries are solved so many at a time, for memory
    least: float = 1e-30  #: keeps the logarithm of a weight finite


READING = _Reading()


@dataclass(frozen=True, eq=False)
class Parameters:
    """The arrays of a layer with biases."""

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]
    bias: Float[np.ndarray, " d"]

    @classmethod
    def alike(cls, linear: LinearPart) -> "Parameters":
        """One head that attends to all tokens alike: all that is known without the heads."""
        d = len(linear.bias)
        return cls(np.zeros((1, d, d)), linear.projection_sum[None], np.zeros((1, d)), linear.bias)

    def layer(self, rounding: float = Tolerances.biases) -> AttentionLayer:
        """The layer, without biases that are no more than rounding: below this share of the other parameters."""
        key_bias, bias = (
            None if np.abs(biases).max() <= rounding * np.abs(beside).max() else biases
            for biases, beside in ((self.key_bias, self.theta), (self.bias, self.w))
        )
        return AttentionLayer(self.theta, self.w, key_bias, bias)


def read_logits(
    pairs: TwoTokens, w: Float[np.ndarray, "m d d"], directions: Float[np.ndarray, "d d"]
) -> Parameters:
    """Theta and c from the weights of tokens along orthonormal directions.

    Row a of an answer is b + sum_i sum_b P_ab t_b W_i, linear in the weights. With W known they solve a linear system,
    and their log ratios are the logits (t_a Theta_i + c_i) . (t_b - t_0) against the first token t_0. A query of a zero
    token and two groups of g directions shows all entries of Theta_i between them: (d / g)^2 / 2 queries in all. Where
    only two tokens fit, each direction goes with zero, then with each other direction.

    Notes
    -----
    O(m^2 d^3) operations, whatever g is. Entries that several queries show are averaged by the weights they were read
    from; a query with a small weight is asked again with shorter tokens.
    """
    m, d, k = len(w), pairs.oracle.dim, pairs.oracle.tokens
    most = int((READING.coarse_share if pairs.coarse else READING.share) * d / m)
    most = most if k is None else min(most, k - 1)
    if most < 2 <= min(d // m, (k or 3) - 1):
        most = 2
    theta, bias = _Mean(m, d, d), _Mean(m, d)
    for queries in _groups(d, max(most, 1)):
        for query, length, logits, weights in _readings(pairs, w, directions, queries, zero=True):
            theta.add(
                np.ix_(np.arange(m), query, query),
                (logits[:, 1:] - logits[:, :1]) / length**2,
                weights[:, 1:],
            )
            bias.add((slice(None), query), logits[:, 0] / length, weights[:, 0])
    if most < 2:
        diagonal, c = np.diagonal(theta.value, axis1=1, axis2=2), bias.value
        two = np.column_stack(np.triu_indices(d, 1))
        for (i, j), length, logits, weights in _readings(pairs, w, directions, two, zero=False):
            # row i is (t_i Theta + c)(t_j - t_i), and row j likewise
            read = (logits[:, :, 0] - length * (c[:, j] - c[:, i])[:, None]) / length**2
            theta.add((slice(None), i, j), read[:, 0] + diagonal[:, i], weights[:, 0, 0])
            theta.add((slice(None), j, i), diagonal[:, j] - read[:, 1], weights[:, 1, 0])
    theta_values = directions.T @ theta.value @ directions
    return Parameters(theta_values, w, bias.value @ directions, pairs.linear.bias)


def _groups(d: int, most: int) -> list[Int[np.ndarray, "n s"]]:
    """The unions of two groups of directions, those of one size together, so that each pair is in one."""
    if most < 2:
        return [np.arange(d)[:, None]]
    groups = np.array_split(np.arange(d), -(-d // (most // 2)))
    if len(groups) == 1:
        return [groups[0][None]]
    unions: dict[int, list[np.ndarray]] = {}
    for first, second in combinations(groups, 2):
        unions.setdefault(len(first) + len(second), []).append(np.concatenate([first, second]))
    return [np.array(same_size) for same_size in unions.values()]


class _Mean:
    """A mean of entries, each weighted by what it was read from."""

    def __init__(self, *shape: int) -> None:
        self._sum, self._weight = np.zeros(shape), np.full(shape, np.finfo(float).tiny)

    def add(self, where: tuple[Any, ...], value: np.ndarray, weight: np.ndarray) -> None:
        self._sum[where] += weight * value
        self._weight[where] += weight

    @property
    def value(self) -> np.ndarray:
        return self._sum / self._weight


def _readings(
    pairs: TwoTokens, w: np.ndarray, directions: np.ndarray, queries: Int[np.ndarray, "n s"], *, zero: bool
) -> Iterator[tuple[np.ndarray, float, np.ndarray, np.ndarray]]:
    """For each query and length of its tokens the logits against the first, (m, rows, others), and the weights.

    Shorter tokens repair a query whose heads attend to one token nearly alone.
    """
    length = pairs.scale / 2
    size = max(1, READING.numbers // (len(w) * w.shape[1] * queries.shape[1]))
    for _ in range(READING.halvings):
        again = []
        for part in np.split(queries, range(size, len(queries), size)):
            logits, weights = _read(pairs, w, length * directions[part], zero)
            yield from zip(part, [length] * len(part), logits, weights, strict=True)
            again.append(part[weights.min(axis=(1, 2, 3)) < READING.small])
        queries, length = np.concatenate(again), length / 2
        if not len(queries):
            return


def _read(
    pairs: TwoTokens, w: np.ndarray, tokens: Float[np.ndarray, "n s d"], zero: bool
) -> tuple[np.ndarray, np.ndarray]:
    if zero:
        tokens = np.concatenate([np.zeros_like(tokens[:, :1]), tokens], axis=1)
    n, size, d = tokens.shape
    copies = (pairs.oracle.tokens or size) - size + 1  # of the first token
    answers = pairs.ask(tokens[:, [0] * (copies - 1) + list(range(size))])
    rest = answers[:, copies - 1 :] - pairs.linear.bias - tokens[:, :1] @ pairs.linear.projection_sum
    others = tokens[:, None, 1:] - tokens[:, None, :1]
    columns = np.swapaxes((others @ w).reshape(n, -1, d), 1, 2)
    q, triangle = np.linalg.qr(columns)
    weights = np.linalg.solve(triangle, np.swapaxes(rest @ q, 1, 2))
    weights = np.swapaxes(weights.reshape(n, len(w), size - 1, size), 2, 3)
    weights = np.maximum(weights, READING.least)
    first = np.maximum(1 - weights.sum(axis=-1, keepdims=True), READING.least)
    return np.log(weights * copies / first), np.minimum(weights, first)
