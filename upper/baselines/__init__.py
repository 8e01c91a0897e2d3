"""What a user would pick instead: the learners the others are measured against.

`Adam` and `LinearBaseline` stand beside this package; `KnownPart` is the zero of every comparison.
"""

from upper.baselines.frozen_attention import FrozenAttention, regress_projections
from upper.baselines.lbfgs import LBFGS, relative_loss
from upper.baselines.one_step import OneGradientStep
from upper.baselines.sgd import SGD
from upper.baselines.tuned_adam import TunedAdam

__all__ = [
    "LBFGS",
    "SGD",
    "FrozenAttention",
    "OneGradientStep",
    "TunedAdam",
    "regress_projections",
    "relative_loss",
]
