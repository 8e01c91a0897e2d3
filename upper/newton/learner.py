"""The Newton learner: exact recovery of nice layers from a few times the counting floor of examples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention._arrays import shown
from attention.evaluation import EXACT_ERROR, Verdict
from attention.learning import LearnerBase, apart
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.engine import Engine, EngineName, choose_engine
from upper.floor import counting_floor, unknowns
from upper.newton.determined import determines_other_inputs
from upper.newton.head_count import HeadCount, count_heads, most_heads
from upper.newton.loop import Iterate, gauss_newton
from upper.newton.low_rank import FactoredHeads, random_factors
from upper.newton.runs import (
    Runner,
    SplitExamples,
    draw_split,
    judge,
    needs_biases,
    noise_level,
    with_key_bias,
)
from upper.newton.whitening import needed_whitening

__all__ = ["Newton"]

# From this many multiplications per pass, torch's bfloat16 is faster than NumPy, without the time to import torch.
_WORTH_TORCH = 1 << 23
# Examples needed from a start, in counting floors: for full matrices, and for factors of low rank.
_FLOORS, _LOW_RANK_FLOORS = 4, 8
# Below this many floors the first start takes the path of priors; from it on, a plain start is cheaper and as good.
# With a rank the path is better from any number of examples.
_FEW_FLOORS = 3


@dataclass(frozen=True)
@checked
class Newton(LearnerBase):
    """Damped Gauss-Newton on all parameters: W is eliminated by least squares, Theta runs from several starts.

    Parameters
    ----------
    m : int or "auto"
        The number of heads of the student. "auto" finds it: it guesses from the spectrum of the cross-moments, then
        grows and prunes students (see `upper.newton.head_count.count_heads`). Each number tried is a step of the trace.
    examples : int, optional
        Budget in examples. The default is four times the counting floor (with "auto", that of the most heads tried),
        or eight times with a given rank; given examples are all used. A twentieth is held out. All starts share them.
    work : int
        Budget in passes over the examples, shared by all starts; a started trial is finished.
    starts : int
        The most starts; after a start that stalls in a local minimum comes the next one. With "auto" there are at
        most two for each number of heads.
    tolerance : float
        Relative residual on the fitted examples at which to stop.
    start : "random" or AttentionLayer
        The first start: random heads, or the attention matrices of a layer, for example from another learner. With a
        rank, and below three counting floors, a random first start takes the path of priors (see `gauss_newton`).
        Later starts take it, unless m is "auto" or all starts so far end at one residual, which held-out examples have
        too.
    rank : int, optional
        The rank of every Theta_i and W_i, if it is known to be low, as in transformers. The heads are then
        Theta_i = A_i B_i^T, W_i = V_i O_i, with fewer unknowns and so a lower counting floor.
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
    rounding error. A run takes about 12 iterates and 600 passes of O(n k m d (d + 2 k)). On hard instances it ends in a
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
    >>> fit = Newton(m=2).fit(ExampleOracle(layer, BooleanInputs(k=3, d=8), rng=1), rng=2)
    >>> fit.outcome.name, fit.examples_used
    ('EXACT', 44)
    """

    m: PositiveInt | Literal["auto"]
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

    def __post_init__(self) -> None:
        if self.m == "auto" and self.rank is not None:
            raise ValueError(f"m is 'auto' and rank {self.rank}: with a rank a number of heads is needed.")

    def minimum_examples(self, k: int, d: int) -> int:
        """The counting floor (of one head if m is "auto"), and one example to hold out."""
        learner = replace(self, biases=self.biases is True)  # with fewer than biases need there are none
        return learner._floor(1 if self.m == "auto" else self.m, k, d) + 1

    def default_examples(self, heads: int, k: int, d: int) -> int:
        """The number of examples that `fit` draws for this number of heads if there is no budget."""
        return (_FLOORS if self.rank is None else _LOW_RANK_FLOORS) * self._floor(heads, k, d)

    def engine_for(self, heads: int, k: int, d: int) -> Engine:
        """The engine of `fit` for this number of heads, on examples of k tokens in d dimensions, or an error."""
        wanted = self.default_examples(heads, k, d) if self.examples is None else self.examples
        n = max(wanted, self._floor(heads, k, d) + 1)
        return self._engine(heads, (n - n // 20, k, d))

    def _prepare(self, oracle: ExampleOracle) -> None:
        heads, there = 1 if self.m == "auto" else self.m, self.start
        if isinstance(there, AttentionLayer):
            needed = there.heads if self.m == "auto" else heads
            if (there.heads, there.dim) != (needed, oracle.d):
                raise ValueError(
                    f"start is a layer of {there.heads} heads in {there.dim} dimensions: {needed} in {oracle.d} are "
                    "needed."
                )
        self.engine_for(heads, oracle.k, oracle.d)  # importing torch takes seconds

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        rng, learner = apart(rng), self
        if self.biases == "auto":
            learner = replace(self, biases=True)
            enough = budget is None or budget >= learner.minimum_examples(oracle.k, oracle.d)
            learner = replace(self, biases=enough)
        runner = learner._runner(oracle, budget, rng)
        found = learner._search(runner, oracle, recorder, budget, rng)
        if self.biases == "auto" and learner.biases and found.heads:
            plain = replace(self, biases=False)
            plain_runner = plain._runner(oracle, budget, rng)
            without = plain._without_biases(found, plain_runner)
            ends = found.best.residual, without.best.residual
            recorder.step("Without biases", residual=ends[1], total_passes=without.passes)
            x, tolerance = without.examples.x, max(EXACT_ERROR, self.tolerance)
            if not needs_biases(x, *ends, heads=found.heads, rank=self.rank, tolerance=tolerance):
                learner, runner, found = plain, plain_runner, without
        return learner._judged(found, runner, recorder, rng)

    def _runner(self, oracle: ExampleOracle, budget: int | None, rng: np.random.Generator) -> Runner:
        return Runner(
            iterates=partial(self._iterates, rng),
            start=lambda examples, heads, number: self._start(examples, heads, number, rng),
            tolerance=self.tolerance,
            rank=self.rank,
            biased=bool(self.biases),
            plain=self._plain_starts(oracle, budget),
            # students with too few heads agree, too; this is how they are recognised
            resume=None if self.m == "auto" else self._start_at,
        )

    def _search(
        self,
        runner: Runner,
        oracle: ExampleOracle,
        recorder: Recorder,
        budget: int | None,
        rng: np.random.Generator,
    ) -> HeadCount:
        """The best heads of all runs, as many as are given or as are found."""

        def draw(heads: int, before: SplitExamples | None) -> SplitExamples:
            return self._draw(oracle, budget, heads, before)

        def tell(name: str, examples: SplitExamples, one: Iterate | None, measures: dict[str, Any]) -> None:
            if one is None:
                return recorder.step(name, **measures)
            own: dict[str, Any] = {"residual": one.residual, "damping": one.damping, "passes": one.passes}
            own["engine"] = str(self._engine(len(one.theta), examples.x.shape))
            layer = examples.layer(one) if recorder.measuring else None
            return recorder.step(name, layer=layer, **own | measures)

        if self.m == "auto":
            return count_heads(
                runner,
                draw,
                guess=None if isinstance(self.start, str) else self.start.heads,
                most=most_heads(oracle.k, oracle.d, budget, biases=bool(self.biases), causal=self.causal),
                causal=self.causal,
                starts=self.starts,
                work=self.work,
                tell=tell,
                rng=rng,
            )
        return self._fixed(self.m, runner, draw(self.m, None), tell)

    def _draw(
        self, oracle: ExampleOracle, budget: int | None, heads: int, before: SplitExamples | None
    ) -> SplitExamples:
        k, d, floor = oracle.k, oracle.d, self._floor(heads, oracle.k, oracle.d)
        n = max(self.default_examples(heads, k, d) if budget is None else budget, floor + 1)
        require_memory(
            f"{type(self).__name__} with {shown(heads)} heads on {shown(n)} examples of {k} tokens in {d} dimensions",
            # x and y twice; for every head, the pattern, its reads and the derivatives of both
            8 * n * k * (6 * d + 2 * heads * (k + d)) + 64 * heads * d**2,
            advice="allow fewer examples, or take fewer heads",
        )
        whiten = partial(needed_whitening, centred=bool(self.biases))
        return draw_split(oracle, n, least=floor, before=before, whiten=whiten)

    def _fixed(self, m: int, runner: Runner, examples: SplitExamples, tell: Any) -> HeadCount:
        ends = runner.several(
            examples,
            m,
            starts=self.starts,
            work=self.work,
            tell=lambda start, number, one: tell(f"Start {start}, iterate {number}", examples, one, {}),
        )
        starts = len(ends.iterates)
        if self.rank is None:
            ends = runner.redraw_weakest(
                examples,
                ends,
                work=self.work,
                tell=lambda number, one: tell(f"Weakest head anew, iterate {number}", examples, one, {}),
            )
        return HeadCount(m, ends.best, examples, ends.passes, starts, ends.at_floor)

    def _without_biases(self, biased: HeadCount, runner: Runner) -> HeadCount:
        """The same heads, fitted without their biases from where they are."""
        examples = biased.examples.about_zero()
        start = self._start_at(examples.scaled(biased.examples.layer(biased.best)))
        end = runner.one(examples, start, biased.heads, work=max(1, self.work - biased.passes))
        return replace(biased, best=end, examples=examples, passes=biased.passes + end.passes)

    def _judged(self, found: HeadCount, runner: Runner, recorder: Recorder, rng: np.random.Generator) -> Fit:
        """The fit, judged on held-out examples; at the level of the noise, these are then fitted, too."""
        best, examples, passes = found.best, found.examples, found.passes
        verdict = judge(
            best,
            examples,
            tolerance=self.tolerance,
            spent_all=passes >= self.work,
            at_floor=found.at_floor,
        )
        if verdict.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR) and found.heads:
            tokens = np.concatenate([examples.x, examples.x_held])
            if not determines_other_inputs(best.layer, tokens, rank=self.rank, rng=rng):
                verdict = Verdict(Outcome.UNCONFIRMED, verdict.held_out_error)
        engine = str(self._engine(len(best.theta), examples.x.shape))
        shared: dict[str, Any] = {"engine": engine, "starts": found.starts, "heads": found.heads}
        own: dict[str, Any] = {
            "residual": best.residual,
            "held_out_error": verdict.held_out_error,
            "total_passes": passes,
        }
        layer = examples.layer(best)
        recorder.step("Held-out examples", layer=layer, **own, **shared)
        if verdict.outcome is not Outcome.NOISE_FLOOR:
            return recorder.fit(verdict, layer=layer)
        examples, count = examples.together(), 0
        if found.heads:
            _, k, d = examples.x.shape
            count = unknowns(heads=found.heads, tokens=k, dim=d, rank=self.rank, biases=bool(self.biases))
            best = runner.one(examples, self._start_at(best), found.heads, work=max(1, self.work - passes))
            passes += best.passes
        share = runner.share(examples, found.heads)
        noise = examples.unit * noise_level(best.residual, examples.y, share)
        own = {"residual": best.residual, "noise_level": noise, "total_passes": passes}
        own["expected_excess"] = noise * noise * count / examples.x.size
        layer = examples.layer(best)
        recorder.step("Refit with the held-out examples", layer=layer, **own, **shared)
        return recorder.fit(verdict, layer=layer)

    def _iterates(
        self,
        rng: np.random.Generator,
        x: np.ndarray,
        y: np.ndarray,
        start: np.ndarray | FactoredHeads,
        tolerance: float,
        priors: bool,
    ) -> Iterator[Iterate]:
        free = (start.a if isinstance(start, FactoredHeads) else start).shape
        if self.biases and free[1] == x.shape[2]:  # with a row of zeros more
            more = partial(np.pad, pad_width=((0, 0), (0, 1), (0, 0)))
            start = replace(start, a=more(start.a)) if isinstance(start, FactoredHeads) else more(start)
        engine = self._engine(free[0], x.shape)
        there = start.map(engine.put) if isinstance(start, FactoredHeads) else engine.put(start)
        settings: dict[str, Any] = {"tolerance": tolerance, "priors": priors, "causal": self.causal}
        return gauss_newton(engine.put(x), engine.put(y), there, **settings, rng=rng)

    def _start(
        self, examples: SplitExamples, heads: int, number: int, rng: np.random.Generator
    ) -> np.ndarray | FactoredHeads:
        """The start of this number, from 1: matrices Theta, or factors of the rank. Number 0 is for added heads."""
        d = examples.x.shape[-1]
        if isinstance(self.start, AttentionLayer) and number == 1 and self.start.heads == heads:
            return self._start_at(examples.scaled(self.start))
        if self.rank is not None:
            return random_factors(heads=heads, dim=d, rank=self.rank, rng=rng)
        return rng.standard_normal((heads, d, d)) / d

    def _start_at(self, heads: AttentionLayer | Iterate) -> np.ndarray | FactoredHeads:
        theta, w, key_bias = heads.theta, heads.w, heads.key_bias if self.biases else None
        if self.rank is not None:
            return FactoredHeads.of(AttentionLayer(theta, w, key_bias), self.rank)
        return with_key_bias(theta, key_bias)

    def _plain_starts(self, oracle: ExampleOracle, budget: int | None) -> int | float:
        if self.m == "auto":  # the path takes longer, and students with too few heads need no better minimum
            return math.inf
        few = budget is not None and budget < _FEW_FLOORS * self._floor(self.m, oracle.k, oracle.d)
        on_path = self.rank is not None or few
        return int(not on_path or isinstance(self.start, AttentionLayer))

    def _floor(self, heads: int, k: int, d: int) -> int:
        shape = {"heads": heads, "tokens": k, "dim": d}
        return counting_floor(**shape, rank=self.rank, biases=bool(self.biases), causal=self.causal)

    def _engine(self, heads: int, shape: tuple[int, ...]) -> Engine:
        if self.engine == "numpy" and self.device not in (None, "cpu"):
            return choose_engine("torch", self.device)
        if self.engine != "auto" or self.device is not None:
            return choose_engine(self.engine, self.device)
        if math.prod(shape) * heads * shape[-1] < _WORTH_TORCH:
            return choose_engine("numpy")
        engine = choose_engine()
        # with float32 only, torch is no faster on a CPU
        return choose_engine("numpy") if engine.low == engine.single else engine
