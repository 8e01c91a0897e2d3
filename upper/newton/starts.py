"""Runs: where they start, where one stops, when another follows, and when those that agree are at a floor.

A run stops at the tolerance, when its work is spent, where it stalls, or at the level of the noise. Another start
follows until one run is exact, or three end at a floor: the same residual, on held-out examples too.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from attention import AttentionLayer
from attention.evaluation import EXACT_ERROR, HeldOut
from upper.newton.full_heads import FullHeads, Heads
from upper.newton.loop import Iterate
from upper.newton.low_rank import LowRankHeads, random_factors
from upper.newton.moment_start import heads_by_moments
from upper.newton.noise import Noise, cost_of_each_head
from upper.newton.prior import AnnealedPrior
from upper.newton.problem import Problem

NO_LOWER = 0.98
"""An error that is more than this share of an earlier one no longer falls."""

WIDER, LEARNED = 1.5, 0.02
"""Random starts have the first multiple of a known rank, up to the second residual: narrow factors end in local minima.

At (4, 4, 32) and rank 8, one start is exact on 8 of 8 targets from three floors, and on 3 without. Of heads like
trained ones it finds 5 at four floors and 6 at 3.4, in place of 3 and 1; twice the rank, or .005 or .1 in place of .02,
find no more."""


@dataclass(frozen=True)
class Patience:
    """When to give up a run: more patience finds what slow runs find, and costs passes where there is nothing."""

    #: a run has stalled if so many iterates leave more than this share of the residual; for full matrices the worst
    #: share in a run that ended exact on nice targets is 1e-9
    iterates: int = 10
    ratio: float = 0.7
    #: a run has converged if so many steps in a row are each too short to matter (`last_iterate`)
    steps: int = 1
    #: below this residual these count in place of the first two: steps are slow if heads are nearly equal, or if almost
    #: all rows of a pattern are saturated
    slow_below: float = 1e-2
    slow_iterates: int = 40
    slow_ratio: float = 0.9
    #: and these for the last digits, where extra heads make a run slow until only rounding remains
    last_iterates: int = 10
    last_ratio: float = 0.9
    #: a run has converged if the further steps would take less than this share of what fitting takes of squared noise
    undone: float = 0.01
    long_step: float = 0.5  #: a step that takes more of the squared residual is not yet near a minimum

    def stalled(self, residuals: Sequence[float]) -> bool:
        """Whether a run with these residuals no longer falls."""
        now = residuals[-1]
        if now < EXACT_ERROR and len(residuals) > self.last_iterates:
            few = self.last_iterates if now >= 1e-13 else 2  # below, the last digits are rounding
            if now >= self.last_ratio * residuals[-1 - few]:
                return True
        slow = now < self.slow_below
        iterates, ratio = (self.slow_iterates, self.slow_ratio) if slow else (self.iterates, self.ratio)
        return len(residuals) > iterates and now > ratio * residuals[-1 - iterates]

    def converged(self, falls: Sequence[float], share: float) -> bool:
        """Whether steps with these falls of the squared residual are at the level of the noise."""
        if len(falls) <= self.steps:
            return False
        return all(
            now < share and now < before < self.long_step and now * now / (before - now) < self.undone * share
            for before, now in pairwise(falls[-1 - self.steps :])
        )


# Factors: the worst ratio seen in a run that ended exact, over 40 targets, is .967.
LOW_RANK_PATIENCE = Patience(20, 0.98, steps=8)
MORE_PATIENCE = Patience(20, 0.98)


@dataclass(frozen=True, eq=False)
class Stopping:
    """When a run ends."""

    tolerance: float  #: the relative residual at which it ends
    work: int | float  #: the budget in passes; a started trial is finished
    patience: Patience = Patience()  #: when it has stalled or converged
    share: float = 0.0  #: of squared noise that fitting takes, as `Problem.share`; with 0 no run converges
    held_out: HeldOut | None = None  #: examples that tell whether the work ended while their error still fell
    everywhere: bool = False  #: whether the held-out examples must be at the tolerance, too
    ends_overfitted: bool = False  #: whether it also ends where it overfits
    #: it overfits if the error on held-out examples is more than so many times the residual, and more than this share
    #: of the error at the accepted iterate before; of 30 nice layers none did
    apart: float = 3.0
    overfit_share: float = 0.6

    def reached(self, iterate: Iterate) -> bool:
        """Whether an iterate is at the tolerance."""
        if iterate.residual > self.tolerance:
            return False
        if self.held_out is None or not self.everywhere:
            return True
        return self.held_out.error(iterate.layer) <= max(self.tolerance, EXACT_ERROR)

    def overfits(self, iterate: Iterate, errors: list[float]) -> bool:
        """Whether a run overfits at an iterate; its error on held-out examples joins the `errors` so far."""
        follows = iterate.accepted and not iterate.prior and iterate.residual < AnnealedPrior().learned
        if self.held_out is None or not self.ends_overfitted or not follows:
            return False
        errors.append(self.held_out.error(iterate.layer))
        return len(errors) > 1 and errors[-1] > max(
            self.apart * iterate.residual, self.overfit_share * errors[-2]
        )

    def improving(self, end: Iterate, before: Iterate | None) -> bool:
        """Whether the work ended while the error on held-out examples still fell, from the iterate `before` if any."""
        if self.held_out is None or end.passes < self.work:
            return False
        if before is None:
            return True
        return self.held_out.error(end.layer) < NO_LOWER * self.held_out.error(before.layer)


def last_iterate(iterates: Iterable[Iterate], stopping: Stopping) -> Iterate:
    """The first iterate at the tolerance, at the end of the work, or where the run stalled or converged.

    While a prior is annealed, only the work can end the run.

    Notes
    -----
    At a minimum under noise, fitting has reduced the squared residual by the share p / N, which is also the excess
    error of a perfect fit relative to the noise. A run has converged when all further steps would reduce the squared
    residual by less than a hundredth of that. Near a minimum, these reductions shrink by a ratio q per step, so after
    the reduction f the further steps give f q / (1 - q). One short step after a step that gained more than half is not
    yet evidence of convergence.
    """
    residuals: list[float] = []
    falls: list[float] = []
    errors: list[float] = []
    marks: deque[Iterate] = deque(maxlen=2)  # passes double from one to the next
    for iterate in iterates:
        if not marks or iterate.passes >= 2 * marks[-1].passes:
            marks.append(iterate)
        ended = iterate.passes >= stopping.work
        if not iterate.prior:
            if not iterate.accepted:
                falls.clear()  # the damping shortens the next steps, so their falls are no evidence
            elif residuals and residuals[-1] > 0:
                falls.append(1 - (iterate.residual / residuals[-1]) ** 2)
            residuals.append(iterate.residual)
            ended = ended or stopping.reached(iterate)
            ended = ended or stopping.patience.stalled(residuals)
            ended = ended or stopping.patience.converged(falls, stopping.share)
        if not ended and stopping.overfits(iterate, errors):
            return replace(iterate, overfits=True)
        if ended:
            improving = stopping.improving(iterate, marks[0] if len(marks) > 1 else None)
            return replace(iterate, improving=improving)
    raise AssertionError("gauss_newton never ends by itself")


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


@dataclass(frozen=True)
class MomentRules:
    """When the first start is by moments: smaller layers are learned in the time that the moments take."""

    heads: int = 8
    dim: int = 64
    #: the most unknowns for each equation; fewer examples than four floors give moments that are all noise
    share: float = 0.3
    #: two tokens leave the sign of a head to the weak part of the labels that is linear in the tokens
    tokens: int = 3

    def help(self, problem: Problem, heads: int) -> bool:
        """Whether so many heads of full matrices start by moments."""
        _, k, d = problem.examples.x.shape
        large = (heads >= self.heads or d >= self.dim) and k >= self.tokens
        return large and problem.known.rank is None and problem.share(heads) <= self.share


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
    """A given layer, if it has so many heads, or heads by moments, and then random heads; the runs are numbered."""
    for number in count(1):
        if number == 1 and given is not None and given.heads == heads:
            start = heads_at(problem, problem.examples.scaled(given))
        elif number == 1 and MomentRules().help(problem, heads):
            start = heads_from_moments(problem, heads)
        else:
            start = random_heads(problem, heads)
        yield Start(f"{name} {number}", start)


def random_heads(problem: Problem, heads: int) -> Heads:
    """Random heads, Theta ~ N(0, (1/d)^2), without biases; with a known rank, factors of a larger one."""
    known, d = problem.known, problem.examples.x.shape[2]
    if known.rank is None:
        theta = problem.rng.standard_normal((heads, d, d)) / d
        return _full_heads(problem, theta)
    rank = min(d, math.ceil(WIDER * known.rank))
    factors = random_factors(heads=heads, dim=d, rank=rank, rng=problem.rng)
    return replace(factors, a=_with_row(factors.a) if known.biased else factors.a, causal=known.causal)


def heads_from_moments(problem: Problem, heads: int) -> FullHeads:
    """Heads by moments of the examples, without biases (see `upper.newton.moment_start`)."""
    x, y = problem.examples.x, problem.examples.y
    theta = heads_by_moments(x, y, heads, causal=problem.known.causal, rng=problem.rng)
    return _full_heads(problem, theta)


def heads_at(problem: Problem, layer: AttentionLayer, only: Any = slice(None)) -> Heads:
    """The heads of a layer in NumPy to start from, or some of them; with biases, those it has."""
    known, theta = problem.known, layer.theta[only]
    key_bias = layer.key_bias[only] if known.biased and layer.key_bias is not None else None
    if known.rank is not None:
        factors = LowRankHeads.of(AttentionLayer(theta, layer.w[only], key_bias), known.rank)
        a = _with_row(factors.a) if known.biased and key_bias is None else factors.a
        return replace(factors, a=a, causal=known.causal)
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
    """The final iterate of a run (see `last_iterate`); with a name, every iterate is recorded.

    A start of more than a known rank runs until it has learned, is cut to that rank, and goes on.
    """
    known = problem.known
    if known.rank is not None and start.rank > known.rank:
        wide = replace(
            problem,
            known=replace(known, rank=start.rank),
            tolerance=max(LEARNED, problem.tolerance),
            everywhere=False,
            ends_overfitted=False,
        )
        first = run(wide, start, work=work, name=name and f"{name}, wider", priors=priors)
        left = max(1, work - first.passes)
        end = run(problem, heads_at(problem, first.layer), work=left, name=name, patience=patience)
        return replace(end, passes=first.passes + end.passes)
    if patience is None:
        patience = Patience() if known.rank is None else LOW_RANK_PATIENCE
    share, held_out = problem.share(start.heads), problem.examples.held_out
    stopping = Stopping(
        problem.tolerance, work, patience, share, held_out, problem.everywhere, problem.ends_overfitted
    )
    iterates = problem.iterates(start, priors=priors)
    return last_iterate(problem.recorded(iterates, name) if name else iterates, stopping)


def run_starts(problem: Problem, starts: Iterator[Start], rules: StartRules, *, work: int | float) -> Ends:
    """The final iterates of runs from these starts; it stops once one is exact, three agree or the work is spent.

    It also stops at a run that overfits, which needs more examples rather than another start.

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
        if ends[-1].overfits:
            return Ends((ends[-1],), spent, False)
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
    best, heads = ends.best, len(ends.best.layer.theta)
    for _ in range(heads if heads > 1 else 0):
        if not ends.at_floor or ends.passes >= work:
            break
        costs = cost_of_each_head(problem.examples.x, best.layer)
        start = with_a_head(problem, heads_at(problem, best.layer, np.arange(heads) != np.argmin(costs)))
        again = run(problem, start, work=work - ends.passes, name="Weakest head anew")
        passes = ends.passes + again.passes
        if again.residual > 0.9 * best.residual:
            return replace(ends, passes=passes)
        at_floor = Noise().at_level(again, problem.examples.held_out, share=problem.share(heads))
        ends, best = Ends((again, *ends.iterates), passes, at_floor), again
    return ends


def with_a_head(problem: Problem, fitted: Heads) -> FullHeads:
    """The start that adds a random head to fitted ones, of full matrices."""
    both = np.concatenate([fitted.array, random_heads(problem, 1).array])
    return FullHeads(both, causal=problem.known.causal)


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


def _full_heads(problem: Problem, theta: np.ndarray) -> FullHeads:
    known = problem.known
    return FullHeads(_with_row(theta) if known.biased else theta, causal=known.causal)


def _with_row(array: np.ndarray) -> np.ndarray:
    """The matrices with a row of zeros more, for the biases."""
    return np.pad(array, ((0, 0), (0, 1), (0, 0)))
