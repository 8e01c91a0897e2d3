"""The six-phase learner of Chen and Li: paper mode keeps to the phases, practical mode ends at rounding error."""

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
    check_budget,
    draw_examples,
)
from attention.evaluation import verdict
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Real,
    checked,
    random_generator,
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
# m is not known before phase 5: budgets are made for so many heads
_HEADS_IF_AUTO = 3
# The share of rows that phase 2 accepts: with the crude sum a smaller one agrees no better.
_FIRST_ACCEPT = 0.05
# Times the least tolerance at which the body is not empty: the point of least norm of a thick body is pulled towards
# zero, where no margin is large.
_NEARLY_LEAST = 1.1
_CONSISTENCY_EXAMPLES = 50_000  # a round of phase 3 in practical mode
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

    `reason` says why a phase failed, or what phase 6 reached; `doubts` what else speaks against the result: an unclear
    gap, too few examples. `heads` is m, given or estimated, and `failed` the number of the phase that failed, None if
    none did or the phases do not apply. `sums` are phase 1's and then phase 3's, one a round; `hulls` are phase 2's
    (paper mode) and then phase 4's; `span` is phase 5's, and `net` phase 6's in paper mode.
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
        """How it ended, in sentences: which phase failed and why, or what phase 6 reached, and the doubts."""
        reason = f"Phase {self.failed} failed: {self.reason}" if self.failed else self.reason
        return " ".join([reason[:1].upper() + reason[1:], *self.doubts])

    def __repr__(self) -> str:
        return f"<Phases: {self.fit.outcome.name}, {self.heads} heads. {self.explanation}>"


@dataclass(frozen=True)
class Wish:
    """How many examples a phase would draw, and the least with which it can begin."""

    wanted: int
    least: int


