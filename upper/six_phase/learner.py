"""The six-phase learner of Chen and Li: paper mode keeps to the phases, practical mode ends at rounding error."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget
from attention._arrays import count, non_negative, random_generator
from attention.inputs import Rng
from attention.learning import Progress
from attention.memory import require_memory
from upper.six_phase.failure import PhaseFailedError
from upper.six_phase.paper import paper_wishes, run_paper
from upper.six_phase.plan import Plan, Wish
from upper.six_phase.polytope import LARGEST_DIM
from upper.six_phase.session import Ending, Findings, Session
from upper.six_phase.streaming import require_jobs

__all__ = ["Phases", "SixPhase"]

_CHOICES = {
    "mode": ("practical", "paper"),
    "body": ("ellipsoid", "polytope"),
    "margin_over": ("body", "proxy"),
    "net_over": ("hull", "span"),
}
_PAPER_ONLY = ("rounds", "body", "margin_over", "net_over", "delta")
_PARTS = {
    "sum": "the sum of the projections",
    "refinement": "refining it",
    "margin": "refining it",
    "hull": "the affine hull",
    "fit": "phase 6",
    "net": "phase 6",
}
# m is not known before phase 5: budgets are made for so many heads
_HEADS_IF_AUTO = 3


@dataclass(frozen=True, eq=False)
class Phases:
    """A fit together with everything the phases found.

    Attributes
    ----------
    fit : Fit
        The fit.
    findings : Findings
        The result of every phase that ran, with its arrays.
    explanation : str
        How it ended, with figures: which phase failed and why, or what phase 6 reached.
    heads : int
        m: given, or estimated.
    failed : int or None
        The number of the phase that failed; None if none did, and where the phases do not apply.
    """

    fit: Fit
    findings: Findings
    explanation: str
    heads: int
    failed: int | None

    def __repr__(self) -> str:
        return f"<Phases: {self.fit.outcome.name}, {self.heads} heads. {self.explanation}>"


@dataclass(frozen=True)
class SixPhase:
    """The six-phase learner of Chen and Li.

    Parameters
    ----------
    m : int or "auto"
        Heads; "auto" takes them from the gap in the body's spectrum.
    mode : "practical" or "paper"
        Paper mode runs phases 1 to 6 of the paper: large-margin examples in phase 3, a net in phase 6, no gradient
        and no Newton step. Its defaults that are not the paper's are derived here: margins over the body, a net of
        the hull that is refined around its best tuple, the share of rows accepted; `margin_over="proxy",
        net_over="span"` is nearest to the paper. Practical mode makes the sum of projections consistent with the rows
        it certifies, and ends with a fit within the span and Newton iterates on all parameters.
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
        mode, whose result is only as good as its span, .003, and .0002 where (m-1)(k-1) is above 1: agreement within
        the same tolerance is rarer there.
    body : "ellipsoid" or "polytope"
        Paper mode: the convex body, the polytope for d up to 20; see `sculpt`.
    radius : float, optional
        R, a bound on the norm of the heads; see `sculpt`.
    margin_over : "body" or "proxy"
        Paper mode: which margin phase 3 asks for; see `refine_by_margin`.
    net_over : "hull" or "span"
        Paper mode: what phase 6 makes a net of, exhaustive for m <= 2 and coarse for 3; see `search_net`.
    delta : float
        Paper mode: the probability with which the selection of phase 6 may be misled.
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one. It changes no bit of the result.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the examples are fewer than `minimum_examples`.

    Notes
    -----
    Proved in the paper: under its non-degeneracy conditions, in time (dk)^(O(m^3)), squared error (kd)^(-Omega(m)). Our
    constants are our own. Measured in paper mode, three targets each: squared relative error 1e-6 to 3e-6 at (m,k,d) =
    (2,2,16), 6e-7 to 2e-6 at (2,2,32), 6e-5 to 9e-5 at (2,3,32); at (3,2,32) 7e-5 on one, where (kd)^-m is 4e-6. At
    d = 8 the asymptotics have not set in: with margins over the proxy phase 3 fails, over the body about half of the
    targets are learned. On hard instances it ends within its budget, with an outcome that says which phase failed.
    Phases 1 to 5 are statistical queries; see `six_phase_queries`.

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

    m: int | Literal["auto"]
    mode: Literal["practical", "paper"] = "practical"
    examples: int | None = None
    work: int | None = None
    tolerance: float | None = None
    rounds: int = 1
    accept: float | None = None
    body: Literal["ellipsoid", "polytope"] = "ellipsoid"
    radius: float | None = None
    margin_over: Literal["body", "proxy"] = "body"
    net_over: Literal["hull", "span"] = "hull"
    delta: float = 0.01
    jobs: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.m, str) or self.m != "auto":
            object.__setattr__(self, "m", count("m", self.m))
        for name, allowed in _CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: {' or '.join(map(repr, allowed))} is needed."
                )
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        if self.work is not None:
            object.__setattr__(self, "work", count("work", self.work))
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))
        object.__setattr__(self, "rounds", count("rounds", self.rounds))
        for name in ("accept", "delta") if self.accept is not None else ("delta",):
            share = non_negative(name, getattr(self, name), strictly=True)
            if share > 1 or (name == "delta" and share == 1):
                most = "below 1" if name == "delta" else "of at most 1"
                raise ValueError(f"{name} is {share}: a share {most} is needed.")
            object.__setattr__(self, name, share)
        if self.mode == "practical":
            for name in _PAPER_ONLY:
                if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                    given = f"{name} is {getattr(self, name)!r} and mode 'practical'"
                    raise ValueError(f"{given}: {name} is for mode 'paper' only, leave it out.")
        if self.mode == "paper" and self.m == "auto" and self.body == "polytope":
            raise ValueError("m = 'auto' needs the spectrum of an ellipsoid: give m, or body = 'ellipsoid'.")
        require_jobs(self.jobs)
        if self.radius is not None:
            object.__setattr__(self, "radius", non_negative("radius", self.radius, strictly=True))

    def minimum_examples(self, k: int, d: int) -> int:
        """The fewest with which every phase can begin: about d^2 / (k (k - 1)) a sculpting, and 2 m d / k."""
        if self._refusal(k, d, self._given):
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
        if self.mode == "paper" and self.body == "polytope" and oracle.d > LARGEST_DIM:
            raise ValueError(
                f"The polytope has d = {oracle.d}: at most {LARGEST_DIM} is feasible; use body='ellipsoid'."
            )
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        k, d = oracle.k, oracle.d
        why = self._refusal(k, d, self._given)
        plan = Plan({} if why else self._wishes(k, d), budget, use_all=self.examples is None)
        for name in {"fit", "net"} & set(
            plan.wishes
        ):  # what is drawn at once; all other phases draw in batches
            n = plan.wishes[name].wanted if budget is None else budget
            heads = self._given or _HEADS_IF_AUTO
            require_memory(
                f"Phase 6 with {heads} heads on {n} examples of {k} tokens in {d} dimensions",
                8 * n * k * (6 * d + 2 * heads * (k + d)),
                advice="allow fewer examples",
            )
        session = Session(oracle, recorder, plan, self._given, random_generator(rng))
        if why:
            return self._refused(session, recorder, why)
        try:
            ending = self._phases(session)
        except PhaseFailedError as failure:
            said = [f"Phase {session.phase} failed: {failure.explanation}", *session.doubts]
            layer = session.findings.net.layer if session.findings.net else session.provisional()
            ending = Ending(layer, failure.outcome, " ".join(said))
        if too_few := plan.limited and not ending.outcome.succeeded:
            ending = self._too_few(ending, plan, session)
        return Phases(
            fit=recorder.fit(
                ending.outcome,
                layer=ending.layer,
                alone=ending.alone,
                examples_needed=plan.wanted if too_few else None,
            ),
            findings=session.findings,
            explanation=ending.explanation,
            heads=session.heads,
            failed=None if ending.outcome.succeeded else session.phase,
        )

    def _too_few(self, ending: Ending, plan: Plan, session: Session) -> Ending:
        """The ending of phases that had fewer examples than they would draw: it says how many, phase by phase."""
        outcome = ending.outcome
        if outcome in (Outcome.OVERFITTED, Outcome.LOCAL_MINIMUM, Outcome.NOTHING_LEARNED):
            outcome = Outcome.EXAMPLES_RAN_OUT if session.oracle.remaining == 0 else Outcome.EXAMPLES_SPENT
        each = ", ".join(f"{wish.wanted} for {_PARTS[name.split()[0]]}" for name, wish in plan.wishes.items())
        said = f"The phases had {plan.budget} examples of the {plan.wanted} they would draw: {each}."
        return replace(ending, outcome=outcome, explanation=f"{ending.explanation} {said}")

    def _wishes(self, k: int, d: int) -> dict[str, Wish]:
        heads = self._given or _HEADS_IF_AUTO
        if self.mode == "paper":
            return paper_wishes(
                heads=heads,
                k=k,
                d=d,
                rounds=self.rounds,
                accept=self._share(k),
                work=self._work,
                delta=self.delta,
                margin_over=self.margin_over,
            )
        from upper.six_phase.practical import practical_wishes

        return practical_wishes(heads=heads, k=k, d=d, accept=self._share(k))

    @property
    def _given(self) -> int | None:
        return None if self.m == "auto" else int(self.m)

    def _share(self, k: int) -> float:
        if self.accept is not None:
            return self.accept
        if self.mode == "practical":
            return 0.01
        return 0.0002 if self._given and (self._given - 1) * (k - 1) > 1 else 0.003

    @property
    def _work(self) -> int:
        return self.work or {"paper": 500_000, "practical": 20_000}[self.mode]

    def _phases(self, session: Session) -> Ending:
        k = session.oracle.k
        if self.mode == "paper":
            return run_paper(
                session,
                rounds=self.rounds,
                accept=self._share(k),
                tolerance=self.tolerance,
                work=self._work,
                delta=self.delta,
                body=self.body,
                radius=self.radius,
                margin_over=self.margin_over,
                net_over=self.net_over,
                jobs=self.jobs,
            )
        # paper mode must run where nothing of this is there
        from upper.six_phase.practical import run_practical

        return run_practical(
            session,
            accept=self._share(k),
            tolerance=1e-14 if self.tolerance is None else self.tolerance,
            work=self._work,
            radius=self.radius,
            jobs=self.jobs,
        )

    def _refusal(self, k: int, d: int, heads: int | None) -> str | None:
        """Why the phases cannot be run at all, as a sentence."""
        if k == 1:
            return "one token has no attention pattern to learn"
        if k >= d:
            return f"k is {k} and d is {d}, and k < d is needed to certify agreement"
        if heads is not None and heads >= d * d:
            return f"{heads} heads have no affine hull that is thin in the d^2 = {d * d} dimensions of their matrices"
        return None

    def _refused(self, session: Session, recorder: Recorder, why: str) -> Phases:
        d = session.oracle.d
        layer = AttentionLayer(theta=np.zeros((session.heads, d, d)), w=np.zeros((session.heads, d, d)))
        recorder.step("Not applicable", layer=layer)
        return Phases(
            fit=recorder.fit(Outcome.NOT_APPLICABLE, layer=layer),
            findings=session.findings,
            explanation=f"The six phases do not apply: {why}.",
            heads=session.heads,
            failed=None,
        )
