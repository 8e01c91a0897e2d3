"""Learners (upper bounds): the six phases, the Newton learner, and the baselines they are measured against."""

from upper.adam import Adam
from upper.floor import counting_floor
from upper.gauss_newton import Iterate, gauss_newton
from upper.jacobian import HeadJacobian
from upper.known_part import KnownPart
from upper.linear import LinearBaseline, LinearPredictor
from upper.newton import Newton
from upper.six_phase import SixPhase
from upper.stacked import read_tokens, stack_projections

__all__ = [
    "Adam",
    "HeadJacobian",
    "Iterate",
    "KnownPart",
    "LinearBaseline",
    "LinearPredictor",
    "Newton",
    "SixPhase",
    "counting_floor",
    "gauss_newton",
    "read_tokens",
    "stack_projections",
]
