"""Newton on layers with biases: c is found with Theta, b with W, at full and at low rank."""

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
)
from upper import Newton


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
