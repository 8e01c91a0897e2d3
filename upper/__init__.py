"""Learners (upper bounds): the Newton learner and the baselines it is measured against."""

from upper.adam import Adam
from upper.floor import counting_floor
from upper.gauss_newton import Iterate, gauss_newton
from upper.known_part import KnownPart
from upper.linear import LinearBaseline, LinearPredictor
from upper.newton import Newton
from upper.stacked import HeadJacobian, read_tokens, stack_projections

__all__ = [
    "Adam",
    "HeadJacobian",
    "Iterate",
    "KnownPart",
    "LinearBaseline",
    "LinearPredictor",
    "Newton",
    "counting_floor",
    "gauss_newton",
    "read_tokens",
    "stack_projections",
]
