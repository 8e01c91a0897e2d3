"""Phases 2 and 4: enclose the affine hull of the attention matrices in a body, by rows on which all heads agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Real, checked
from upper.six_phase.agreement import (
    Certificates,
    Contrasts,
    EquationMoments,
    certify_agreement,
    contrasts_of,
)
from upper.six_phase.common import Jobs, PhaseFailedError, map_batches, remaining
from upper.six_phase.convex_body import Ellipsoid
from upper.six_phase.phase5_span import attention_span
from upper.six_phase.polytope import Polytope

__all__ = [
    "LARGEST_RESIDUAL",
    "SMALLEST_WEIGHT",
    "AffineHull",
    "require_agreement",
    "require_consistency",
    "sculpt",
    "sculpt_affine_hull",
]

LARGEST_RESIDUAL = 0.5
"""A larger threshold certifies nothing: rows with unrelated patterns have such residuals."""
SMALLEST_WEIGHT = 0.05
"""A pattern with a smaller entry is not used, since the error of the pattern is too large in its logarithm."""

# Equations with a smaller misfit, in logits, count as satisfied, even if they are small themselves (no attention).
_NEGLIGIBLE_MISFIT = 0.05
_LEAST_EXPLAINED = 0.5
# A rule of thumb: how many logits a relative residual of 1 stands for. A weight of a pattern changes by at most 1/4 of
# the change of its logit, which gives 4. The factor 2 is a margin, as the residual is relative to the size of p X W.
_LOGITS_A_RESIDUAL = 8.0
# Rows accepted in the first examples; this many determine the threshold to about a tenth of its value.
_PILOT_ACCEPTED = 100
# A single head agrees with itself in every row, so at least half of all rows have a residual up to _ALL_AGREE. Half of
# the usable rows are then used. In the best few rows the error of the sum has no effect by chance, and their equations
# leave extra wide directions.
_SHARE_OF_ONE_HEAD, _ALL_AGREE = 0.5, 0.1
_BINS = np.geomspace(1e-8, 1e2, 101)


@dataclass(frozen=True, eq=False)
class AffineHull:
    """The body K around the affine hull of the heads, and the agreement events that determine it.

    `wide` is the number of K's wide directions, m - 1, as given or by the gap in its spectrum. `rows` counts all rows
    of the `examples` drawn; `accepted` counts those with a relative residual up to `threshold`. The `contrasts` are the
    certified equations of the accepted rows. `histogram` counts the residuals between the edges in `bins`.
    """

    body: Ellipsoid | Polytope
    wide: int
    contrasts: Contrasts
    threshold: float
    accepted: int
    rows: int
    histogram: Int[np.ndarray, " 100"]
    bins: Float[np.ndarray, " 101"]
    examples: int

    @property
    def acceptance(self) -> float:
        """The share of accepted rows in all rows."""
        return self.accepted / self.rows

    @property
    def measures(self) -> dict[str, float | int]:
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
            **(self.body.gap.measures if self.body.gap else {}),
        }

    def errors(self, layer: AttentionLayer) -> dict[str, float]:
        """The misfit of the heads in logits, the share of heads that are in K, and the errors of the span of K."""
        return {
            "agreement_error": self.contrasts.error(layer),
            "share_inside": float(np.mean([self.body.contains(theta) for theta in layer.theta])),
            **attention_span(self.body, self.wide).errors(layer),
        }

    def require_usable(self, before: "AffineHull | None" = None) -> None:
        """Raise a `PhaseFailedError` if the equations contradict one another, or fit worse than those of `before`."""
        misfit = self.body.misfit_at_centre
        require_consistency(misfit, self.body.explained, self.threshold)
        if before is not None and misfit > max(2 * before.body.misfit_at_centre, _NEGLIGIBLE_MISFIT):
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
    equations: PositiveInt | None = None,
    examples: PositiveInt | None = None,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    jobs: Jobs = None,
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
    equations : int, optional
        The number of equations; by default 6 d^2, six per unknown.
    examples : int, optional
        The most examples to draw; by default four times the number that `accept` should need for the equations. Of
        given examples, at most those that are left.
    body : "ellipsoid" or "polytope"
        See `sculpt`.
    jobs : int, optional
        Threads; the result does not depend on it, to the last bit.

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
    k, d = oracle.k, oracle.d
    wanted = 6 * d * d if equations is None else equations
    most = int(4 * wanted / (accept * k * (k - 1))) + 1 if examples is None else examples
    most = remaining(oracle, most, "to look for agreement events in")
    # enough rows for 1.5 d^2 equations: larger residuals are better than too few rows
    accept = min(1.0, max(accept, 1.5 * d * d / (most * k * (k - 1))))

    def certified(n: int, threshold: float = np.inf, best: int | None = None) -> _Rows:
        """The usable rows of `n` more examples, up to a threshold, and at most the `best` ones of each batch."""

        def certify(x: np.ndarray, y: np.ndarray) -> _Rows:
            return _Rows.of(x, certify_agreement(x, y, projection_sum), threshold).best(best)

        return _Rows.joined(list(map_batches(oracle, certify, n, jobs=jobs)))

    # there may be one head only: a small sample shows it, as one head agrees with itself in every row
    one_head, drawn = wide == 0, 0
    if not wide:
        drawn = min(most, _pilot(max(accept, _SHARE_OF_ONE_HEAD), k))
        rows = certified(drawn)
        one_head = one_head or 2 * rows.agreeing >= rows.rows  # the median residual is small
    n = min(most, _pilot(accept, k))
    if not one_head and n > drawn:
        kept = math.ceil(accept * n * k)
        more = certified(n - drawn, best=kept)
        rows, drawn = (_Rows.joined([rows, more]) if drawn else more).best(kept), n
    if rows.usable == 0:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"no row of {rows.rows} has a pattern with all entries above {SMALLEST_WEIGHT}.",
        )
    share = max(accept * rows.rows, _SHARE_OF_ONE_HEAD * rows.usable if one_head else 0.0)
    threshold = float(np.sort(rows.residuals)[min(math.ceil(share), len(rows.residuals)) - 1])
    rows, first = rows.chosen(rows.residuals <= threshold), drawn
    while rows.contrasts.equations < wanted and drawn < most:
        # by the acceptance rate so far, with a margin of 2 %; it is inaccurate with few rows, so draw in steps
        missing, found = wanted - rows.contrasts.equations, max(rows.contrasts.equations, 1)
        n = min(most - drawn, max(first, min(int(1.02 * missing * drawn / found), 8 * drawn)))
        rows, drawn = _Rows.joined([rows, certified(n, threshold)]), drawn + n
    if rows.contrasts.equations < d * d:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"{rows.contrasts.equations} equations were certified on {rows.rows} rows, fewer than the d^2 = {d * d} "
            f"unknowns of one attention matrix.",
        )
    require_agreement(threshold, accept)
    sculpted = sculpt(rows.contrasts, body=body, wide=wide)
    if wide is None:
        wide = sculpted.gap.wide if sculpted.gap else 0
    return AffineHull(
        body=sculpted,
        wide=wide,
        contrasts=rows.contrasts,
        threshold=threshold,
        accepted=len(rows.contrasts),
        rows=rows.rows,
        histogram=rows.histogram,
        bins=_BINS,
        examples=drawn,
    )


@checked
def sculpt(
    contrasts: Contrasts,
    *,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    tolerance: PositiveFloat | None = None,
    radius: PositiveFloat | None = None,
    wide: NonNegativeInt | None = None,
) -> Ellipsoid | Polytope:
    """The set K of matrices of norm at most `radius` that satisfy the certified equations up to a tolerance.

    Parameters
    ----------
    contrasts : Contrasts
        The equations; a thin body needs at least d^2 of them.
    body : "ellipsoid" or "polytope"
        "ellipsoid": the equations hold up to the tolerance in weighted root mean square. "polytope": each of them does.
    tolerance : float, optional
        In logits; by default large enough that K is not empty, see the bodies.
    radius : float, optional
        R, in the Frobenius norm (ellipsoid) or in the largest entry (polytope); by default a multiple of the
        norm of the least-squares solution.
    wide : int, optional
        The number of wide directions, m - 1 for m heads. The ellipsoid's default tolerance depends on it. By default it
        comes from the gap in the spectrum.

    Notes
    -----
    Every head of norm at most `radius` that satisfies the equations up to `tolerance` is in K. The equations of
    agreeing rows hold for all heads, and so on their affine hull. With more than about d^2 equations, K is thin in all
    directions orthogonal to the hull. A ValueError if K is empty.
    Source: Chen and Li, arXiv 2402.04084, phases 2 and 4; the two bodies are derived here.
    """
    if len(contrasts) == 0:
        raise ValueError("contrasts has no row: at least one certified row is needed.")
    if body == "polytope":
        return Polytope.of(contrasts, tolerance=tolerance, radius=radius)
    return Ellipsoid.of(EquationMoments(contrasts), tolerance=tolerance, radius=radius, wide=wide)


def require_agreement(threshold: float, accept: float) -> None:
    """Raise a `PhaseFailedError` if the threshold of the residual is as large as for rows with unrelated patterns."""
    if threshold > LARGEST_RESIDUAL:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"the best {accept:.1%} of the rows are certified up to a relative residual of {threshold:.2f} only: no "
            "agreement events were found.",
        )


def require_consistency(misfit: float, explained: float, residual: float) -> None:
    """Raise a `PhaseFailedError` if equations contradict one another, although each was certified.

    The best matrix has a misfit of `misfit` logits and explains the share `explained` of the equations' mean square.
    Rows with a relative residual up to `residual` agree up to about eight times that in logits. A small misfit is no
    contradiction, even if it is as large as the equations: the affine hull then passes near zero. This is a rule of
    thumb.
    """
    if misfit > max(_NEGLIGIBLE_MISFIT, _LOGITS_A_RESIDUAL * residual) and explained < _LEAST_EXPLAINED:
        raise PhaseFailedError(
            Outcome.CONTRADICTION,
            f"of the certified equations the best matrix explains {max(explained, 0):.0%}.",
        )


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
        usable = np.isfinite(residual) & (pattern.min(axis=-1) > SMALLEST_WEIGHT)
        accepted = usable & (residual <= threshold)
        return cls(
            residuals=residual[accepted],
            contrasts=contrasts_of(x, pattern, accepted),
            histogram=np.histogram(np.clip(finite, _BINS[0], _BINS[-1]), _BINS)[0],
            rows=residual.size,
            usable=int(usable.sum()),
            agreeing=int(np.sum(finite <= _ALL_AGREE)),
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
    return max(32, int(_PILOT_ACCEPTED / share / k))
