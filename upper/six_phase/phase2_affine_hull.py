"""Phases 2 and 4: enclose the affine hull of the attention matrices in a body, by rows on which all heads agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.validation import NonNegativeInt, PositiveInt, Real, checked
from upper.six_phase.agreement import Certificates, Contrasts, certify_agreement, contrasts_of
from upper.six_phase.common import PhaseFailedError, batches, remaining
from upper.six_phase.convex_body import Ellipsoid
from upper.six_phase.phase5_span import attention_span


@dataclass(frozen=True)
class Acceptance:
    """Which rows are accepted as agreement events, and when their equations contradict one another."""

    #: a pattern with a smaller entry is not used, since the error of the pattern is too large in its logarithm. Between
    #: .01 and .05 the median error of the span is .12 at (m,k,d) = (2,3,14), and at .1 it is .15
    smallest_weight: float = 0.05
    #: a larger threshold certifies nothing: of labels unrelated to the tokens, the best hundredth of the rows has
    #: residuals up to .8 at (k,d) = (2,16), .7 at (3,16) and .6 at (2,8)
    largest_residual: float = 0.5
    #: rows accepted in the first examples, which determine the threshold. The share of rows accepted then varies by 4 %
    #: between targets, with 25 rows by 18 %, with 400 by 3 %
    pilot: int = 100
    #: a single head agrees with itself in every row, so half of all rows have a small residual. With the sum of phase 1
    #: the median is .12 and .08 at d = 12 and 32 for one head, and .34 and .32 for two
    one_head_residual: float = 0.1
    #: the share of usable rows that is then used: in the best few rows the error of the sum has no effect by chance,
    #: and their equations leave extra wide directions
    one_head_share: float = 0.5
    #: equations with a smaller misfit, in logits, count as satisfied, even if they are small themselves (no attention)
    negligible_misfit: float = 0.05
    #: the share of the equations' mean square that the best matrix explains unless they contradict one another
    least_explained: float = 0.5
    #: how many logits a relative residual of 1 stands for, a rule of thumb: a weight of a pattern changes by at most
    #: 1/4 of the change of its logit, which gives 4; the factor 2 is a margin, as the residual is relative to p X W
    logits_a_residual: float = 8.0


ACCEPTANCE = Acceptance()


@dataclass(frozen=True, eq=False)
class AffineHull:
    """The body K around the affine hull of the heads, and the agreement events that determine it.

    `rows` counts all rows of the `examples` drawn. The `contrasts` are the certified equations of the accepted rows,
    those with a relative residual up to `threshold`. `histogram` counts the residuals between the edges in `bins`.
    """

    bins: ClassVar[Float[np.ndarray, " 101"]] = np.geomspace(1e-8, 1e2, 101)

    body: Ellipsoid
    contrasts: Contrasts
    threshold: float
    rows: int
    histogram: Int[np.ndarray, " 100"]
    examples: int

    @property
    def wide(self) -> int:
        """The number of K's wide directions, m - 1, as given or by the gap in its spectrum."""
        return self.body.gap.wide

    @property
    def accepted(self) -> int:
        """The number of rows with a relative residual up to the threshold."""
        return len(self.contrasts)

    @property
    def acceptance(self) -> float:
        """The share of accepted rows in all rows."""
        return self.accepted / self.rows

    @property
    def measures(self) -> dict[str, Any]:
        """The measures of the step in the trace."""
        return {
            "phase_examples": self.examples,
            "accepted": self.accepted,
            "acceptance": self.acceptance,
            "threshold": self.threshold,
            "equations": self.contrasts.equations,
            "explained": self.body.explained,
            "tolerance_in_logits": self.body.tolerance,
            "heads": self.wide + 1,
            **self.body.gap.measures,
        }

    def errors(self, layer: AttentionLayer) -> dict[str, float]:
        """The misfit of the heads in logits, the share of heads that are in K, and the errors of the span of K."""
        return {
            "agreement_error": self.contrasts.error(layer),
            "share_inside": float(np.mean([self.body.contains(theta) for theta in layer.theta])),
            **attention_span(self.body).errors(layer),
        }

    def require_usable(self, before: "AffineHull | None" = None) -> None:
        """Raise a `PhaseFailedError` if the equations contradict one another, or fit worse than those of `before`.

        The best matrix leaves a misfit and explains a share of the equations. Rows with a relative residual up to the
        threshold agree up to about eight times that in logits. A small misfit is no contradiction, even if it is as
        large as the equations: the affine hull then passes near zero. This is a rule of thumb.
        """
        misfit, explained, rules = self.body.misfit_at_centre, self.body.explained, ACCEPTANCE
        allowed = max(rules.negligible_misfit, rules.logits_a_residual * self.threshold)
        if misfit > allowed and explained < rules.least_explained:
            raise PhaseFailedError(
                Outcome.CONTRADICTION,
                f"of the certified equations the best matrix explains {max(explained, 0):.0%}.",
            )
        if before is not None and misfit > max(2 * before.body.misfit_at_centre, rules.negligible_misfit):
            raise PhaseFailedError(
                Outcome.NOT_REFINED,
                f"the equations hold up to {misfit:.2g} logits after the refinement and up to "
                f"{before.body.misfit_at_centre:.2g} before.",
            )


