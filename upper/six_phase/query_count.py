"""The number of statistical queries that phases 1 to 5 need, and the tolerance of their answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from attention.validation import PositiveFloat, PositiveInt, Real, Whole, checked
from upper.six_phase.phase2_affine_hull import ACCEPTANCE

__all__ = ["QueryCount", "QueryPlan", "six_phase_queries"]

Share = Annotated[float, Real(above=0, below=1)]


@dataclass(frozen=True)
class QueryCount:
    """The number of scalar queries of a phase, and their smallest tolerance, for values in [-1, 1]; 1 if none."""

    phase: int
    count: int
    tolerance: float


@dataclass(frozen=True)
@checked
class QueryPlan:
    """Shares and tolerances of the queries of phases 1 to 5, for tokens of +-1.

    Parameters
    ----------
    heads, tokens, dim : int
        Heads, tokens and coordinates, 2 <= k < d.
    accept : tuple of two floats
        The shares of rows to accept in phases 2 and 4, by their residuals only. Rows whose pattern has a small entry
        are then left out.
    margin_share : float
        The share of rows in the regression of phase 3.
    degradation : float
        The relative error that the errors of answers, up to the tolerances, may add to the estimate of a phase.
    steps : int
        The number of bisections in each search for a quantile.
    hull_edge : tuple of two floats
        The smallest eigenvalue off the hull of the moments of phases 2 and 4, over that of all rows and the share of
        rows. Measured on nice targets with (m, k) = (2, 2) and d from 8 to 32.
    gram_edge : float
        The smallest eigenvalue of the Gram matrix of rows of large margin, relative to the mean one (rule of thumb).
    size_tolerance : float
        The tolerance of the three sizes of phases 2 and 4, relative to the share of accepted rows: one per cent of
        their values, which were measured on the same targets.

    Notes
    -----
    Write tau for a tolerance and eta for `degradation`; every value is in [-1, 1]. A label is clipped at four standard
    deviations of a nice target's labels, B = 4 sqrt(m). Derived here.

    *Phase 1.* Errors of tau in the answers change the sum by at most d k B tau in Frobenius norm (proved). Labels of
    standard deviation B/4 correspond to |sum W| = (B/4) sqrt(d) (rule of thumb), so tau_1 = eta / (4 k sqrt(d)).

    *Phases 2 and 4.* The moment matrix has an error E with |E| <= d^2 tau, and the right-hand side one of at most
    d tau_r in units of the values (proved). Let lambda be the smallest eigenvalue off the hull. If
    d^2 tau <= eta lambda / 4, the error of the wide directions is at most about eta / 3 (Davis and Kahan). If
    d tau_r L / 2 <= |centre| eta lambda / 4, with L the largest log-ratio of a certified row, the relative error of the
    centre is at most eta to first order. Rules of thumb: |centre| = 1, and lambda is `hull_edge` accept (k-1)/k.

    *Phase 3.* |Delta W| <= (|Delta C| + |Delta G| |W|) / (lambda_min(G) - |Delta G|), with G, C the Gram and cross
    moments. |Delta G| and |Delta C| are at most d tau in units of the values (proved). lambda_min(G) is `gram_edge`
    times the share, and |W| is as in phase 1 (rules of thumb).

    *Searches.* The tolerance is a tenth of the share (rule of thumb). Errors of the sum and of the thresholds also
    change the rows accepted later. This effect is only measured: at (m,k,d) = (2,2,10), errors within the tolerances
    raise the error of the span from about .005 to about .01.
    """

    heads: PositiveInt
    tokens: Annotated[int, Whole(2, 19)]  # accepted patterns have entries of at least .05, so k < 20
    dim: Annotated[int, Whole(3, 10**6)]
    accept: Sequence[Share] = (0.05, 0.01)
    margin_share: Share = 0.0005
    degradation: PositiveFloat = 0.02
    steps: PositiveInt = 12
    hull_edge: Sequence[PositiveFloat] = (0.035, 0.004)
    gram_edge: PositiveFloat = 0.5
    size_tolerance: PositiveFloat = 3e-4

    def __post_init__(self) -> None:
        if self.tokens >= self.dim:
            raise ValueError(
                f"tokens is {self.tokens} and dim is {self.dim}: 2 <= k < d is needed to certify agreement."
            )
        if self.heads > self.dim**2:
            raise ValueError(
                f"heads is {self.heads} and dim is {self.dim}: m - 1 < d^2 directions of the hull are needed."
            )
        for name in ("accept", "hull_edge"):
            if len(getattr(self, name)) != 2:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a number for phase 2 and one for phase 4 are needed."
                )

    def sum_tolerance(self) -> float:
        """Phase 1's tolerance."""
        return self.degradation / (4 * self.tokens * math.sqrt(self.dim))

    def agreement_tolerances(self, phase: int) -> tuple[float, float, float]:
        """Tolerances of the three sizes, of the moments and of the right sides in phase 2 or 4."""
        d, place = self.dim, phase // 2 - 1
        smallest = self.hull_edge[place] * self.accept[place] * (1 - 1 / self.tokens)
        share = self.degradation * smallest / 4
        log_ratio = math.log(1 / ACCEPTANCE.smallest_weight - (self.tokens - 1))
        return self.size_tolerance * self.accept[place], share / d**2, share * 2 / (log_ratio * d)

    def regression_tolerance(self) -> float:
        """Phase 3's tolerance."""
        edge = self.gram_edge * self.margin_share
        return self.degradation * edge / ((1 + self.degradation) * (4 * math.sqrt(self.dim) + self.dim))


@checked
def six_phase_queries(plan: QueryPlan) -> tuple[QueryCount, ...]:
    """The number of scalar queries in each of phases 1 to 5, and the tolerance that they need; no query is asked.

    Notes
    -----
    Every number that the phases need is the mean of a bounded function of one example, so they are an algorithm of
    statistical queries. The queries of one round can be asked at once; there are 3 `steps` + 4 rounds.

    Phase 1: the d^2 entries of E[(1/k) X^T J Y]. Phases 2 and 4: the mean of w v v^T over certified equations, whose
    v v^T = x_a x_a^T (x) X^T C X, C = I - J/k, is symmetric in either factor: (d(d+1)/2)^2 moments. Also d^2 of the
    right-hand side; the shares of the accepted rows, of their weights and of their squares; and `steps` of the search
    for the threshold, by bisection. Phase 3: d(d+1)/2 of the Gram matrix of the tokens that rows of large margin attend
    to, d^2 of its product with the labels, and `steps`. Phase 5: none. To leading order these are d^4/2 queries of
    tolerance d^-2. m and k enter through the share of rows: rows on which all heads agree up to eps have probability
    eps^((m-1)(k-1)), and the tolerance is proportional to it.

    Examples
    --------
    >>> [(one.phase, one.count) for one in six_phase_queries(QueryPlan(heads=2, tokens=2, dim=8))]
    [(1, 64), (2, 1375), (3, 112), (4, 1375), (5, 0)]
    """
    d, steps = plan.dim, plan.steps
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
