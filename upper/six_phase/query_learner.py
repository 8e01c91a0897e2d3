"""Phases 1 to 5 by statistical queries alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention import Outcome
from attention.validation import count, require_instance
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.ellipsoid import Ellipsoid
from upper.six_phase.equation_moments import AnsweredMoments
from upper.six_phase.phase2_affine_hull import LARGEST_RESIDUAL, require_agreement, require_consistency
from upper.six_phase.phase3_refine_sum import LEAST_MARGIN, HullMargin
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.query_plan import SIZE_TOLERANCE, QueryCount, QueryPlan, share_tolerance
from upper.six_phase.statistical_queries import (
    MarginRows,
    QueryFamily,
    StatisticalQuery,
    moment_queries,
    projection_sum_queries,
    regression_queries,
    right_side_queries,
    share_queries,
    size_queries,
)

__all__ = [
    "QueriedSpan",
    "QueryOracle",
    "learn_by_queries",
    "span_change_bound",
]

_SMALLEST_RESIDUAL = 1e-6


@runtime_checkable
class QueryOracle(Protocol):
    """What is asked of an oracle: the mean of one query, up to its tolerance.

    It may, and for speed should, have `query_many(queries)` as well, which answers a sequence of queries at once: what
    it is given is a `QueryFamily`, whose `values` and `means` are vectorised. Each query of it counts one all the same.

    Examples
    --------
    Means over examples, the simplest oracle there is; each query is a `StatisticalQuery`:

    >>> class Means:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def query(self, query):
    ...         return float(np.mean(query(self.x, self.y)))
    ...     def query_many(self, queries):
    ...         return queries.means(self.x, self.y)
    >>> isinstance(Means(np.zeros((1, 2, 4)), np.zeros((1, 2, 4))), QueryOracle)
    True
    """

    def query(self, query: StatisticalQuery, /) -> float:
        """The mean of the query's function."""


@dataclass(frozen=True, eq=False)
class QueriedSpan:
    """What phases 1 to 5 found by queries.

    Attributes
    ----------
    span : AttentionSpan
        Phase 5's.
    first_span : AttentionSpan
        That of phase 2's body.
    projection_sum : array (d, d)
        Phase 3's estimate of sum_i W_i.
    first_sum : array (d, d)
        Phase 1's.
    counts : tuple of QueryCount
        Scalar queries asked, phase by phase, and the smallest tolerance declared.
    bound : float
        At most so much of a head's span error comes from phase 4's answers if each is within its tolerance, by
        `span_change_bound`; infinite if they do not determine the span. Proved, but for a plan of independent
        errors a rule of thumb.
    """

    span: AttentionSpan
    first_span: AttentionSpan
    projection_sum: Float[np.ndarray, "d d"]
    first_sum: Float[np.ndarray, "d d"]
    counts: tuple[QueryCount, ...]
    bound: float


def learn_by_queries(oracle: QueryOracle, plan: QueryPlan) -> QueriedSpan:
    """Phases 1 to 5 with nothing but an oracle's answers to scalar statistical queries.

    Parameters
    ----------
    oracle : QueryOracle
        Anything with `query(q)`, and `query_many(queries)` if it likes.
    plan : QueryPlan
        Sizes, shares and tolerances.

    Returns
    -------
    QueriedSpan
        The span of the heads, the sums, and the count.

    Raises
    ------
    PhaseFailedError
        If no agreement events are found, the equations contradict one another, or no rows have a large margin.
    ValueError
        If `oracle` or `plan` is something else, or the answers are not finite numbers, one a query.

    Notes
    -----
    Later queries depend on earlier answers: 3 `steps` + 4 rounds of questions that can be asked at once. The
    phases are those of the paper with thresholds in place of the best of so many rows: a quantile of the residuals, and
    of the margins, found by bisection. The span needs m - 1 and the answers only. O(d^6) time for the eigenproblem.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 1 to 5; as queries derived here.
    """
    if not isinstance(oracle, QueryOracle):
        raise ValueError(
            f"oracle is a {type(oracle).__name__}: one with query(q) is needed, which examples have not."
        )
    require_instance("plan", plan, QueryPlan, needed="a QueryPlan")
    ask = _Asked(oracle)
    d, k = plan.d, plan.k
    family = projection_sum_queries(
        d, k, tolerance=plan.sum_tolerance(), label_bound=plan.labels, token_bound=plan.token_bound
    )
    first_sum = ask(family).reshape(d, d)
    before = _sculpted(ask, plan, first_sum, phase=2)
    refined = _refined(ask, plan, before.span)
    after = _sculpted(ask, plan, refined, phase=4)
    return QueriedSpan(
        span=after.span,
        first_span=before.span,
        projection_sum=refined,
        first_sum=first_sum,
        counts=ask.counts(),
        bound=after.bound,
    )


