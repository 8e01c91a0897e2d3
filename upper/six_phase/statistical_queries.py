"""The statistical queries of phases 1 to 4: every number those phases need is the mean of a bounded function.

Derived here for Chen and Li, arXiv 2402.04084. A family has features that map a batch of examples, x and y of shape
(n, k, d), to arrays; a query is an entry of the product of two of them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import overload

import numpy as np
from jaxtyping import Float, Int

from attention.memory import require_memory
from upper.six_phase.phase2_agreement import certify_agreement
from upper.six_phase.phase3_refine_sum import HullMargin

__all__ = [
    "AgreementRows",
    "MarginRows",
    "QueryFamily",
    "StatisticalQuery",
    "moment_queries",
    "projection_sum_queries",
    "regression_queries",
    "right_side_queries",
    "share_queries",
    "size_queries",
]

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class StatisticalQuery:
    """One scalar statistical query: a function of one example (X, Y) with a declared range, whose mean is wanted.

    `function` maps a batch of examples, x and y of shape (n, k, d), to n values within [`low`, `high`], itself within
    [-1, 1]. `tolerance` is the error of the answer that the learner allows for, in these units: the tau of STAT(tau).
    """

    name: str
    phase: int
    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(repr=False)
    low: float
    high: float
    tolerance: float

    def __call__(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, " n"]:
        """The n values on a batch of examples."""
        return self.function(x, y)


@dataclass(frozen=True, eq=False)
class QueryFamily(Sequence[StatisticalQuery]):
    """Scalar queries that are entries of one matrix, E[L^T R], with features L (r, I) and R (r, J) of an example.

    `features` maps a batch of examples to left features (n, r, I) and right features (n, r, J); `entries`, an array
    (q, 2), are those of the matrix that are asked for, one a query. `low`, `high` and `tolerance` are those of each
    query, and an answer times `unit` is the quantity itself: values are scaled into [-1, 1].

    Any oracle can answer its `StatisticalQuery` one by one. `values` and `means` give all of them in one matrix product
    a batch, for oracles that answer many at once; that changes no count.
    """

    name: str
    phase: int
    tolerance: float
    features: Callable[[np.ndarray, np.ndarray], Pair] = field(repr=False)
    entries: Int[np.ndarray, "q 2"] = field(repr=False)
    unit: float = 1.0
    low: float = -1.0
    high: float = 1.0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[StatisticalQuery]:
        return (self[place] for place in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> StatisticalQuery: ...

    @overload
    def __getitem__(self, place: slice) -> "list[StatisticalQuery]": ...

    def __getitem__(self, place: int | slice) -> "StatisticalQuery | list[StatisticalQuery]":
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i, j = (int(index) for index in self.entries[place])
        value = partial(self._value, i, j)
        return StatisticalQuery(
            f"{self.name} ({i}, {j})", self.phase, value, self.low, self.high, self.tolerance
        )

    def values(
        self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
    ) -> Float[np.ndarray, "n q"]:
        """The values of every query on every example."""
        left, right = self.features(x, y)
        products = np.matmul(np.swapaxes(left, 1, 2), right)
        # the range is kept by construction; rounding may step over it by a digit
        return np.clip(products[:, self.entries[:, 0], self.entries[:, 1]], self.low, self.high)

    def means(self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, " q"]:
        """The mean of every query over the examples; one product of matrices, values not formed."""
        left, right = self.features(x, y)
        product = left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])
        return product[self.entries[:, 0], self.entries[:, 1]] / len(x)

    def _value(self, i: int, j: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        left, right = self.features(x, y)
        return np.clip(np.einsum("nr,nr->n", left[:, :, i], right[:, :, j]), self.low, self.high)


def projection_sum_queries(
    d: int, k: int, *, tolerance: float, label_bound: float, token_bound: float = 1.0
) -> QueryFamily:
    """Phase 1: the d^2 entries of E[(1/k) X^T J Y], J the all-ones matrix.

    The mean label of an example is clipped to [-B, B], B = `label_bound`, and entries of tokens to [-A, A],
    A = `token_bound`: 1 for Boolean tokens, which that does not touch. The queries are in row-major order, and ``unit``
    is k A B.

    Clipping costs at most k A E[(|mean label| - B)^+] in each entry, for Boolean tokens: nothing once B is the
    largest label. In terms of the sum itself the tolerance is k A B times that of the answer.
    """

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        tokens = np.clip(x, -token_bound, token_bound).mean(axis=1) / token_bound
        labels = np.clip(y.mean(axis=1) / label_bound, -1.0, 1.0)
        return tokens[:, None, :], labels[:, None, :]

    unit = k * token_bound * label_bound
    return QueryFamily("sum of projections", 1, tolerance, features, _all_entries(d, d), unit)


@dataclass(frozen=True, eq=False)
class AgreementRows:
    """Which rows of an example phases 2 and 4 accept, and what their patterns are: nothing but a function of (X, Y).

    A row is accepted up to the relative residual `threshold` of `certify_agreement` with the estimate `projection_sum`
    of sum_i W_i, if no entry of its pattern is below `smallest_weight`, itself below 1/k, and none of the example's
    tokens above A = `token_bound`.

    Rows left out cost acceptance and no bias: the equations of the others still hold.
    """

    projection_sum: Float[np.ndarray, "d d"]
    threshold: float
    smallest_weight: float = 0.05
    token_bound: float = 1.0

    def residuals(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Relative residuals (n, k); infinite for examples that cannot be used."""
        residual = certify_agreement(x, y, self.projection_sum).residual
        return np.where(self._bounded(x), residual, np.inf)

    def weights(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """k^3 / sum_b p_b^-2 of accepted rows and 0 of others (n, k), and centred log-patterns (n, k, k) or 0.

        The weight is at most 1, that of a uniform pattern.
        """
        certificates = certify_agreement(x, y, self.projection_sum)
        pattern, k = certificates.pattern, x.shape[1]
        accepted = (
            (certificates.residual <= self.threshold)
            & (pattern.min(axis=-1) >= self.smallest_weight)
            & self._bounded(x)
        )
        safe = np.where(accepted[..., None], pattern, 1 / k)
        logs = np.log(safe)
        return accepted * k**3 / np.sum(safe**-2.0, axis=-1), logs - logs.mean(axis=-1, keepdims=True)

    def largest_log_ratio(self, k: int) -> float:
        """The largest ln(p_b / p_c) of an accepted row."""
        return math.log(1 / self.smallest_weight - (k - 1))

    def _bounded(self, x: np.ndarray) -> np.ndarray:
        return np.all(np.abs(x) <= self.token_bound, axis=(1, 2))[:, None]


def share_queries(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray], threshold: float, *, phase: int, tolerance: float
) -> QueryFamily:
    """One query: the share of rows whose score is at most the threshold. A quantile is searched with it.

    `score` maps examples to scores (n, k): residuals, or margins with the sign turned. Values are in [0, 1].
    """

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        rows = score(x, y)
        below = (rows[:, :, None] <= threshold).astype(np.float64)
        return below, np.full((*rows.shape, 1), 1 / rows.shape[1])

    return QueryFamily("share of rows", phase, tolerance, features, _all_entries(1, 1), low=0.0)


