"""Baselines: the learners that a user would choose otherwise, for comparison."""

from upper.baselines.adam import Adam, TunedAdam
from upper.baselines.closed_form import KnownPart, LinearBaseline, OneGradientStep
from upper.baselines.frozen_attention import FrozenAttention
from upper.baselines.lbfgs import LBFGS
from upper.baselines.sgd import SGD

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
