"""What is learned of linear attention as subjects: regressions, certificates, heads of tensors, training."""

import numpy as np
from fuzzing import Subject, anything, array, choice, made, real, seed, whole
from upper_fit_laws import (
    LABELS,
    TOKENS,
    a_model_and_its_tail,
    another_fits_as_well,
    certificate_is_right,
    certificate_of_examples_is_right,
    comparison_is_whole,
    feature_regression_is_right,
    fewest_heads_are_found,
    moment_is_right,
    moments_regression_is_right,
    ones_are_fitted,
    predictions_are_right,
    regression_is_right,
    shares_missed,
    sums_are_empty,
    the_model_is_found,
    training_is_honest,
)
from upper_linear import model, tensor_of
from upper_makers import OPTIONAL, given, only, with_bounded_work

import upper.linear_attention as linear

__all__ = ["LINEAR_FIT_SUBJECTS"]

LX, LY = (array(one.shape, of=given(one), torch=False) for one in (TOKENS, LABELS))
MOMENT = np.random.default_rng(2).standard_normal((20, 6))
MOMENT = MOMENT.T @ MOMENT
MATRIX = array((6, 6), of=given(MOMENT), torch=False)
MEMORY = whole(2**29, 2**30)


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
                "steps": whole(2, 5),
                "tolerance": real(1e-9, 1e-6),
                "average": choice(False, True),
                "rng": seed(),
            },
            right=a_model_and_its_tail,
            seconds=6.0,
            share=0.5,
        ),
        Subject(
            "upper.linear_attention.refine",
            linear.refine,
            {
                "tensor": array((2, 2, 2, 2), torch=False),
                "start": made(model, "<model>"),
                "steps": whole(1, 3),
                "tolerance": real(1e-9, 1e-6),
            },
            right=a_model_and_its_tail,
            share=0.5,
        ),
        Subject(
            "upper.linear_attention.fit_heads",
            linear.fit_heads,
            {
                "regression": made(regression, "<regression>"),
                "heads": OPTIONAL,
                "most": whole(1, 2),
                "tolerance": real(1e-9, 1e-6),
                "restarts": whole(1, 2),
                "average": OPTIONAL,
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
                "rank": OPTIONAL,
                "average": choice(False, True),
                "memory": MEMORY,
            },
            right=regression_is_right,
            words=("labels", "features", "rows"),
        ),
        Subject(
            "upper.linear_attention.CubicRegression.call",
            lambda own, x: own(x),
            {"own": only(regression, "<regression>"), "x": array((4, 3, 2))},
            right=predictions_are_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.regress_features",
            linear.regress_features,
            {
                "phi": array((30, 6), torch=False),
                "y": array((30, 2), torch=False),
                "method": choice("auto", "cholesky", "svd", "kernel"),
                "least_norm": choice(False, True),
                "rank": OPTIONAL,
                "memory": MEMORY,
            },
            right=feature_regression_is_right,
            words=("labels", "features"),
        ),
        Subject(
            "upper.linear_attention.regress_blocks",
            linear.regress_blocks,
            {
                "stream": made(lambda: lambda: [(np.ones((3, 6)), np.ones((3, 2)))], "<stream>"),
                "features": whole(6, 6),
                "outputs": whole(2, 2),
                "moments": OPTIONAL,
                "memory": MEMORY,
            },
            right=ones_are_fitted,
            words=("labels", "features"),
        ),
        Subject(
            "upper.linear_attention.FeatureMoments",
            linear.FeatureMoments,
            {"features": whole(), "outputs": whole(), "memory": MEMORY},
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
            {"examples": LX, "average": choice(False, True), "memory": MEMORY},
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
            "upper.linear_attention.certify_examples",
            linear.certify_examples,
            {
                "x_data": LX,
                "x_domain": LX,
                "tolerance": real(1e-12, 1e-8),
                "average": choice(False, True),
            },
            right=certificate_of_examples_is_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.another_minimiser",
            linear.another_minimiser,
            {
                "regression": made(regression, "<regression>"),
                "certificate": made(lambda: linear.certify_examples(TOKENS[:3], TOKENS), "<certificate>"),
                "scale": real(),
                "on_domain": choice(True),
                "rng": seed(),
            },
            right=another_fits_as_well,
        ),
        Subject(
            "upper.linear_attention.softmax_rows",
            linear.softmax_rows,
            {
                "d": whole(2, 2),
                "k": whole(2, 2),
                "theta_norms": anything((1.0,)),
                "kinds": anything(("plain",)),
                "draws": whole(2, 2),
                "samples": whole(300, 300),
                "rng": seed(),
            },
            share=0.3,
            right=shares_missed,
            words=("theta_norm", "kind"),
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
                "batch": whole(5, 6),
                "start_scale": real(),
                "average": choice(False, True),
                "rng": seed(),
                "progress": OPTIONAL,
            },
            share=0.5,
            right=training_is_honest,
            repeatable=False,
            needs="torch",
        ),
        Subject(
            "upper.linear_attention.compare_with_exact",
            linear.compare_with_exact,
            {
                "d": whole(2, 2),
                "heads": whole(1, 1),
                "n": whole(3, 3),
                "student_heads": anything([1]),
                "examples": whole(40, 40),
                "steps": whole(2, 3),
                "learning_rate": real(0.01, 0.1),
                "starts": whole(1, 1),
                "fresh": whole(10, 10),
                "rng": seed(),
                "progress": OPTIONAL,
            },
            share=0.3,
            right=comparison_is_whole,
            words=("student",),
            needs="torch",
        ),
    ]
)
