"""The learners a user would pick instead, against which the others are measured."""

from upper.baselines.adam import Adam
from upper.baselines.frozen_attention import FrozenAttention
from upper.baselines.known_part import KnownPart
from upper.baselines.lbfgs import LBFGS
from upper.baselines.linear import LinearBaseline
from upper.baselines.one_step import OneGradientStep
from upper.baselines.sgd import SGD
from upper.baselines.tuned_adam import TunedAdam

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "FrozenAttention",
    "KnownPart",
    "LinearBaseline",
    "OneGradientStep",
    "TunedAdam",
]