def size_queries(rows: AgreementRows, k: int, *, phase: int, tolerance: float) -> QueryFamily:
    """Phases 2 and 4: the acceptance probability, the mean weight, and the mean square of the equations' right sides.

    Three queries with values in [0, 1]: over the rows a of an example the means of 1[accepted],
    omega_a = k^3 w_a 1[accepted], and omega_a sum_j t_aj^2 over its largest value k L^2 / 4, L the largest log-ratio.
    """
    most = k * rows.largest_log_ratio(k) ** 2 / 4

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, logs = rows.weights(x, y)
        # the square of k numbers of mean zero in a range of length L is at most k L^2 / 4
        squares = np.minimum(np.sum(logs**2, axis=-1) / most, 1.0)
        left = np.stack([(weights > 0).astype(np.float64), weights, weights * squares], axis=-1)
        return left, np.full((*weights.shape, 1), 1 / k)

    name = "acceptance, weight and square"
    return QueryFamily(name, phase, tolerance, features, _all_entries(3, 1), low=0.0)


def moment_queries(rows: AgreementRows, k: int, *, phase: int, tolerance: float) -> QueryFamily:
    """Phases 2 and 4: the moment matrix E[omega v v^T] of the certified equations, omega = k^3 w 1[accepted].

    (d(d+1)/2)^2 queries; entry (s, t) has the pairs s = {i, j} and t = {p, q} in the order of
    ``numpy.triu_indices(d)`` and is E[(1/k) sum_a omega_a x_ai x_aj (X^T C X)_pq / k] / A^4, C = I - J/k.

    The k - 1 equations of row a have sum_j v_j v_j^T = x_a x_a^T (x) X^T C X, symmetric in {i, j} and in {p, q}
    separately: (d(d+1)/2)^2 numbers determine it. By Cauchy and Schwarz |(X^T C X)_pq| <= k A^2.
    """
    d, a = rows.projection_sum.shape[0], rows.token_bound
    i, j = np.triu_indices(d)

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, _ = rows.weights(x, y)
        kept = _unused_as_zero(x, rows.token_bound) / a
        attending = np.matmul(np.swapaxes(weights[:, :, None] * kept, 1, 2), kept) / k
        centred = kept - kept.mean(axis=1, keepdims=True)
        scatter = np.matmul(np.swapaxes(centred, 1, 2), centred) / k
        return attending[:, None, i, j], scatter[:, None, i, j]

    entries = _all_entries(len(i), len(i))
    return QueryFamily("moments of the equations", phase, tolerance, features, entries, k * a**4)


