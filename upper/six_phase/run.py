"""One run of the six phases: the examples each may draw, what each found, and the trace."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import verdict
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.phase1_projection_sum import ProjectionSum
from upper.six_phase.phase2_affine_hull import AffineHull
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.phase6_net import NetSearch

__all__ = ["Phases", "Run", "Wish", "share_of_budget"]

# A standard error above this share of the estimate leaves nothing to go on with.
_LARGEST_SHARE = 0.5
# What the examples of a wish are for, by the first word of its name.
_PARTS = {
    "sum": "the sum of the projections",
    "refinement": "refining it",
    "hull": "the affine hull",
    "heads": "phase 6",
}


@dataclass(frozen=True, eq=False)
class Phases:
    """A fit together with everything the phases found.

    Attributes
    ----------
    fit : Fit
        The fit.
    reason : str
        Why the phase failed, or what phase 6 reached, with figures.
    doubts : tuple of str
        What else speaks against the result, in sentences: an unclear gap, too few examples.
    heads : int
        m: given, or estimated.
    failed : int or None
        The number of the phase that failed; None if none did, and where the phases do not apply.
    projection_sum : ProjectionSum or None
        Phase 1's.
    hulls : tuple of AffineHull
        In paper mode phase 2's and then phase 4's, one a round; in practical mode phase 4's only.
    refinements : tuple of ProjectionSum
        Phase 3's, one a round.
    span : AttentionSpan or None
        Phase 5's.
    net : NetSearch or None
        Phase 6's in paper mode.
    """

    fit: Fit
    reason: str
    doubts: tuple[str, ...]
    heads: int
    failed: int | None
    projection_sum: ProjectionSum | None
    hulls: tuple[AffineHull, ...]
    refinements: tuple[ProjectionSum, ...]
    span: AttentionSpan | None
    net: NetSearch | None

    @property
    def explanation(self) -> str:
        """How it ended, in sentences: which phase failed and why, or what phase 6 reached, and the doubts."""
        failed = f"Phase {self.failed} failed: " if self.failed else ""
        return " ".join([failed + self.reason, *self.doubts])

    @cached_property
    def spans(self) -> tuple[AttentionSpan, ...]:
        """The span of each of `hulls`; the last is `span`, where phase 5 was reached."""
        spans = [attention_span(hull.body, hull.wide) for hull in self.hulls[: -1 if self.span else None]]
        return (*spans, self.span) if self.span else tuple(spans)

    def __repr__(self) -> str:
        return f"<Phases: {self.fit.outcome.name}, {self.heads} heads. {self.explanation}>"


@dataclass(frozen=True)
class Wish:
    """How many examples a phase would draw, and the least with which it can begin."""

    wanted: int
    least: int


def share_of_budget(
    wishes: Mapping[str, Wish], name: str, budget: int | None, drawn: int = 0, *, use_all: bool = False
) -> int:
    """What the phase `name` may draw of a budget of which the phases before it have drawn `drawn` examples.

    `wishes` are the phases in their order; a budget of None has no end. With `use_all` the last takes all that is left.

    Everything it wants if the rest of the budget is enough for all that are left. Otherwise each gets the least
    with which it can begin, and of what remains a share in proportion to the square root of what more it wants: in
    proportion to the wishes themselves the cheap phases, whose errors all later ones inherit, would get too few.

    Examples
    --------
    >>> wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    >>> share_of_budget(wishes, "one", 200), share_of_budget(wishes, "two", 200, 70)
    (71, 130)
    """
    names = list(wishes)
    left = [wishes[one] for one in names[names.index(name) :]]
    own = left[0]
    if budget is None:
        return own.wanted
    rest = budget - drawn
    if rest >= sum(wish.wanted for wish in left):
        return rest if use_all and len(left) == 1 else own.wanted
    left_over = rest - sum(wish.least for wish in left)
    weights = [math.sqrt(max(wish.wanted - wish.least, 0)) for wish in left]
    if left_over <= 0 or not weights[0]:
        return max(0, min(own.least, rest))
    return min(own.wanted, own.least + int(left_over * weights[0] / sum(weights)))


@dataclass(eq=False)
class Run:
    """One run as it goes on: what was found so far, the phase under way, and the trace."""

    oracle: ExampleOracle
    recorder: Recorder
    wishes: Mapping[str, Wish]
    budget: int | None
    given: int | None
    use_all: bool
    phase: int = 1
    round: int | None = None
    doubts: list[str] = field(default_factory=list)
    projection_sum: ProjectionSum | None = None
    hulls: list[AffineHull] = field(default_factory=list)
    refinements: list[ProjectionSum] = field(default_factory=list)
    span: AttentionSpan | None = None
    net: NetSearch | None = None

    @property
    def wide_if_given(self) -> int | None:
        """One less than m if m was given; otherwise every sculpting finds it."""
        return None if self.given is None else self.given - 1

    @property
    def heads(self) -> int:
        """The number m of heads: as given, or by the gap of the newest body's spectrum; 1 before there is one."""
        if self.given is not None:
            return self.given
        return 1 + (self.hulls[-1].wide if self.hulls else 0)

    def allowed(self, name: str) -> int:
        """The examples that the part of the plan called `name` may draw now."""
        return share_of_budget(self.wishes, name, self.budget, self.recorder.examples, use_all=self.use_all)

    def require_regression(self, examples: int) -> None:
        """Raise a `PhaseFailedError` if the examples are too few to regress the projections on."""
        needed = 2 - (-2 * self.heads * self.oracle.d // self.oracle.k)
        if examples < needed:
            said = f"{examples} examples are left for the net, and {self.heads} heads need {needed}."
            raise PhaseFailedError(Outcome.EXAMPLES_SPENT, said)

    def provisional(self) -> AttentionLayer:
        """What could be predicted by now: every head the proxy of the average head, the projections shared out."""
        m, d = self.heads, self.oracle.d
        theta = self.hulls[-1].body.min_norm_point() if self.hulls else np.zeros((d, d))
        newest = self.refinements[-1] if self.refinements else self.projection_sum
        w = np.zeros((d, d)) if newest is None else newest.w / m
        return AttentionLayer(theta=np.stack([theta] * m), w=np.stack([w] * m))

    def tell(
        self,
        what: str,
        measures: Mapping[str, float | int],
        *,
        layer: AttentionLayer | None = None,
        against: Callable[[AttentionLayer], Mapping[str, float]] | None = None,
    ) -> None:
        """Record a step of the trace, with the provisional layer where it has none of its own."""
        where = "" if self.round is None else f", round {self.round}"
        if layer is None and self.recorder.measuring:
            layer = self.provisional()
        self.recorder.step(
            f"Phase {self.phase}: {what}{where}",
            layer=layer,
            against=against,
            phase=self.phase,
            round=self.round,
            **cast(Any, measures),
        )

    def record_sum(self, found: ProjectionSum) -> ProjectionSum:
        """Record what phase 1 found; fail if its standard error is too large."""
        self.projection_sum = found
        self._tell_sum("sum of the projections", found)
        share = found.measures["standard_error"]
        said = "is zero" if math.isinf(share) else f"has a standard error of {share:.2f} of its own size"
        if share > _LARGEST_SHARE:
            raise PhaseFailedError(
                Outcome.NO_PROJECTION_SUM, f"the estimate from {found.examples} examples {said}."
            )
        return found

    def record_hull(self, found: AffineHull) -> AffineHull:
        """Record what phase 2 or 4 found; fail if it cannot be used."""
        before = self.hulls[-1] if self.hulls else None
        self.hulls.append(found)

        def errors(layer: AttentionLayer) -> dict[str, float]:
            inside = [found.body.contains(theta) for theta in layer.theta]
            return {
                "agreement_error": found.contrasts.error(layer),
                "share_inside": float(np.mean(inside)),
                **attention_span(found.body, found.wide).errors(layer),
            }

        self.tell("sculpt again" if before else "sculpt the affine hull", found.measures, against=errors)
        found.require_usable(before)
        return found

    def record_refinement(self, found: ProjectionSum) -> ProjectionSum:
        """Record what phase 3 found."""
        self.refinements.append(found)
        self._tell_sum("refine the sum", found)
        return found

    def _tell_sum(self, what: str, found: ProjectionSum) -> None:
        self.tell(what, found.measures, against=lambda layer: {"sum_error": found.error(layer)})

    def record_span(self, found: AttentionSpan, *, must_be_clear: bool) -> AttentionSpan:
        """Record what phase 5 found; fail if the spectrum has no clear gap where one is needed."""
        self.span = found
        self.tell("span of the attention matrices", found.measures, against=found.errors)
        if must_be_clear and found.directions.size and not found.is_clear:
            raise PhaseFailedError(Outcome.NO_SPECTRAL_GAP, f"it {found.doubt}")
        if found.doubt:
            self.doubts.append(f"Phase 5 {found.doubt}")
        return found

    def ended_by_net(self, net: NetSearch, tolerance: float | None) -> Phases:
        """Phase 6 is done in paper mode."""
        self.net = net
        self.tell("net of the span", net.measures, layer=net.layer)
        if tolerance is None:
            tolerance = (self.oracle.k * self.oracle.d) ** (-self.heads / 2)
        error = math.sqrt(net.error)
        best = f"best of {net.candidates} candidates has relative error {error:.2g} on held-out examples"
        if error > tolerance:
            raise PhaseFailedError(Outcome.NET_TOO_COARSE, f"the {best}, and {tolerance:.2g} is asked for.")
        outcome = verdict(
            fitted=error,
            held_out=error,
            evidence=lambda: net.evidence,
            otherwise=Outcome.NET_TOO_COARSE,
            tolerance=tolerance,
        )
        return self.ended(net.layer, outcome, f"The {best}, {net.error:.2g} when squared.")

    def ended_by_fit(
        self, layer: AttentionLayer, outcome: Outcome, error: float, *, by_newton: bool
    ) -> Phases:
        """Phase 6 is done in practical mode."""
        how = "Phase 6" if outcome.succeeded else "it"
        why = ""
        if outcome is Outcome.RESIDUAL_FLOOR:
            why = f", from two starts: noise of that size in the labels, or more heads than {self.heads}"
        said = f"{how} ended with relative error {error:.2g} on held-out examples{why}."
        # the phases before found no span
        alone = outcome.succeeded and by_newton and self.span is not None and not self.span.is_clear
        return self.ended(layer, outcome, said, alone="Newton" if alone else "")

    def failed(self, failure: PhaseFailedError) -> Phases:
        """A phase failed."""
        layer = self.net.layer if self.net else self.provisional()
        return self.ended(layer, failure.outcome, failure.explanation)

    def ended(self, layer: AttentionLayer, outcome: Outcome, reason: str, *, alone: str = "") -> Phases:
        """The fit and what was found; after too few examples also how many the phases would draw."""
        wanted = sum(wish.wanted for wish in self.wishes.values())
        too_few = self.budget is not None and self.budget < wanted and not outcome.succeeded
        failed = not outcome.succeeded and outcome is not Outcome.NOT_APPLICABLE
        if too_few:
            each = ", ".join(
                f"{wish.wanted} for {_PARTS[name.split()[0]]}" for name, wish in self.wishes.items()
            )
            self.doubts.append(
                f"The phases had {self.budget} examples of the {wanted} they would draw: {each}."
            )
            if outcome in (Outcome.OVERFITTED, Outcome.LOCAL_MINIMUM, Outcome.NOTHING_LEARNED):
                ran_out = self.oracle.remaining == 0
                outcome = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
        return Phases(
            fit=self.recorder.fit(
                outcome, layer=layer, alone=alone, examples_needed=wanted if too_few else None
            ),
            reason=reason,
            doubts=tuple(self.doubts),
            heads=self.heads,
            failed=self.phase if failed else None,
            projection_sum=self.projection_sum,
            hulls=tuple(self.hulls),
            refinements=tuple(self.refinements),
            span=self.span,
            net=self.net,
        )
