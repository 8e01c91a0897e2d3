"""Baselines: the learners that a user would choose otherwise, for comparison."""

from upper.baselines.closed_form import KnownPart, LinearBaseline, OneGradientStep
from upper.baselines.frozen_attention import FrozenAttention
from upper.baselines.gradient_descent import GradientDescent
from upper.baselines.lbfgs import LBFGS
from upper.baselines.tuned_adam import TunedAdam

__all__ = [
    "LBFGS",
    "FrozenAttention",
    "GradientDescent",
    "KnownPart",
    "LinearBaseline",
    "OneGradientStep",
    "TunedAdam",
]
