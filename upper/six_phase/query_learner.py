"""Phases 1 to 5 by statistical queries alone: how many, of what tolerance, and what an oracle's answers give."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention import Outcome
from attention.validation import (
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    checked,
)
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.ellipsoid import Ellipsoid
from upper.six_phase.equations import AnsweredMoments
from upper.six_phase.phase2_affine_hull import LARGEST_RESIDUAL, require_agreement, require_consistency
from upper.six_phase.phase3_refine_sum import LEAST_MARGIN, HullMargin
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.statistical_queries import (
    AgreementRows,
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
    "QueryCount",
    "QueryOracle",
    "QueryPlan",
    "learn_by_queries",
    "six_phase_queries",
]

Share = Annotated[float, Real(above=0, below=1)]

# Of the mean eigenvalue, the smallest of the Gram matrix of rows of large margin.
_GRAM_EDGE = 0.5
# The smallest eigenvalue of the moments of phases 2 and 4 off the hull, over that of all rows and the share of rows.
_HULL_EDGE = (0.035, 0.004)
# Of the share of rows accepted: the tolerance of their three sizes, a per cent of what these measure.
_SIZE_TOLERANCE = 3e-4
_SMALLEST_RESIDUAL = 1e-6


@dataclass(frozen=True)
class QueryCount:
    """Scalar queries of one phase, and the smallest tolerance among them, for values in [-1, 1]; 1 where none is."""

    phase: int
    count: int
    tolerance: float


@dataclass(frozen=True)
@checked
class QueryPlan:
    """Sizes, shares and tolerances of the queries of phases 1 to 5.

    Parameters
    ----------
    m, k, d : int
        Heads, tokens and coordinates, 2 <= k < d.
    accept : tuple of two floats
        The share of rows accepted in phase 2 and in phase 4, by their residuals alone; those of them whose pattern has
        a small entry are then left out.
    margin_share : float
        The share of rows that phase 3 regresses on.
    degradation : float
        The relative error that answers off by their tolerances may add to what a phase estimates.
    label_bound : float, optional
        B; by default 4 sqrt(m), four standard deviations of a label of a nice target. Phase 1 clips larger labels, and
        phase 3 leaves their rows out.
    token_bound : float
        A, 1 for Boolean tokens.
    steps : int
        Bisections of each search for a quantile.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Write tau for a tolerance and eta for `degradation`; every value is in [-1, 1]. Derived here.

    *Phase 1.* Answers off by tau change the sum by at most d k A B tau in Frobenius norm (proved). Labels of standard
    deviation B/4 belong to |sum W| = (B/4) sqrt(d) (rule of thumb), so tau_1 = eta / (4 k A sqrt(d)).

    *Phases 2 and 4.* The moment matrix is off by E with |E| <= d^2 tau (proved: by its row sums), the right-hand side
    by at most d tau_r in units of the values. If lambda is the smallest eigenvalue off the hull, d^2 tau <= eta lambda
    / 4 keeps the wide directions within eta / 3 or so (Davis and Kahan), and d tau_r L / (2 A^2) <= |centre| eta lambda
    / 4 the centre within eta of its length to first order. Here lambda is .035 and .004 accept (k-1)/k / A^4 in phases
    2 and 4, and |centre| = 1: rules of thumb, from nice targets with (m,k) = (2,2) and d from 8 to 32.

    *Phase 3.* |Delta W| <= (|Delta C| + |Delta G| |W|) / (lambda_min(G) - |Delta G|), with G, C the Gram and cross
    moments (proved), |Delta G| and |Delta C| at most d tau in units of the values; lambda_min(G) is half of the
    share (rule of thumb), |W| as in phase 1.

    *Searches.* A tenth of the share (rule of thumb). The effect of errors of the sum and of the thresholds on the rows
    accepted later is measured only: at (m,k,d) = (2,2,10) errors within the tolerances raise the span's error from
    about .005 to about .01. The tolerances are far below the sampling error of as many examples as the example-based
    phases need: there M and b err together, on the same rows, and the solution hardly at all.
    """

    m: PositiveInt
    k: Annotated[int, Whole(2, 19)]  # a uniform pattern has no entry below 1/k, and .05 is the least
    d: Annotated[int, Whole(3, 10**6)]
    accept: Sequence[Share] = (0.05, 0.01)
    margin_share: Share = 0.0005
    degradation: PositiveFloat = 0.02
    label_bound: PositiveFloat | None = None
    token_bound: Annotated[float, Real(least=1e-60, most=1e60)] = 1.0  # its fourth power is a number
    steps: PositiveInt = 12

    def __post_init__(self) -> None:
        if self.k >= self.d:
            raise ValueError(f"k is {self.k} and d is {self.d}: 2 <= k < d is needed to certify agreement.")
        if self.m > self.d**2:
            raise ValueError(
                f"m is {self.m} and d is {self.d}: m - 1 < d^2 directions of the hull are needed."
            )
        if len(self.accept) != 2:
            raise ValueError(f"accept is {self.accept}: a number for phase 2 and one for phase 4 are needed.")

    @property
    def labels(self) -> float:
        """B."""
        return 4 * math.sqrt(self.m) if self.label_bound is None else self.label_bound

    def agreement_rows(self, projection_sum: Float[np.ndarray, "d d"], threshold: float) -> AgreementRows:
        """The rows of phases 2 and 4."""
        return AgreementRows(projection_sum, threshold, token_bound=self.token_bound)

    def sum_tolerance(self) -> float:
        """Phase 1's tolerance."""
        return self.degradation / (4 * self.k * self.token_bound * math.sqrt(self.d))

    def moment_tolerances(self, phase: int) -> tuple[float, float]:
        """Tolerances of the moment matrix and of the right-hand side in phase 2 or 4."""
        d, a = self.d, self.token_bound
        place = phase // 2 - 1
        smallest = _HULL_EDGE[place] * self.accept[place] * (1 - 1 / self.k) / a**4
        log_ratio = self.agreement_rows(np.zeros((d, d)), 0.0).largest_log_ratio(self.k)
        share = self.degradation * smallest / 4
        return share / d**2, share * 2 * a**2 / (log_ratio * d)

    def regression_tolerance(self) -> float:
        """Phase 3's tolerance."""
        d, a = self.d, self.token_bound
        edge = _GRAM_EDGE * self.margin_share
        return self.degradation * edge / ((1 + self.degradation) * (4 * a * math.sqrt(d) + a * a * d))