def share_of_budget(
    wishes: Mapping[Any, Wish], phase: Any, budget: int | None, drawn: int = 0, *, use_all: bool = False
) -> int:
    """What a phase may draw of a budget of which the phases before it have drawn `drawn` examples.

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
class SixPhase:
    """The six-phase learner of Chen and Li.

    Parameters
    ----------
    m : int or "auto"
        Heads; "auto" takes them from the gap in the body's spectrum.
    mode : "practical" or "paper"
        Paper mode runs the paper's phases: large-margin examples in phase 3, a net in phase 6, no gradient and no
        Newton step; `margin_over="proxy", net_over="span"` is nearest to the paper. Practical mode makes the sum of
        projections consistent with the rows it certifies, and ends with a fit within the span and Newton iterates.
    examples : int, optional
        Budget in examples; by default what each phase wants, and all that are given.
    work : int, optional
        Paper mode: tuples of the net, refinements included, by default 500 000. Practical mode: passes over the
        examples of phase 6, by default 20 000.
    tolerance : float, optional
        Relative error to reach: in paper mode on held-out examples, by default (kd)^(-m/2), that is (kd)^-m for the
        squared error; in practical mode the residual at which to stop, by default 1e-14.
    rounds : int
        Paper mode: rounds of phases 3 and 4.
    accept : float, optional
        The share of rows accepted in phase 4, see `sculpt_affine_hull`. By default .01 in practical mode; in paper
        mode .003, and .0002 where (m-1)(k-1) is above 1.
    body : "ellipsoid" or "polytope"
        Paper mode: the convex body, the polytope for d up to 20; see `sculpt`.
    margin_over : "body" or "proxy"
        Paper mode: which margin phase 3 asks for; see `refine_by_margin`.
    net_over : "hull" or "span"
        Paper mode: what phase 6 makes a net of, exhaustive for m <= 2 and coarse for 3; see `search_net`.
    jobs : int, optional
        Threads, or -1 for one a core; one by default. No bit depends on it.

    Notes
    -----
    Proved in the paper: under its non-degeneracy conditions, in time (dk)^(O(m^3)), squared error (kd)^(-Omega(m)). Our
    constants are our own. Paper mode, measured squared relative errors: 1e-6 to 3e-6 at (m,k,d) = (2,2,16), 6e-5 to
    9e-5 at (2,3,32). At d = 8 the asymptotics have not set in: with margins over the proxy phase 3 fails, over the body
    about half of the targets are learned. On hard instances a phase fails within the budget. Phases 1 to 5 are
    statistical queries; see `six_phase_queries`.
    Source: Chen and Li, "Provably learning a multi-head attention layer", arXiv 2402.04084.

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
        """The fewest with which every phase can begin: the sum of the least that each needs."""
        return 1 if self._refusal(k, d) else sum(wish.least for wish in self._wishes(k, d).values())

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from the oracle.

        A ValueError if the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        return self.run(oracle, rng=rng, truth=truth, progress=progress).fit

    def run(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Phases:
        """The same as `fit`, with everything that the phases found."""
        k, d = oracle.k, oracle.d
        if self.body == "polytope" and d > LARGEST_DIM:
            raise ValueError(
                f"The polytope has d = {d}: at most {LARGEST_DIM} is feasible; use body='ellipsoid'."
            )
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget, why = check_budget(self, oracle), self._refusal(k, d)
        run = _Run(self, oracle, recorder, {} if why else self._wishes(k, d), budget)
        if why:
            recorder.step("Not applicable", layer=run.provisional())
            return run.ended(
                run.provisional(), Outcome.NOT_APPLICABLE, f"the six phases do not apply: {why}."
            )
        try:
            return self._six_phases(run, random_generator(rng))
        except PhaseFailedError as failure:
            return run.ended(run.provisional(), failure.outcome, failure.explanation)

    def _six_phases(self, run: "_Run", rng: np.random.Generator) -> Phases:
        """The six phases; practical mode skips the second, and does the third and the sixth in its own way."""
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
                oracle, span, examples=examples, work=self._work, tolerance=tolerance, rng=rng, tell=run.tell
            )
            reason = f"the fit ended with relative error {found.error:.2g} on held-out examples."
            alone = found.outcome.succeeded and found.by_newton and not span.is_clear
            return run.ended(found.layer, found.outcome, reason, alone="Newton" if alone else "")
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
        outcome = verdict(
            fitted=error,
            held_out=error,
            evidence=lambda: net.evidence,
            otherwise=Outcome.NET_TOO_COARSE,
            tolerance=goal,
        )
        reason = (
            f"the best of {net.candidates} candidates has relative error {error:.2g} on held-out examples, and "
            f"{goal:.2g} is asked for."
        )
        return run.ended(net.layer, outcome, reason)

    def _wishes(self, k: int, d: int) -> dict[tuple[int, int], Wish]:
        """What each phase would draw in each round, in their order; derived here, by what the measured errors need."""
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
        # a margin of 6 under the proxy is rarer than one of 3 under all of the body
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
        """Why the phases cannot be run at all."""
        if k == 1:
            return "one token has no attention pattern to learn"
        if k >= d:
            return f"k is {k} and d is {d}, and k < d is needed to certify agreement"
        if self.m != "auto" and self.m >= d * d:
            return f"{self.m} heads have no affine hull that is thin in the d^2 = {d * d} dimensions of their matrices"
        return None


@dataclass(eq=False)
class _Run:
    """One run as it goes on: the phase under way, what was found so far, and the trace."""

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
        """The number m of heads: as given, or by the gap of the newest body's spectrum; 1 before there is one."""
        if self.learner.m != "auto":
            return self.learner.m
        return 1 + (self.hulls[-1].wide if self.hulls else 0)

    def begin(self, phase: int, number: int = 1) -> int:
        """Begin a phase in its round, and return the examples that it may draw."""
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
        """Record a step of the trace, with the provisional layer where it has none of its own."""
        where = "" if self.round is None else f", round {self.round}"
        if layer is None and self.recorder.measuring:
            layer = self.provisional()
        name, others = f"Phase {self.phase}: {what}{where}", cast(Any, measures)
        self.recorder.step(name, layer=layer, against=against, phase=self.phase, round=self.round, **others)

    def provisional(self) -> AttentionLayer:
        """What could be predicted by now: the net's layer, or in every head the proxy and a share of the sum."""
        if self.nets:
            return self.nets[-1].layer
        m, d = self.heads, self.oracle.d
        theta = self.hulls[-1].body.min_norm_point() if self.hulls else np.zeros((d, d))
        w = self.sums[-1].w / m if self.sums else np.zeros((d, d))
        return AttentionLayer(theta=np.stack([theta] * m), w=np.stack([w] * m))

    def ended(self, layer: AttentionLayer, outcome: Outcome, reason: str, *, alone: str = "") -> Phases:
        """The fit and what was found; after too few examples also how many the phases would draw."""
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
                outcome = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
        return Phases(
            fit=self.recorder.fit(
                outcome, layer=layer, alone=alone, examples_needed=wanted if too_few else None
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
