"""The six-phase learner of Chen and Li: paper mode runs the paper's phases, practical mode ends at rounding error."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention.evaluation import Verdict, verdict
from attention.learning import LearnerBase
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, Real, checked
from upper.floor import counting_floor
from upper.six_phase.common import PhaseFailedError, Wish, share_of_budget
from upper.six_phase.phase2_affine_hull import AffineHull, sculpt_affine_hull
from upper.six_phase.phase5_span import AttentionSpan, attention_span
from upper.six_phase.phase6_heads import fit_heads
from upper.six_phase.phase6_net import Net, NetSearch, held_out_examples, search_net
from upper.six_phase.phases1_3_projection_sum import (
    SHARES,
    ProjectionSum,
    estimate_projection_sum,
    refine_by_consistency,
    refine_by_margin,
)

Result = TypeVar("Result", ProjectionSum, AffineHull, AttentionSpan, NetSearch)

_PAPER_ONLY = ("margin_over", "net_over")


@dataclass(frozen=True)
class _Draws:
    """The examples that phases draw by default and the shares of rows that they accept, by measured errors."""

    #: phase 1, per coordinate. At d = 16 the standard error is .018 in paper mode and .036 in practical mode, where the
    #: bias is .12
    crude_sum: Mapping[str, int] = field(default_factory=lambda: {"paper": 4000, "practical": 1000})
    #: phase 2: with the crude sum, rows of a smaller share agree no better
    crude_share: float = 0.05
    #: phase 3 in paper mode, per coordinate: rows with a margin of 6 for the proxy are rarer than rows with a margin of
    #: 3 for the whole body
    margin: Mapping[str, int] = field(default_factory=lambda: {"body": 6000, "proxy": 30_000})
    #: phase 3 in practical mode, in each round: the error of the sum then falls from .088 to .0004 at (2,2,32)
    consistency: int = 50_000
    #: phases 2 and 4: examples over the fewest that the share allows for d^2 equations. At (2,2,16), 6 d^2 equations
    #: give a span to 2 %, and 2 d^2 one three times worse; the rest is a margin for the share
    equations: int = 9
    #: the tolerance of the body over the least one, for margins over the proxy: in a thick body the point of least norm
    #: is pulled towards zero, where no margin is large
    nearly_least: float = 1.1
    heads_if_auto: int = 3  #: before phase 5, m = "auto" is unknown; budgets are then for this many heads


_DRAWS = _Draws()


@dataclass(frozen=True)
@checked
class SixPhase(LearnerBase):
    """The six-phase learner of Chen and Li.

    Parameters
    ----------
    heads : int or "auto"
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
    accept : float, optional
        The share of rows accepted in phase 4, see `sculpt_affine_hull`. By default .01 in practical mode; in paper
        mode .003, and .0002 where (m-1)(k-1) is above 1.
    margin_over : "body" or "proxy"
        Paper mode: the margin that phase 3 requires; see `refine_by_margin`.
    net_over : "hull" or "span"
        Paper mode: the set that the net of phase 6 covers. The net is exhaustive for m <= 2 and coarse for m = 3; see
        `search_net`.

    Notes
    -----
    `Fit.details` is a `SixPhases`, with what every phase found.

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
    >>> fit = SixPhase(heads=2).fit(ExampleOracle(layer, BooleanInputs(tokens=2, dim=16), rng=1), rng=2)
    >>> fit.outcome.name
    'EXACT'
    """

    heads: PositiveInt | Literal["auto"]
    mode: Literal["practical", "paper"] = "practical"
    examples: NonNegativeInt | None = None
    work: PositiveInt | None = None
    tolerance: NonNegativeFloat | None = None
    accept: Annotated[float, Real(above=0, most=1)] | None = None
    margin_over: Literal["body", "proxy"] = "body"
    net_over: Literal["hull", "span"] = "hull"

    def __post_init__(self) -> None:
        for name in _PAPER_ONLY if self.mode == "practical" else ():
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                given = f"{name} is {getattr(self, name)!r} and mode 'practical'"
                raise ValueError(f"{given}: {name} is for mode 'paper' only, leave it out.")

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """The fewest examples with which every phase can begin: the sum of what each phase needs at least."""
        return (
            1
            if self._refusal(tokens, dim)
            else sum(wish.least for wish in self._wishes(tokens, dim).values())
        )

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        why = self._refusal(oracle.tokens, oracle.dim)
        wishes = {} if why else self._wishes(oracle.tokens, oracle.dim)
        begun = SixPhases(self.mode, 1 if self.heads == "auto" else self.heads)
        run = _Run(oracle, recorder, wishes, budget, self.examples is None, begun)
        if why:
            recorder.step("Not applicable", layer=run.provisional())
            reason = f"the six phases do not apply: {why}."
            return run.ended(run.provisional(), Verdict(Outcome.NOT_APPLICABLE), reason)
        try:
            span = self._span(run)
            return self._net(run, span) if self.mode == "paper" else self._fit_within(run, span, rng)
        except PhaseFailedError as failure:
            return run.ended(run.provisional(), Verdict(failure.outcome), failure.explanation)

    def _span(self, run: "_Run") -> AttentionSpan:
        """Phases 1 to 5; practical mode has no phase 2, as its phase 3 certifies rows itself."""
        oracle, wide = run.oracle, None if self.heads == "auto" else self.heads - 1
        # 1. a crude estimate of sum_i W_i
        crude = estimate_projection_sum(oracle, run.begin(1))
        run.record("sum of the projections", "crude_sum", crude).require_usable()

        # 2. the body K around the affine hull of the Theta_i
        before, n = None, run.begin(2)
        if self.mode == "paper":
            before = sculpt_affine_hull(oracle, crude.w, wide=wide, accept=_DRAWS.crude_share, examples=n)
            run.record("sculpt the affine hull", "crude_hull", before).require_usable()

        # 3. a better estimate of the sum, in paper mode from rows of large margin
        n = run.begin(3)
        if before is None:
            refined = refine_by_consistency(oracle, crude.w, examples=n // len(SHARES))
        else:
            body = before.body
            if self.margin_over == "proxy":
                body = replace(body, tolerance=_DRAWS.nearly_least * body.misfit_at_centre)
            refined = refine_by_margin(oracle, body, examples=n, over=self.margin_over)
        run.record("refine the sum", "refined_sum", refined)

        # 4. a thinner body K
        n = run.begin(4)
        hull = sculpt_affine_hull(oracle, refined.w, wide=wide, accept=self._share(oracle.tokens), examples=n)
        run.record("sculpt again", "hull", hull).require_usable(before)

        # 5. the span of the Theta_i
        run.begin(5)
        return run.record("span of the attention matrices", "span", attention_span(hull.body))

    def _net(self, run: "_Run", span: AttentionSpan) -> Fit:
        """Phase 6 of paper mode: a net of the span; no gradient and no Newton step."""
        oracle = run.oracle
        if span.directions.size and not span.is_clear:
            raise PhaseFailedError(Outcome.NO_SPECTRAL_GAP, f"it {span.doubt}")
        n, m = run.begin(6), run.phases.heads
        needed = 2 - (-2 * m * oracle.dim // oracle.tokens)
        if n < needed:
            few = f"{n} examples are left for the net, and {m} heads need {needed}."
            raise PhaseFailedError(Outcome.EXAMPLES_SPENT, few)
        net = search_net(*draw_examples(oracle, n), span, Net(over=self.net_over, most=self._work))
        run.record("net of the span", "net", net)
        error, goal = math.sqrt(net.error), self.tolerance
        if goal is None:
            goal = (oracle.tokens * oracle.dim) ** (-m / 2)
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

    def _fit_within(self, run: "_Run", span: AttentionSpan, rng: np.random.Generator) -> Fit:
        """Phase 6 of practical mode: a fit within the span, then Newton iterates."""
        fitted = fit_heads(
            run.oracle,
            span,
            examples=run.begin(6),
            work=self._work,
            tolerance=1e-14 if self.tolerance is None else self.tolerance,
            rng=rng,
            recorder=run.recorder,
        )
        judged = fitted.verdict
        reason = f"the fit ended with relative error {judged.held_out_error:.2g} on held-out examples."
        alone = judged.outcome.succeeded and fitted.by_newton and not span.is_clear
        return run.ended(fitted.layer, judged, reason, alone="Newton" if alone else "")

    def _wishes(self, k: int, d: int) -> dict[int, Wish]:
        """The examples that each phase would draw, in order."""
        m, pairs = _DRAWS.heads_if_auto if self.heads == "auto" else self.heads, k * (k - 1)
        least = 8 + d * d // pairs
        crude = Wish(_DRAWS.crude_sum[self.mode] * d, 8)
        hull = Wish(int(_DRAWS.equations * d * d / (self._share(k) * pairs)), least)
        if self.mode == "practical":
            floor = counting_floor(heads=m, tokens=k, dim=d)
            consistency = Wish(_DRAWS.consistency * len(SHARES), (2 * d // k + 1) * len(SHARES))
            return {1: crude, 3: consistency, 4: hull, 6: Wish(4 * floor + 8, floor + 2)}
        first = Wish(int(_DRAWS.equations * d * d / (_DRAWS.crude_share * pairs)), least)
        margin = Wish(_DRAWS.margin[self.margin_over] * d, 2 * d // k + 1)
        select, judge = held_out_examples(self._work), held_out_examples(1, Net.delta / 2)
        regress = -(-2 * m * d // k)
        net = Wish(select + judge + 8 * regress, 2 + regress)
        return {1: crude, 2: first, 3: margin, 4: hull, 6: net}

    @property
    def _work(self) -> int:
        return self.work or {"paper": 500_000, "practical": 20_000}[self.mode]

    def _share(self, k: int) -> float:
        """The share of rows that phase 4 accepts."""
        if self.accept is not None:
            return self.accept
        if self.mode == "practical":
            return 0.01
        return 0.0002 if self.heads != "auto" and (self.heads - 1) * (k - 1) > 1 else 0.003

    def _refusal(self, k: int, d: int) -> str | None:
        """Why the phases cannot run at all; None if they can."""
        if k == 1:
            return "one token has no attention pattern to learn"
        if k >= d:
            return f"k is {k} and d is {d}, and k < d is needed to certify agreement"
        if self.heads != "auto" and self.heads >= d * d:
            return f"{self.heads} heads have no affine hull that is thin in d^2 = {d * d} dimensions of their matrices"
        return None


@dataclass(frozen=True, eq=False)
class SixPhases:
    """What the six phases found, `Fit.details` of a fit by `SixPhase`: the result of every phase that was reached.

    `net` is of paper mode; in practical mode the layer of the fit is the result of phase 6. `heads` is m, given or
    estimated. `failed` is the number of the phase that failed; None if none did or the phases do not apply. `reason`
    says why a phase failed, or what phase 6 reached. `doubts` lists other evidence against the result, such as an
    unclear gap or too few examples.
    """

    mode: Literal["practical", "paper"]
    heads: int
    crude_sum: ProjectionSum | None = None  #: phase 1
    crude_hull: AffineHull | None = None  #: phase 2, in paper mode
    refined_sum: ProjectionSum | None = None  #: phase 3
    hull: AffineHull | None = None  #: phase 4
    span: AttentionSpan | None = None  #: phase 5
    net: NetSearch | None = None  #: phase 6, in paper mode
    failed: int | None = None
    reason: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def last_sum(self) -> ProjectionSum | None:
        """The latest estimate of the sum of the projections."""
        return self.refined_sum or self.crude_sum

    @property
    def last_hull(self) -> AffineHull | None:
        """The latest body."""
        return self.hull or self.crude_hull

    @property
    def explanation(self) -> str:
        """The result in sentences: which phase failed and why, or what phase 6 reached; and the doubts."""
        reason = f"Phase {self.failed} failed: {self.reason}" if self.failed else self.reason
        return " ".join([reason[:1].upper() + reason[1:], *self.doubts])

    def __repr__(self) -> str:
        return f"<SixPhases: {self.heads} heads. {self.explanation}>"

    def to_json(self) -> dict[str, Any]:
        """The measures and the arrays of one axis of every phase, as JSON values."""

        def plain(result: Any) -> Any:
            if result is None:
                return None
            values = result.measures | {name: one for name, one in vars(result).items() if np.ndim(one) == 1}
            if isinstance(result, AffineHull):
                values |= {"bins": result.bins, "spectrum": result.body.spectrum}
            return {name: np.asarray(value).tolist() for name, value in values.items()}

        own = {name: getattr(self, name) for name in ("mode", "heads", "failed", "explanation")}
        phases = ("crude_sum", "crude_hull", "refined_sum", "hull", "span", "net")
        return own | {name: plain(getattr(self, name)) for name in phases}


@dataclass(eq=False)
class _Run:
    """A run as far as it has come: the current phase, what the phases found, and what they may draw."""

    oracle: ExampleOracle
    recorder: Recorder
    wishes: Mapping[int, Wish]
    budget: int | None
    use_all: bool
    phases: SixPhases
    phase: int = 1

    def begin(self, phase: int) -> int:
        """Begin a phase, and return the number of examples that it may draw."""
        self.phase = phase
        if phase not in self.wishes:
            return 0
        return share_of_budget(self.wishes, phase, self.budget, self.recorder.examples, use_all=self.use_all)

    def record(self, step: str, name: str, result: Result) -> Result:
        """Keep what a phase found under this name of `SixPhases`, and record it as a step of the trace."""
        changes: dict[str, Any] = {name: result}
        if isinstance(result, AffineHull):
            changes["heads"] = result.wide + 1
        self.phases = replace(self.phases, **changes)
        against = None if isinstance(result, NetSearch) else result.errors
        layer = self.provisional() if self.recorder.measuring or isinstance(result, NetSearch) else None
        self.recorder.step(step, layer=layer, against=against, phase=self.phase, **result.measures)
        return result

    def provisional(self) -> AttentionLayer:
        """The best layer so far: that of the net, or one with the proxy and a share of the sum in every head."""
        phases, d = self.phases, self.oracle.dim
        if phases.net:
            return phases.net.layer
        theta = phases.last_hull.body.min_norm_point() if phases.last_hull else np.zeros((d, d))
        w = phases.last_sum.w / phases.heads if phases.last_sum else np.zeros((d, d))
        return AttentionLayer(theta=np.stack([theta] * phases.heads), w=np.stack([w] * phases.heads))

    def ended(self, layer: AttentionLayer, judged: Verdict, reason: str, *, alone: str = "") -> Fit:
        """The fit and its details; after too few examples, also the number that the phases would draw."""
        outcome, span = judged.outcome, self.phases.span
        wanted = sum(wish.wanted for wish in self.wishes.values())
        too_few = self.budget is not None and self.budget < wanted and not outcome.succeeded
        failed = not outcome.succeeded and outcome is not Outcome.NOT_APPLICABLE
        failed_in = self.phase if failed else None
        doubts: tuple[str, ...] = (f"Phase 5 {span.doubt}",) if span and span.doubt and failed_in != 5 else ()
        if too_few:
            each = ", ".join(f"{wish.wanted} for phase {phase}" for phase, wish in self.wishes.items())
            doubts += (f"The phases had {self.budget} examples of the {wanted} they would draw: {each}.",)
            if outcome in (Outcome.OVERFITTED, Outcome.LOCAL_MINIMUM, Outcome.NOTHING_LEARNED):
                ran_out = self.oracle.remaining == 0
                spent = Outcome.EXAMPLES_RAN_OUT if ran_out else Outcome.EXAMPLES_SPENT
                judged = replace(judged, outcome=spent)
        return self.recorder.fit(
            judged,
            layer=layer,
            alone=alone,
            examples_needed=wanted if too_few else None,
            details=replace(self.phases, failed=failed_in, reason=reason, doubts=doubts),
        )
