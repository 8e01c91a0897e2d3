"""Linear attention as subjects: models, features, tensors, exact moments of populations, files."""

from pathlib import Path

from fuzzing import Given, Sizes, Subject, anything, array, choice, made, seed, whole
from upper_linear_laws import (
    a_file_that_is_read,
    a_model_of_sizes,
    a_rank,
    all_of_the_tensor,
    coefficients_are_right,
    cubic,
    feature_number,
    features_are_right,
    features_of_queries,
    kernel_is_right,
    model,
    model_is_right,
    moment_is_exact,
    outputs_are_right,
    prefixes_are_right,
    rank_of_the_moment,
    softmax_features_are_right,
    tensor_is_right,
    the_model_stored,
)
from upper_makers import only, with_bounded_work

import upper.linear_attention as linear
from upper.linear_attention.features import SOFTMAX_KINDS
from upper.linear_attention.populations import POPULATIONS

__all__ = ["LINEAR_SUBJECTS", "POPULATION", "cubic", "model", "store", "tensor_of"]

FILES: dict[str, Path] = {}


def store(folder: Path) -> None:
    """The file that is read, and the folder that is written to."""
    linear.save_linear_attention(folder / "model.safetensors", model())
    FILES.update(model=folder / "model.safetensors", folder=folder)


def tokens(size: Sizes):
    return {"x": array((size.n, size.k, size.d)), "average": choice(False, True)}


def plain(size: Sizes, *names):
    return {name: array((size.n, size.k, size.d), torch=False) for name in names}


def tensor_of(size: Sizes):
    return array((size.m, size.d, size.d, size.d), torch=False)


POPULATION = choice(*POPULATIONS)


LINEAR_SUBJECTS = with_bounded_work(
    [
        Subject(
            "upper.linear_attention.LinearAttention",
            linear.LinearAttention,
            lambda size: {
                "v": array((size.m, 2, size.d)),
                "q": array((size.m, size.d, size.d)),
                "average": choice(False, True),
            },
            right=model_is_right,
        ),
        Subject(
            "upper.linear_attention.LinearAttention.call",
            lambda own, x: own(x),
            lambda size: {
                "own": only(lambda: model(size.m, size.d), "<model>"),
                "x": array((size.n, size.k, size.d)),
            },
            right=outputs_are_right,
            words=("tokens", "queries"),
        ),
        Subject(
            "upper.linear_attention.make_linear_attention",
            linear.make_linear_attention,
            {
                "heads": whole(),
                "dim": whole(),
                "outputs": whole(),
                "average": choice(False, True),
                "rng": seed(),
            },
            right=a_model_of_sizes,
        ),
        Subject(
            "upper.linear_attention.feature_count", linear.feature_count, {"d": whole()}, right=feature_number
        ),
        Subject(
            "upper.linear_attention.cubic_features",
            linear.cubic_features,
            tokens,
            right=features_are_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.cubic_features.of queries",
            linear.cubic_features,
            lambda size: plain(size, "x", "queries"),
            right=features_of_queries,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.prefix_features",
            linear.prefix_features,
            lambda size: {"x": array((size.n, size.k, size.d))},
            right=prefixes_are_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.cubic_kernel",
            linear.cubic_kernel,
            lambda size: plain(size, "x", "other"),
            right=kernel_is_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.tensor_from_features",
            linear.tensor_from_features,
            lambda size: {
                "coefficients": array((linear.feature_count(size.d), size.m), torch=False),
                "d": whole(size.d, size.d),
            },
            right=tensor_is_right,
        ),
        Subject(
            "upper.linear_attention.features_from_tensor",
            linear.features_from_tensor,
            lambda size: {"tensor": tensor_of(size)},
            right=coefficients_are_right,
        ),
        Subject(
            "upper.linear_attention.symmetric_rank",
            linear.symmetric_rank,
            lambda size: {"tensor": tensor_of(size)},
            right=a_rank,
        ),
        Subject(
            "upper.linear_attention.heads_of_tensor",
            linear.heads_of_tensor,
            lambda size: {"tensor": tensor_of(size), "average": choice(False, True)},
            right=all_of_the_tensor,
        ),
        Subject(
            "upper.linear_attention.population_moment",
            linear.population_moment,
            {"tokens": POPULATION, "d": whole(2, 3), "n": whole(1, 3)},
            right=moment_is_exact,
        ),
        Subject(
            "upper.linear_attention.exact_rank",
            linear.exact_rank,
            {"tokens": POPULATION, "d": whole(2, 3), "n": whole(1, 3)},
            right=rank_of_the_moment,
        ),
        Subject(
            "upper.linear_attention.softmax_features",
            linear.softmax_features,
            lambda size: {
                "x": array((size.n, size.k, size.d)),
                "kind": choice(*SOFTMAX_KINDS),
                "every_row": choice(False, True),
            },
            right=softmax_features_are_right,
            words=("tokens",),
        ),
        Subject(
            "upper.linear_attention.save_linear_attention",
            linear.save_linear_attention,
            {
                "path": anything(Given("new", lambda: FILES["folder"] / "new.safetensors")),
                "model": made(model, "<model>"),
                "made": anything({"a": 1}),
            },
            right=a_file_that_is_read,
            also=(OSError,),
        ),
        Subject(
            "upper.linear_attention.load_linear_attention",
            linear.load_linear_attention,
            {"path": anything(Given("model", lambda: FILES["model"]))},
            right=the_model_stored,
            words=("file",),
        ),
    ]
)
