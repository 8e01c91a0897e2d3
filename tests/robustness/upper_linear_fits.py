"""What is learned of linear attention as subjects: regressions, certificates, heads of tensors, training."""

import numpy as np
from fuzzing import Subject, array, choice, made, real, seed, whole
from upper_fit_laws import (
    LABELS,
    TOKENS,
    a_model_and_its_tail,
    another_fits_as_well,
    certificate_is_right,
    certificate_of_examples_is_right,
    fewest_heads_are_found,
    moment_is_right,
    moments_regression_is_right,
    regression_is_right,
    sums_are_empty,
    the_model_is_found,
    they_span_all,
    training_is_honest,
)
from upper_linear import tensor_of
from upper_makers import OPTIONAL, given, with_bounded_work

import upper.linear_attention as linear

__all__ = ["LINEAR_FIT_SUBJECTS"]

LX, LY = (array(one.shape, of=given(one), torch=False) for one in (TOKENS, LABELS))
MOMENT = np.random.default_rng(2).standard_normal((20, 6))
MOMENT = MOMENT.T @ MOMENT
MATRIX = array((6, 6), of=given(MOMENT), torch=False)


def regression():
    return linear.regress(TOKENS, LABELS)


def moments_of(x, y):
    moments = linear.FeatureMoments(features=6, outputs=2)
    moments.add(x, y)
    return moments


LINEAR_FIT_SUBJECTS = with_bounded_work(
    [
        Subject(
            "upper.linear_attention.alternate",
            linear.alternate,
            lambda size: {
                "tensor": tensor_of(size),
                "heads": whole(1, 2),
                "tolerance": real(1e-9, 1e-6),
                "rng": seed(),
            },
            right=a_model_and_its_tail,
            seconds=6.0,
            share=0.5,
        ),
        Subject(
            "upper.linear_attention.fit_heads",
            linear.fit_heads,
            {
                "regression": made(regression, "<regression>"),
                "heads": OPTIONAL,
                "tolerance": real(1e-9, 1e-6),
                "restarts": whole(1, 2),
                "rng": seed(),
            },
            share=0.5,
            right=fewest_heads_are_found,
        ),
        Subject(
            "upper.linear_attention.fit_heads.of a tensor",
            linear.fit_heads,
            lambda size: {
                "regression": array((size.m, 2, 2, 2), torch=False),
                "restarts": whole(1, 2),
                "rng": seed(),
            },
            share=0.5,
            right=fewest_heads_are_found,
            words=("tensor",),
        ),
        Subject(
            "upper.linear_attention.regress",
            linear.regress,
            {
                "x": LX,
                "y": LY,
                "method": choice("auto", "cholesky", "svd", "kernel"),
                "least_norm": choice(False, True),
                "average": choice(False, True),
            },
            right=regression_is_right,
            words=("labels", "features", "rows"),
        ),
        Subject(
            "upper.linear_attention.FeatureMoments",
            linear.FeatureMoments,
            {"features": whole(), "outputs": whole()},
            right=sums_are_empty,
        ),
        Subject(
            "upper.linear_attention.FeatureMoments.add",
            lambda x, y: linear.regress_moments(moments_of(x, y)),
            {"x": LX, "y": LY},
            right=moments_regression_is_right,
            words=("labels", "features", "tokens"),
        ),
        Subject(
            "upper.linear_attention.regress_moments",
            linear.regress_moments,
            {"moments": made(lambda: moments_of(TOKENS, LABELS), "<moments>")},
            right=the_model_is_found,
        ),
        Subject(
            "upper.linear_attention.feature_moment",
            linear.feature_moment,
            {"examples": LX, "average": choice(False, True)},
            right=moment_is_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.certify",
            linear.certify,
            {"data": MATRIX, "domain": MATRIX, "tolerance": real(1e-12, 1e-8)},
            right=certificate_is_right,
            words=("moment",),
        ),
        Subject(
            "upper.linear_attention.certify.of tokens",
            linear.certify,
            {"data": LX, "domain": LX},
            right=certificate_of_examples_is_right,
        ),
        Subject(
            "upper.linear_attention.first_independent",
            linear.first_independent,
            {"x": array((6, 3, 2), torch=False), "rank": OPTIONAL},
            right=they_span_all,
        ),
        Subject(
            "upper.linear_attention.another_minimiser",
            linear.another_minimiser,
            {
                "regression": made(regression, "<regression>"),
                "certificate": made(lambda: linear.certify(TOKENS[:3], TOKENS), "<certificate>"),
                "on_domain": choice(True),
                "rng": seed(),
            },
            right=another_fits_as_well,
        ),
        Subject(
            "upper.linear_attention.train_linear_attention",
            linear.train_linear_attention,
            {
                "x": LX,
                "y": LY,
                "heads": whole(1, 2),
                "steps": whole(2, 3),
                "learning_rate": real(0.01, 0.1),
                "average": choice(False, True),
                "rng": seed(),
            },
            share=0.5,
            right=training_is_honest,
            repeatable=False,
            needs="torch",
        ),
    ]
)
