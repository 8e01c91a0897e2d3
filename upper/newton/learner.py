"""The Newton learner: exact recovery of nice layers from a few times the counting floor of examples."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import EXACT_ERROR, Verdict
from attention.learning import LearnerBase, apart
from attention.memory import NotEnoughMemoryError
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.engine import Engine, EngineName, engine_at_size
from upper.floor import LayerClass
from upper.newton.head_count import HeadCount, count_heads
from upper.newton.noise import needs_biases, noise_level
from upper.newton.other_inputs import determines_other_inputs
from upper.newton.problem import Problem, Supply
from upper.newton.starts import (
    Ends,
    MomentRules,
    StartRules,
    heads_at,
    redraw_weakest,
    run,
    run_starts,
    starts_from,
)


@dataclass(frozen=True)
@checked
class Newton(LearnerBase):
    """Damped Gauss-Newton on all parameters: W is eliminated by least squares, Theta runs from several starts.

    Parameters
    ----------
    heads : int or "auto"
        The number of heads of the student. "auto" finds it: it guesses from the spectrum of the cross-moments, then
        grows and prunes students (see `upper.newton.head_count.count_heads`). Each number tried is a step of the trace.
    examples : int, optional
        Budget in examples. The default is four times the counting floor (with "auto", that of the most heads tried),
        or eight times with a given rank; given examples are all used. A twentieth is held out. All starts share them.
        Twice as many are drawn, again and again, while heads of a given rank overfit.
    work : int
        Budget in passes over the examples, shared by all starts; a started trial is finished.
    starts : int
        The most starts; after a start that stalls in a local minimum comes the next one. With "auto" there are at
        most two for each number of heads.
    tolerance : float
        Relative residual on the fitted examples at which to stop.
    start : "random" or AttentionLayer
        The first start: random heads, or the attention matrices of a layer, for example from another learner. From
        four counting floors, the heads of large layers come from the cross-moments instead (see
        `upper.newton.moment_start`), which take as long as about ten passes and are not counted as work. With a rank,
        below three counting floors, and from six tokens, a random first start anneals a ridge prior (see
        `gauss_newton`). Later starts anneal it, unless m is "auto" or all starts so far end at one residual, which
        held-out examples have too.
    rank : int, optional
        The rank of every Theta_i and W_i, if it is known to be low, as in transformers. The heads are then
        Theta_i = A_i B_i^T, W_i = V_i O_i, with fewer unknowns and so a lower counting floor. Random starts have one
        and a half times the rank, and are cut to it once they have learned (see `upper.newton.starts`).
    biases : bool or "auto"
        Whether the layer has biases (see `attention.AttentionLayer`), which are then learned too: c_i with Theta_i, and
        b with W. With "auto" they are learned, and dropped again if the examples do not need them (see `needs_biases`);
        with fewer examples than biases need there are none.
    causal : bool
        Whether the layer is causal: row j attends to the tokens up to j only. `examples_are_causal` tells.
    engine : "numpy", "torch" or "auto"
        The library of arrays. Results differ in the last digits, so the number of passes may differ too. "auto" is
        torch for larger problems if it is installed and the processor multiplies bfloat16, and else NumPy.
    device : str, optional
        The device of torch, for example "cuda"; with any device but "cpu", the engine is torch.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a rank is given with m = "auto". On `fit`, if there are fewer examples than
        the counting floor, the layer to start from has another shape, or the rank is above d.
    ImportError
        On `fit`, if torch is requested but not installed.

    Notes
    -----
    The following is measured, not proved. On nice random layers at four times the floor, 17 to 20 of 20 starts end at
    rounding error. A run takes 12 iterates and 200 to 400 passes of O(n k m d (d + 2 k)). On hard ones it ends in a
    local minimum. A random start is Theta ~ N(0, (1/d)^2), with W by least squares, on tokens scaled to root mean
    square 1.

    Tokens whose largest spread is above ten times their smallest, as in a running model, are whitened first, on
    the subspace that they span (`upper.newton.whitening`). The layer of the fit is zero across this subspace, since the
    examples do not determine it there. `certify_layer` says what they determine. The mean of the tokens is removed with
    biases only: without them, no layer can make up for it.

    Let the labels have noise of standard deviation s. Fitting reduces the squared residual of the noise; a run ends
    when its further steps would add less than a hundredth to this reduction. Three runs with the same residual are
    evidence of noise, unless the residual depends on the tokens (`depends_on_tokens`): then the student is too small,
    or all runs are stuck (`Outcome.RESIDUAL_FLOOR`). At the level of the noise (`Outcome.NOISE_FLOOR`), the held-out
    examples are fitted, too. The last step of the trace has ``noise_level``, the estimate of s. It also has
    ``expected_excess``, s^2 p / (N k d) with p unknowns (2 m d^2 without a rank), the expected squared error on an
    entry of a clean label. From about twenty floors, the error is
    within 1.2 times this value; at four floors, it is 1.6 to 2.9 times as large.

    Examples
    --------
    >>> from attention import BooleanInputs, ExampleOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=8, rng=0)
    >>> fit = Newton(heads=2).fit(ExampleOracle(layer, BooleanInputs(tokens=3, dim=8), rng=1), rng=2)
    >>> fit.outcome.name, fit.examples_used
    ('EXACT', 44)
    """

    heads: PositiveInt | Literal["auto"]
    examples: NonNegativeInt | None = None
    work: PositiveInt = 20_000
    starts: PositiveInt = 10
    tolerance: NonNegativeFloat = 1e-14
    start: Literal["random"] | AttentionLayer = "random"
    rank: PositiveInt | None = None
    biases: bool | Literal["auto"] = False
    causal: bool = False
    engine: EngineName = "numpy"
    device: str | None = None

    #: counting floors of examples needed from a start: for full matrices, and for factors of low rank
    floors: ClassVar[int] = 4
    low_rank_floors: ClassVar[int] = 8
    #: with fewer floors, or so many tokens, the first start anneals a prior unless it is by moments; else a random one
    #: takes a fifth fewer passes and is as good. Six tokens, four floors, sigma 4: 8 of 10 random ones are exact, of
    #: 16 tokens none, and 10 and 8 that anneal
    few_floors: ClassVar[int] = 3
    many_tokens: ClassVar[int] = 6

    def __post_init__(self) -> None:
        if self.heads == "auto" and self.rank is not None:
            raise ValueError(
                f"heads is 'auto' and rank {self.rank}: with a rank a number of heads is needed."
            )

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """The counting floor (of one head if m is "auto"), and one example to hold out."""
        # with fewer examples than biases need there are none
        known = replace(self._known, biased=self.biases is True)
        return known.floor(1 if self.heads == "auto" else self.heads, tokens, dim) + 1

    def default_examples(self, heads: int, tokens: int, dim: int) -> int:
        """The number of examples that `fit` draws for this number of heads if there is no budget, and they suffice."""
        return self._default_floors * self._known.floor(heads, tokens, dim)

    def engine_for(self, heads: int, tokens: int, dim: int) -> Engine:
        """The engine of `fit` for this number of heads, on examples of k tokens in d dimensions, or an error."""
        wanted = self.default_examples(heads, tokens, dim) if self.examples is None else self.examples
        n = max(wanted, self._known.floor(heads, tokens, dim) + 1)
        return engine_at_size(self.engine, self.device, (n - n // 20) * tokens * dim * heads * dim)

    def _prepare(self, oracle: ExampleOracle) -> None:
        heads, given = 1 if self.heads == "auto" else self.heads, self.start
        if isinstance(given, AttentionLayer):
            needed = given.heads if self.heads == "auto" else heads
            if (given.heads, given.dim) != (needed, oracle.dim):
                raise ValueError(
                    f"start is a layer of {given.heads} heads in {given.dim} dimensions: {needed} in {oracle.dim} are "
                    "needed."
                )
        self.engine_for(heads, oracle.tokens, oracle.dim)  # importing torch takes seconds

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        known, first = self._known, 1 if self.heads == "auto" else self.heads
        if self.biases == "auto" and budget is not None:
            enough = budget > known.floor(first, oracle.tokens, oracle.dim)
            known = replace(known, biased=enough)
        supply = Supply(oracle, known, self._default_floors, budget)
        problem = Problem(
            supply.draw(first),
            known,
            self.tolerance,
            apart(rng),
            self.engine,
            self.device,
            recorder,
        )
        fitted = self._search(problem, supply)
        problem = replace(problem, examples=fitted.examples)
        if self.biases == "auto" and known.biased and fitted.heads:
            without = replace(
                problem, known=replace(known, biased=False), examples=fitted.examples.about_zero()
            )
            fewer = self._without_biases(fitted, without)
            recorder.step("Without biases", residual=fewer.best.residual, total_passes=fewer.passes)
            if not needs_biases(
                without.examples.x,
                fitted.best.residual,
                fewer.best.residual,
                heads=fitted.heads,
                rank=self.rank,
                tolerance=max(EXACT_ERROR, self.tolerance),
            ):
                problem, fitted = without, fewer
        return self._judged(fitted, problem, recorder)

    @property
    def _known(self) -> LayerClass:
        return LayerClass(self.rank, bool(self.biases), self.causal)

    @property
    def _default_floors(self) -> int:
        return self.floors if self.rank is None else self.low_rank_floors

    @property
    def _given(self) -> AttentionLayer | None:
        return self.start if isinstance(self.start, AttentionLayer) else None

    def _search(self, problem: Problem, supply: Supply) -> HeadCount:
        """The best heads of all runs, as many as are given or as are found."""
        if self.heads == "auto":
            return count_heads(problem, supply, given=self._given, starts=self.starts, work=self.work)
        floor = supply.known.floor(self.heads, supply.oracle.tokens, supply.oracle.dim)
        few = supply.budget is not None and supply.budget < self.few_floors * floor
        many = supply.oracle.tokens >= self.many_tokens and not MomentRules().help(problem, self.heads)
        # with a rank, annealing is better from any number of examples
        anneals = (self.rank is not None or few or many) and self._given is None
        rules = StartRules(self.starts, random=int(not anneals), confirm=True)
        problem = replace(problem, ends_overfitted=self.rank is not None and supply.budget is None)
        ends = run_starts(
            problem, starts_from(problem, self.heads, self._given, "Start"), rules, work=self.work
        )
        starts = len(ends.iterates)
        while ends.best.overfits and ends.passes < self.work:
            # a row of attention that is nearly all on one token says little of its head: sharp heads need more examples
            try:
                problem = replace(problem, examples=supply.twice(self.heads, problem.examples))
            except NotEnoughMemoryError:
                break
            here, work = heads_at(problem, ends.best.layer), self.work - ends.passes
            best = run(problem, here, work=work, name=f"With {problem.examples.drawn} examples")
            ends = Ends((best,), ends.passes + best.passes, False)
        if self.rank is None:
            ends = redraw_weakest(problem, ends, work=self.work)
        return HeadCount(self.heads, ends.best, problem.examples, ends.passes, starts, ends.at_floor)

    def _without_biases(self, biased: HeadCount, problem: Problem) -> HeadCount:
        """The same heads, fitted without their biases from where they are."""
        start = heads_at(problem, problem.examples.scaled(biased.examples.layer(biased.best)))
        end = run(problem, start, work=max(1, self.work - biased.passes))
        return replace(biased, best=end, examples=problem.examples, passes=biased.passes + end.passes)

    def _judged(self, fitted: HeadCount, problem: Problem, recorder: Recorder) -> Fit:
        """The fit, judged on held-out examples; at the level of the noise, these are then fitted, too."""
        best, examples, passes = fitted.best, fitted.examples, fitted.passes
        ended = Outcome.WORK_SPENT if passes >= self.work else Outcome.LOCAL_MINIMUM
        verdict = examples.judge(
            best,
            tolerance=self.tolerance,
            otherwise=Outcome.RESIDUAL_FLOOR if fitted.at_floor else ended,
        )
        if verdict.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR) and fitted.heads:
            tokens = np.concatenate([examples.x, examples.x_held])
            if not determines_other_inputs(best.layer, tokens, rank=self.rank, rng=problem.rng):
                verdict = Verdict(Outcome.UNCONFIRMED, verdict.held_out_error)
        shared: dict[str, Any] = {"engine": best.engine, "starts": fitted.starts, "heads": fitted.heads}
        layer, error = examples.layer(best), verdict.held_out_error
        own: dict[str, Any] = {"residual": best.residual, "held_out_error": error, "total_passes": passes}
        recorder.step("Held-out examples", layer=layer, **own, **shared)
        if verdict.outcome is not Outcome.NOISE_FLOOR:
            return recorder.fit(verdict, layer=layer)
        whole = examples.together()
        problem = replace(problem, examples=whole)
        if fitted.heads:
            best = run(problem, heads_at(problem, best.layer), work=max(1, self.work - passes))
            passes += best.passes
        noise = whole.unit * noise_level(best.residual, whole.y, problem.share(fitted.heads))
        excess = noise * noise * problem.known.unknowns(fitted.heads, *whole.x.shape[1:]) / whole.x.size
        layer = whole.layer(best)
        own = {
            "residual": best.residual,
            "noise_level": noise,
            "expected_excess": excess,
            "total_passes": passes,
        }
        recorder.step("Refit with the held-out examples", layer=layer, **own, **shared)
        return recorder.fit(verdict, layer=layer)
