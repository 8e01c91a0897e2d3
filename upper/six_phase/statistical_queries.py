"""The statistical queries of phases 1 to 4: every number that these phases need is the mean of a bounded function.

Derived here for Chen and Li, arXiv 2402.04084, and tokens of +-1. The features of a family map a batch of examples,
x and y of shape (n, k, d), to two arrays; a query is an entry of their product.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from upper.six_phase.agreement import certify_agreement
from upper.six_phase.phase2_affine_hull import SMALLEST_WEIGHT
from upper.six_phase.phase5_span import AttentionSpan

__all__ = [
    "QueryFamily",
    "StatisticalQuery",
    "agreement_queries",
    "bounded_margins",
    "largest_log_ratio",
    "projection_sum_queries",
    "regression_queries",
    "share_queries",
]

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class StatisticalQuery:
    """One scalar statistical query: it asks for the mean of a function of one example (X, Y) with a declared range.

    `function` maps a batch of examples, x and y of shape (n, k, d), to n values within [`low`, `high`], which is within
    [-1, 1]. `tolerance` is the largest error of the answer that the learner allows, in these units: the tau of
    STAT(tau).
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
    """Scalar queries that are the entries of a matrix, E[L^T R], with features L (r, I) and R (r, J) of an example.

    `features` maps a batch of examples to left features (n, r, I) and right features (n, r, J), and `shape` is (I, J).
    `low`, `high` and `tolerance` are those of each query. Values are scaled into [-1, 1]; an answer times `unit` is the
    quantity itself. Any oracle can answer the `StatisticalQuery` objects one by one. `means` gives all answers with one
    matrix product per batch, for oracles that answer many queries at once; the number of queries is the same.
    """

    name: str
    phase: int
    tolerance: float
    features: Callable[[np.ndarray, np.ndarray], Pair] = field(repr=False)
    shape: tuple[int, int]
    unit: float = 1.0
    low: float = -1.0
    high: float = 1.0

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[StatisticalQuery]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i, j = divmod(range(len(self))[place], self.shape[1])
        value = partial(self._value, i, j)
        return StatisticalQuery(
            f"{self.name} ({i}, {j})", self.phase, value, self.low, self.high, self.tolerance
        )

    def means(self, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, " q"]:
        """The mean of every query over the examples."""
        left, right = (features.reshape(-1, features.shape[2]) for features in self.features(x, y))
        return (left.T @ right).ravel() / len(x)

    def _value(self, i: int, j: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        left, right = self.features(x, y)
        # values are in the range by construction, up to rounding
        return np.clip(np.einsum("nr,nr->n", left[:, :, i], right[:, :, j]), self.low, self.high)


def projection_sum_queries(d: int, k: int, *, tolerance: float, label_bound: float) -> QueryFamily:
    """Phase 1: the d^2 entries of E[(1/k) X^T J Y], J the all-ones matrix.

    The mean label of an example is clipped to [-B, B], B = `label_bound`; ``unit`` is k B. Clipping changes each entry
    by at most k E[(|mean label| - B)^+], which is 0 if B is the largest label.
    """

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        labels = np.clip(y.mean(axis=1) / label_bound, -1.0, 1.0)
        return x.mean(axis=1)[:, None, :], labels[:, None, :]

    return QueryFamily("sum of projections", 1, tolerance, features, (d, d), k * label_bound)


def share_queries(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray], threshold: float, *, phase: int, tolerance: float
) -> QueryFamily:
    """One query: the share of rows whose score is at most the threshold; used in the search for a quantile.

    `score` maps examples to scores (n, k): residuals, or margins with the sign turned. Values are in [0, 1].
    """

    def features(x: np.ndarray, y: np.ndarray) -> Pair:
        rows = score(x, y)
        return _below(rows, threshold), np.full((*rows.shape, 1), 1 / rows.shape[1])

    return QueryFamily("share of rows", phase, tolerance, features, (1, 1), low=0.0)


def _below(rows: np.ndarray, threshold: float) -> np.ndarray:
    return (rows[:, :, None] <= threshold).astype(np.float64)


def largest_log_ratio(k: int) -> float:
    """The largest ln(p_b / p_c) of an accepted row."""
    return math.log(1 / SMALLEST_WEIGHT - (k - 1))


