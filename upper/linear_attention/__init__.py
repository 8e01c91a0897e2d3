"""Linear attention, learned exactly in polynomial time by regression in cubic features.

Statements without a source are derived here.
"""

from upper.linear_attention.by_gradient import train_linear_attention
from upper.linear_attention.certificate import another_minimiser, certify, feature_moment
from upper.linear_attention.features import (
    cubic_features,
    cubic_kernel,
    feature_count,
    features_from_tensor,
    softmax_features,
    tensor_from_features,
)
from upper.linear_attention.heads import fit_heads, heads_of_tensor, symmetric_rank
from upper.linear_attention.learner import LinearAttentionLearner
from upper.linear_attention.least_squares import FeatureMoments
from upper.linear_attention.model import (
    LinearAttention,
    load_linear_attention,
    make_linear_attention,
    save_linear_attention,
)
from upper.linear_attention.populations import exact_rank, population_moment
from upper.linear_attention.regression import regress, regress_moments

__all__ = [
    "FeatureMoments",
    "LinearAttention",
    "LinearAttentionLearner",
    "another_minimiser",
    "certify",
    "cubic_features",
    "cubic_kernel",
    "exact_rank",
    "feature_count",
    "feature_moment",
    "features_from_tensor",
    "fit_heads",
    "heads_of_tensor",
    "load_linear_attention",
    "make_linear_attention",
    "population_moment",
    "regress",
    "regress_moments",
    "save_linear_attention",
    "softmax_features",
    "symmetric_rank",
    "tensor_from_features",
    "train_linear_attention",
]
