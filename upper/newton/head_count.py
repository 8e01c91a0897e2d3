"""Find the number of heads: guess it, then grow and prune students until neither more nor fewer heads are better."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from attention.evaluation import EXACT_ERROR
from upper.floor import counting_floor, unknowns
from upper.newton.loop import Iterate
from upper.newton.runs import Runner, SplitExamples, at_noise_level, cost_of_each_head, with_key_bias
from upper.newton.spectral import cross_moment

__all__ = ["HeadCount", "count_heads", "most_heads", "no_worse"]

# The number of singular values of the cross-moments that the guess uses.
_DIRECTIONS = 16
# Students are compared at this relative residual; the last digits carry no information on the number of heads.
_COARSE = 1e-3
# Held-out examples may have this many times the residual of fitted ones: a student far too large first overfits.
_HELD_OUT = 50
# Starts for each number of heads; after local minima, a larger student is tried.
_STARTS = 2
# Growing ends after this many larger students in a row without improvement.
_MISSES = 2
_GROWTH = 1.5
# A head counts if it reduces the squared residual by this many units; a unit is the reduction of white noise by as many
# unknowns. At four floors with 10 to 40 per cent noise, a superfluous head takes 2 to 2.8 units, a head of a nice layer
# 4.5 to 1000.
_UNITS = 3.5
# Dropping a head that reduces the squared residual by less than this share of the labels is tried.
_DEAD = 1e-8
# The search does not try to drop a head that takes more units than this.
_CERTAIN = 20.0
# Students of several sizes estimate the same noise up to this ratio, unless they overfit a target that is too hard.
_SAME_NOISE = 0.7
_TO_THE_END = ", to the last digit"
_SIGNIFICANT = 2.0  # standard errors of a paired difference


@dataclass(frozen=True, eq=False)
class HeadCount:
    """The smallest number of heads that explains held-out examples as well as any number tried.

    `heads` is 0 if no layer explains more than predicting zero; then `best` has one head of zeros. `passes` and
    `starts` count those of all students. `at_floor` means that the residual is at the level of the noise. Held-out
    examples then have the residual of fitted ones. Also, another start ended there, or a larger student estimates as
    much noise and explains held-out examples no better.
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
    causal: bool,
    tell: Callable[[str, SplitExamples, Iterate | None, dict[str, Any]], None],
    rng: np.random.Generator,
) -> HeadCount:
    """Fit students of several sizes until neither more nor fewer heads are better.

    Parameters
    ----------
    draw : callable
        Maps a number of heads and the examples drawn before to the examples for that number.
    guess, most : int
        The first number of heads to try (None estimates it from the cross-moments of the examples), and the largest.
    starts, work : int
        The most starts for each number of heads (two are enough), and the budget in passes for all students together.
    causal : bool
        Whether the heads are causal.
    tell : callable
        Called with the name of a step, the examples, the student's iterate (or None) and its measures.

    Notes
    -----
    A head is superfluous if it reduces the squared residual by less than 3.5 units. A unit is the reduction of white
    noise by as many unknowns: s^2 2 d^2 / (N k d) with s^2 = residual^2 / (1 - p / (N k d)); see `cost_of_each_head`.

    A student explains everything if its residual is at most 1e-3 on the fitted examples and at most 50 times that on
    the held-out ones.

    *Growing.* The next student has 1.5 times as many heads, or one head more if two starts agree. Growing ends if a
    student explains everything or has superfluous heads. It also ends if two students in a row were no better than the
    best before them, or at `most` heads, or if the work is spent.

    *Pruning.* If the last student explains everything, its weakest head is dropped repeatedly, while the rest still
    does so. Otherwise its superfluous heads are dropped together, or the weakest alone if that fails. If there are
    none, the weakest head is dropped, unless it takes more than 20 units. This is repeated while the squared errors of
    held-out rows grow by at most two standard errors of the paired difference. The answer is the smallest number of
    heads tried that explains held-out rows no worse than the best student does.

    *Last digits.* A student that explains everything is fitted to the last digit. If it does not reach it, heads are
    added one at a time while they count. Then heads with nearly no effect are dropped, while the rest explains held-out
    rows no worse.

    Growing tries O(log(most)) sizes, or O(most) if starts agree; pruning and adding try O(most).
    """
    search = _Search(runner, draw, most, min(starts, _STARTS), work, causal, tell, examples=draw(1, None))
    heads, measures = _guess(search.examples, causal, rng) if guess is None else (guess, {})
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


def _guess(examples: SplitExamples, causal: bool, rng: np.random.Generator) -> tuple[int, dict[str, float]]:
    d = examples.x.shape[2]
    if 1 in examples.x.shape[1:] or not np.any(examples.y):
        return 1, {}  # one token or one coordinate: nothing to compare; or no label to explain
    moment = cross_moment(examples.x, examples.y, directions=min(_DIRECTIONS, d * d), causal=causal, rng=rng)
    return moment.head_count(), {f"value_{i}": float(value) for i, value in enumerate(moment.values, 1)}


def most_heads(k: int, d: int, budget: int | None, *, biases: bool = False, causal: bool = False) -> int:
    """The most heads, up to 2 d, for which the budget reaches the counting floor and two equations per unknown."""
    most = 2 * d
    while budget is not None and most > 1:
        enough = 2 * unknowns(heads=most, tokens=k, dim=d, biases=biases) <= budget * k * d
        if enough and counting_floor(heads=most, tokens=k, dim=d, biases=biases, causal=causal) < budget:
            break
        most -= 1
    return most


