"""The six-phase learner of Chen and Li: paper mode runs the paper's phases, practical mode ends at rounding error."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np

from attention import (
    AttentionLayer,
    ExampleOracle,
    Fit,
    GroundTruth,
    Outcome,
    Recorder,
    draw_examples,
)
from attention.evaluation import Verdict, verdict
from attention.inputs import Rng
from attention.learning import LearnerBase, Progress
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Real,
    checked,
)
from upper.floor import counting_floor
from upper.six_phase.common import Jobs, PhaseFailedError
from upper.six_phase.phase1_projection_sum import ProjectionSum, estimate_projection_sum
from upper.six_phase.phase2_affine_hull import AffineHull, sculpt_affine_hull
from upper.six_phase.phase3_refine_sum import SHARES, refine_by_consistency, refine_by_margin
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.phase6_heads import fit_heads
from upper.six_phase.phase6_net import DELTA, NetSearch, held_out_examples, search_net
from upper.six_phase.polytope import LARGEST_DIM

__all__ = ["Phases", "SixPhase"]

Found = TypeVar("Found", ProjectionSum, AffineHull, AttentionSpan, NetSearch)

_PAPER_ONLY = ("rounds", "body", "margin_over", "net_over")
# Before phase 5, m = "auto" is unknown; budgets are then for this many heads.
_HEADS_IF_AUTO = 3
# The share of rows that phase 2 accepts; with the crude sum, rows of a smaller share agree no better.
_FIRST_ACCEPT = 0.05
# The tolerance over the least one for which the body is not empty. In a thick body, the point of least norm is pulled
# towards zero, where no margin is large.
_NEARLY_LEAST = 1.1
_CONSISTENCY_EXAMPLES = 50_000  # per round of phase 3 in practical mode
_STEPS = {
    1: "sum of the projections",
    2: "sculpt the affine hull",
    3: "refine the sum",
    4: "sculpt again",
    5: "span of the attention matrices",
    6: "net of the span",
}


@dataclass(frozen=True, eq=False)
class Phases:
    """A fit together with everything the phases found.

    `reason` says why a phase failed, or what phase 6 reached. `doubts` lists other evidence against the result, such as
    an unclear gap or too few examples. `heads` is m, given or estimated. `failed` is the number of the phase that
    failed; None if none did or the phases do not apply. `sums` has the result of phase 1, then those of phase 3, one
    per round. `hulls` has that of phase 2 (paper mode), then those of phase 4. `span` is the result of phase 5, and
    `net` that of phase 6 in paper mode.
    """

    fit: Fit
    reason: str
    doubts: tuple[str, ...]
    heads: int
    failed: int | None
    sums: tuple[ProjectionSum, ...]
    hulls: tuple[AffineHull, ...]
    span: AttentionSpan | None
    net: NetSearch | None

    @property
    def explanation(self) -> str:
        """The result in sentences: which phase failed and why, or what phase 6 reached; and the doubts."""
        reason = f"Phase {self.failed} failed: {self.reason}" if self.failed else self.reason
        return " ".join([reason[:1].upper() + reason[1:], *self.doubts])

    def __repr__(self) -> str:
        return f"<Phases: {self.fit.outcome.name}, {self.heads} heads. {self.explanation}>"


@dataclass(frozen=True)
class Wish:
    """The number of examples that a phase would draw, and the fewest with which it can begin."""

    wanted: int
    least: int


def share_of_budget(
    wishes: Mapping[Any, Wish], phase: Any, budget: int | None, drawn: int = 0, *, use_all: bool = False
) -> int:
    """The examples that a phase may draw, if earlier phases have drawn `drawn` examples of the budget.

    `wishes` has the phases in their order; a budget of None has no limit. With `use_all`, the last phase takes all that
    is left.

    If the rest of the budget is enough for this and all later phases, the phase gets what it wants. Otherwise each
    phase gets the fewest with which it can begin. The remainder is divided in proportion to the square roots of their
    further wishes. In proportion to the wishes themselves, the cheap early phases would get too few, and all later
    phases inherit their errors.

    Examples
    --------
    >>> wishes = {"one": Wish(100, 10), "two": Wish(400, 0)}
    >>> share_of_budget(wishes, "one", 200), share_of_budget(wishes, "two", 200, 70)
    (71, 130)
    """
    phases = list(wishes)
    left = [wishes[one] for one in phases[phases.index(phase) :]]
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


@dataclass(frozen=True)
@checked
class SixPhase(LearnerBase):
    """The six-phase learner of Chen and Li.

    Parameters
    ----------
    m : int or "auto"
        The number of heads; "auto" takes it from the gap in the body's spectrum.
    mode : "practical" or "paper"
        Paper mode runs the paper's phases: large-margin examples in phase 3, a net in phase 6, no gradient and no
        Newton step; `margin_over="proxy", net_over="span"` is nearest to the paper. Practical mode makes the sum of
        projections consistent with the rows that it certifies, and ends with a fit within the span and Newton iterates.
    examples : int, optional
        Budget in examples. By default, each phase draws what it wants; given examples are all used.
    work : int, optional
        Paper mode: tuples of the net, refinements included, by default 500 000. Practical mode: passes over the
        examples of phase 6, by default 20 000.
    tolerance : float, optional
        In paper mode: the relative error to reach on held-out examples. The default is (kd)^(-m/2), that is (kd)^-m for
        the squared error. In practical mode: the residual at which to stop, by default 1e-14.
    rounds : int
        Paper mode: the number of rounds of phases 3 and 4.
    accept : float, optional
        The share of rows accepted in phase 4, see `sculpt_affine_hull`. By default .01 in practical mode; in paper
        mode .003, and .0002 where (m-1)(k-1) is above 1.
    body : "ellipsoid" or "polytope"
        Paper mode: the convex body, the polytope for d up to 20; see `sculpt`.
    margin_over : "body" or "proxy"
        Paper mode: the margin that phase 3 requires; see `refine_by_margin`.
    net_over : "hull" or "span"
        Paper mode: the set that the net of phase 6 covers. The net is exhaustive for m <= 2 and coarse for m = 3; see
        `search_net`.
    jobs : int, optional
        Threads, or -1 for one per core; one by default. The result does not depend on it, to the last bit.

    Notes
    -----
    The paper proves squared error (kd)^(-Omega(m)) in time (dk)^(O(m^3)) under its non-degeneracy conditions, for k at
    most logarithmic in d and m far below d. The constants here are our own. The squared relative errors measured in
    paper mode are 1e-6 to 3e-6 at (m,k,d) = (2,2,16), and 6e-5 to 9e-5 at (2,3,32). d = 8 is too small for the
    asymptotics: with margins over the proxy phase 3 fails; with margins over the body about half of the targets are
    learned. On hard instances a phase fails within the budget. Phases 1 to 5 are statistical queries; see
    `six_phase_queries`. Source: Chen and Li, "Provably learning a multi-head attention layer", arXiv 2402.04084.

    Examples
    --------
    >>> from attention import BooleanInputs, ExampleOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> fit = SixPhase(m=2).fit(ExampleOracle(layer, BooleanInputs(k=2, d=16), rng=1), rng=2)
    >>> fit.outcome.name
    'EXACT'
    """

    m: PositiveInt | Literal["auto"]
    mode: Literal["practical", "paper"] = "practical"
    examples: NonNegativeInt | None = None
    work: PositiveInt | None = None
    tolerance: NonNegativeFloat | None = None
    rounds: PositiveInt = 1
    accept: Annotated[float, Real(above=0, most=1)] | None = None
    body: Literal["ellipsoid", "polytope"] = "ellipsoid"
    margin_over: Literal["body", "proxy"] = "body"
    net_over: Literal["hull", "span"] = "hull"
    jobs: Jobs = None

    def __post_init__(self) -> None:
        for name in _PAPER_ONLY if self.mode == "practical" else ():
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                given = f"{name} is {getattr(self, name)!r} and mode 'practical'"
                raise ValueError(f"{given}: {name} is for mode 'paper' only, leave it out.")
        if self.m == "auto" and self.body == "polytope":
            raise ValueError(
                "m is 'auto' and body 'polytope': a body with a spectrum, 'ellipsoid', is needed."
            )

    def minimum_examples(self, k: int, d: int) -> int:
        """The fewest examples with which every phase can begin: the sum of what each phase needs at least."""
        return 1 if self._refusal(k, d) else sum(wish.least for wish in self._wishes(k, d).values())

    def run(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Phases:
        """Learn as `fit` does, and return everything that the phases found."""
        return self._found(oracle, *self._begin(oracle, rng, truth, progress))

    def _prepare(self, oracle: ExampleOracle) -> None:
        if self.body == "polytope" and oracle.d > LARGEST_DIM:
            raise ValueError(
                f"The polytope has d = {oracle.d}: at most {LARGEST_DIM} is feasible; use body='ellipsoid'."
            )

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        return self._found(oracle, recorder, budget, rng).fit

    def _found(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Phases:
        why = self._refusal(oracle.k, oracle.d)
        run = _Run(self, oracle, recorder, {} if why else self._wishes(oracle.k, oracle.d), budget)
        if why:
            recorder.step("Not applicable", layer=run.provisional())
            return run.ended(
                run.provisional(), Verdict(Outcome.NOT_APPLICABLE), f"the six phases do not apply: {why}."
            )
        try:
            return self._six_phases(run, rng)
        except PhaseFailedError as failure:
            return run.ended(run.provisional(), Verdict(failure.outcome), failure.explanation)

    def _six_phases(self, run: "_Run", rng: np.random.Generator) -> Phases:
        """The six phases; practical mode skips phase 2, and has its own methods for phases 3 and 6."""
        paper, oracle, jobs = self.mode == "paper", run.oracle, self.jobs
        wide = None if self.m == "auto" else self.m - 1

        # 1. estimate the sum of the projections
        crude = run.record(estimate_projection_sum(oracle, run.begin(1), jobs=jobs), run.sums)
        crude.require_usable()
        w = crude.w

        def sculpt(accept: float, examples: int) -> None:
            hull = sculpt_affine_hull(
                oracle, w, wide=wide, accept=accept, examples=examples, body=self.body, jobs=jobs
            )
            run.record(hull, run.hulls).require_usable(*run.hulls[-2:-1])

        # 2. sculpt the affine hull; in practical mode phase 3 certifies by itself
        if paper:
            sculpt(_FIRST_ACCEPT, run.begin(2))

        for number in range(1, self.rounds + 1):
            # 3. refine the sum
            examples = run.begin(3, number)
            if paper:
                over, hull = self.margin_over, run.hulls[-1]
                body = hull.body
                if over == "proxy":
                    body = replace(body, tolerance=_NEARLY_LEAST * body.misfit_at_centre)
                refined = refine_by_margin(
                    oracle, body, wide=hull.wide, examples=examples, over=over, jobs=jobs
                )
            else:
                refined = refine_by_consistency(oracle, w, examples=examples // len(SHARES), jobs=jobs)
            w = run.record(refined, run.sums).w
            # 4. sculpt again
            sculpt(self._share(oracle.k), run.begin(4, number))

        # 5. extract the span of the heads
        run.begin(5)
        span = run.record(attention_span(run.hulls[-1].body, run.hulls[-1].wide), run.spans)
        if paper and span.directions.size and not span.is_clear:
            raise PhaseFailedError(Outcome.NO_SPECTRAL_GAP, f"it {span.doubt}")
        if span.doubt:
            run.doubts.append(f"Phase 5 {span.doubt}")

        # 6. search the span for the heads
        examples = run.begin(6)
        if not paper:
            tolerance = 1e-14 if self.tolerance is None else self.tolerance
            found = fit_heads(
                oracle,
                span,
                examples=examples,
                work=self._work,
                tolerance=tolerance,
                rng=rng,
                recorder=run.recorder,
            )
            judged = found.verdict
            reason = f"the fit ended with relative error {judged.held_out_error:.2g} on held-out examples."
            alone = judged.outcome.succeeded and found.by_newton and not span.is_clear
            return run.ended(found.layer, judged, reason, alone="Newton" if alone else "")
        needed = 2 - (-2 * run.heads * oracle.d // oracle.k)
        if examples < needed:
            few = f"{examples} examples are left for the net, and {run.heads} heads need {needed}."
            raise PhaseFailedError(Outcome.EXAMPLES_SPENT, few)
        x, y = draw_examples(oracle, examples)
        net = search_net(x, y, span, heads=run.heads, over=self.net_over, most=self._work)
        run.record(net, run.nets)
        error, goal = math.sqrt(net.error), self.tolerance
        if goal is None:
            goal = (oracle.k * oracle.d) ** (-run.heads / 2)
        judged = verdict(
            fitted=error,
            held_out=error,
            evidence=net.evidence,
            otherwise=Outcome.NET_TOO_COARSE,
            tolerance=goal,
        )
        reason = (
            f"the best of {net.candidates} candidates has relative error {error:.2g} on held-out examples, and "
            f"{goal:.2g} is asked for."
        )
        return run.ended(net.layer, judged, reason)

    def _wishes(self, k: int, d: int) -> dict[tuple[int, int], Wish]:
        """The examples that each phase would draw in each round, in order; chosen here by the measured errors."""
        m, pairs = _HEADS_IF_AUTO if self.m == "auto" else self.m, k * (k - 1)
        least = 8 + d * d // pairs
        hull = Wish(int(9 * d * d / (self._share(k) * pairs)), least)
        if self.mode == "practical":
            floor = counting_floor(heads=m, tokens=k, dim=d)
            return {
                (1, 1): Wish(1000 * d, 8),
                (3, 1): Wish(_CONSISTENCY_EXAMPLES * len(SHARES), (2 * d // k + 1) * len(SHARES)),
                (4, 1): hull,
                (6, 1): Wish(4 * floor + 8, floor + 2),
            }
        # rows with a margin of 6 for the proxy are rarer than rows with a margin of 3 for the whole body
        margin = Wish({"body": 6000, "proxy": 30_000}[self.margin_over] * d, 2 * d // k + 1)
        select, judge = held_out_examples(self._work, DELTA), held_out_examples(1, DELTA / 2)
        regress = -(-2 * m * d // k)
        wishes = {(1, 1): Wish(4000 * d, 8), (2, 1): Wish(int(9 * d * d / (_FIRST_ACCEPT * pairs)), least)}
        for number in range(1, self.rounds + 1):
            wishes |= {(3, number): margin, (4, number): hull}
        return wishes | {(6, 1): Wish(select + judge + 8 * regress, 2 + regress)}

    @property
    def _work(self) -> int:
        return self.work or {"paper": 500_000, "practical": 20_000}[self.mode]

    def _share(self, k: int) -> float:
        """The share of rows that phase 4 accepts."""
        if self.accept is not None:
            return self.accept
        if self.mode == "practical":
            return 0.01
        return 0.0002 if self.m != "auto" and (self.m - 1) * (k - 1) > 1 else 0.003

    def _refusal(self, k: int, d: int) -> str | None:
        """Why the phases cannot run at all; None if they can."""
        if k == 1:
            return "one token has no attention pattern to learn"
        if k >= d:
            return f"k is {k} and d is {d}, and k < d is needed to certify agreement"
        if self.m != "auto" and self.m >= d * d:
            return f"{self.m} heads have no affine hull that is thin in the d^2 = {d * d} dimensions of their matrices"
        return None


@dataclass(eq=False)
class _Run:
    """The state of a run: the current phase, the results so far, and the trace."""

    learner: SixPhase
    oracle: ExampleOracle
    recorder: Recorder
    wishes: Mapping[tuple[int, int], Wish]
    budget: int | None
    phase: int = 1
    round: int | None = None
    doubts: list[str] = field(default_factory=list)
    sums: list[ProjectionSum] = field(default_factory=list)
    hulls: list[AffineHull] = field(default_factory=list)
    spans: list[AttentionSpan] = field(default_factory=list)
    nets: list[NetSearch] = field(default_factory=list)

    @property
    def heads(self) -> int:
        """The number m of heads, as given, or by the gap in the spectrum of the latest body; 1 before a body exists."""
        if self.learner.m != "auto":
            return self.learner.m
        return 1 + (self.hulls[-1].wide if self.hulls else 0)

    def begin(self, phase: int, number: int = 1) -> int:
        """Begin a phase of a round, and return the number of examples that it may draw."""
        self.phase, self.round = phase, number if phase in (3, 4) and self.learner.rounds > 1 else None
        if (phase, number) not in self.wishes:
            return 0
        use_all = self.learner.examples is None
        return share_of_budget(
            self.wishes, (phase, number), self.budget, self.recorder.examples, use_all=use_all
        )

    def record(self, found: Found, kept: list[Found]) -> Found:
        """Keep what a phase found, and record it as a step of the trace."""
        first_hull = kept is self.hulls and not kept
        kept.append(found)
        layer = found.layer if isinstance(found, NetSearch) else None
        against = None if isinstance(found, NetSearch) else found.errors
        self.tell(_STEPS[2 if first_hull else self.phase], found.measures, layer=layer, against=against)
        return found

    def tell(
        self,
        what: str,
        measures: Mapping[str, float | int],
        *,
        layer: AttentionLayer | None = None,
        against: Callable[[AttentionLayer], Mapping[str, float]] | None = None,
    ) -> None:
        """Record a step of the trace; without a layer, the provisional layer is recorded."""
        where = "" if self.round is None else f", round {self.round}"
        if layer is None and self.recorder.measuring:
            layer = self.provisional()
        name, others = f"Phase {self.phase}: {what}{where}", cast(Any, measures)
        self.recorder.step(name, layer=layer, against=against, phase=self.phase, round=self.round, **others)

    def provisional(self) -> AttentionLayer:
        """The best layer so far: that of the net, or one with the proxy and a share of the sum in every head."""
        if self.nets:
            return self.nets[-1].layer
        m, d = self.heads, self.oracle.d
        theta = self.hulls[-1].body.min_norm_point() if self.hulls else np.zeros((d, d))
        w = self.sums[-1].w / m if self.sums else np.zeros((d, d))
        return AttentionLayer(theta=np.stack([theta] * m), w=np.stack([w] * m))

    def ended(self, layer: AttentionLayer, judged: Verdict, reason: str, *, alone: str = "") -> Phases:
        """The fit and the results so far; after too few examples, also the number that the phases would draw."""
        outcome = judged.outcome
        wanted = sum(wish.wanted for wish in self.wishes.values())
        too_few = self.budget is not None and self.budget < wanted and not outcome.succeeded
        failed = not outcome.succeeded and outcome is not Outcome.NOT_APPLICABLE
        if too_few:
            each = ", ".join(f"{wish.wanted} for phase {phase}" for (phase, _), wish in self.wishes.items())
            self.doubts.append(
                f"The phases had {self.budget} examples of the {wanted} they would draw: {each}."
            )
            if outcome in (Outcome.OVERFITTED, Outcome.LOCAL_MINIMUM, Outcome.NOTHING_LEARNED):
                ran_out = self.oracle.remaining == 0
                spent = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
                judged = replace(judged, outcome=spent)
        return Phases(
            fit=self.recorder.fit(
                judged, layer=layer, alone=alone, examples_needed=wanted if too_few else None
            ),
            reason=reason,
            doubts=tuple(self.doubts),
            heads=self.heads,
            failed=self.phase if failed else None,
            sums=tuple(self.sums),
            hulls=tuple(self.hulls),
            span=self.spans[0] if self.spans else None,
            net=self.nets[0] if self.nets else None,
        )
