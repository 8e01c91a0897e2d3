"""The six-phase learner of Chen and Li: paper mode keeps to the phases, practical mode ends at rounding error."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from attention import ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget, draw_examples
from attention.inputs import Rng
from attention.learning import Progress
from attention.memory import require_memory
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
from upper.six_phase.phase1_projection_sum import estimate_projection_sum
from upper.six_phase.phase2_affine_hull import sculpt_affine_hull
from upper.six_phase.phase3_refine_sum import SHARES, refine_by_consistency, refine_by_margin
from upper.six_phase.phase5_span import attention_span
from upper.six_phase.phase6_net import DELTA, held_out_examples, search_net
from upper.six_phase.polytope import LARGEST_DIM
from upper.six_phase.run import Phases, Run, Wish

__all__ = ["SixPhase"]

_PAPER_ONLY = ("rounds", "body", "margin_over", "net_over")
# m is not known before phase 5: budgets are made for so many heads
_HEADS_IF_AUTO = 3
# The share of rows that phase 2 accepts: with the crude sum a smaller one agrees no better.
_FIRST_ACCEPT = 0.05
# Times the least tolerance at which the body is not empty: the point of least norm of a thick body is pulled towards
# zero, where no margin is large.
_NEARLY_LEAST = 1.1
_CONSISTENCY_EXAMPLES = 50_000  # a round of phase 3 in practical mode


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
        Threads, or -1 for one a core; by default as `joblib` is configured, which is one. No bit depends on it.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the examples are fewer than `minimum_examples`.

    Notes
    -----
    Proved in the paper: under its non-degeneracy conditions, in time (dk)^(O(m^3)), squared error (kd)^(-Omega(m)). Our
    constants are our own. Paper mode, measured squared relative errors: 1e-6 to 3e-6 at (m,k,d) = (2,2,16), 6e-7 to
    2e-6 at (2,2,32), 6e-5 to 9e-5 at (2,3,32). At d = 8 the asymptotics have not set in: with margins over the proxy
    phase 3 fails, over the body about half of the targets are learned. On hard instances a phase fails within the
    budget. Phases 1 to 5 are statistical queries; see `six_phase_queries`.

    References
    ----------
    Chen and Li, "Provably learning a multi-head attention layer", arXiv 2402.04084.

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
        if self._refusal(k, d):
            return 1
        return sum(wish.least for wish in self._wishes(k, d).values())

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from the oracle.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
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
        budget = check_budget(self, oracle)
        why = self._refusal(k, d)
        wishes = {} if why else self._wishes(k, d)
        run = Run(oracle, recorder, wishes, budget, self._given, use_all=self.examples is None)
        if why:
            layer = run.provisional()
            recorder.step("Not applicable", layer=layer)
            return run.ended(layer, Outcome.NOT_APPLICABLE, f"The six phases do not apply: {why}.")
        self._require_memory(run)
        try:
            return self._six_phases(run, random_generator(rng))
        except PhaseFailedError as failure:
            return run.failed(failure)

    def _six_phases(self, run: Run, rng: np.random.Generator) -> Phases:
        """The six phases; practical mode skips the second, and does the third and the sixth in its own way."""
        paper, oracle, jobs = self.mode == "paper", run.oracle, self.jobs
        sculpting: Any = {"wide": run.wide_if_given, "body": self.body, "jobs": jobs}

        run.phase = 1  # estimate the sum of the projections
        w = run.record_sum(estimate_projection_sum(oracle, run.allowed("sum"), jobs=jobs)).w

        if paper:
            run.phase = 2  # sculpt the affine hull; in practical mode phase 3 certifies by itself
            examples = run.allowed("hull")
            hull = run.record_hull(
                sculpt_affine_hull(oracle, w, accept=_FIRST_ACCEPT, examples=examples, **sculpting)
            )

        for number in range(1, self.rounds + 1):
            run.phase, run.round = 3, number if self.rounds > 1 else None  # refine the sum
            examples = run.allowed(f"refinement {number}")
            if paper:
                over, body = self.margin_over, hull.body
                if over == "proxy":
                    body = replace(body, tolerance=_NEARLY_LEAST * body.misfit_at_centre)
                margin = refine_by_margin(
                    oracle, body, wide=hull.wide, examples=examples, over=over, jobs=jobs
                )
                w = run.record_refinement(margin).w
            else:
                consistent = refine_by_consistency(oracle, w, examples=examples // len(SHARES), jobs=jobs)
                w = run.record_refinement(consistent).w

            run.phase = 4  # sculpt again
            examples = run.allowed(f"hull {number}")
            hull = run.record_hull(
                sculpt_affine_hull(oracle, w, accept=self._share(oracle.k), examples=examples, **sculpting)
            )

        run.phase, run.round = 5, None  # extract the span of the heads
        span = run.record_span(attention_span(hull.body, hull.wide), must_be_clear=paper)

        run.phase = 6  # search the span for the heads
        examples = run.allowed("heads")
        if paper:
            run.require_regression(examples)
            x, y = draw_examples(oracle, examples)
            net = search_net(x, y, span, heads=run.heads, over=self.net_over, most=self._work)
            return run.ended_by_net(net, self.tolerance)
        # imported here, so that paper mode never imports `upper.newton`
        from upper.six_phase.phase6_heads import fit_heads

        tolerance = 1e-14 if self.tolerance is None else self.tolerance
        found = fit_heads(
            oracle, span, examples=examples, work=self._work, tolerance=tolerance, rng=rng, tell=run.tell
        )
        return run.ended_by_fit(found.layer, found.outcome, found.error, by_newton=found.by_newton)

    def _wishes(self, k: int, d: int) -> dict[str, Wish]:
        """What each phase would draw, in their order; derived here, by what the measured errors need."""
        m, pairs = self._given or _HEADS_IF_AUTO, k * (k - 1)
        least, rounds = 8 + d * d // pairs, range(1, self.rounds + 1)
        hull = Wish(int(9 * d * d / (self._share(k) * pairs)), least)
        if self.mode == "practical":
            floor = counting_floor(heads=m, tokens=k, dim=d)
            return {
                "sum": Wish(1000 * d, 8),
                "refinement 1": Wish(_CONSISTENCY_EXAMPLES * len(SHARES), (2 * d // k + 1) * len(SHARES)),
                "hull 1": hull,
                "heads": Wish(4 * floor + 8, floor + 2),
            }
        # a margin of 6 under the proxy is rarer than one of 3 under all of the body
        margin = Wish({"body": 6000, "proxy": 30_000}[self.margin_over] * d, 2 * d // k + 1)
        select, judge = held_out_examples(self._work, DELTA), held_out_examples(1, DELTA / 2)
        regress = -(-2 * m * d // k)
        return {
            "sum": Wish(4000 * d, 8),
            "hull": Wish(int(9 * d * d / (_FIRST_ACCEPT * pairs)), least),
            **{
                name: wish
                for r in rounds
                for name, wish in ((f"refinement {r}", margin), (f"hull {r}", hull))
            },
            "heads": Wish(select + judge + 8 * regress, 2 + regress),
        }

    @property
    def _given(self) -> int | None:
        return None if self.m == "auto" else int(self.m)

    @property
    def _work(self) -> int:
        return self.work or {"paper": 500_000, "practical": 20_000}[self.mode]

    def _share(self, k: int) -> float:
        """The share of rows that phase 4 accepts."""
        if self.accept is not None:
            return self.accept
        if self.mode == "practical":
            return 0.01
        return 0.0002 if self._given and (self._given - 1) * (k - 1) > 1 else 0.003

    def _refusal(self, k: int, d: int) -> str | None:
        """Why the phases cannot be run at all, as a sentence."""
        heads = self._given
        if k == 1:
            return "one token has no attention pattern to learn"
        if k >= d:
            return f"k is {k} and d is {d}, and k < d is needed to certify agreement"
        if heads is not None and heads >= d * d:
            return f"{heads} heads have no affine hull that is thin in the d^2 = {d * d} dimensions of their matrices"
        return None

    def _require_memory(self, run: Run) -> None:
        """For what phase 6 draws at once; all other phases draw in batches."""
        n = run.wishes["heads"].wanted if run.budget is None else run.budget
        k, d, heads = run.oracle.k, run.oracle.d, self._given or _HEADS_IF_AUTO
        require_memory(
            f"Phase 6 with {heads} heads on {n} examples of {k} tokens in {d} dimensions",
            8 * n * k * (6 * d + 2 * heads * (k + d)),
            advice="allow fewer examples",
        )