def agreement_queries(
    w: Float[np.ndarray, "d d"],
    threshold: float,
    k: int,
    *,
    phase: int,
    tolerances: tuple[float, float, float],
) -> tuple[QueryFamily, QueryFamily, QueryFamily]:
    """Phases 2 and 4: three sizes, the moments and the right sides of the certified equations, each with a tolerance.

    A row is accepted up to the relative residual `threshold` of `certify_agreement` with the estimate `w` of the sum,
    if no entry of its pattern is below .05.

    *Sizes*: three queries with values in [0, 1], the means over the rows a of an example of 1[accepted], of omega_a =
    k^3 w_a 1[accepted], and of omega_a sum_j t_aj^2 over its largest value k L^2 / 4, L the largest log-ratio.

    *Moments* E[omega v v^T]: (d(d+1)/2)^2 queries; entry (s, t) has the pairs s = {i, j} and t = {p, q} in the order of
    ``numpy.triu_indices(d)`` and is E[(1/k) sum_a omega_a x_ai x_aj (X^T C X)_pq / k], C = I - J/k. The k - 1 equations
    of row a have sum_j v_j v_j^T = x_a x_a^T (x) X^T C X, symmetric in {i, j} and in {p, q} separately. By Cauchy and
    Schwarz |(X^T C X)_pq| <= k.

    *Right sides* E[omega t v]: d^2 queries; entry (i, p) is E[(1/k) sum_a omega_a x_ai (X^T C ln p_a)_p], scaled by
    k L / 2, since the absolute values of k numbers of mean zero in a range of length L sum to at most k L / 2.
    """
    d, longest = len(w), largest_log_ratio(k)
    i, j = np.triu_indices(d)

    def weigh(x: np.ndarray, y: np.ndarray) -> Pair:
        """Weights omega (n, k) and centred log-patterns (n, k, k); both are 0 where a row is not accepted."""
        certificates = certify_agreement(x, y, w)
        pattern = certificates.pattern
        accepted = (certificates.residual <= threshold) & (pattern.min(axis=-1) >= SMALLEST_WEIGHT)
        safe = np.where(accepted[..., None], pattern, 1 / k)
        logs = np.log(safe)
        return accepted * k**3 / np.sum(safe**-2.0, axis=-1), logs - logs.mean(axis=-1, keepdims=True)

    def sizes(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, logs = weigh(x, y)
        # the square of k numbers of mean zero in a range of length L is at most k L^2 / 4
        squares = np.minimum(np.sum(logs**2, axis=-1) / (k * longest**2 / 4), 1.0)
        left = np.stack([(weights > 0).astype(np.float64), weights, weights * squares], axis=-1)
        return left, np.full((*weights.shape, 1), 1 / k)

    def moments(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, _ = weigh(x, y)
        attending = np.matmul(np.swapaxes(weights[:, :, None] * x, 1, 2), x) / k
        centred = x - x.mean(axis=1, keepdims=True)
        scatter = np.matmul(np.swapaxes(centred, 1, 2), centred) / k
        return attending[:, None, i, j], scatter[:, None, i, j]

    def right_sides(x: np.ndarray, y: np.ndarray) -> Pair:
        weights, logs = weigh(x, y)
        return weights[:, :, None] * x / k, np.matmul(logs, x) / (k * longest / 2)

    return (
        QueryFamily("acceptance, weight and square", phase, tolerances[0], sizes, (3, 1), low=0.0),
        QueryFamily("moments of the equations", phase, tolerances[1], moments, (len(i), len(i)), float(k)),
        QueryFamily(
            "right side of the equations", phase, tolerances[2], right_sides, (d, d), k * longest / 2
        ),
    )


def bounded_margins(
    hull: AttentionSpan, label_bound: float, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Pair:
    """Margins over the hull (n, k), minus infinity if a label exceeds B; and the attended tokens."""
    margin, top = hull.margins(x)
    return np.where(np.all(np.abs(y) <= label_bound, axis=2), margin, -np.inf), top


def regression_queries(
    hull: AttentionSpan, threshold: float, *, label_bound: float, tolerance: float
) -> tuple[QueryFamily, QueryFamily]:
    """Phase 3: the Gram matrix E[1[large margin] x_b x_b^T] and the cross moments E[1[large margin] x_b Y_a].

    d(d+1)/2 queries for the upper triangle of the Gram matrix, and d^2 for the cross moments; all are means over
    the rows a of an example, with b the token that row a attends to. The rows are those whose margin over the hull is
    at least `threshold`, in logits, and whose labels are at most B = `label_bound`. On such rows Y_a is x_b sum_i W_i,
    up to the weight of other tokens, so leaving out rows with large labels causes no bias.
    """
    d = len(hull.centre)
    i, j = np.triu_indices(d)

    def attended(x: np.ndarray, y: np.ndarray) -> Pair:
        margin, top = bounded_margins(hull, label_bound, x, y)
        used = (margin >= threshold)[..., None]
        return np.where(used, np.take_along_axis(x, top[..., None], axis=1), 0.0), used

    def gram(x: np.ndarray, y: np.ndarray) -> Pair:
        tokens, used = attended(x, y)
        return tokens[:, :, i] * tokens[:, :, j], used / x.shape[1]

    def cross(x: np.ndarray, y: np.ndarray) -> Pair:
        tokens, used = attended(x, y)
        return tokens / x.shape[1], np.where(used, y, 0.0) / label_bound

    return (
        QueryFamily("Gram of large margin", 3, tolerance, gram, (len(i), 1)),
        QueryFamily("labels of large margin", 3, tolerance, cross, (d, d), label_bound),
    )