@checked
def six_phase_queries(plan: QueryPlan) -> tuple[QueryCount, ...]:
    """The scalar queries that phases 1 to 5 make, phase by phase, and the tolerance they need; nothing is asked.

    Notes
    -----
    Phase 1: d^2. Phases 2 and 4: (d(d+1)/2)^2 moments, d^2 of the right-hand side, 3 sizes and `steps` of the search
    for the threshold. Phase 3: d(d+1)/2 + d^2 and `steps`. Phase 5: none. So d^4/2 queries to leading order, of
    tolerance d^-2. The price of m and k is in the share: rows on which all heads agree up to eps have probability
    eps^((m-1)(k-1)), and the tolerance is proportional to it.

    Examples
    --------
    >>> [(one.phase, one.count) for one in six_phase_queries(QueryPlan(m=2, k=2, d=8))]
    [(1, 64), (2, 1375), (3, 112), (4, 1375), (5, 0)]
    """
    d, steps = plan.d, plan.steps
    pairs = d * (d + 1) // 2
    sculpting = pairs**2 + d * d + 3 + steps
    first, second = (
        min(*plan.moment_tolerances(phase), _SIZE_TOLERANCE * accept)
        for phase, accept in zip((2, 4), plan.accept, strict=True)
    )
    margin = min(plan.regression_tolerance(), plan.margin_share / 10)
    return (
        QueryCount(1, d * d, plan.sum_tolerance()),
        QueryCount(2, sculpting, first),
        QueryCount(3, pairs + d * d + steps, margin),
        QueryCount(4, sculpting, second),
        QueryCount(5, 0, 1.0),
    )


