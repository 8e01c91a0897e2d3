"""Newton on layers with biases and masks: c is found with Theta, b with W, and examples show the mask."""

from dataclasses import replace

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    make_low_rank_layer,
    make_nice_layer,
    sinusoidal_positions,
)
from upper import Newton
from upper.newton.causal import examples_are_causal


def biased(layer, rng):
    """The layer with biases as trained ones have them: c_i in the span of the rows of Theta_i."""
    m, d = layer.heads, layer.dim
    key_bias = np.einsum("mij,mi->mj", layer.theta, rng.standard_normal((m, d)) / np.sqrt(d))
    return AttentionLayer(layer.theta, layer.w, key_bias, rng.standard_normal(d) / np.sqrt(d))


def learned(layer, inputs, seed, **options):
    truth = GroundTruth.draw(layer, inputs, rng=seed + 50)
    fit = Newton(heads=layer.heads, biases=True, **options).fit(
        ExampleOracle(layer, inputs, rng=seed), rng=seed + 1
    )
    return fit, truth.measure(layer=fit.layer)


@pytest.mark.parametrize(
    ("inputs", "rank", "causal"),
    [
        (BooleanInputs(3, 12), None, False),
        (GaussianInputs(3, 12), None, False),
        (BooleanInputs(4, 16), 4, False),
        (BooleanInputs(4, 14), 4, True),  # products of factors behind a mask are other code
        (GaussianInputs(4, 14), None, True),
    ],
)
def test_all_parameters_are_recovered(inputs, rank, causal):
    rng = np.random.default_rng(0)
    plain = make_nice_layer(heads=2, dim=inputs.dim, rng=rng)
    if rank is not None:
        plain = make_low_rank_layer(heads=2, dim=inputs.dim, rank=rank, w_rank=rank, rng=rng)
    fit, errors = learned(replace(biased(plain, rng), causal=causal), inputs, 0, rank=rank, causal=causal)
    assert (fit.outcome.name, fit.layer.causal) == ("EXACT", causal)
    assert max(errors[f"{name}_error"] for name in ("theta", "w", "key_bias", "bias")) < 1e-10


def test_a_layer_without_biases_is_recovered_with_biases_of_zero():
    fit, errors = learned(make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8), 0)
    assert fit.outcome.name == "EXACT"
    assert max(errors["key_bias_error"], errors["bias_error"]) < 1e-11  # absolute, as the true ones are zero


def test_a_start_at_the_layer_is_exact_within_a_few_iterates():
    layer = biased(make_nice_layer(heads=2, dim=8, rng=0), np.random.default_rng(2))
    fit, _ = learned(layer, BooleanInputs(3, 8), 3, start=layer)
    assert fit.outcome.name == "EXACT"
    assert sum("iterate" in step.name for step in fit.trace) <= 6


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("m", [pytest.param(2, marks=pytest.mark.slow), "auto"])
@pytest.mark.parametrize("has_biases", [False, True])
def test_biases_are_found_if_the_examples_need_them_and_only_then(has_biases, m, noise):
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    layer = biased(layer, np.random.default_rng(1)) if has_biases else layer
    x = BooleanInputs(3, 8).sample(300, rng=2)
    y = layer(x) + noise * np.random.default_rng(3).standard_normal(x.shape)
    fit = Newton(m, biases="auto").fit(ExampleOracle.from_arrays(x, y), rng=4)
    assert fit.outcome.name == ("NOISE_FLOOR" if noise else "EXACT")
    assert (fit.layer.heads, fit.layer.biased) == (2, has_biases)


def test_rounding_to_float32_needs_no_biases():
    layer, x = make_nice_layer(heads=1, dim=6, rng=0), GaussianInputs(5, 6).sample(1000, rng=1)
    x = x.astype(np.float32)
    y = layer.map(np.float32)(x)
    fit = Newton(1, biases="auto").fit(ExampleOracle.from_arrays(x.astype(float), y.astype(float)), rng=4)
    assert 1e-9 < fit.held_out_error < 1e-6
    assert not fit.layer.biased


def test_whitened_tokens_with_a_mean_need_no_biases():
    spread = np.geomspace(30, 0.3, 6)
    x = (np.random.default_rng(0).standard_normal((300, 3, 6)) + 2) * spread
    layer = make_nice_layer(heads=2, dim=6, rng=0)
    layer = AttentionLayer(layer.theta / spread[:, None] / spread / 4, layer.w / spread[:, None])
    fit = Newton(2, biases="auto").fit(ExampleOracle.from_arrays(x, layer(x)), rng=4)
    assert (fit.outcome.name, fit.layer.biased) == ("EXACT", False)


def test_fewer_examples_than_biases_need_are_fitted_without():
    layer, x = make_nice_layer(heads=1, dim=6, rng=0), BooleanInputs(3, 6).sample(7, rng=1)
    assert Newton(1, biases="auto").minimum_examples(3, 6) == Newton(1).minimum_examples(3, 6) == 7
    fit = Newton(1, biases="auto", work=50).fit(ExampleOracle.from_arrays(x, layer(x)), rng=0)
    assert not fit.layer.biased


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