def span_change_bound(
    moments: Float[np.ndarray, "d2 d2"],
    right: Float[np.ndarray, " d2"],
    *,
    wide: int,
    moment_error: float,
    right_error: float,
) -> float:
    """How far the span may be from that of exact moments, given the answered ones and bounds on their errors.

    `moments` and `right` are M^ and b^, as answered, `wide` is m - 1, and `moment_error` and `right_error` bound
    |M^ - M| in the operator norm and |b^ - b|. At most so much larger is any head's span error, relative to its norm,
    than by exact M and b.

    Notes
    -----
    Proved. Let P and P^ project onto the eigenvectors off the hull, l the smallest such eigenvalue of M^, and
    s = |(1 - P^) P| <= |M^ - M| / (l - the largest eigenvalue of M along the hull) by Davis and Kahan; the latter is
    at most that of M^ plus |M^ - M|, by Weyl. With c = M^+ b on the range of P, and c^ likewise,
    c^ - c = M^^+ (b^ - b) - (1 - P^) c - M^^+ (M^ - M) c + M^^+ (1 - P) b, and so
    |c^ - c| <= s |c| + (|b^ - b| + |M^ - M| |c| + s |(1 - P) b|) / l, where |c| <= |c^| + |c^ - c|. A head's projection
    onto the span is a part along the hull and a part along the centre; the first turns by s and the second by
    |c^ - c| / |c|, so that the change is at most the hypotenuse of both.

    References
    ----------
    Derived here, from Davis and Kahan, SIAM J. Numer. Anal. 7 (1970).
    """
    wide = count("wide", wide, least=0, most=len(right) - 1)
    values, vectors = np.linalg.eigh(moments)
    edge = float(values[wide])
    room = edge - (float(values[wide - 1]) + moment_error if wide else 0.0)
    if edge <= 0 or room <= moment_error:
        return math.inf
    turned = moment_error / room if wide else 0.0
    coordinates = vectors.T @ right
    centre = float(np.linalg.norm(coordinates[wide:] / values[wide:]))
    along = float(np.linalg.norm(coordinates[:wide])) + right_error + turned * float(np.linalg.norm(right))
    kept = 1 - turned - moment_error / edge
    if kept <= 0:
        return math.inf
    moved = (
        turned * centre + (right_error + moment_error * centre + (turned * along if wide else 0.0)) / edge
    ) / kept
    return math.hypot(turned, moved / (centre - moved)) if moved < centre else math.inf


@dataclass(frozen=True, eq=False)
class _Sculpted:
    span: AttentionSpan
    bound: float


