"""Attention weightings as subjects: patterns are probabilities, derivatives finite, layers of the right shape."""

import numpy as np
from fuzzing import Sizes, Subject, anything, array, assert_finite, choice, fixed, real
from hypothesis import strategies as st

from attention.weightings import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
    WeightedLayer,
)

__all__ = ["WEIGHTING_SUBJECTS"]

KINDS = {
    "Softmax": Softmax(),
    "Sparsemax": Sparsemax(),
    "NormalisedPower": NormalisedPower(),
    "NormalisedPower.magnitude": NormalisedPower(power=3.0, magnitude=True),
    "NormalisedPower.shift": NormalisedPower(power=4.0, shift=4.0),
    "NormalisedSigmoid": NormalisedSigmoid(),
}


def rows_are_probabilities(result, given):
    result = np.asarray(result.detach().double() if hasattr(result, "detach") else result, dtype=float)
    assert_finite(result)
    assert (result >= 0).all()
    np.testing.assert_allclose(result.sum(axis=-1), 1, atol=2e-2)


def layer_is_right(result, given):
    assert_finite((result.theta, result.w))
    assert result.heads == result.theta.shape[0]


def weighted(size: Sizes):
    return {
        "theta": array((size.m, size.d, size.d)),
        "w": array((size.m, size.d, size.d)),
        "weighting": anything(st.sampled_from([fixed(one) for one in KINDS.values()])),
    }


WEIGHTING_SUBJECTS = [
    Subject("attention.Softmax", Softmax, {"temperature": real()}, right=lambda result, given: None),
    Subject("attention.Sparsemax", Sparsemax, {"temperature": real()}, right=lambda result, given: None),
    Subject(
        "attention.NormalisedPower",
        NormalisedPower,
        {"power": real(1.0, 5.0), "shift": real(0.0, 2.0), "magnitude": choice(True, False)},
        right=lambda result, given: None,
    ),
    Subject("attention.WeightedLayer", WeightedLayer, weighted, right=layer_is_right),
    *(
        Subject(
            f"attention.{name}.pattern",
            one.pattern,
            lambda size: {"logits": array((size.n, size.k))},
            right=rows_are_probabilities,
        )
        for name, one in KINDS.items()
    ),
    *(
        Subject(
            f"attention.{name}.vjp",
            one.vjp,
            lambda size: {"logits": array((size.n, size.k)), "cotangent": array((size.n, size.k))},
        )
        for name, one in KINDS.items()
    ),
]
