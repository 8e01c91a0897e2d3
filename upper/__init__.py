"""Learners (upper bounds): the six phases, the Newton learner, and the baselines for comparison."""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from upper.baselines.closed_form import KnownComponentBaseline, LinearBaseline, OneGradientStep
    from upper.baselines.gradient_descent import GradientDescent
    from upper.baselines.lbfgs import LBFGS
    from upper.blocks import BlockByQueries, FeedForwardByQueries
    from upper.engine import choose_engine
    from upper.floor import counting_floor
    from upper.linear_attention.learner import LinearAttentionLearner
    from upper.newton import Newton, certify_layer, gauss_newton
    from upper.rotary import RotaryByQueries
    from upper.six_phase import SixPhase
    from upper.value_queries import ByQueries

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "LBFGS",
    "BlockByQueries",
    "ByQueries",
    "FeedForwardByQueries",
    "GradientDescent",
    "KnownComponentBaseline",
    "LinearAttentionLearner",
    "LinearBaseline",
    "Newton",
    "OneGradientStep",
    "RotaryByQueries",
    "SixPhase",
    "certify_layer",
    "choose_engine",
    "counting_floor",
    "gauss_newton",
]
