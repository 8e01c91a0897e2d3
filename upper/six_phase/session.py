"""One run of the six phases as it goes on: what was found so far, and how it is told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome, Recorder
from upper.six_phase.affine_hull import AffineHull
from upper.six_phase.attention_span import AttentionSpan, attention_span
from upper.six_phase.body import NEGLIGIBLE_MISFIT, contradictory
from upper.six_phase.consistency import SelfConsistent
from upper.six_phase.failure import PhaseFailedError
from upper.six_phase.large_margin import LargeMargin
from upper.six_phase.net import NetSearch
from upper.six_phase.plan import Plan
from upper.six_phase.projection_sum import ProjectionSum

__all__ = ["Ending", "Findings", "Session"]

# A gap below this is none: neighbouring eigenvalues of the bulk differ by a few per cent.
_LEAST_GAP = 1.2


@dataclass
class Findings:
    """What the phases found, in their order.

    Attributes
    ----------
    projection_sum : ProjectionSum or None
        Phase 1's.
    hulls : list of AffineHull
        In paper mode phase 2's and then phase 4's, one a round; in practical mode phase 4's only.
    refinements : list of LargeMargin or SelfConsistent
        Phase 3's, one a round.
    spans : list of AttentionSpan
        What each of `hulls` suggests; the last is phase 5's.
    net : NetSearch or None
        Phase 6's in paper mode.
    """

    projection_sum: ProjectionSum | None = None
    hulls: list[AffineHull] = field(default_factory=list)
    refinements: list[LargeMargin | SelfConsistent] = field(default_factory=list)
    spans: list[AttentionSpan] = field(default_factory=list)
    net: NetSearch | None = None


@dataclass(frozen=True, eq=False)
class Ending:
    """How phase 6 ended: the layer, the outcome, a sentence with figures, and what did the work alone, if anything."""

    layer: AttentionLayer
    outcome: Outcome
    explanation: str
    alone: str = ""


class Session:
    """One run: the oracle, the plan of examples, the recorder, and the findings.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples.
    recorder : Recorder
        Keeps the trace.
    plan : Plan
        Examples by phase.
    heads : int or None
        m, if it is given.

    Attributes
    ----------
    phase : int
        The number of the phase under way.
    span_found : bool
        Whether the spectrum of the newest body has a step after the heads' directions.
    """

    def __init__(
        self,
        oracle: ExampleOracle,
        recorder: Recorder,
        plan: Plan,
        heads: int | None,
        rng: np.random.Generator,
    ) -> None:
        self.oracle, self.plan, self.rng = oracle, plan, rng
        self.findings = Findings()
        self.phase = 1
        self.span_found = False
        self.doubts: list[str] = []
        self._recorder, self._given = recorder, heads

    @property
    def given_wide(self) -> int | None:
        """One less than m if that was given; otherwise every sculpting finds it anew."""
        return None if self._given is None else self._given - 1

    @property
    def heads(self) -> int:
        """The number m of heads: as given, or by the gap of the newest body's spectrum; 1 before there is one."""
        if self._given is not None:
            return self._given
        return 1 + (getattr(self.findings.hulls[-1].body, "wide", 0) if self.findings.hulls else 0)

    @property
    def projection_sum(self) -> Float[np.ndarray, "d d"]:
        """The newest estimate of sum_i W_i; zero before phase 1."""
        found = self.findings
        if found.refinements:
            return found.refinements[-1].w
        if found.projection_sum is not None:
            return found.projection_sum.w
        return np.zeros((self.oracle.d, self.oracle.d))

    def allowed(self, name: str) -> int:
        """The examples that the part of the plan called `name` may draw now."""
        return self.plan.share(name, self._recorder.examples)

    def provisional(self) -> AttentionLayer:
        """What could be predicted by now: every head the proxy of the average head, the projections shared out."""
        theta = self.findings.hulls[-1].body.min_norm_point() if self.findings.hulls else None
        m, d = self.heads, self.oracle.d
        theta = np.zeros((d, d)) if theta is None else theta
        return AttentionLayer(theta=np.stack([theta] * m), w=np.stack([self.projection_sum / m] * m))

    def tell(
        self,
        name: str,
        *,
        layer: AttentionLayer | None = None,
        against: Callable[[AttentionLayer], Mapping[str, float]] | None = None,
        measures: Mapping[str, float | int] | None = None,
    ) -> None:
        """Record a step of the trace."""
        if layer is None and self._recorder.measuring:
            layer = self.provisional()
        self._recorder.step(name, layer=layer, against=against, **cast(Any, measures or {}))

    def found_sum(self, found: ProjectionSum) -> None:
        """Phase 1 is done."""
        self.findings.projection_sum = found
        size = float(np.linalg.norm(found.w))
        share = found.standard_error / size if size > 0 else np.inf
        self.tell(
            "Phase 1: sum of the projections",
            against=lambda layer: {"sum_error": found.error(layer)},
            measures={"phase_examples": found.examples, "standard_error": share},
        )
        if size == 0:
            raise PhaseFailedError("sum", f"the estimate from {found.examples} examples is zero.")
        if share > 0.5:
            said = f"has a standard error of {share:.2f} of its own size"
            raise PhaseFailedError("sum", f"the estimate from {found.examples} examples {said}.")

    def found_hull(self, found: AffineHull, what: str = "") -> None:
        """Phase 2 or 4 is done."""
        before = self.findings.hulls[-1] if self.findings.hulls else None
        self.findings.hulls.append(found)
        explained = found.body.explained
        measures: dict[str, float | int] = {
            "phase_examples": found.examples,
            "accepted": found.accepted,
            "acceptance": found.acceptance,
            "threshold": found.threshold,
            "equations": found.contrasts.equations,
            "explained": explained,
            "tolerance_in_logits": found.body.tolerance,
        }
        span = attention_span(found.body, self.heads - 1)
        self.findings.spans.append(span)
        measures |= {"heads": self.heads, **self._gap_measure(span)}

        def against(layer: AttentionLayer) -> dict[str, float]:
            inside = [found.body.contains(theta) for theta in layer.theta]
            return {
                "agreement_error": found.contrasts.error(layer),
                "share_inside": float(np.mean(inside)),
                **span.errors(layer),
            }

        verb = "sculpt again" if before else "sculpt the affine hull"
        self.tell(f"Phase {self.phase}: {verb}{what}", against=against, measures=measures)
        misfit = found.body.misfit_at_centre
        if contradictory(misfit, explained, found.threshold):
            raise PhaseFailedError(
                "contradiction",
                f"of {found.contrasts.equations} certified equations the best matrix explains {max(explained, 0):.0%}.",
            )
        if before is not None and misfit > max(2 * before.body.misfit_at_centre, NEGLIGIBLE_MISFIT):
            raise PhaseFailedError(
                "refinement",
                f"the equations hold up to {misfit:.2g} logits after the refinement and up to "
                f"{before.body.misfit_at_centre:.2g} before.",
            )

    def found_refinement(self, found: LargeMargin | SelfConsistent, what: str = "") -> None:
        """Phase 3 is done."""
        self.findings.refinements.append(found)
        measures: dict[str, float | int] = {"phase_examples": found.examples, "condition": found.condition}
        if isinstance(found, LargeMargin):
            measures |= {
                "rows": len(found.margins),
                "row_share": len(found.margins) / found.rows,
                "least_margin": float(found.margins[-1]),
                "largest_margin": float(found.margins[0]),
            }
        else:
            measures |= {"threshold": float(found.thresholds[-1]), "last_change": float(found.changes[-1])}
        self.tell(
            f"Phase 3: refine the sum{what}",
            against=lambda layer: {"sum_error": found.error(layer)},
            measures=measures,
        )

    def found_span(self, *, gap_needed: bool) -> AttentionSpan:
        """Phase 5: the span of the newest body."""
        span = self.findings.spans[-1]
        self.tell(
            "Phase 5: span of the attention matrices",
            against=span.errors,
            measures={
                "heads": len(span.basis),
                **self._gap_measure(span),
                **{f"reach_{place + 1}": float(reach) for place, reach in enumerate(span.reach)},
            },
        )
        if span.gap is None:
            self.span_found = True
            return span
        wide, ratio = span.gap.wide, span.gap.ratio
        self.span_found = ratio >= _LEAST_GAP or (not wide and self._given is not None)
        if not wide and self._given is None:
            self.doubts.append(f"Phase 5 found no wide direction ({_step(ratio)}), so one head is assumed.")
        elif ratio < _LEAST_GAP:
            directions = "wide direction" if wide == 1 else "wide directions"
            said = f"after {wide} {directions} the spectrum has hardly a step ({_step(ratio)})"
            if gap_needed:
                raise PhaseFailedError("gap", f"{said}.")
            self.doubts.append(f"Phase 5 found no clear gap: {said}.")
        return span

    def _gap_measure(self, span: AttentionSpan) -> dict[str, float]:
        # one head that was given has no step to look for
        if span.gap is None or not (span.gap.wide or self._given is None):
            return {}
        return {"gap": min(span.gap.ratio, 1e300)}


def _step(ratio: float) -> str:
    return f"a factor of {ratio:.2f}" if np.isfinite(ratio) else "from zero on"