def _sculpted(ask: "_Asked", plan: QueryPlan, w: np.ndarray, *, phase: int) -> _Sculpted:
    """Phase 2 or 4 and, at once, 5: what `sculpt_affine_hull` and `attention_span` make of the answered moments."""
    d, k, wide, accept = plan.d, plan.k, plan.m - 1, plan.accept[phase // 2 - 1]
    tolerance, right_tolerance = plan.moment_tolerances(phase)

    def shares(threshold: float) -> QueryFamily:
        score = plan.agreement_rows(w, 0.0).residuals
        return share_queries(score, [threshold], phase=phase, tolerance=share_tolerance(accept))

    log_threshold = _bisect(
        lambda z: float(ask(shares(math.exp(z)))[0]) >= accept,
        math.log(_SMALLEST_RESIDUAL),
        math.log(2 * LARGEST_RESIDUAL),
        plan.steps,
    )
    threshold = math.exp(log_threshold)
    require_agreement(threshold, accept)
    rows = plan.agreement_rows(w, threshold)
    _, weight, square = ask(size_queries(rows, k, phase=phase, tolerance=SIZE_TOLERANCE * accept))
    if weight <= 0:
        raise PhaseFailedError(Outcome.NO_AGREEMENT, "no row was accepted whose pattern has no small entry.")
    moment_family = moment_queries(rows, k, phase=phase, tolerance=tolerance)
    right_family = right_side_queries(rows, k, phase=phase, tolerance=right_tolerance)
    # per equation, of which a row has k - 1, and per weight
    unit = 1 / (weight * (k - 1))
    moments = unit * _square(ask(moment_family), d)
    right = unit * ask(right_family)
    square *= unit * k * rows.largest_log_ratio(k) ** 2 / 4
    body = Ellipsoid.of(AnsweredMoments(moments, right, float(square)), wide=wide)
    require_consistency(body.misfit_at_centre, body.explained, threshold)
    bound = span_change_bound(
        moments,
        right,
        wide=wide,
        moment_error=unit * moment_family.unit * tolerance * plan.error_norm,
        right_error=unit * right_family.unit * right_tolerance * d,
    )
    return _Sculpted(attention_span(body, wide), bound)


def _refined(ask: "_Asked", plan: QueryPlan, span: AttentionSpan) -> np.ndarray:
    """Phase 3: what `refine_by_margin` does, with a quantile of the margins as the threshold."""
    d, share = plan.d, plan.margin_share
    margins = HullMargin.over(span)

    def rows(threshold: float) -> MarginRows:
        return MarginRows(margins, threshold, plan.labels, plan.token_bound)

    def enough(score: float) -> bool:
        family = share_queries(rows(0.0).negated, [score], phase=3, tolerance=share_tolerance(share))
        return float(ask(family)[0]) >= share

    # a logit of the centre has standard deviation |centre| for tokens of identity covariance
    most = 8 * float(np.linalg.norm(span.centre)) * plan.token_bound**2
    margin = -_bisect(enough, -most, 0.0, plan.steps)
    if margin < LEAST_MARGIN["body"]:
        raise PhaseFailedError(
            Outcome.NO_LARGE_MARGIN,
            f"the {share:.2%} of rows with the largest margin have {margin:.2g} logits: at least "
            f"{LEAST_MARGIN['body']:g} are needed.",
        )
    gram_family, cross_family = regression_queries(rows(margin), tolerance=plan.regression_tolerance())
    upper = ask(gram_family)
    gram = np.zeros((d, d))
    gram[np.triu_indices(d)] = upper
    gram = gram + np.triu(gram, 1).T
    if float(np.linalg.eigvalsh(gram)[0]) <= d * plan.regression_tolerance() * gram_family.unit:
        raise PhaseFailedError(
            Outcome.NO_LARGE_MARGIN, "the tokens that rows of large margin attend to do not span."
        )
    return np.linalg.solve(gram, ask(cross_family).reshape(d, d))


class _Asked:
    """Asks a family at a time and counts; answers come back in the units of the quantity."""

    def __init__(self, oracle: QueryOracle) -> None:
        self._oracle = oracle
        self._asked: dict[int, list[float]] = {}

    def __call__(self, family: QueryFamily) -> np.ndarray:
        many: Callable[[Sequence[StatisticalQuery]], np.ndarray] | None
        many = getattr(self._oracle, "query_many", None)
        given = [self._oracle.query(one) for one in family] if many is None else many(family)
        answers = np.asarray(given, dtype=np.float64)
        if answers.shape != (len(family),) or not np.all(np.isfinite(answers)):
            raise ValueError(
                f"The oracle answered {len(family)} queries for the {family.name} with an array of shape "
                f"{answers.shape}: one finite number a query is needed."
            )
        self._asked.setdefault(family.phase, []).extend([family.tolerance] * len(family))
        return family.unit * answers

    def counts(self) -> tuple[QueryCount, ...]:
        asked = (self._asked.get(phase, []) for phase in range(1, 6))
        return tuple(
            QueryCount(phase, len(tolerances), min(tolerances, default=1.0))
            for phase, tolerances in enumerate(asked, start=1)
        )


def _square(answers: np.ndarray, d: int) -> np.ndarray:
    """The d^2 x d^2 moment matrix from the answers for pairs of pairs."""
    place = np.zeros((d, d), dtype=np.intp)
    upper = np.triu_indices(d)
    place[upper] = np.arange(len(upper[0]))
    place = np.maximum(place, place.T)
    table = answers.reshape(len(upper[0]), -1)
    return table[place[:, None, :, None], place[None, :, None, :]].reshape(d * d, d * d)


def _bisect(enough: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The least point, up to (high - low) / 2^steps, from which on `enough` holds; `high` if nowhere below."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
