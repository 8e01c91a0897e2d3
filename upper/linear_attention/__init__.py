"""Linear attention, learned exactly in polynomial time by regression in cubic features.

What has no source is derived here.
"""

from upper.linear_attention.by_gradient import GradientFit, train_linear_attention
from upper.linear_attention.certificate import (
    Certificate,
    another_minimiser,
    certify,
    certify_examples,
    feature_moment,
)
from upper.linear_attention.features import (
    cubic_features,
    cubic_kernel,
    feature_count,
    features_from_tensor,
    prefix_features,
    tensor_from_features,
)
from upper.linear_attention.files import load_linear_attention, save_linear_attention
from upper.linear_attention.head_bound import fewest_heads_bound, symmetric_rank
from upper.linear_attention.heads import HeadsFound, alternate, fit_heads, heads_of_tensor
from upper.linear_attention.learner import LinearAttentionLearner, LinearAttentionPredictor
from upper.linear_attention.model import LinearAttention, make_linear_attention
from upper.linear_attention.moments import FeatureMoments
from upper.linear_attention.populations import (
    POPULATIONS,
    exact_rank,
    gaussian_spectrum,
    population_moment,
    token_dimension,
)
from upper.linear_attention.regression import (
    CubicRegression,
    FeatureRegression,
    regress,
    regress_features,
    regress_moments,
)
from upper.linear_attention.softmax_features import SOFTMAX_KINDS, softmax_feature_count, softmax_features

__all__ = [
    "POPULATIONS",
    "SOFTMAX_KINDS",
    "Certificate",
    "CubicRegression",
    "FeatureMoments",
    "FeatureRegression",
    "GradientFit",
    "HeadsFound",
    "LinearAttention",
    "LinearAttentionLearner",
    "LinearAttentionPredictor",
    "alternate",
    "another_minimiser",
    "certify",
    "certify_examples",
    "cubic_features",
    "cubic_kernel",
    "exact_rank",
    "feature_count",
    "feature_moment",
    "features_from_tensor",
    "fewest_heads_bound",
    "fit_heads",
    "gaussian_spectrum",
    "heads_of_tensor",
    "load_linear_attention",
    "make_linear_attention",
    "population_moment",
    "prefix_features",
    "regress",
    "regress_features",
    "regress_moments",
    "save_linear_attention",
    "softmax_feature_count",
    "softmax_features",
    "symmetric_rank",
    "tensor_from_features",
    "token_dimension",
    "train_linear_attention",
]
