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


def plain(x):
    return np.asarray(x.detach().double() if hasattr(x, "detach") else x, dtype=np.longdouble)


def precision(x):
    return {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}.get(str(x.dtype).rpartition(".")[2], 1e-9)


def weights_of(kind, z):
    """The pattern by its definition, in a wider type."""
    if isinstance(kind, Softmax | NormalisedSigmoid):
        log = z / kind.temperature if isinstance(kind, Softmax) else -np.logaddexp(0, -z)
        weights = np.exp(log - log.max(axis=-1, keepdims=True))
    elif isinstance(kind, Sparsemax):
        z = z / kind.temperature
        z = z - z.max(axis=-1, keepdims=True)
        low, high = np.full_like(z[..., :1], -1), np.zeros_like(z[..., :1])
        for _ in range(100):  # the threshold at which the parts above it add up to one
            middle = (low + high) / 2
            above = np.maximum(z - middle, 0).sum(axis=-1, keepdims=True) > 1
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        weights = np.maximum(z - low, 0)
    else:
        base = np.abs(z + kind.shift) if kind.magnitude else np.maximum(z + kind.shift, 0)
        most = base.max(axis=-1, keepdims=True)
        weights = np.where(most == 0, 1, base / np.where(most == 0, 1, most)) ** np.longdouble(kind.power)
    return weights / weights.sum(axis=-1, keepdims=True)


def pattern_is_right(kind):
    def right(result, given):
        p, z = plain(result), plain(given["logits"])
        assert_finite(p)
        assert (p >= 0).all()
        exact = precision(result)
        np.testing.assert_allclose(p.sum(axis=-1), 1, atol=exact)
        # what rounds in the logits may turn a weight by as much as they are large
        if np.abs(z).max(initial=0) < 1e3 or exact > 1e-6:
            np.testing.assert_allclose(p, weights_of(kind, z), atol=10 * exact)

    return right


def derivative_is_right(kind):
    """Patterns that a shift, or a multiple, of the logits leaves alone have no derivative along it."""

    def right(result, given):
        assert_finite(result)
        pulled, z, u = plain(result), plain(given["logits"]), plain(given["cotangent"])
        if isinstance(kind, Softmax | Sparsemax):
            along, size = pulled.sum(axis=-1), np.abs(u).sum(axis=-1) / kind.temperature
        elif isinstance(kind, NormalisedPower) and not kind.shift:
            along, size = (pulled * z).sum(axis=-1), np.abs(u).sum(axis=-1) * kind.power
        else:
            return
        assert (np.abs(along) <= 10 * precision(result) * size + 1e-300).all()

    return right


def parameters_are_kept(result, given):
    for name, value in given.items():
        assert getattr(result, name) == (value if isinstance(value, bool) else float(value))


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
    Subject("attention.Softmax", Softmax, {"temperature": real()}, right=parameters_are_kept),
    Subject("attention.Sparsemax", Sparsemax, {"temperature": real()}, right=parameters_are_kept),
    Subject(
        "attention.NormalisedPower",
        NormalisedPower,
        {"power": real(1.0, 5.0), "shift": real(0.0, 2.0), "magnitude": choice(True, False)},
        right=parameters_are_kept,
    ),
    Subject("attention.WeightedLayer", WeightedLayer, weighted, right=layer_is_right),
    *(
        Subject(
            f"attention.{name}.pattern",
            one.pattern,
            lambda size: {"logits": array((size.n, size.k))},
            right=pattern_is_right(one),
        )
        for name, one in KINDS.items()
    ),
    *(
        Subject(
            f"attention.{name}.vjp",
            one.vjp,
            lambda size: {"logits": array((size.n, size.k)), "cotangent": array((size.n, size.k))},
            right=derivative_is_right(one),
        )
        for name, one in KINDS.items()
    ),
]
