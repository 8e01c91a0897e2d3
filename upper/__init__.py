"""Learners (upper bounds): the six phases, the Newton learner, and the baselines they are measured against."""

from upper.baselines import (
    LBFGS,
    SGD,
    Adam,
    FrozenAttention,
    KnownPart,
    LinearBaseline,
    OneGradientStep,
    TunedAdam,
)
from upper.engine import Engine, choose_engine
from upper.floor import counting_floor
from upper.linear_attention.learner import LinearAttentionLearner
from upper.newton import FactoredHeads, Iterate, Newton, gauss_newton, random_factors
from upper.six_phase import SixPhase
from upper.spectral import CrossMoment, cross_moment, spectral_start
from upper.stacked import read_tokens, stack_projections

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "CrossMoment",
    "Engine",
    "FactoredHeads",
    "FrozenAttention",
    "Iterate",
    "KnownPart",
    "LinearAttentionLearner",
    "LinearBaseline",
    "Newton",
    "OneGradientStep",
    "SixPhase",
    "TunedAdam",
    "choose_engine",
    "counting_floor",
    "cross_moment",
    "gauss_newton",
    "random_factors",
    "read_tokens",
    "spectral_start",
    "stack_projections",
]
