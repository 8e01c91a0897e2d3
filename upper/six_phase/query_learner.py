"""Phases 1 to 5 by statistical queries: their number and tolerance, and a learner from an oracle's answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention import Outcome
from attention.validation import PositiveFloat, PositiveInt, Real, Whole, checked
from upper.six_phase.agreement import certify_agreement
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.convex_body import Ellipsoid
from upper.six_phase.phase2_affine_hull import LARGEST_RESIDUAL, require_agreement, require_consistency
from upper.six_phase.phase3_refine_sum import LEAST_MARGIN
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.statistical_queries import (
    QueryFamily,
    StatisticalQuery,
    agreement_queries,
    bounded_margins,
    largest_log_ratio,
    projection_sum_queries,
    regression_queries,
    share_queries,
)

__all__ = [
    "AnsweredMoments",
    "QueriedSpan",
    "QueryCount",
    "QueryOracle",
    "QueryPlan",
    "learn_by_queries",
    "six_phase_queries",
]

Share = Annotated[float, Real(above=0, below=1)]

# The smallest eigenvalue of the Gram matrix of rows of large margin, relative to the mean one.
_GRAM_EDGE = 0.5
# The smallest eigenvalue off the hull of the moments of phases 2 and 4, over that of all rows and the share of rows.
_HULL_EDGE = (0.035, 0.004)
# The tolerance of the three sizes, relative to the share of accepted rows; one per cent of the measured values.
_SIZE_TOLERANCE = 3e-4
_SMALLEST_RESIDUAL = 1e-6


@dataclass(frozen=True)
class QueryCount:
    """The number of scalar queries of a phase, and their smallest tolerance, for values in [-1, 1]; 1 if none."""

    phase: int
    count: int
    tolerance: float


@dataclass(frozen=True)
@checked
class QueryPlan:
    """Sizes, shares and tolerances of the queries of phases 1 to 5, for tokens of +-1.

    Parameters
    ----------
    m, k, d : int
        Heads, tokens and coordinates, 2 <= k < d.
    accept : tuple of two floats
        The shares of rows to accept in phases 2 and 4, by their residuals only. Rows whose pattern has a small entry
        are then left out.
    margin_share : float
        The share of rows in the regression of phase 3.
    degradation : float
        The relative error that the errors of answers, up to the tolerances, may add to the estimate of a phase.
    label_bound : float, optional
        B; by default 4 sqrt(m), four standard deviations of a label of a nice target. Phase 1 clips larger labels, and
        phase 3 leaves their rows out.
    steps : int
        The number of bisections in each search for a quantile.

    Notes
    -----
    Write tau for a tolerance and eta for `degradation`; every value is in [-1, 1]. Derived here.

    *Phase 1.* Errors of tau in the answers change the sum by at most d k B tau in Frobenius norm (proved). Labels of
    standard deviation B/4 correspond to |sum W| = (B/4) sqrt(d) (rule of thumb), so tau_1 = eta / (4 k sqrt(d)).

    *Phases 2 and 4.* The moment matrix has an error E with |E| <= d^2 tau, and the right-hand side one of at most
    d tau_r in units of the values (proved). Let lambda be the smallest eigenvalue off the hull. If
    d^2 tau <= eta lambda / 4, the error of the wide directions is at most about eta / 3 (Davis and Kahan). If
    d tau_r L / 2 <= |centre| eta lambda / 4, the relative error of the centre is at most eta to first order. Rules of
    thumb: |centre| = 1, and lambda is .035 and .004 accept (k-1)/k in phases 2 and 4, as for nice targets with
    (m,k) = (2,2) and d from 8 to 32.

    *Phase 3.* |Delta W| <= (|Delta C| + |Delta G| |W|) / (lambda_min(G) - |Delta G|), with G, C the Gram and cross
    moments. |Delta G| and |Delta C| are at most d tau in units of the values (proved). lambda_min(G) is half of the
    share, and |W| is as in phase 1 (rules of thumb).

    *Searches.* The tolerance is a tenth of the share (rule of thumb). Errors of the sum and of the thresholds also
    change the rows accepted later. This effect is only measured: at (m,k,d) = (2,2,10), errors within the tolerances
    raise the error of the span from about .005 to about .01.
    """

    m: PositiveInt
    k: Annotated[int, Whole(2, 19)]  # accepted patterns have entries of at least .05, so k < 20
    d: Annotated[int, Whole(3, 10**6)]
    accept: Sequence[Share] = (0.05, 0.01)
    margin_share: Share = 0.0005
    degradation: PositiveFloat = 0.02
    label_bound: PositiveFloat | None = None
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

    def sum_tolerance(self) -> float:
        """Phase 1's tolerance."""
        return self.degradation / (4 * self.k * math.sqrt(self.d))

    def agreement_tolerances(self, phase: int) -> tuple[float, float, float]:
        """Tolerances of the three sizes, of the moments and of the right sides in phase 2 or 4."""
        d, place = self.d, phase // 2 - 1
        smallest = _HULL_EDGE[place] * self.accept[place] * (1 - 1 / self.k)
        share = self.degradation * smallest / 4
        sizes = _SIZE_TOLERANCE * self.accept[place]
        return sizes, share / d**2, share * 2 / (largest_log_ratio(self.k) * d)

    def regression_tolerance(self) -> float:
        """Phase 3's tolerance."""
        edge = _GRAM_EDGE * self.margin_share
        return self.degradation * edge / ((1 + self.degradation) * (4 * math.sqrt(self.d) + self.d))