def right_side_queries(rows: AgreementRows, k: int, *, phase: int, tolerance: float) -> QueryFamily:
    """Phases 2 and 4: the right-hand side E[omega t v] of the normal equations.

    d^2 queries; entry (i, p) is E[(1/k) sum_a omega_a x_ai (X^T C ln p_a)_p], with values scaled by A^2 k L / 2, L the
    largest log-ratio.

    k numbers of mean zero in a range of length L have absolute values that sum to at most k L / 2.
    """
    d, a = rows.projection_sum.shape[0], rows.token_bound
    most = k * rows.largest_log_ratio(k) / 2

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, logs = rows.weights(x, y)
        kept = _unused_as_zero(x, a) / a
        return weights[:, :, None] * kept / k, np.matmul(logs, kept) / most

    entries = _all_entries(d, d)
    return QueryFamily("right side of the equations", phase, tolerance, features, entries, a**2 * most)


@dataclass(frozen=True, eq=False)
class MarginRows:
    """Which rows phase 3 regresses on: those whose margin, over a body K or under one matrix, is large.

    `threshold` is the least margin, in logits; rows with an entry of the label above B = `label_bound`, or of a token
    above A = `token_bound`, are left out.
    """

    margin: HullMargin
    threshold: float
    label_bound: float
    token_bound: float = 1.0

    def margins(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """The margin of every row (n, k), minus infinity where the bounds leave it out; and the token attended to."""
        margin, top = self.margin(x)
        bounded = np.all(np.abs(x) <= self.token_bound, axis=(1, 2))[:, None]
        bounded = bounded & np.all(np.abs(y) <= self.label_bound, axis=2)
        return np.where(bounded, margin, -np.inf), top

    def negated(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Minus the margins: the score of `share_queries`."""
        return -self.margins(x, y)[0]


def regression_queries(rows: MarginRows, *, tolerance: float) -> tuple[QueryFamily, QueryFamily]:
    """Phase 3: the Gram matrix E[1[large margin] x_b x_b^T] and the cross moments E[1[large margin] x_b Y_a].

    d(d+1)/2 queries for the upper triangle of the Gram matrix, and d^2 for the cross moments; means over the rows a of
    an example, b the token that row a attends to.

    On such rows Y_a is x_b sum_i W_i up to what other tokens get, so rows left out by the bounds bias nothing.
    """
    d, a, b = rows.margin.centre.shape[0], rows.token_bound, rows.label_bound

    def attended(x: np.ndarray, y: np.ndarray) -> Pair:
        margin, top = rows.margins(x, y)
        used = margin >= rows.threshold
        tokens = np.take_along_axis(x, top[..., None], axis=1)
        return np.where(used[..., None], tokens, 0.0) / a, used

    def gram(x: np.ndarray, y: np.ndarray) -> Pair:
        tokens, _ = attended(x, y)
        return tokens / x.shape[1], tokens

    def cross(x: np.ndarray, y: np.ndarray) -> Pair:
        tokens, used = attended(x, y)
        return tokens / x.shape[1], np.where(used[..., None], y, 0.0) / b

    upper = np.stack(np.triu_indices(d), axis=1)
    return (
        QueryFamily("Gram of large margin", 3, tolerance, gram, upper, a**2),
        QueryFamily("labels of large margin", 3, tolerance, cross, _all_entries(d, d), a * b),
    )


def _all_entries(rows: int, columns: int) -> np.ndarray:
    require_memory(f"A family of {rows} x {columns} queries", 32 * rows * columns, advice="take a smaller d")
    return np.indices((rows, columns)).reshape(2, -1).T


def _unused_as_zero(x: np.ndarray, bound: float) -> np.ndarray:
    """Tokens of examples that no row is accepted of, by the bound, as zeros: their features must keep the range."""
    return np.where(np.all(np.abs(x) <= bound, axis=(1, 2))[:, None, None], x, 0.0)
