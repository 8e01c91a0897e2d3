"""Where a run stops: at the tolerance, when its work is spent, where it stalls, or at the level of the noise."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attention.evaluation import EXACT_ERROR, HeldOut
from upper.newton.loop import Iterate

__all__ = ["LOW_RANK_PATIENCE", "MORE_PATIENCE", "NO_LOWER", "Patience", "Stopping", "last_iterate"]

NO_LOWER = 0.98
"""An error that is more than this share of an earlier one no longer falls."""


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

    def reached(self, iterate: Iterate) -> bool:
        """Whether an iterate is at the tolerance."""
        if iterate.residual > self.tolerance:
            return False
        if self.held_out is None or not self.everywhere:
            return True
        return self.held_out.error(iterate.layer) <= max(self.tolerance, EXACT_ERROR)

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
        if ended:
            improving = stopping.improving(iterate, marks[0] if len(marks) > 1 else None)
            return replace(iterate, improving=improving)
    raise AssertionError("gauss_newton never ends by itself")
