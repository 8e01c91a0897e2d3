"""Linear attention, learned exactly in polynomial time by regression in cubic features."""

from upper.linear_attention.by_gradient import (
    Comparison,
    GradientFit,
    compare_with_exact,
    train_linear_attention,
)
from upper.linear_attention.certificate import (
    Certificate,
    another_minimiser,
    certify,
    certify_examples,
    feature_moment,
)
from upper.linear_attention.features import (
    blocks,
    cubic_features,
    cubic_kernel,
    feature_count,
    features_from_tensor,
    gram_pairs,
    pair_products,
    prefix_features,
    tensor_from_features,
)
from upper.linear_attention.files import load_linear_attention, save_linear_attention
from upper.linear_attention.fitted import CubicRegression, FeatureRegression
from upper.linear_attention.head_bound import fewest_heads_bound, symmetric_rank
from upper.linear_attention.heads import HeadsFound, alternate, fit_heads, heads_of_tensor, refine
from upper.linear_attention.learner import LinearAttentionLearner, LinearAttentionPredictor
from upper.linear_attention.model import LinearAttention, make_linear_attention
from upper.linear_attention.moments import MEMORY, FeatureMoments, require_memory
from upper.linear_attention.populations import (
    POPULATIONS,
    Tokens,
    boolean_moment,
    exact_rank,
    gaussian_moment,
    gaussian_spectrum,
    population_moment,
    token_dimension,
)
from upper.linear_attention.regression import (
    Method,
    regress,
    regress_blocks,
    regress_features,
    regress_moments,
)
from upper.linear_attention.softmax_features import (
    SOFTMAX_KINDS,
    SoftmaxKind,
    SoftmaxRow,
    softmax_feature_count,
    softmax_features,
    softmax_rows,
)

__all__ = [
    "MEMORY",
    "POPULATIONS",
    "SOFTMAX_KINDS",
    "Certificate",
    "Comparison",
    "CubicRegression",
    "FeatureMoments",
    "FeatureRegression",
    "GradientFit",
    "HeadsFound",
    "LinearAttention",
    "LinearAttentionLearner",
    "LinearAttentionPredictor",
    "Method",
    "SoftmaxKind",
    "SoftmaxRow",
    "Tokens",
    "alternate",
    "another_minimiser",
    "blocks",
    "boolean_moment",
    "certify",
    "certify_examples",
    "compare_with_exact",
    "cubic_features",
    "cubic_kernel",
    "exact_rank",
    "feature_count",
    "feature_moment",
    "features_from_tensor",
    "fewest_heads_bound",
    "fit_heads",
    "gaussian_moment",
    "gaussian_spectrum",
    "gram_pairs",
    "heads_of_tensor",
    "load_linear_attention",
    "make_linear_attention",
    "pair_products",
    "population_moment",
    "prefix_features",
    "refine",
    "regress",
    "regress_blocks",
    "regress_features",
    "regress_moments",
    "require_memory",
    "save_linear_attention",
    "softmax_feature_count",
    "softmax_features",
    "softmax_rows",
    "symmetric_rank",
    "tensor_from_features",
    "token_dimension",
    "train_linear_attention",
]
