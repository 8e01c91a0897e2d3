"""Learners on noisy labels: Gaussian noise added, or classes drawn by the softmax of the output."""

from typing import Any

import numpy as np

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    make_nice_layer,
    relative_error,
)
from attention.layer import softmax
from studies.fits import fit_errors
from studies.noise_law import centred, class_laws, squared_law
from studies.noise_likelihood import cross_entropy, drawn_classes, most_likely_layer
from upper import GradientDescent, LinearBaseline, Newton
from upper.baselines.descent import layer_of_stacked, random_start, stack_heads
from upper.six_phase import SixPhase, estimate_projection_sum

__all__ = ["learn_classes", "learn_noisy"]

# Inputs for averaging the laws of classes. Twice as many change the laws by less than two per cent; with 300 the
# bound was up to a fifth too large.
_LAW_INPUTS = 8192
_FRESH = 1000
_MOST_UNKNOWNS = 256  # the largest number for the law of the covariance, whose cost per example is its square
_BATCH = 256  # of Adam
_STARTS = 5


def learn_noisy(
    rng: np.random.Generator, kind: str, layer: AttentionLayer, tokens: int, level: float, examples: int
) -> dict[str, Any]:
    """One learner on one target whose labels have Gaussian noise, `level` times their root mean square."""
    for_truth, for_examples, for_learner, for_law = rng.spawn(4)
    inputs = BooleanInputs(tokens, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _FRESH, rng=for_truth)
    learner: Any = {
        "newton": lambda: Newton(layer.heads, examples=examples, starts=_STARTS, engine="numpy"),
        "phases": lambda: SixPhase(layer.heads, examples=examples),
        "adam": lambda: GradientDescent(
            layer.heads, work=examples // _BATCH, batch=_BATCH, learning_rate=0.01
        ),
        "linear": lambda: LinearBaseline(examples=examples),
    }[kind]()
    found = fit_errors(
        learner, truth, inputs, for_examples=for_examples, for_learner=for_learner, noise=level
    )
    del found["drawn"]
    if kind == "newton" and level:
        per_entry = level**2 * 2 * layer.theta.size / (examples * tokens * layer.dim)
        found["ratio"] = found["error"] ** 2 / per_entry
        found["law"] = None
        if 2 * layer.theta.size <= _MOST_UNKNOWNS:
            x = inputs.sample(examples, rng=for_law)
            found["law"] = squared_law(layer, x, truth.x) * level**2 / per_entry
    return found


def learn_classes(
    rng: np.random.Generator, heads: int, tokens: int, dim: int, gain: float, examples: int
) -> dict[str, Any]:
    """Learners on one target whose labels are classes drawn by the softmax of its outputs.

    Notes
    -----
    The target has its W centred and scaled, so that its outputs, which are then the logits divided by `gain`, have the
    root mean square 1. Squared loss is given d (e_c - 1 / d) / gain, whose mean is the output to first order in the
    gain.
    """
    for_layer, for_truth, for_examples, for_learner, for_law = rng.spawn(5)
    layer = centred(make_nice_layer(heads=heads, dim=dim, rng=for_layer))
    inputs = BooleanInputs(tokens, dim)
    fresh = inputs.sample(_FRESH, rng=for_truth)
    layer = AttentionLayer(theta=layer.theta, w=layer.w / np.sqrt(np.mean(layer(fresh) ** 2)))
    y = layer(fresh)
    x = inputs.sample(examples, rng=for_examples.spawn(1)[0])
    shares = softmax(gain * layer(x), np)
    classes = drawn_classes(shares, for_examples)
    labels = _rescaled(np.eye(dim)[classes], gain)

    newton = Newton(heads, examples=examples, starts=3, engine="numpy")
    squared, floor = (
        newton.fit(ExampleOracle.from_arrays(x, given), rng=one)
        for given, one in zip((labels, _rescaled(shares, gain)), for_learner.spawn(2), strict=True)
    )
    linear = LinearBaseline(examples=examples).fit(ExampleOracle.from_arrays(x, labels))
    crude, clean = (
        estimate_projection_sum(ExampleOracle.from_arrays(x, given), examples).error(layer)
        for given in (labels, layer(x))
    )
    starts = [squared.layer, layer_of_stacked(*random_start(heads, dim, for_learner))]
    ends = [most_likely_layer(x, classes, start, gain=gain) for start in starts if start is not None]
    likely, loss = min(ends, key=lambda end: end[1])
    at_target = np.concatenate([part.reshape(-1) for part in stack_heads(layer.theta, layer.w)])
    laws = class_laws(layer, inputs.sample(_LAW_INPUTS, rng=for_law), gain)
    squared_spread, likelihood_spread = (float(np.sqrt(law / examples)) for law in laws)
    return {
        "squared": relative_error(squared.predict(fresh), y),
        "floor": relative_error(floor.predict(fresh), y),
        "linear": relative_error(linear.predict(fresh), y),
        "crude": crude,
        "crude_clean": clean,
        "likelihood": relative_error(likely(fresh), y),
        "as_likely": bool(loss <= cross_entropy(at_target, x, classes, gain)[0]),
        "agree": bool(abs(ends[0][1] - ends[-1][1]) < 1e-6 * abs(loss)),
        "squared_law": squared_spread,
        "likelihood_law": likelihood_spread,
    }


def _rescaled(shares: np.ndarray, gain: float) -> np.ndarray:
    rescaled: np.ndarray = (shares.shape[-1] * shares - 1) / gain
    return rescaled