@checked
def six_phase_queries(plan: QueryPlan) -> tuple[QueryCount, ...]:
    """The number of scalar queries in each of phases 1 to 5, and the tolerance that they need; no query is asked.

    Notes
    -----
    Phase 1: d^2. Phases 2 and 4: (d(d+1)/2)^2 moments, d^2 of the right-hand side, 3 sizes and `steps` of the search
    for the threshold. Phase 3: d(d+1)/2 + d^2 and `steps`. Phase 5: none. To leading order these
    are d^4/2 queries of tolerance d^-2. m and k enter through the share of rows: rows on which all heads agree up to
    eps have probability eps^((m-1)(k-1)), and the tolerance is proportional to it.

    Examples
    --------
    >>> [(one.phase, one.count) for one in six_phase_queries(QueryPlan(m=2, k=2, d=8))]
    [(1, 64), (2, 1375), (3, 112), (4, 1375), (5, 0)]
    """
    d, steps = plan.d, plan.steps
    pairs = d * (d + 1) // 2
    sculpting = pairs**2 + d * d + 3 + steps
    margin = min(plan.regression_tolerance(), plan.margin_share / 10)
    return (
        QueryCount(1, d * d, plan.sum_tolerance()),
        QueryCount(2, sculpting, min(plan.agreement_tolerances(2))),
        QueryCount(3, pairs + d * d + steps, margin),
        QueryCount(4, sculpting, min(plan.agreement_tolerances(4))),
        QueryCount(5, 0, 1.0),
    )


@runtime_checkable
class QueryOracle(Protocol):
    """An oracle that answers with the mean of one query, up to its tolerance.

    For speed it should also have `query_many(queries)`, which answers a `QueryFamily` at once by its `means`. Each
    query of the family still counts as one.

    Examples
    --------
    >>> class Means:  # over examples: the simplest oracle there is
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def query(self, query):
    ...         return float(np.mean(query(self.x, self.y)))
    >>> isinstance(Means(np.zeros((1, 2, 4)), np.zeros((1, 2, 4))), QueryOracle)
    True
    """

    def query(self, query: StatisticalQuery, /) -> float:
        """The mean of the query's function."""


@dataclass(frozen=True, eq=False)
class QueriedSpan:
    """The results of phases 1 to 5 by queries.

    `span` is that of phase 5, and `first_span` that of phase 2's body. `projection_sum` is the estimate of phase 3, and
    `first_sum` that of phase 1. `counts` has the number of scalar queries of each phase, and their smallest tolerance.
    """

    span: AttentionSpan
    first_span: AttentionSpan
    projection_sum: Float[np.ndarray, "d d"]
    first_sum: Float[np.ndarray, "d d"]
    counts: tuple[QueryCount, ...]


@checked
def learn_by_queries(oracle: QueryOracle, plan: QueryPlan) -> QueriedSpan:
    """Run phases 1 to 5 with an oracle's answers to scalar statistical queries only.

    Notes
    -----
    A PhaseFailedError if no agreement events are found, the equations contradict one another, or no rows have a
    large margin. A ValueError if `oracle` or `plan` has another type, or the answers are not one finite number for
    each query.
    Later queries depend on earlier answers. There are 3 `steps` + 4 rounds; the queries of one round can be asked at
    once. A threshold replaces the choice of the best rows: it is a quantile of the residuals, or of the margins, found
    by bisection. O(d^6) time for the eigenproblem.
    Source: Chen and Li, arXiv 2402.04084, phases 1 to 5; as queries derived here.
    """
    ask, d = _Asked(oracle), plan.d
    sums = projection_sum_queries(d, plan.k, tolerance=plan.sum_tolerance(), label_bound=plan.labels)
    first_sum = ask(sums).reshape(d, d)
    first_span = _sculpted(ask, plan, first_sum, phase=2)
    refined = _refined(ask, plan, first_span)
    span = _sculpted(ask, plan, refined, phase=4)
    return QueriedSpan(span, first_span, refined, first_sum, ask.counts())