@runtime_checkable
class QueryOracle(Protocol):
    """An oracle that answers with the mean of one query, up to its tolerance.

    It may, and for speed should, have `query_many(queries)` as well, which answers a `QueryFamily` at once by its
    `values` or `means`. Each query of it counts one all the same.

    Examples
    --------
    Means over examples, the simplest oracle there is:

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
    """

    span: AttentionSpan
    first_span: AttentionSpan
    projection_sum: Float[np.ndarray, "d d"]
    first_sum: Float[np.ndarray, "d d"]
    counts: tuple[QueryCount, ...]


@checked
def learn_by_queries(oracle: QueryOracle, plan: QueryPlan) -> QueriedSpan:
    """Phases 1 to 5 with nothing but an oracle's answers to scalar statistical queries.

    Parameters
    ----------
    oracle : QueryOracle
        Anything with `query(q)`, and perhaps `query_many(queries)`.
    plan : QueryPlan
        Sizes, shares and tolerances.

    Raises
    ------
    PhaseFailedError
        If no agreement events are found, the equations contradict one another, or no rows have a large margin.
    ValueError
        If `oracle` or `plan` is something else, or the answers are not finite numbers, one a query.

    Notes
    -----
    Later queries depend on earlier answers: 3 `steps` + 4 rounds of questions that can be asked at once. Thresholds
    stand in place of the best of so many rows: a quantile of the residuals, and of the margins, found by bisection.
    O(d^6) time for the eigenproblem.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 1 to 5; as queries derived here.
    """
    ask = _Asked(oracle)
    d, k = plan.d, plan.k
    family = projection_sum_queries(
        d, k, tolerance=plan.sum_tolerance(), label_bound=plan.labels, token_bound=plan.token_bound
    )
    first_sum = ask(family).reshape(d, d)
    first_span = _sculpted(ask, plan, first_sum, phase=2)
    refined = _refined(ask, plan, first_span)
    span = _sculpted(ask, plan, refined, phase=4)
    return QueriedSpan(
        span=span,
        first_span=first_span,
        projection_sum=refined,
        first_sum=first_sum,
        counts=ask.counts(),
    )


def _sculpted(ask: "_Asked", plan: QueryPlan, w: np.ndarray, *, phase: int) -> AttentionSpan:
    """Phase 2 or 4 and, at once, 5: what `sculpt_affine_hull` and `attention_span` make of the answered moments."""
    d, k, wide, accept = plan.d, plan.k, plan.m - 1, plan.accept[phase // 2 - 1]
    tolerance, right_tolerance = plan.moment_tolerances(phase)

    def shares(threshold: float) -> QueryFamily:
        score = plan.agreement_rows(w, 0.0).residuals
        return share_queries(score, threshold, phase=phase, tolerance=accept / 10)

    log_threshold = _bisect(
        lambda z: float(ask(shares(math.exp(z)))[0]) >= accept,
        math.log(_SMALLEST_RESIDUAL),
        math.log(2 * LARGEST_RESIDUAL),
        plan.steps,
    )
    threshold = math.exp(log_threshold)
    require_agreement(threshold, accept)
    rows = plan.agreement_rows(w, threshold)
    _, weight, square = ask(size_queries(rows, k, phase=phase, tolerance=_SIZE_TOLERANCE * accept))
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
    return attention_span(body, wide)


def _refined(ask: "_Asked", plan: QueryPlan, span: AttentionSpan) -> np.ndarray:
    """Phase 3: what `refine_by_margin` does, with a quantile of the margins as the threshold."""
    d, share = plan.d, plan.margin_share
    margins = HullMargin.over(span)

    def rows(threshold: float) -> MarginRows:
        return MarginRows(margins, threshold, plan.labels, plan.token_bound)

    def enough(score: float) -> bool:
        family = share_queries(rows(0.0).negated, score, phase=3, tolerance=share / 10)
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
        many: Callable[[QueryFamily], np.ndarray] | None
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
