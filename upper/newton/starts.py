"""Runs: where they start, when another follows, and when those that agree are at a floor.

Another start follows until one run is exact, or three end at a floor: the same residual, on held-out examples too.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from attention import AttentionLayer, Recorder
from attention.evaluation import EXACT_ERROR
from upper.engine import Engine, EngineChoice
from upper.floor import LayerClass
from upper.newton.full_heads import FullHeads, Heads
from upper.newton.loop import Iterate, Run
from upper.newton.low_rank import LowRankHeads, random_factors
from upper.newton.noise import Noise, cost_of_each_head
from upper.newton.prior import AnnealedPrior
from upper.newton.split import SplitExamples
from upper.newton.stopping import (
    LOW_RANK_PATIENCE,
    MORE_PATIENCE,
    NO_LOWER,
    Patience,
    Stopping,
    last_iterate,
)

__all__ = [
    "Ends",
    "Problem",
    "Start",
    "StartRules",
    "heads_at",
    "only_heads",
    "random_heads",
    "redraw_weakest",
    "run",
    "run_starts",
    "starts_from",
    "with_a_head",
]


@dataclass(frozen=True, eq=False)
class Problem:
    """What runs of Gauss-Newton work on."""

    examples: SplitExamples  #: examples to fit, and held-out ones
    known: LayerClass  #: what is known of the layer besides its number of heads
    tolerance: float  #: the relative residual at which a run ends
    rng: np.random.Generator  #: draws random starts, and the probes of runs
    engines: EngineChoice = field(default_factory=EngineChoice)  #: where to compute
    recorder: Recorder | None = None  #: records every iterate
    phase: int | None = None  #: the phase of the recorded steps
    everywhere: bool = True  #: whether held-out examples must reach the tolerance, too

    def engine(self, heads: int) -> Engine:
        """The engine for so many heads."""
        x = self.examples.x
        return self.engines.at_size(x.size * heads * x.shape[2])

    def share(self, heads: int) -> float:
        """Unknowns over equations, p / (n k d): the share of squared white noise that fitting so many heads takes."""
        x = self.examples.x
        # with fewer than two equations per unknown, the residual carries no information on the noise
        return min(self.known.unknowns(heads, *x.shape[1:]) / x.size, 0.5)

    def iterates(self, start: Heads, *, priors: bool = False) -> Iterator[Iterate]:
        """The iterates of a run from a start."""
        engine, (x, y) = self.engine(start.heads), (self.examples.x, self.examples.y)
        run = Run(engine, engine.put(x), engine.put(y), start.map(engine.put), self.rng)
        return run.iterates(self.tolerance, priors=priors)

    def recorded(self, iterates: Iterable[Iterate], name: str) -> Iterator[Iterate]:
        """The same iterates, each recorded as a step of this name and its number."""
        for number, iterate in enumerate(iterates):
            self.record(f"{name}, iterate {number}", iterate)
            yield iterate

    def record(self, name: str, iterate: Iterate, **measures: Any) -> None:
        """Record an iterate as a step of the trace, with more measures."""
        if self.recorder is None:
            return
        layer = self.examples.layer(iterate) if self.recorder.measuring else None
        own = {"residual": iterate.residual, "damping": iterate.damping, "passes": iterate.passes} | measures
        engine = str(self.engine(iterate.layer.heads))
        self.recorder.step(name, layer=layer, phase=self.phase, engine=engine, **own)


class Start(NamedTuple):
    """Heads to start from, and the name of the run in the trace."""

    name: str
    heads: Heads


@dataclass(frozen=True)
class StartRules:
    """How many starts there are: more find minima that few miss, and take as many times the passes."""

    most: int = 10
    #: the number of first starts that are random; later ones anneal a ridge prior
    random: int | float = math.inf
    #: whether starts that agree are a floor only if the best run rests: `few` more iterates of it leave nearly all of
    #: the residual. If not, it and later runs get more patience: runs with many heads are all slow and similar at first
    confirm: bool = False
    few: int = 5
    #: so many starts with one residual are a floor; 1 of 16 pairs shared a local minimum at d = 6
    agreeing: int = 3
    #: below this error on held-out examples starts agree although these do not have their residual: minima in which a
    #: run overfits have errors of about 1, and may have nearly equal residuals
    learned: float = 0.5


@dataclass(frozen=True, eq=False)
class Ends:
    """The final iterates of the runs from several starts, one per start, the smallest residual first.

    `passes` counts those of all starts. `at_floor` means that the three best runs (with two starts, both) ended at the
    same residual, and held-out examples have it too. Then the labels are noisy at that level, or the student is too
    small.
    """

    iterates: tuple[Iterate, ...]
    passes: int
    at_floor: bool

    @property
    def best(self) -> Iterate:
        """The final iterate with the smallest residual."""
        return self.iterates[0]


def starts_from(problem: Problem, heads: int, given: AttentionLayer | None, name: str) -> Iterator[Start]:
    """A given layer, if it has so many heads, and then random heads; the runs are numbered."""
    for number in count(1):
        if number == 1 and given is not None and given.heads == heads:
            start = heads_at(problem, problem.examples.scaled(given))
        else:
            start = random_heads(problem, heads)
        yield Start(f"{name} {number}", start)


def random_heads(problem: Problem, heads: int) -> Heads:
    """Random heads of the class of the problem, Theta ~ N(0, (1/d)^2) or factors of such matrices, without biases."""
    known, d = problem.known, problem.examples.x.shape[2]
    if known.rank is None:
        theta = problem.rng.standard_normal((heads, d, d)) / d
        return FullHeads(_with_row(theta) if known.biased else theta, causal=known.causal)
    factors = random_factors(heads=heads, dim=d, rank=known.rank, rng=problem.rng)
    return replace(factors, a=_with_row(factors.a) if known.biased else factors.a, causal=known.causal)


def heads_at(problem: Problem, layer: AttentionLayer) -> Heads:
    """The heads of a layer in NumPy to start from; with biases, those it has."""
    known = problem.known
    key_bias = layer.key_bias if known.biased else None
    if known.rank is not None:
        factors = LowRankHeads.of(replace(layer, key_bias=key_bias), known.rank)
        a = _with_row(factors.a) if known.biased and key_bias is None else factors.a
        return replace(factors, a=a, causal=known.causal)
    theta = layer.theta
    if known.biased:
        theta = _with_row(theta)
        if key_bias is not None:
            theta[:, -1] = key_bias
    return FullHeads(theta, causal=known.causal)


def run(
    problem: Problem,
    start: Heads,
    *,
    work: int | float,
    name: str = "",
    priors: bool = False,
    patience: Patience | None = None,
) -> Iterate:
    """The final iterate of a run (see `last_iterate`); with a name, every iterate is recorded."""
    if patience is None:
        patience = Patience() if problem.known.rank is None else LOW_RANK_PATIENCE
    share, held_out = problem.share(start.heads), problem.examples.held_out
    stopping = Stopping(problem.tolerance, work, patience, share, held_out, problem.everywhere)
    iterates = problem.iterates(start, priors=priors)
    return last_iterate(problem.recorded(iterates, name) if name else iterates, stopping)


def run_starts(problem: Problem, starts: Iterator[Start], rules: StartRules, *, work: int | float) -> Ends:
    """The final iterates of runs from these starts; it stops once one is exact, three agree or the work is spent.

    Starts agree if they end at the same residual, and held-out examples have it too, or it is below that of minima that
    hold runs and the error of held-out examples below a half: with few examples, noise makes it several times the
    residual. While all starts so far end at one residual, on held-out examples too, the next start is random: that
    confirms a floor at less cost, and two local minima seldom agree.
    """
    noise, held_out = Noise(), problem.examples.held_out
    ends: list[Iterate] = []
    spent, agree, at_floor = 0, False, False
    patience: Patience | None = None
    several = max(2, min(rules.most, rules.agreeing))
    while len(ends) < rules.most and spent < work and not agree:
        name, heads = next(starts)
        share = problem.share(heads.heads)
        confirms = at_floor and noise.same_residual(ends, share=share, several=len(ends))
        priors = len(ends) >= rules.random and not confirms
        ends.append(run(problem, heads, work=work - spent, name=name, priors=priors, patience=patience))
        spent += ends[-1].passes
        ends.sort(key=attrgetter("residual"))
        if _exact(problem, ends[0]):
            break
        at_floor = noise.at_level(ends[0], held_out, share=share)
        agree = noise.same_residual(ends, share=share, several=several) and (
            at_floor or _learned(problem, ends[0], rules)
        )
        if agree and rules.confirm and patience is None and spent < work:
            resumed = heads_at(problem, ends[0].layer)
            passes, rests = _rests(problem, resumed, ends[0].residual, rules)
            spent += passes
            if not rests and spent < work:
                patience, agree = MORE_PATIENCE, False
                ends[0] = run(problem, resumed, work=work - spent, name=name, patience=patience)
                spent += ends[0].passes
                if _exact(problem, ends[0]):
                    break
    return Ends(tuple(ends), spent, agree and at_floor)


def redraw_weakest(problem: Problem, ends: Ends, *, work: int | float) -> Ends:
    """Redraw the weakest head and fit it to the residual of the others, while this helps; for full matrices.

    Random starts all fit the strong heads first. If one head is a thousand times weaker, their residuals agree, as
    they do at the level of noise. `work` includes the passes of `ends`. There are at most m runs. A redrawn head counts
    if it brings the residual below nine tenths; two minima at the noise level differ by less.
    """
    best, heads = ends.best, ends.best.layer.heads
    for _ in range(heads if heads > 1 else 0):
        if not ends.at_floor or ends.passes >= work:
            break
        costs = cost_of_each_head(problem.examples.x, best.layer)
        start = with_a_head(problem, only_heads(best.layer, np.arange(heads) != np.argmin(costs)))
        again = run(problem, start, work=work - ends.passes, name="Weakest head anew")
        passes = ends.passes + again.passes
        if again.residual > 0.9 * best.residual:
            return replace(ends, passes=passes)
        at_floor = Noise().at_level(again, problem.examples.held_out, share=problem.share(heads))
        ends, best = Ends((again, *ends.iterates), passes, at_floor), again
    return ends


def only_heads(layer: AttentionLayer, which: np.ndarray) -> AttentionLayer:
    """The layer with some of its heads, whose projections are as before."""
    key_bias = None if layer.key_bias is None else layer.key_bias[which]
    return replace(layer, theta=layer.theta[which], w=layer.w[which], key_bias=key_bias)


def with_a_head(problem: Problem, fitted: AttentionLayer) -> FullHeads:
    """The start that adds a random head to fitted ones, of full matrices."""
    added, start = random_heads(problem, 1), heads_at(problem, fitted)
    return FullHeads(np.concatenate([start.array, added.array]), causal=problem.known.causal)


def _exact(problem: Problem, end: Iterate) -> bool:
    return end.residual < EXACT_ERROR or Stopping(
        problem.tolerance, math.inf, held_out=problem.examples.held_out, everywhere=problem.everywhere
    ).reached(end)


def _learned(problem: Problem, end: Iterate, rules: StartRules) -> bool:
    error = problem.examples.held_out.error
    return end.residual < AnnealedPrior().learned and error(end.layer) < rules.learned


def _rests(problem: Problem, start: Heads, residual: float, rules: StartRules) -> tuple[int, bool]:
    """The passes of a few more iterates from `start`, and whether these leave the residual nearly unchanged."""
    passes = 0
    for iterate in islice(problem.iterates(start), 1 + rules.few):
        passes = iterate.passes
        if iterate.residual < NO_LOWER * residual:
            return passes, False
    return passes, True


def _with_row(array: np.ndarray) -> np.ndarray:
    """The matrices with a row of zeros more, for the biases."""
    return np.pad(array, ((0, 0), (0, 1), (0, 0)))