def _sculpted(ask: "_Asked", plan: QueryPlan, w: np.ndarray, *, phase: int) -> AttentionSpan:
    """Phase 2 or 4, then 5: `sculpt_affine_hull` and `attention_span` from the answered moments."""
    k, accept = plan.k, plan.accept[phase // 2 - 1]

    def residuals(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return certify_agreement(x, y, w).residual

    def enough(log_threshold: float) -> bool:
        family = share_queries(residuals, math.exp(log_threshold), phase=phase, tolerance=accept / 10)
        return float(ask(family)[0]) >= accept

    low, high = math.log(_SMALLEST_RESIDUAL), math.log(2 * LARGEST_RESIDUAL)
    threshold = math.exp(_bisect(enough, low, high, plan.steps))
    require_agreement(threshold, accept)
    tolerances = plan.agreement_tolerances(phase)
    families = agreement_queries(w, threshold, k, phase=phase, tolerances=tolerances)
    _, weight, square = ask(families[0])
    if weight <= 0:
        raise PhaseFailedError(Outcome.NO_AGREEMENT, "no row was accepted whose pattern has no small entry.")
    # divide by the number of equations, k - 1 per row, and by the weights
    unit = 1 / (weight * (k - 1))
    square *= unit * k * largest_log_ratio(k) ** 2 / 4
    moments = unit * _square(ask(families[1]), plan.d)
    answered = AnsweredMoments(moments, unit * ask(families[2]), float(square))
    body = Ellipsoid.of(answered, wide=plan.m - 1)
    require_consistency(body.misfit_at_centre, body.explained, threshold)
    return attention_span(body, plan.m - 1)


def _refined(ask: "_Asked", plan: QueryPlan, span: AttentionSpan) -> np.ndarray:
    """Phase 3: `refine_by_margin` by queries, with a quantile of the margins as the threshold."""
    d, share = plan.d, plan.margin_share

    def negated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -bounded_margins(span, plan.labels, x, y)[0]

    def enough(score: float) -> bool:
        return float(ask(share_queries(negated, score, phase=3, tolerance=share / 10))[0]) >= share

    # for tokens of identity covariance, a logit of the centre has standard deviation |centre|
    margin = -_bisect(enough, -8 * float(np.linalg.norm(span.centre)), 0.0, plan.steps)
    if margin < LEAST_MARGIN["body"]:
        raise PhaseFailedError(
            Outcome.NO_LARGE_MARGIN,
            f"the {share:.2%} of rows with the largest margin have {margin:.2g} logits: at least "
            f"{LEAST_MARGIN['body']:g} are needed.",
        )
    tolerance = plan.regression_tolerance()
    gram_family, cross_family = regression_queries(span, margin, label_bound=plan.labels, tolerance=tolerance)
    gram = np.zeros((d, d))
    gram[np.triu_indices(d)] = ask(gram_family)
    gram = gram + np.triu(gram, 1).T
    if float(np.linalg.eigvalsh(gram)[0]) <= d * tolerance:
        raise PhaseFailedError(
            Outcome.NO_LARGE_MARGIN, "the tokens that rows of large margin attend to do not span."
        )
    return np.linalg.solve(gram, ask(cross_family).reshape(d, d))


class _Asked:
    """Asks one family of queries at a time and counts them; returns answers in the units of the quantity."""

    def __init__(self, oracle: QueryOracle) -> None:
        self._oracle = oracle
        self._asked: list[QueryFamily] = []

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
        self._asked.append(family)
        return family.unit * answers

    def counts(self) -> tuple[QueryCount, ...]:
        asked = [[one for one in self._asked if one.phase == phase] for phase in range(1, 6)]
        return tuple(
            QueryCount(phase, sum(map(len, families)), min((one.tolerance for one in families), default=1.0))
            for phase, families in enumerate(asked, start=1)
        )


@dataclass(frozen=True, eq=False)
class AnsweredMoments:
    """M, b and the mean square of the t, as an oracle answered them; with its errors, M may be indefinite.

    `moments` is M, `right` is b, and `square` is the weighted mean square of the t. The other members are those of
    `EquationMoments`.
    """

    moments: Float[np.ndarray, "d2 d2"]
    right: Float[np.ndarray, " d2"]
    square: float

    @property
    def size(self) -> float:
        """Weighted root mean square of the t, in logits."""
        return math.sqrt(max(self.square, 0.0))

    def misfit(self, theta: Float[np.ndarray, " d2"]) -> float:
        """Weighted root mean square of <v, Theta> - t, in logits; 0 if errors make its square negative."""
        square = self.square + float(theta @ (self.moments @ theta - 2 * self.right))
        return math.sqrt(max(square, 0.0))

    def matrix(self) -> Float[np.ndarray, "d2 d2"]:
        """M."""
        return self.moments


def _square(answers: np.ndarray, d: int) -> np.ndarray:
    """The d^2 x d^2 moment matrix from the answers for pairs of pairs."""
    place = np.zeros((d, d), dtype=np.intp)
    upper = np.triu_indices(d)
    place[upper] = np.arange(len(upper[0]))
    place = np.maximum(place, place.T)
    table = answers.reshape(len(upper[0]), -1)
    return table[place[:, None, :, None], place[None, :, None, :]].reshape(d * d, d * d)


def _bisect(enough: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The least point, up to (high - low) / 2^steps, above which `enough` holds; `high` if there is none below."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
