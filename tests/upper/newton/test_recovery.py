"""Newton recovers layers of every kind, with biases and masks, and finds what the examples need."""

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
from upper import Newton, counting_floor
from upper.newton.causal import examples_are_causal


def biased(layer):
    """The layer with biases as trained ones have them: c_i in the span of the rows of Theta_i."""
    m, d, rng = layer.heads, layer.dim, np.random.default_rng(1)
    key_bias = np.einsum("mij,mi->mj", layer.theta, rng.standard_normal((m, d)) / np.sqrt(d))
    return AttentionLayer(layer.theta, layer.w, key_bias, rng.standard_normal(d) / np.sqrt(d))


def low_rank(heads, dim, rank):
    return make_low_rank_layer(heads=heads, dim=dim, rank=rank, w_rank=rank, rng=0)


def masked(layer):
    return replace(biased(layer), causal=True)


NICE, TWELVE = (make_nice_layer(heads=2, dim=dim, rng=0) for dim in (8, 12))
AUTO = Newton("auto", biases="auto", causal=True)
RECOVERED = {
    "two heads": (make_nice_layer(heads=2, dim=32, rng=2), BooleanInputs(2, 32), Newton(2)),
    "labels of 1e-170": (AttentionLayer(NICE.theta, 1e-170 * NICE.w), BooleanInputs(3, 8), Newton(2)),
    "labels of 1e160": (AttentionLayer(NICE.theta, 1e160 * NICE.w), BooleanInputs(3, 8), Newton(2)),
    "one coordinate": (AttentionLayer(*np.ones((2, 1, 1, 1))), GaussianInputs(2, 1), Newton(1)),
    "rank 2": (low_rank(2, 16, 2), BooleanInputs(3, 16), Newton(2, rank=2)),
    "rank 8, one start": (low_rank(4, 32, 8), BooleanInputs(8, 32), Newton(4, rank=8, starts=1)),
    "biases": (biased(TWELVE), BooleanInputs(3, 12), Newton(2, biases=True)),
    "biases, Gaussian": (biased(TWELVE), GaussianInputs(3, 12), Newton(2, biases=True)),
    "biases of zero": (NICE, BooleanInputs(3, 8), Newton(2, biases=True)),
    "biases, rank 4": (biased(low_rank(2, 16, 4)), BooleanInputs(4, 16), Newton(2, rank=4, biases=True)),
    "mask": (masked(TWELVE), GaussianInputs(4, 12), Newton(2, biases=True, causal=True)),
    # products of factors behind a mask are other code
    "mask, rank 4": (
        masked(low_rank(2, 14, 4)),
        BooleanInputs(4, 14),
        Newton(2, rank=4, biases=True, causal=True),
    ),
    "mask, one head counted": (masked(make_nice_layer(heads=1, dim=8, rng=0)), BooleanInputs(3, 8), AUTO),
    "mask, three heads counted": (
        masked(make_nice_layer(heads=3, dim=12, rng=2)),
        GaussianInputs(4, 12),
        AUTO,
    ),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_all_parameters_are_recovered_from_four_counting_floors_or_eight_of_a_given_rank(name):
    layer, inputs, learner = RECOVERED[name]
    fit = learner.fit(ExampleOracle(layer, inputs, rng=2), rng=3)
    assert (fit.outcome.name, fit.layer.heads, fit.layer.causal) == ("EXACT", layer.heads, layer.causal)
    errors = GroundTruth.draw(layer, inputs, 500, rng=1).measure(layer=fit.layer)
    assert errors.keys() >= {"theta_error", "w_error"}
    assert max(errors.values()) < 1e-10
    if not layer.causal:
        size = {"heads": layer.heads, "tokens": inputs.tokens, "dim": layer.dim, "biases": fit.layer.biased}
        floors = 4 if learner.rank is None else 8
        assert fit.examples_used <= floors * counting_floor(rank=learner.rank, **size)
    for matrices in (fit.layer.theta, fit.layer.w) if learner.rank else ():
        values = np.linalg.svd(matrices, compute_uv=False)
        assert np.all(values[:, learner.rank :] < 1e-12 * values[:, :1])


def test_a_start_at_the_layer_is_exact_within_a_few_iterates():
    layer = biased(NICE)
    fit = Newton(2, biases=True, start=layer).fit(ExampleOracle(layer, BooleanInputs(3, 8), rng=3), rng=4)
    assert fit.outcome.name == "EXACT"
    assert sum("iterate" in step.name for step in fit.trace) <= 6


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("m", [pytest.param(2, marks=pytest.mark.slow), "auto"])
@pytest.mark.parametrize("has_biases", [False, True])
def test_biases_are_found_if_the_examples_need_them_and_only_then(has_biases, m, noise):
    layer = biased(NICE) if has_biases else NICE
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


def test_a_causal_layer_without_heads_is_found():
    x = GaussianInputs(3, 6).sample(60, rng=0)
    fit = Newton("auto", causal=True).fit(ExampleOracle.from_arrays(x, 0 * x), rng=1)
    assert (fit.outcome.name, fit.layer.causal) == ("EXACT", True)
