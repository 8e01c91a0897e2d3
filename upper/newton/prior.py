"""An annealed ridge prior: where it starts, how it falls with every accepted trial, and when it is dropped.

A run that anneals the prior minimises |Y - F|^2 + sigma^2 (|W|^2 / tau_w^2 + |Theta|^2 / tau_theta^2), at low rank with
the factors in place of W and Theta. W is eliminated by ridge. The tau are those of the start, with tau_w such that Z W
has the size of Y. The prior keeps a random start out of local minima, and fades as it improves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from upper.engine import Engine


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