@checked
def sculpt_affine_hull(
    oracle: ExampleOracle,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    wide: NonNegativeInt | None = None,
    accept: Annotated[float, Real(above=0, most=1)] = 0.01,
    examples: PositiveInt | None = None,
) -> AffineHull:
    """Phases 2 and 4: certify agreement events with the estimate of the sum, and make the body K from them.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples of k tokens in d coordinates, 2 <= k < d.
    projection_sum : array (d, d)
        The estimate of sum_i W_i: of phase 1 in phase 2, of phase 3 in phase 4.
    wide : int, optional
        m - 1, the dimension of the affine hull; by default from the gap in the body's spectrum.
    accept : float
        The share of all rows to accept. Accepted are those with the smallest residuals, among usable rows: those whose
        pattern has every entry above .05. With one head, at least half of the usable rows are accepted. The share is
        raised if the allowed examples would give fewer than 1.5 d^2 equations.
    examples : int, optional
        The most examples to draw; by default four times the number that `accept` should need for 6 d^2 equations, six
        per unknown, which are enough. Of given examples, at most those that are left.

    Notes
    -----
    A PhaseFailedError if no example is left, if too few rows are certified for d^2 equations, or if the residuals of
    the accepted rows are as large as those of unrelated patterns.

    With an exact sum and exact agreement, K contains every head of norm at most its radius. With the crude sum of
    phase 1, K lies near the heads but may contain none. Accepted rows agree only up to some eps in logits. Rows agree
    up to eps with probability of order eps^((m-1)(k-1)). So at a fixed share, eps grows quickly with (m-1)(k-1), and a
    small eps takes many examples. The time is O(n k d^2); the memory is that of a few batches and the accepted rows.

    Source: Chen and Li, arXiv 2402.04084, phases 2 and 4; the choice and the weights of the rows are derived here.
    """
    k, d = oracle.tokens, oracle.dim
    wanted = 6 * d * d
    most = int(4 * wanted / (accept * k * (k - 1))) + 1 if examples is None else examples
    most = remaining(oracle, most, "to look for agreement events in")
    # enough rows for 1.5 d^2 equations: larger residuals are better than too few rows
    accept = min(1.0, max(accept, 1.5 * d * d / (most * k * (k - 1))))
    rows, first, threshold = _accepted(oracle, projection_sum, most, accept, wide)
    drawn = first
    while rows.contrasts.equations < wanted and drawn < most:
        # by the acceptance rate so far, with a margin of 2 %; it is inaccurate with few rows, so draw in steps
        missing, so_far = wanted - rows.contrasts.equations, max(rows.contrasts.equations, 1)
        n = min(most - drawn, max(first, min(int(1.02 * missing * drawn / so_far), 8 * drawn)))
        rows, drawn = _Rows.joined([rows, _certified(oracle, projection_sum, n, threshold)]), drawn + n
    if rows.contrasts.equations < d * d:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"{rows.contrasts.equations} equations were certified on {rows.rows} rows, fewer than the d^2 = {d * d} "
            f"unknowns of one attention matrix.",
        )
    if threshold > ACCEPTANCE.largest_residual:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"the best {accept:.1%} of the rows are certified up to a relative residual of {threshold:.2f} only: no "
            "agreement events were found.",
        )
    body = Ellipsoid.of(rows.contrasts, wide=wide)
    return AffineHull(body, rows.contrasts, threshold, rows.rows, rows.histogram, drawn)