@dataclass(frozen=True, eq=False)
class _Student:
    """A student with its number of heads, and whether several starts agreed on it."""

    heads: int
    end: Iterate
    agreed: bool = False


@dataclass
class _Search:
    """The students tried so far, and the examples for them."""

    runner: Runner
    draw: Callable[[int, SplitExamples | None], SplitExamples]
    most: int
    starts: int
    work: int
    causal: bool
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
        """Whether it explains the fitted examples to `tolerance`, and the held-out ones to _HELD_OUT times that."""
        return student.end.residual <= tolerance and self._held_out_error(student) <= _HELD_OUT * tolerance

    def nothing(self) -> _Student:
        """The student without heads."""
        zeros = np.zeros((1, self.examples.x.shape[2], self.examples.x.shape[2]))
        return _Student(
            0, Iterate(zeros, zeros, float(np.any(self.examples.y)), 0.0, passes=0, causal=self.causal)
        )

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
        """Fit larger and larger students, until one explains everything or has superfluous heads, or growing fails."""
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
        """Drop the weakest head repeatedly, while the remaining heads explain everything."""
        while student.heads > 1 and self.passes < self.work:
            if any(other.heads == student.heads - 1 and not self._near(other) for other in self.tried):
                break  # that number of heads has failed already
            fewer = self._drop(student, self._by_cost(student)[:1])
            if not self.explains(fewer, self.coarse):
                break
            student = fewer
        return student

    def polish(self, student: _Student) -> _Student:
        """Fit the same heads to the last digit."""
        return self._again(student.end, f"{_heads(student.heads)}{_TO_THE_END}", last=True)

    def add_to(self, student: _Student) -> _Student:
        """Add one head at a time to the fitted ones, while it reduces the residual by more than noise."""
        self.tried = [student]
        while not self.explains(student, self.last_digit):
            if student.heads >= self.most or self.passes >= self.work:
                break
            heads = student.heads + 1
            self.examples = self.draw(heads, self.examples)
            start = self.runner.with_a_head(self.examples, student.end)
            more = self._again(start, f"A head more, {heads}", last=True)
            if not self._counts(more, student) or len(self._superfluous(more)):
                break
            student = more
        return self.smallest_of_the_best()

    def drop_dead(self, student: _Student) -> _Student:
        """Drop heads with nearly no effect one after another, while held-out examples are explained no worse."""
        while student.heads > 1 and self.passes < self.work:
            if float(self._costs(student).min()) > _DEAD:
                break
            fewer = self._drop(student, self._by_cost(student)[:1], last=True)
            if not no_worse(self._errors(fewer), self._errors(student)):
                break
            student = fewer
        return student

    def prune_superfluous(self, student: _Student) -> None:
        """Drop the superfluous heads, or the weakest one, while held-out examples are explained no worse."""
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
        """The smallest student tried that explains held-out examples no worse than the best."""
        tried = [self.nothing(), *self.tried]
        best = self._errors(min(tried, key=self._mean_error))
        fitting = [student for student in tried if no_worse(self._errors(student), best)]
        fewest = min(student.heads for student in fitting)
        return min((student for student in fitting if student.heads == fewest), key=self._mean_error)

    def _near(self, student: _Student) -> bool:
        return student.end.residual <= 10 * self.coarse

    def _counts(self, student: _Student, best: _Student) -> bool:
        """Whether its extra heads reduce the squared residual of `best` by more than superfluous heads would."""
        taken = best.end.residual**2 - student.end.residual**2
        return taken > _UNITS * self._unit(student) * (student.heads - best.heads)

    def _by_cost(self, student: _Student) -> np.ndarray:
        return np.argsort(self._costs(student))

    def _superfluous(self, student: _Student) -> np.ndarray:
        """The superfluous heads, the weakest first."""
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
        rest = student.end.only(np.delete(np.arange(student.heads), heads))
        if not len(rest.theta):
            return self._record("Pruned to no head", self.nothing(), 0)
        name = f"Pruned to {_heads(len(rest.theta))}"
        return self._again(rest, f"{name}{_TO_THE_END}" if last else name, last=last)

    def _again(self, start: np.ndarray | Iterate, name: str, *, last: bool) -> _Student:
        """Continue a run from a start or an iterate, to the last digit or to the residual for comparing students."""
        start = with_key_bias(start.theta, start.key_bias) if isinstance(start, Iterate) else start
        heads, tolerance = len(start), self.runner.tolerance if last else self.coarse
        runner = replace(self.runner, tolerance=tolerance, held_out_too=tolerance <= self.runner.tolerance)
        end = runner.one(self.examples, start, heads, work=max(1, self.work - self.passes))
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
        costs = cost_of_each_head(self.examples.x, student.end)
        return costs / float(np.sum(self.examples.y**2))

    def _unit(self, student: _Student) -> float:
        """The reduction of white noise, of the size of the student's residual, by the unknowns of one head."""
        _, k, d = self.examples.x.shape
        each = unknowns(heads=student.heads, tokens=k, dim=d) / student.heads
        return self._variance(student) * each / self.examples.x.size

    def _variance(self, student: _Student) -> float:
        """The variance of the noise, relative to the labels, if the residual is only noise."""
        return float(student.end.residual**2 / (1 - self._share(student.heads)))

    def _share(self, heads: int) -> float:
        return self.runner.share(self.examples, heads)


def _heads(number: int) -> str:
    return "1 head" if number == 1 else f"{number} heads"


def no_worse(errors: Float[np.ndarray, " rows"], than: Float[np.ndarray, " rows"]) -> bool:
    """Whether the mean of `errors` is at most that of `than`, up to two standard errors of the paired difference.

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
