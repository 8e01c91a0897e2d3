"""Causal layers: examples show the mask, and the heads behind it are counted."""

from dataclasses import replace

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    make_nice_layer,
    sinusoidal_positions,
)
from upper import Newton
from upper.newton.causal import examples_are_causal


def drawn(seed, tokens_of="gaussian", attends_to_itself=0.0):
    """A layer, a third of them with biases, and tokens for it, all by the seed."""
    rng = np.random.default_rng(seed)
    d, k, m = int(rng.integers(4, 16)), int(rng.integers(2, 7)), int(rng.integers(1, 3))
    layer = make_nice_layer(heads=m, dim=d, rng=rng)
    biases = (rng.standard_normal((m, d)) / np.sqrt(d), rng.standard_normal(d)) if seed % 3 == 0 else ()
    layer = AttentionLayer(layer.theta + attends_to_itself * np.eye(d), layer.w, *biases)
    x = rng.standard_normal((int(rng.choice([3 * d, 300, 1500])), k, d))
    if tokens_of == "boolean":
        x = np.sign(x)
    elif tokens_of == "positions":
        x = x / 2 + 3 * sinusoidal_positions(k, d)
    elif tokens_of == "same first token":
        x[:, 0] = x[0, 0]
    elif tokens_of == "a chain":
        for a in range(1, k):
            x[:, a] = 0.9 * x[:, a - 1] + 0.4 * x[:, a]
        x *= np.geomspace(1, 10, k)[:, None]
    return layer, x


TOKENS = pytest.mark.parametrize(
    "tokens_of", ["gaussian", "boolean", "positions", "same first token", "a chain"]
)


@TOKENS
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_mask_of_a_layer_is_seen_in_its_examples(tokens_of, noise):
    seen = {False: 0, True: 0}
    for seed in range(10):
        layer, x = drawn(seed, tokens_of)
        for causal in seen:
            y = replace(layer, causal=causal)(x)
            y += noise * y.std() * np.random.default_rng(seed).standard_normal(y.shape)
            seen[causal] += examples_are_causal(x, y)
    assert seen[False] == 0
    assert seen[True] >= 9


@pytest.mark.parametrize("strength", [1.0, 3.0, 10.0])
def test_tokens_that_attend_to_themselves_are_no_mask(strength):
    """Most rows then depend on their own token alone, and the first one may by chance always do."""
    for seed in range(30):
        layer, x = drawn(seed, attends_to_itself=strength)
        assert not examples_are_causal(x, layer(x))


def test_few_or_empty_examples_show_no_mask():
    layer = replace(make_nice_layer(heads=1, dim=6, rng=0), causal=True)
    for n, k in ((7, 3), (50, 1)):
        x = GaussianInputs(k, 6).sample(n, rng=1)
        assert not examples_are_causal(x, layer(x))
    x = GaussianInputs(3, 6).sample(50, rng=1)
    assert examples_are_causal(x, layer(x))
    assert not examples_are_causal(x, 0 * x)
    assert not examples_are_causal(0 * x, layer(0 * x))


@pytest.mark.parametrize("seed", range(3))
def test_heads_behind_a_mask_are_counted_with_biases(seed):
    rng, m, d = np.random.default_rng(seed), 1 + seed % 3, 8 + 2 * (seed % 3)
    inputs = GaussianInputs(4, d) if seed % 2 else BooleanInputs(3, d)
    plain = make_nice_layer(heads=m, dim=d, rng=rng)
    biases = rng.standard_normal((m, d)) / np.sqrt(d), rng.standard_normal(d) / np.sqrt(d)
    layer = AttentionLayer(plain.theta, plain.w, *biases, causal=True)
    fit = Newton("auto", biases="auto", causal=True).fit(ExampleOracle(layer, inputs, rng=seed), rng=seed + 1)
    assert (fit.outcome.name, fit.layer.heads, fit.layer.causal) == ("EXACT", m, True)
    errors = GroundTruth.draw(layer, inputs, rng=seed + 50).measure(layer=fit.layer)
    assert max(errors[f"{name}_error"] for name in ("theta", "w", "key_bias", "bias")) < 1e-10


def test_a_causal_layer_without_heads_is_found():
    x = GaussianInputs(3, 6).sample(60, rng=0)
    fit = Newton("auto", causal=True).fit(ExampleOracle.from_arrays(x, 0 * x), rng=1)
    assert (fit.outcome.name, fit.layer.causal) == ("EXACT", True)
