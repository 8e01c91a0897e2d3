"""Baselines: the learners that a user would choose otherwise, for comparison."""

from upper.baselines.closed_form import KnownPart, LinearBaseline, OneGradientStep
from upper.baselines.gradient_descent import GradientDescent
from upper.baselines.lbfgs import LBFGS

__all__ = [
    "LBFGS",
    "GradientDescent",
    "KnownPart",
    "LinearBaseline",
    "OneGradientStep",
]
