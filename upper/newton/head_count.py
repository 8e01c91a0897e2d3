"""How many heads: a guess, then students grown and pruned until neither more heads nor fewer would do."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from attention.evaluation import EXACT_ERROR
from upper.floor import counting_floor, unknowns
from upper.newton.loop import Iterate
from upper.newton.runs import Runner, SplitExamples, at_noise_level, cost_of_each_head, fitted_share
from upper.newton.spectral import cross_moment

__all__ = ["HeadCount", "count_heads", "most_heads", "no_worse"]

# Singular values of the cross-moments to look at.
_DIRECTIONS = 16
# Sizes are compared at this relative residual; the last digits say nothing about the number of heads.
_COARSE = 1e-3
# Held-out examples may have so many times the residual of those fitted: a student far too large overfits at first.
_HELD_OUT = 50
# Starts for a number of heads: a larger number makes up for local minima.
_STARTS = 2
# Numbers of heads that explain no more, in a row, before growing ends.
_MISSES = 2
_GROWTH = 1.5
# What a head must take off the squared residual to count, in units of what as many unknowns take off white noise: one
# with nothing to explain takes 2 to 2.8, heads of nice layers take 4.5 to 1000 (four floors, noise 10 to 40 per cent).
_UNITS = 3.5
# A head that takes less than this share off the squared labels may be no head at all.
_DEAD = 1e-10
# A head that takes more units than this is not tried without.
_CERTAIN = 20.0
# Students of several sizes estimate one noise within this ratio; those that overfit a target too hard for them do not.
_SAME_NOISE = 0.7
_TO_THE_END = ", to the last digit"
_SIGNIFICANT = 2.0  # standard errors of a paired difference


@dataclass(frozen=True, eq=False)
class HeadCount:
    """The smallest number of heads that explains held-out examples as well as any number tried.

    `heads` is 0 where no layer explains more than zero does; then `best` has one head of zeros. `passes` and `starts`
    are those of all students. `at_floor` says that it is at the level of the noise: held-out examples have the residual
    of those fitted, and another start ended there too, or a larger student that sees as much noise does no better.
    """

    heads: int
    best: Iterate
    examples: SplitExamples
    passes: int
    starts: int
    at_floor: bool


def count_heads(
    runner: Runner,
    draw: Callable[[int, SplitExamples | None], SplitExamples],
    *,
    guess: int | None,
    most: int,
    starts: int,
    work: int,
    tell: Callable[[str, SplitExamples, Iterate | None, dict[str, Any]], None],
    rng: np.random.Generator,
) -> HeadCount:
    """Fit students of several sizes until neither more nor fewer heads would do.

    Parameters
    ----------
    draw : callable
        Maps a number of heads and the examples drawn before to the examples to try it with.
    guess, most : int
        The number of heads to begin with (None takes it from the cross-moments of the examples) and the most to try.
    starts, work : int
        At most so many starts for each number of heads, and two suffice; passes for all students together.
    tell : callable
        Called with the name of a step, the examples, the student's iterate (or None) and its measures.

    Notes
    -----
    A head is superfluous if it takes less off the squared residual than 3.5 times what white noise loses to as many
    unknowns, s^2 2 d^2 / (N k d) with s^2 = residual^2 / (1 - p / (N k d)); see `cost_of_each_head`.

    A student that ends far above zero from every start, without a superfluous head, is followed by one half as large
    again (by one head more where two starts agree). Growing ends when a student explains fitted and held-out examples
    to 1e-3, has superfluous heads, or two larger ones in a row were no better. Then superfluous heads are dropped, and
    the weakest, while the paired squared errors of held-out rows grow by less than two standard errors (while the rest
    explains everything, in a student that does). Under noise the answer is the smallest number of heads that
    explains held-out rows no worse than the best does. A student that explains everything is fitted to the last digit;
    if it is not exact on held-out examples, heads are added one at a time while they count.

    Growing tries O(log(most)) sizes, or O(most) where starts agree; dropping and adding try O(most).
    """
    search = _Search(runner, draw, most, min(starts, _STARTS), work, tell, examples=draw(1, None))
    heads, measures = _guess(search.examples, rng) if guess is None else (guess, {})
    heads = max(1, min(heads, most))
    tell("Spectrum of the cross-moments", search.examples, None, {"heads": heads, **measures})
    if not np.any(search.examples.y):
        return search.result(search.nothing())
    found = search.grow(heads)
    if search.explains(found, search.coarse):
        found = search.drop_dead(search.add_to(search.polish(search.prune_while_explained(found))))
    else:
        search.prune_superfluous(found)
        found = search.smallest_of_the_best()
    return search.result(found)


def _guess(examples: SplitExamples, rng: np.random.Generator) -> tuple[int, dict[str, float]]:
    d = examples.x.shape[2]
    if 1 in examples.x.shape[1:] or not np.any(examples.y):
        return 1, {}  # no two tokens, or directions, to compare, or nothing to explain
    moment = cross_moment(examples.x, examples.y, directions=min(_DIRECTIONS, d * d), rng=rng)
    return moment.head_count(), {f"value_{i}": float(value) for i, value in enumerate(moment.values, 1)}


def most_heads(k: int, d: int, budget: int | None) -> int:
    """The most heads for which the budget has the counting floor, and two equations an unknown; at most 2 d."""
    most = 2 * d
    while budget is not None and most > 1:
        enough = 2 * unknowns(heads=most, tokens=k, dim=d) <= budget * k * d
        if enough and counting_floor(heads=most, tokens=k, dim=d) < budget:
            break
        most -= 1
    return most


@dataclass(frozen=True, eq=False)
class _Student:
    """A student of so many heads, and whether several starts agreed on it."""

    heads: int
    end: Iterate
    agreed: bool = False


@dataclass
class _Search:
    """The students tried, and the examples they were tried on."""

    runner: Runner
    draw: Callable[[int, SplitExamples | None], SplitExamples]
    most: int
    starts: int
    work: int
    tell: Callable[[str, SplitExamples, Iterate | None, dict[str, Any]], None]
    examples: SplitExamples
    tried: list[_Student] = field(default_factory=list)
    passes: int = 0
    begun: int = 0

    @property
    def coarse(self) -> float:
        return max(_COARSE, self.runner.tolerance)

    @property
    def last_digit(self) -> float:
        return max(EXACT_ERROR, self.runner.tolerance)

    def explains(self, student: _Student, tolerance: float) -> bool:
        """Whether it explains the examples fitted and, up to what that costs, those held out."""
        return student.end.residual <= tolerance and self._held_out_error(student) <= _HELD_OUT * tolerance

    def nothing(self) -> _Student:
        """The student without heads."""
        zeros = np.zeros((1, self.examples.x.shape[2], self.examples.x.shape[2]))
        return _Student(0, Iterate(zeros, zeros, float(np.any(self.examples.y)), damping=0.0, passes=0))

    def result(self, found: _Student) -> HeadCount:
        held = self.examples.held_out
        noisy = bool(np.any(held.y)) and at_noise_level(found.end, held, share=self._share(found.heads))
        beaten = any(
            other.heads > found.heads
            and no_worse(self._errors(found), self._errors(other))
            and self._variance(other) > _SAME_NOISE * self._variance(found)
            for other in self.tried
        )
        return HeadCount(
            heads=found.heads,
            best=found.end,
            examples=self.examples,
            passes=self.passes,
            starts=self.begun,
            at_floor=noisy and (found.agreed or beaten),
        )

    def grow(self, heads: int) -> _Student:
        """Students from random starts, larger and larger, until one explains everything or has superfluous heads."""
        best, misses = self.nothing(), 0
        while True:
            self.examples = self.draw(heads, self.examples)
            student = self._fit(heads)
            counts = self._counts(student, best)
            best, misses = (student, 0) if counts else (best, misses + 1)
            ended = misses >= _MISSES or heads >= self.most or self.passes >= self.work
            if ended or self.explains(student, self.coarse) or len(self._superfluous(student)):
                return student
            heads = min(self.most, heads + 1 if student.agreed else math.ceil(_GROWTH * heads))

    def prune_while_explained(self, student: _Student) -> _Student:
        """The weakest head dropped, and again, while the rest explains everything."""
        while student.heads > 1 and self.passes < self.work:
            if any(other.heads == student.heads - 1 and not self._near(other) for other in self.tried):
                break  # so many failed from several starts
            fewer = self._drop(student, self._by_cost(student)[:1])
            if not self.explains(fewer, self.coarse):
                break
            student = fewer
        return student

    def polish(self, student: _Student) -> _Student:
        """The same heads, fitted to the last digit."""
        return self._again(student.end.theta, f"{_heads(student.heads)}{_TO_THE_END}", last=True)

    def add_to(self, student: _Student) -> _Student:
        """A head more, from where the others are, and again, while it takes more off the residual than off noise."""
        self.tried = [student]
        while not self.explains(student, self.last_digit):
            if student.heads >= self.most or self.passes >= self.work:
                break
            heads = student.heads + 1
            self.examples = self.draw(heads, self.examples)
            left = self.examples.y - student.end.layer(self.examples.x)
            added = self.runner.start(replace(self.examples, y=left), 1, 0)
            more = self._again(np.concatenate([student.end.theta, added]), f"A head more, {heads}", last=True)
            if not self._counts(more, student) or len(self._superfluous(more)):
                break
            student = more
        return self.smallest_of_the_best()

    def drop_dead(self, student: _Student) -> _Student:
        """Heads that give next to nothing dropped one after another, while the rest is as exact as all were."""
        goal = self.last_digit
        while student.heads > 1 and self.explains(student, goal) and self.passes < self.work:
            if float(self._costs(student).min()) > _DEAD:
                break
            fewer = self._drop(student, self._by_cost(student)[:1], last=True)
            if not self.explains(fewer, goal):
                break
            student = fewer
        return student

    def prune_superfluous(self, student: _Student) -> None:
        """Superfluous heads dropped, or the weakest, while held-out examples are explained no worse."""
        drop = self._to_drop(student)
        while len(drop) and self.passes < self.work:
            fewer = self._drop(student, drop)
            if no_worse(self._errors(fewer), self._errors(student)):
                student, drop = fewer, self._to_drop(fewer)
            elif len(drop) > 1:
                drop = drop[:1]
            else:
                return

    def smallest_of_the_best(self) -> _Student:
        """The smallest of those tried that explains held-out examples as well as any."""
        tried = [self.nothing(), *self.tried]
        best = self._errors(min(tried, key=self._mean_error))
        fitting = [student for student in tried if no_worse(self._errors(student), best)]
        fewest = min(student.heads for student in fitting)
        return min((student for student in fitting if student.heads == fewest), key=self._mean_error)

    def _near(self, student: _Student) -> bool:
        return student.end.residual <= 10 * self.coarse

    def _counts(self, student: _Student, best: _Student) -> bool:
        """Whether it takes more off the squared residual of a smaller one than heads with nothing to explain do."""
        taken = best.end.residual**2 - student.end.residual**2
        return taken > _UNITS * self._unit(student) * (student.heads - best.heads)

    def _by_cost(self, student: _Student) -> np.ndarray:
        return np.argsort(self._costs(student))

    def _superfluous(self, student: _Student) -> np.ndarray:
        """The heads that take off no more than one with nothing to explain, the weakest first."""
        order = self._by_cost(student)
        return order[self._costs(student)[order] <= _UNITS * self._unit(student)]

    def _to_drop(self, student: _Student) -> np.ndarray:
        if student.heads == 0:
            return np.empty(0, dtype=int)
        superfluous, weakest = self._superfluous(student), self._by_cost(student)[:1]
        may = self._costs(student)[weakest] <= _CERTAIN * self._unit(student)
        return superfluous if len(superfluous) else weakest[may]

    def _fit(self, heads: int) -> _Student:
        def tell(start: int, number: int, iterate: Iterate) -> None:
            self.tell(f"{_heads(heads)}, start {start}, iterate {number}", self.examples, iterate, {})

        runner = replace(self.runner, tolerance=self.coarse, held_out_too=False)
        left = self.work - self.passes
        ends = runner.several(self.examples, heads, starts=self.starts, work=left, tell=tell)
        self.begun += len(ends.iterates)
        return self._record(_heads(heads), _Student(heads, ends.best, ends.at_floor), ends.passes)

    def _drop(self, student: _Student, heads: np.ndarray, *, last: bool = False) -> _Student:
        theta = np.delete(student.end.theta, heads, axis=0)
        if not len(theta):
            return self._record("Pruned to no head", self.nothing(), 0)
        name = f"Pruned to {_heads(len(theta))}"
        return self._again(theta, f"{name}{_TO_THE_END}" if last else name, last=last)

    def _again(self, theta: np.ndarray, name: str, *, last: bool) -> _Student:
        """The heads run on from there, to the last digit or to where sizes are compared."""
        heads, tolerance = len(theta), self.runner.tolerance if last else self.coarse
        runner = replace(self.runner, tolerance=tolerance, held_out_too=tolerance <= self.runner.tolerance)
        end = runner.one(self.examples, theta, heads, work=max(1, self.work - self.passes))
        return self._record(name, _Student(heads, end), end.passes)

    def _record(self, name: str, student: _Student, passes: int) -> _Student:
        self.passes += passes
        self.tried.append(student)
        measures = {"heads": student.heads, "held_out_error": self._held_out_error(student)}
        self.tell(name, self.examples, student.end, measures | {"total_passes": self.passes})
        return student

    def _held_out_error(self, student: _Student) -> float:
        energy = float(np.sum(self.examples.y_held**2))
        error = float(self._errors(student).sum())
        return math.sqrt(error / energy) if energy > 0 else math.sqrt(error)

    def _mean_error(self, student: _Student) -> float:
        return float(self._errors(student).mean())

    def _errors(self, student: _Student) -> np.ndarray:
        return ((student.end.layer(self.examples.x_held) - self.examples.y_held) ** 2).sum(axis=2).reshape(-1)

    def _costs(self, student: _Student) -> np.ndarray:
        costs = cost_of_each_head(self.examples.x, student.end.theta, student.end.w)
        return costs / float(np.sum(self.examples.y**2))

    def _unit(self, student: _Student) -> float:
        """What one head's unknowns take off white noise of the size of the student's residual."""
        _, k, d = self.examples.x.shape
        each = unknowns(heads=student.heads, tokens=k, dim=d) / student.heads
        return self._variance(student) * each / self.examples.x.size

    def _variance(self, student: _Student) -> float:
        """Of the noise, relative to the labels, if noise is all that the student leaves."""
        return float(student.end.residual**2 / (1 - self._share(student.heads)))

    def _share(self, heads: int) -> float:
        return fitted_share(self.examples.x, heads)


def _heads(number: int) -> str:
    return "1 head" if number == 1 else f"{number} heads"


def no_worse(errors: Float[np.ndarray, " rows"], than: Float[np.ndarray, " rows"]) -> bool:
    """Whether squared errors on the same rows are not larger on average, up to two standard errors of the difference.

    Examples
    --------
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.9, 3.0]))
    True
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.5]))
    False
    """
    exact = EXACT_ERROR**2
    if than.mean() < exact or not np.isfinite(errors).all():
        return bool(errors.mean() < exact)
    difference = errors - than
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() <= _SIGNIFICANT * spread)
