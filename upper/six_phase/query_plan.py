"""How many scalar statistical queries phases 1 to 5 ask, and the tolerance they need."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.validation import count, non_negative, require_flag, require_instance
from upper.six_phase.statistical_queries import AgreementRows

__all__ = ["SIZE_TOLERANCE", "QueryCount", "QueryPlan", "share_tolerance", "six_phase_queries"]

# Of the mean eigenvalue, the smallest of the Gram matrix of rows of large margin.
_GRAM_EDGE = 0.5
# Of the share of rows accepted: up to what their three sizes are asked, a per cent of what these measure.
SIZE_TOLERANCE = 3e-4


@dataclass(frozen=True)
class QueryCount:
    """Scalar queries of one phase, and the smallest tolerance among them, for values in [-1, 1]; 1 where none is."""

    phase: int
    count: int
    tolerance: float


@dataclass(frozen=True)
class QueryPlan:
    """Sizes, shares and tolerances of the queries of phases 1 to 5.

    Parameters
    ----------
    m, k, d : int
        Heads, tokens and coordinates, 2 <= k < d.
    accept : tuple of two floats
        The share of rows accepted in phase 2 and in phase 4, by their residuals alone: those of them whose pattern has
        a small entry are then left out, where `sculpt_affine_hull` takes the share of what it uses.
    margin_share : float
        The share of rows that phase 3 regresses on.
    degradation : float
        The relative error that answers off by their tolerances may add to what a phase estimates.
    independent : bool
        Whether answers err independently of one another and with mean zero, instead of in the worst way.
    label_bound : float, optional
        B; by default 4 sqrt(m), four standard deviations of a label of a nice target. What clipping costs is said in
        `projection_sum_queries`; phase 3 leaves out rows with larger labels.
    token_bound : float
        A, 1 for Boolean tokens.
    smallest_weight : float
        Rows with a smaller entry of the pattern are not accepted; below 1/k.
    edge : tuple of two floats
        The smallest eigenvalue of phase 2's and of phase 4's moments off the hull, over that share of rows.
    steps : int
        Bisections of each search for a quantile.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Write tau for a tolerance and eta for `degradation`; every value is in [-1, 1]. Derived here, step by step.

    *Phase 1.* Answers off by tau change the sum by at most d k A B tau in Frobenius norm (proved). Labels of standard
    deviation B/4 belong to |sum W| = (B/4) sqrt(d) (rule of thumb), so tau_1 = eta / (4 k A sqrt(d)).

    *Phases 2 and 4.* The moment matrix is off by E with |E| <= d^2 tau (proved: by its row sums), the right-hand side
    by at most d tau_r in units of the values. If lambda is the smallest eigenvalue off the hull, and those along it
    are at most lambda / 4, then d^2 tau <= eta lambda / 4 keeps the wide directions within eta / 3 or so (Davis and
    Kahan), and with d tau_r L / (2 A^2) <= |centre| eta lambda / 4 the centre moves by less than eta of its length to
    first order; `span_change_bound` is the exact statement. Here lambda = `edge` accept (k-1)/k / A^4 and |centre| = 1
    (rule of thumb). Measured on nice targets with (m,k) = (2,2) and d = 8, 10, 16, 32, from several times d^2 accepted
    equations: lambda / (accept (k-1)/k) is .039 to .053 in phase 2 and .0056 to .025 in phase 4, |centre| 1.2 to 1.5.
    If the errors are independent, |E| is about 2 d tau in place of d^2 tau (rule of thumb).

    *Phase 3.* |Delta W| <= (|Delta C| + |Delta G| |W|) / (lambda_min(G) - |Delta G|), with G, C the Gram and cross
    moments (proved), |Delta G| and |Delta C| at most d tau in units of the values; lambda_min(G) is half of the
    share (rule of thumb), |W| as in phase 1.

    *Searches.* A tenth of the share (rule of thumb). How errors of the sum and of the thresholds act on the rows that
    are accepted later is measured only: the accepted set is no continuous function of them.

    Tolerances are far below the sampling error of as many examples as the example-based phases need: there M and b err
    together, on the same rows, and the solution hardly at all; separate answers have no such luck. Measured with
    errors uniform within the tolerances, or all as large as those, at (m,k,d) = (2,2,10): the span's error rises from
    between .004 and .006 to between .007 and .012.

    References
    ----------
    Derived here for Chen and Li, arXiv 2402.04084.
    """

    m: int
    k: int
    d: int
    accept: tuple[float, float] = (0.05, 0.01)
    margin_share: float = 0.0005
    degradation: float = 0.02
    independent: bool = False
    label_bound: float | None = None
    token_bound: float = 1.0
    smallest_weight: float = 0.05
    edge: tuple[float, float] = (0.035, 0.004)
    steps: int = 12

    def __post_init__(self) -> None:
        require_flag("independent", self.independent)
        if not 2 <= count("k", self.k, most=10**6) < count("d", self.d, most=10**6):
            raise ValueError(f"k is {self.k} and d is {self.d}: 2 <= k < d is needed to certify agreement.")
        if count("m", self.m) > self.d**2:
            raise ValueError(
                f"m is {self.m} and d is {self.d}: m - 1 < d^2 directions of the hull are needed."
            )
        for name in ("accept", "edge"):
            if np.shape(getattr(self, name)) != (2,):
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a number for phase 2 and one for phase 4 are needed."
                )
            for number in getattr(self, name):
                non_negative(name, number, strictly=True)
        for name, share in (("accept", max(self.accept)), ("margin_share", self.margin_share)):
            if not 0 < non_negative(name, share) < 1:
                raise ValueError(f"{name} is {share}: a share of the rows, between 0 and 1, is needed.")
        non_negative("degradation", self.degradation, strictly=True)
        if self.label_bound is not None:
            non_negative("label_bound", self.label_bound, strictly=True)
        if not 1e-60 <= non_negative("token_bound", self.token_bound, strictly=True) <= 1e60:
            raise ValueError(
                f"token_bound is {self.token_bound}: its fourth power is needed, so 1e-60 to 1e60 are allowed."
            )
        count("steps", self.steps)
        non_negative("smallest_weight", self.smallest_weight, strictly=True)
        self.agreement_rows(np.zeros((self.d, self.d)), 0.0).largest_log_ratio(self.k)

    @property
    def labels(self) -> float:
        """B."""
        return 4 * math.sqrt(self.m) if self.label_bound is None else self.label_bound

    def agreement_rows(self, projection_sum: Float[np.ndarray, "d d"], threshold: float) -> AgreementRows:
        """The rows of phases 2 and 4."""
        return AgreementRows(projection_sum, threshold, self.smallest_weight, self.token_bound)

    def sum_tolerance(self) -> float:
        """Phase 1's tolerance."""
        return self.degradation / (4 * self.k * self.token_bound * math.sqrt(self.d))

    def moment_tolerances(self, phase: int) -> tuple[float, float]:
        """Tolerances of the moment matrix and of the right-hand side in phase 2 or 4."""
        d, a = self.d, self.token_bound
        edge, accept = (pair[phase // 2 - 1] for pair in (self.edge, self.accept))
        smallest = edge * accept * (1 - 1 / self.k) / a**4
        log_ratio = self.agreement_rows(np.zeros((d, d)), 0.0).largest_log_ratio(self.k)
        share = self.degradation * smallest / 4
        return share / self.error_norm, share * 2 * a**2 / (log_ratio * d)

    @property
    def error_norm(self) -> float:
        """The operator norm of the moment matrix's error, in tolerances: d^2, or about 2 d for independent errors."""
        return 2.0 * self.d if self.independent else float(self.d**2)

    def regression_tolerance(self) -> float:
        """Phase 3's tolerance."""
        d, a = self.d, self.token_bound
        edge = _GRAM_EDGE * self.margin_share
        return self.degradation * edge / ((1 + self.degradation) * (4 * a * math.sqrt(d) + a * a * d))


def six_phase_queries(plan: QueryPlan) -> tuple[QueryCount, ...]:
    """The scalar queries that phases 1 to 5 make, phase by phase, and the tolerance they need; nothing is asked.

    Parameters
    ----------
    plan : QueryPlan
        Sizes, shares and the degradation allowed.

    Returns
    -------
    tuple of QueryCount
        One a phase. Phase 1: d^2. Phases 2 and 4: (d(d+1)/2)^2 moments, d^2 of the right-hand side, 3 sizes and
        `steps` of the search for the threshold. Phase 3: d(d+1)/2 + d^2 and `steps`. Phase 5: none.

    Notes
    -----
    Polynomial in d: d^4/2 queries to leading order, of tolerance d^-2. In m and k the price is in the share: rows on
    which all heads agree up to eps have probability eps^((m-1)(k-1)), and the tolerance is proportional to it.

    References
    ----------
    Derived here for Chen and Li, arXiv 2402.04084.

    Examples
    --------
    >>> [(one.phase, one.count) for one in six_phase_queries(QueryPlan(m=2, k=2, d=8))]
    [(1, 64), (2, 1375), (3, 112), (4, 1375), (5, 0)]
    """
    require_instance("plan", plan, QueryPlan, needed="a QueryPlan")
    d, steps = plan.d, plan.steps
    pairs = d * (d + 1) // 2
    sculpting = pairs**2 + d * d + 3 + steps
    first, second = (
        min(*plan.moment_tolerances(phase), SIZE_TOLERANCE * accept)
        for phase, accept in zip((2, 4), plan.accept, strict=True)
    )
    margin = min(plan.regression_tolerance(), share_tolerance(plan.margin_share))
    return (
        QueryCount(1, d * d, plan.sum_tolerance()),
        QueryCount(2, sculpting, first),
        QueryCount(3, pairs + d * d + steps, margin),
        QueryCount(4, sculpting, second),
        QueryCount(5, 0, 1.0),
    )


def share_tolerance(share: float) -> float:
    """Up to what a share of rows is asked in a search: a tenth of it."""
    return share / 10
