"""How a run adapts from trial to trial: damping, an annealed ridge prior, and the precision of the arithmetic.

A run that anneals the prior minimises |Y - F|^2 + sigma^2 (|W|^2 / tau_w^2 + |Theta|^2 / tau_theta^2), at low rank with
the factors in place of W and Theta. W is eliminated by ridge. The tau are those of the start, with tau_w such that Z W
has the size of Y. The prior keeps a random start out of local minima, and fades as it improves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attention.evaluation import EXACT_ERROR
from upper.engine import Engine

__all__ = ["AnnealedPrior", "Damping", "Precision", "PriorScale", "next_damping"]


@dataclass(frozen=True)
class Damping:
    """How far a step goes: a large lambda is gradient descent, lambda zero the full Gauss-Newton step."""

    first: float = 1e-2  #: at the start; values from 1e-4 to 1e-1 give the same results
    #: a run is on a plateau if so many accepted trials leave more than this share of the residual: there lambda falls
    #: with every accepted trial, and inner solves are more accurate, or else a saturated head, far above the mean
    #: curvature, keeps the others from moving
    plateau: int = 5
    plateau_ratio: float = 0.8

    def on_plateau(self, residuals: Sequence[float]) -> bool:
        """Whether the last of these residuals is on a plateau."""
        accepted = list(dict.fromkeys(residuals))  # a rejected trial repeats the residual
        return (
            len(accepted) > self.plateau and accepted[-1] > self.plateau_ratio * accepted[-1 - self.plateau]
        )


def next_damping(damping: float, before: float, after: float, *, steady: bool = False) -> float:
    """The damping lambda after a trial that changed the cost from `before` to `after`.

    It grows fourfold if the cost does not fall. It falls fourfold if `after` is below .8 of `before`, and if `steady`
    by half after any fall. If the cost falls below .3, lambda is at most its square: the convergence is then
    superlinear.

    Examples
    --------
    >>> next_damping(0.01, 0.9, 0.5), next_damping(0.01, 0.9, 0.8), next_damping(0.01, 0.9, 1.2)
    (0.0025, 0.01, 0.04)
    >>> next_damping(0.01, 0.1, 0.01), next_damping(0.01, 0.9, 0.8, steady=True)
    (0.0001, 0.005)
    """
    if not after < before:
        return 4 * max(damping, 1e-16)
    if after < 0.8 * before:
        damping *= 0.25
    elif steady:
        damping *= 0.5
    return min(damping, after**2) if after < 0.3 else damping


@dataclass(frozen=True)
class AnnealedPrior:
    """How sigma^2, the noise that the prior assumes, falls from the variance of Y: slower finds better minima."""

    first: float = 0.7
    factor: float = 0.95  #: with every accepted trial
    #: the prior is dropped below this sigma^2, or below the squared residual: on ways to a solution sigma^2 is larger,
    #: and at the level of noise there is nothing left to find
    last: float = 0.02
    #: the largest squared residual that drops it: above it a run may not have begun to follow
    most_last: float = 0.4
    #: it is also dropped below this residual, since minima that hold runs have larger ones
    learned: float = 0.15
    inner_steps: int = 12  #: the most of a trial: the minimum moves before a long solve is of use
    #: it is dropped if no step is accepted up to this damping: rounding alone is left of its pull
    stuck: float = 1e3

    def following(self, variance: float, residual: float) -> float:
        """The variance sigma^2 after an accepted trial from this residual; 0 if the prior is dropped."""
        least = max(self.last, min(residual**2, self.most_last))
        return self.factor * variance if variance > least and residual > self.learned else 0.0


@dataclass(frozen=True, eq=False)
class PriorScale:
    """The sizes that the prior expects, those of a start: it is a draw of the prior, and Z W there as large as Y.

    `weights` has the inverse variance of each block of parameters, for labels of norm 1, and `spread` is |Z|^2.
    """

    spread: float
    weights: tuple[float, ...]

    @classmethod
    def of(cls, engine: Engine, read: Any, blocks: Sequence[Any], labels: int) -> "PriorScale":
        """The scale of a start with these reads and blocks of parameters, for so many labels."""
        weights = (math.prod(block.shape) / (labels * engine.norm(block) ** 2) for block in blocks)
        return cls(engine.norm(read) ** 2, tuple(weights))

    def ridge(self, engine: Engine, read: Any, variance: float) -> float:
        """The ridge on the linear factor, in units of the mean diagonal of Z^T Z."""
        rows, columns = read.shape
        return variance * self.spread / engine.norm(read) ** 2 * columns / rows

    def penalty(self, engine: Engine, blocks: Sequence[Any], factor: Any, rows: int, size: float) -> float:
        """The prior's part of the cost at sigma^2 = 1, relative to the squared norm `size`^2 of the labels."""
        of_blocks = (w * engine.norm(block) ** 2 for w, block in zip(self.weights, blocks, strict=True))
        return sum(of_blocks) + self.spread / rows * (engine.norm(factor) / size) ** 2


@dataclass(frozen=True)
class Precision:
    """When a run changes to float64: later is faster, earlier loses fewer digits."""

    #: below, reads and residuals are float64: float32 patterns are too coarse for the next
    double_below: float = 2e-5
    #: the least ridge on the linear factor, in units of the mean diagonal of G = Z^T Z, in float32 and throughout
    #: float64; heads at a relative distance e change G by e^2 and J^T J by e^4 only, so the first hides 1/100
    ridge: float = 1e-6
    precise_ridge: float = 1e-13
    #: a run is slow, and goes on in float64 throughout, if so many trials below this residual leave more than this
    #: share of it; local minima of nice targets have larger residuals, and other runs fall faster
    slow_below: float = 1e-2
    slow_trials: int = 8
    slow_ratio: float = 0.5

    def slow(self, residuals: Sequence[float]) -> bool:
        """Whether a run with these residuals is slow."""
        now = residuals[-1]
        # at smaller residuals, rounding alone makes a run slow
        if not EXACT_ERROR < now < self.slow_below or len(residuals) <= self.slow_trials:
            return False
        return now > self.slow_ratio * residuals[-1 - self.slow_trials]
