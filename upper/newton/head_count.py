"""Find the number of heads: guess it, then grow and prune students until neither more nor fewer heads are better."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attention import AttentionLayer
from attention.evaluation import EXACT_ERROR
from upper.newton.full_heads import Heads
from upper.newton.loop import Iterate
from upper.newton.noise import Noise, cost_of_each_head, no_worse
from upper.newton.problem import Problem, SplitExamples, Supply
from upper.newton.spectral import cross_moment_values, guessed_head_count
from upper.newton.starts import StartRules, heads_at, run, run_starts, starts_from, with_a_head


@dataclass(frozen=True)
class HeadCountRules:
    """When a head counts, and how long to look for another: stricter rules drop weak heads, laxer ones fit noise."""

    directions: int = 16  #: singular values of the cross-moments that the guess uses
    coarse: float = 1e-3  #: the residual at which students are compared; later digits say nothing of heads
    held_out: float = 50.0  #: times that, held-out examples are explained: a large student first overfits
    starts: int = 2  #: for each number of heads; after local minima, a larger student is tried
    growth: float = 1.5  #: the next student has so many times as many heads
    misses: int = 2  #: growing ends after so many larger students in a row without improvement
    #: a head counts if it reduces the squared residual by so many units, the reductions of white noise by as many
    #: unknowns; at four floors with 10 to 40 per cent noise, a superfluous head takes 2 to 2.8, one of a nice layer 4.5
    #: to 1000
    units: float = 3.5
    certain: float = 20.0  #: a head that takes more units is not dropped on trial
    dead: float = 1e-8  #: a head that takes a smaller share of the squared labels is dropped on trial at last
    same_noise: float = 0.7  #: students of several sizes estimate one noise up to this, unless they overfit


_RULES = HeadCountRules()


@dataclass(frozen=True, eq=False)
class HeadCount:
    """The smallest number of heads that explains held-out examples as well as any number tried.

    `heads` is 0 if no layer explains more than zero; then `best` has one head of zeros. `passes` and `starts` are those
    of all students. `at_floor` means the level of the noise: held-out examples have the residual of fitted ones, and
    another start ended there, or a larger student estimates as much noise and explains held-out examples no better.
    """

    heads: int
    best: Iterate
    examples: SplitExamples
    passes: int
    starts: int
    at_floor: bool


def count_heads(
    problem: Problem,
    supply: Supply,
    *,
    given: AttentionLayer | None,
    starts: int,
    work: int,
) -> HeadCount:
    """Fit students of several sizes until neither more nor fewer heads are better.

    Parameters
    ----------
    problem : Problem
        What runs work on, with the examples for one head.
    supply : Supply
        Where the examples for more heads come from.
    given : AttentionLayer, optional
        A layer with the first number of heads to try, and the first start. Without it, the cross-moments of the
        examples give an estimate.
    starts, work : int
        The most starts for each number of heads, and the budget in passes for all students together.

    Notes
    -----
    A head is superfluous if it reduces the squared residual by too few units. A unit is the reduction of white noise by
    as many unknowns: s^2 2 d^2 / (N k d) with s^2 = residual^2 / (1 - p / (N k d)); see `cost_of_each_head`. A student
    explains everything if its residual is coarsely zero on fitted and held-out examples.

    *Growing.* The next student has half as many heads more, or one head more if two starts agree. Growing ends if a
    student explains everything or has superfluous heads. It also ends if two students in a row were no better than the
    best before them, or at `most` heads, or if the work is spent.

    *Pruning.* If the last student explains everything, its weakest head is dropped repeatedly, while the rest still
    does so. Otherwise its superfluous heads are dropped together, or the weakest alone if that fails. If there are
    none, the weakest head is dropped, unless it takes many units. This is repeated while the squared errors of held-out
    rows grow by no more than their paired difference may by chance (`no_worse`). The answer is the smallest number of
    heads tried that explains held-out rows no worse than the best student does.

    *Last digits.* A student that explains everything is fitted to the last digit. If it does not reach it, heads are
    added one at a time while they count. Then heads with nearly no effect are dropped, while the rest explains held-out
    rows no worse.

    Growing tries O(log(most)) sizes, or O(most) if starts agree; the rest tries O(most).
    """
    search = _Search(problem, supply, given, supply.most_heads(), min(starts, _RULES.starts), work)
    if not np.any(problem.examples.y):
        return search.result(search.nothing())
    heads, measures = _guess(problem) if given is None else (given.heads, {})
    heads = max(1, min(heads, search.most))
    if problem.recorder is not None:
        problem.recorder.step("Spectrum of the cross-moments", heads=heads, **measures)
    student = search.grow(heads)
    if search.explains(student, search.coarse):
        student = search.polish(search.prune(student))
        return search.result(search.prune(search.add_to(student), last=True))
    search.prune(student)
    return search.result(search.smallest_of_the_best())


def _guess(problem: Problem) -> tuple[int, dict[str, Any]]:
    x, y = problem.examples.x, problem.examples.y
    if 1 in x.shape[1:]:
        return 1, {}  # one token or one coordinate: nothing to compare
    values = cross_moment_values(x, y, most=_RULES.directions, causal=problem.known.causal, rng=problem.rng)
    return guessed_head_count(values), {"singular_values": values}


@dataclass(frozen=True, eq=False)
class _Student:
    """A student with its number of heads, and whether several starts agreed on it."""

    heads: int
    end: Iterate
    agreed: bool = False


@dataclass
class _Search:
    """The students tried so far, and the problem with the examples for them."""

    problem: Problem
    supply: Supply
    given: AttentionLayer | None
    most: int
    starts: int
    work: int
    tried: list[_Student] = field(default_factory=list)
    passes: int = 0
    begun: int = 0

    @property
    def coarse(self) -> float:
        return max(_RULES.coarse, self.problem.tolerance)

    @property
    def last_digit(self) -> float:
        return max(EXACT_ERROR, self.problem.tolerance)

    def explains(self, student: _Student, tolerance: float) -> bool:
        """Whether it explains the fitted examples to `tolerance`, and the held-out ones to a multiple of that."""
        held_out = _RULES.held_out * tolerance
        return student.end.residual <= tolerance and self._held_out_error(student) <= held_out

    def nothing(self) -> _Student:
        """The student without heads."""
        d, y = self.problem.examples.x.shape[2], self.problem.examples.y
        theta, w = np.zeros((2, 1, d, d))
        zero = AttentionLayer(theta, w, causal=self.problem.known.causal)
        return _Student(0, Iterate(zero, float(np.any(y)), engine=str(self.problem.engine(1))))

    def result(self, student: _Student) -> HeadCount:
        """What was found, with whether it is at the level of the noise."""
        held, share = self.problem.examples.held_out, self.problem.share(student.heads)
        noisy = bool(np.any(held.y)) and Noise().at_level(student.end, held, share=share)
        beaten = any(
            other.heads > student.heads
            and self.no_worse(student, other)
            and self._variance(other) > _RULES.same_noise * self._variance(student)
            for other in self.tried
        )
        return HeadCount(
            heads=student.heads,
            best=student.end,
            examples=self.problem.examples,
            passes=self.passes,
            starts=self.begun,
            at_floor=noisy and (student.agreed or beaten),
        )

    def grow(self, heads: int) -> _Student:
        """Fit larger and larger students, until one explains everything or has superfluous heads, or growing fails."""
        best, misses = self.nothing(), 0
        while True:
            self._draw(heads)
            student = self._fit(heads)
            counts = self._counts(student, best)
            best, misses = (student, 0) if counts else (best, misses + 1)
            ended = misses >= _RULES.misses or heads >= self.most or self.passes >= self.work
            if ended or self.explains(student, self.coarse) or len(self._superfluous(student)):
                return student
            heads = min(self.most, heads + 1 if student.agreed else math.ceil(_RULES.growth * heads))

    def prune(self, student: _Student, *, last: bool = False) -> _Student:
        """Drop heads while the rest explains everything coarsely, if the student does, or held-out examples no worse.

        At last, only heads with nearly no effect are dropped.
        """
        drop = self._to_drop(student, last=last)
        while len(drop) and self.passes < self.work:
            rest = self._drop(student, drop, last=last)
            coarsely = not last and self.explains(student, self.coarse)
            if self.explains(rest, self.coarse) if coarsely else self.no_worse(rest, student):
                student, drop = rest, self._to_drop(rest, last=last)
            elif len(drop) > 1:
                drop = drop[:1]
            else:
                break
        return student

    def no_worse(self, student: _Student, than: _Student) -> bool:
        """Whether it explains held-out rows no worse than another."""
        return no_worse(self._errors(student), self._errors(than))

    def polish(self, student: _Student) -> _Student:
        """Fit the same heads to the last digit."""
        return self._again(
            heads_at(self.problem, student.end.layer),
            f"{_heads(student.heads)}, to the last digit",
            last=True,
        )

    def add_to(self, student: _Student) -> _Student:
        """Add one head at a time to the fitted ones, while it reduces the residual by more than noise."""
        self.tried = [student]
        while not self.explains(student, self.last_digit):
            if student.heads >= self.most or self.passes >= self.work:
                break
            heads = student.heads + 1
            self._draw(heads)
            start = with_a_head(self.problem, heads_at(self.problem, student.end.layer))
            more = self._again(start, f"A head more, {heads}", last=True)
            if not self._counts(more, student) or len(self._superfluous(more)):
                break
            student = more
        return self.smallest_of_the_best()

    def smallest_of_the_best(self) -> _Student:
        """The smallest student tried that explains held-out examples no worse than the best."""
        tried = [self.nothing(), *self.tried]
        errors = [self._errors(student) for student in tried]
        least = min(errors, key=np.mean)
        fitting = [i for i, error in enumerate(errors) if no_worse(error, least)]
        return tried[min(fitting, key=lambda i: (tried[i].heads, errors[i].mean()))]

    def _draw(self, heads: int) -> None:
        self.problem = replace(self.problem, examples=self.supply.draw(heads, self.problem.examples))

    def _counts(self, student: _Student, best: _Student) -> bool:
        """Whether its extra heads reduce the squared residual of `best` by more than superfluous heads would."""
        taken = best.end.residual**2 - student.end.residual**2
        return taken > _RULES.units * self._unit(student) * (student.heads - best.heads)

    def _superfluous(self, student: _Student) -> np.ndarray:
        """The superfluous heads, the weakest first."""
        costs = self._costs(student)
        order = np.argsort(costs)
        return order[costs[order] <= _RULES.units * self._unit(student)]

    def _to_drop(self, student: _Student, *, last: bool) -> np.ndarray:
        """The heads to drop on trial, the weakest first."""
        if student.heads == 0:
            return np.empty(0, dtype=int)
        costs = self._costs(student)
        weakest = np.argsort(costs)[:1]
        if last:
            return weakest[(costs[weakest] <= _RULES.dead) & (student.heads > 1)]
        if self.explains(student, self.coarse):
            fewer, poor = student.heads - 1, 10 * self.coarse
            failed = any(other.heads == fewer and other.end.residual > poor for other in self.tried)
            return weakest if fewer and not failed else weakest[:0]
        superfluous = self._superfluous(student)
        return (
            superfluous
            if len(superfluous)
            else weakest[costs[weakest] <= _RULES.certain * self._unit(student)]
        )

    def _fit(self, heads: int) -> _Student:
        problem = replace(self.problem, tolerance=self.coarse, everywhere=False)
        starts = starts_from(problem, heads, self.given, f"{_heads(heads)}, start")
        ends = run_starts(problem, starts, StartRules(self.starts), work=self.work - self.passes)
        self.begun += len(ends.iterates)
        return self._record(_heads(heads), _Student(heads, ends.best, ends.at_floor), ends.passes)

    def _drop(self, student: _Student, heads: np.ndarray, *, last: bool) -> _Student:
        left = np.delete(np.arange(student.heads), heads)
        if not len(left):
            return self._record("Pruned to no head", self.nothing(), 0)
        name = f"Pruned to {_heads(len(left))}" + (", to the last digit" if last else "")
        return self._again(heads_at(self.problem, student.end.layer, left), name, last=last)

    def _again(self, start: Heads, name: str, *, last: bool) -> _Student:
        """Continue a run from a start, to the last digit or to the residual for comparing students."""
        tolerance = self.problem.tolerance if last else self.coarse
        everywhere = tolerance <= self.problem.tolerance
        problem = replace(self.problem, tolerance=tolerance, everywhere=everywhere)
        end = run(problem, start, work=max(1, self.work - self.passes))
        return self._record(name, _Student(start.heads, end), end.passes)

    def _record(self, name: str, student: _Student, passes: int) -> _Student:
        self.passes += passes
        self.tried.append(student)
        error = self._held_out_error(student)
        self.problem.record(
            name, student.end, heads=student.heads, held_out_error=error, total_passes=self.passes
        )
        return student

    def _held_out_error(self, student: _Student) -> float:
        energy = float(np.sum(self.problem.examples.y_held**2))
        return math.sqrt(float(self._errors(student).sum()) / (energy or 1.0))

    def _errors(self, student: _Student) -> np.ndarray:
        held = self.problem.examples.held_out
        return ((student.end.layer(held.x) - held.y) ** 2).sum(axis=2).reshape(-1)

    def _costs(self, student: _Student) -> np.ndarray:
        examples = self.problem.examples
        return cost_of_each_head(examples.x, student.end.layer) / float(np.sum(examples.y**2))

    def _unit(self, student: _Student) -> float:
        """The reduction of white noise, of the size of the student's residual, by the unknowns of one head."""
        x = self.problem.examples.x
        each = replace(self.problem.known, biased=False).unknowns(student.heads, *x.shape[1:]) / student.heads
        return self._variance(student) * each / x.size

    def _variance(self, student: _Student) -> float:
        """The variance of the noise, relative to the labels, if the residual is only noise."""
        return float(student.end.residual**2 / (1 - self.problem.share(student.heads)))


def _heads(number: int) -> str:
    return "1 head" if number == 1 else f"{number} heads"
