"""The number of statistical queries that phases 1 to 5 need, and the tolerance of their answers."""

import math
from dataclasses import dataclass
from typing import Annotated

from attention.validation import Whole, checked
from upper.six_phase.phase2_affine_hull import ACCEPTANCE


@dataclass(frozen=True)
class QueryCount:
    """The number of scalar queries of a phase, and their smallest tolerance, for values in [-1, 1]; 1 if none."""

    phase: int
    count: int
    tolerance: float


@dataclass(frozen=True)
class _Plan:
    """The shares and tolerances of the queries, for two heads."""

    accept: tuple[float, float] = (
        0.05,
        0.01,
    )  #: the shares of rows to accept in phases 2 and 4, by their residuals
    margin_share: float = 0.0005  #: the share of rows in the regression of phase 3
    #: the relative error that the errors of answers, up to the tolerances, may add to the estimate of a phase
    degradation: float = 0.02
    bisections: int = 12  #: in each search for a quantile
    #: the smallest eigenvalue off the hull of the moments of phases 2 and 4, over that of all rows and the share of
    #: rows. Measured on nice targets with (m, k) = (2, 2) and d from 8 to 32
    hull_edge: tuple[float, float] = (0.035, 0.004)
    #: the smallest eigenvalue of the Gram matrix of rows of large margin, relative to the mean one (rule of thumb)
    gram_edge: float = 0.5
    #: the tolerance of the three sizes of phases 2 and 4, relative to the share of accepted rows: one per cent of their
    #: values, which were measured on the same targets
    size_tolerance: float = 3e-4


_PLAN = _Plan()


@checked
def six_phase_queries(
    *, tokens: Annotated[int, Whole(2, 19)], dim: Annotated[int, Whole(3, 10**6)]
) -> tuple[QueryCount, ...]:
    """The number of scalar queries in each of phases 1 to 5 for two heads, and their tolerance; no query is asked.

    Parameters
    ----------
    tokens, dim : int
        Tokens of +-1 and their coordinates, 2 <= k < d. Accepted patterns have entries of at least .05, so k < 20.

    Notes
    -----
    Every number that the phases need is the mean of a bounded function of one example, so they are an algorithm of
    statistical queries. The queries of one round can be asked at once; there are 3 x 12 + 4 rounds.

    Phase 1: the d^2 entries of E[(1/k) X^T J Y]. Phases 2 and 4: the mean of w v v^T over certified equations, whose
    v v^T = x_a x_a^T (x) X^T C X, C = I - J/k, is symmetric in either factor: (d(d+1)/2)^2 moments. Also d^2 of the
    right-hand side; the shares of the accepted rows, of their weights and of their squares; and 12 bisections in the
    search for the threshold. Phase 3: d(d+1)/2 of the Gram matrix of the tokens that rows of large margin attend to,
    d^2 of its product with the labels, and 12. Phase 5: none. To leading order these are d^4/2 queries of tolerance
    d^-2. m and k enter through the share of rows: rows on which all heads agree up to eps have probability
    eps^((m-1)(k-1)), and the tolerance is proportional to it.

    Write tau for a tolerance and eta for the error that all answers together may add to the estimate of a phase, here
    .02; every value is in [-1, 1]. A label is clipped at four standard deviations of a nice target's labels,
    B = 4 sqrt(m). Derived here.

    *Phase 1.* Errors of tau in the answers change the sum by at most d k B tau in Frobenius norm (proved). Labels of
    standard deviation B/4 correspond to |sum W| = (B/4) sqrt(d) (rule of thumb), so tau_1 = eta / (4 k sqrt(d)).

    *Phases 2 and 4.* The moment matrix has an error E with |E| <= d^2 tau, and the right-hand side one of at most
    d tau_r in units of the values (proved). Let lambda be the smallest eigenvalue off the hull. If
    d^2 tau <= eta lambda / 4, the error of the wide directions is at most about eta / 3 (Davis and Kahan). If
    d tau_r L / 2 <= |centre| eta lambda / 4, with L the largest log-ratio of a certified row, the relative error of the
    centre is at most eta to first order. Rules of thumb: |centre| = 1, and lambda is a measured edge times the share of
    accepted rows times (k-1)/k.

    *Phase 3.* |Delta W| <= (|Delta C| + |Delta G| |W|) / (lambda_min(G) - |Delta G|), with G, C the Gram and cross
    moments. |Delta G| and |Delta C| are at most d tau in units of the values (proved). lambda_min(G) is half the share,
    and |W| is as in phase 1 (rules of thumb).

    *Searches.* The tolerance is a tenth of the share (rule of thumb). Errors of the sum and of the thresholds also
    change the rows accepted later. This effect is only measured: at (m,k,d) = (2,2,10), errors within the tolerances
    raise the error of the span from about .005 to about .01.

    Examples
    --------
    >>> [(one.phase, one.count) for one in six_phase_queries(tokens=2, dim=8)]
    [(1, 64), (2, 1375), (3, 112), (4, 1375), (5, 0)]
    """
    if tokens >= dim:
        raise ValueError(f"tokens is {tokens} and dim is {dim}: 2 <= k < d is needed to certify agreement.")
    k, d, plan = tokens, dim, _PLAN
    pairs, root = d * (d + 1) // 2, math.sqrt(dim)
    log_ratio = math.log(1 / ACCEPTANCE.smallest_weight - (k - 1))
    sculpting = []
    for phase, share, edge in zip((2, 4), plan.accept, plan.hull_edge, strict=True):
        moments = plan.degradation * edge * share * (1 - 1 / k) / 4
        least = min(plan.size_tolerance * share, moments / d**2, moments * 2 / (log_ratio * d))
        sculpting.append(QueryCount(phase, pairs**2 + d * d + 3 + plan.bisections, least))
    regression = (
        plan.degradation * plan.gram_edge * plan.margin_share / ((1 + plan.degradation) * (4 * root + d))
    )
    margin = min(regression, plan.margin_share / 10)
    return (
        QueryCount(1, d * d, plan.degradation / (4 * k * root)),
        sculpting[0],
        QueryCount(3, pairs + d * d + plan.bisections, margin),
        sculpting[1],
        QueryCount(5, 0, 1.0),
    )