def _accepted(
    oracle: ExampleOracle, w: np.ndarray, most: int, accept: float, wide: int | None
) -> tuple["_Rows", int, float]:
    """The accepted rows of the first examples, the number of these, and the threshold of the residual."""
    k, drawn, rules = oracle.tokens, 0, ACCEPTANCE
    one_head = wide == 0
    if not wide:  # a small sample shows whether there is one head only, as it agrees with itself in every row
        drawn = min(most, _pilot(max(accept, rules.one_head_share), k))
        rows = _certified(oracle, w, drawn)
        one_head = one_head or 2 * rows.agreeing >= rows.rows  # the median residual is small
    n = min(most, _pilot(accept, k))
    if not one_head and n > drawn:
        best = math.ceil(accept * n * k)
        more = _certified(oracle, w, n - drawn, best=best)
        rows, drawn = (_Rows.joined([rows, more]) if drawn else more).best(best), n
    if rows.usable == 0:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"no row of {rows.rows} has a pattern with all entries above {rules.smallest_weight}.",
        )
    share = max(accept * rows.rows, rules.one_head_share * rows.usable if one_head else 0.0)
    threshold = float(np.sort(rows.residuals)[min(math.ceil(share), len(rows.residuals)) - 1])
    return rows.chosen(rows.residuals <= threshold), drawn, threshold


def _certified(
    oracle: ExampleOracle, w: np.ndarray, n: int, threshold: float = np.inf, best: int | None = None
) -> "_Rows":
    """The usable rows of `n` more examples, up to a threshold, and at most the `best` ones of each batch."""
    parts = [_Rows.of(x, certify_agreement(x, y, w), threshold).best(best) for x, y in batches(oracle, n)]
    return _Rows.joined(parts)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Usable rows, and counts of all rows; `agreeing` counts those with a small residual."""

    residuals: np.ndarray
    contrasts: Contrasts
    histogram: np.ndarray
    rows: int
    usable: int
    agreeing: int

    @classmethod
    def of(cls, x: np.ndarray, certificates: Certificates, threshold: float) -> "_Rows":
        pattern, residual = certificates.pattern, certificates.residual
        finite = residual[np.isfinite(residual)]
        usable = np.isfinite(residual) & (pattern.min(axis=-1) > ACCEPTANCE.smallest_weight)
        accepted = usable & (residual <= threshold)
        return cls(
            residuals=residual[accepted],
            contrasts=contrasts_of(x, pattern, accepted),
            histogram=np.histogram(np.clip(finite, AffineHull.bins[0], AffineHull.bins[-1]), AffineHull.bins)[
                0
            ],
            rows=residual.size,
            usable=int(usable.sum()),
            agreeing=int(np.sum(finite <= ACCEPTANCE.one_head_residual)),
        )

    @classmethod
    def joined(cls, parts: "Sequence[_Rows]") -> "_Rows":
        return cls(
            residuals=np.concatenate([part.residuals for part in parts]),
            contrasts=Contrasts.joined([part.contrasts for part in parts]),
            histogram=np.sum([part.histogram for part in parts], axis=0),
            rows=sum(part.rows for part in parts),
            usable=sum(part.usable for part in parts),
            agreeing=sum(part.agreeing for part in parts),
        )

    def chosen(self, which: np.ndarray) -> "_Rows":
        return replace(self, residuals=self.residuals[which], contrasts=self.contrasts.chosen(which))

    def best(self, most: int | None) -> "_Rows":
        """The `most` rows with the smallest residuals, in their order."""
        if most is None or len(self.residuals) <= most:
            return self
        return self.chosen(np.sort(np.argsort(self.residuals, kind="stable")[:most]))


def _pilot(share: float, k: int) -> int:
    return max(32, int(ACCEPTANCE.pilot / share / k))
