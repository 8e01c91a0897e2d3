"""Attention with rotary positions: its definition, its symmetries, and what its parameters determine."""

import math
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    FileFormatError,
    GaussianInputs,
    GroundTruth,
    RotaryLayer,
    ValueOracle,
    load_layer,
    make_nice_rotary_layer,
    rotary_errors,
    save_layer,
)
from attention.files import write_tensors

shapes = {
    "groups": st.integers(1, 3),
    "each": st.integers(1, 2),
    "dim": st.integers(1, 6),
    "head_dim": st.sampled_from([2, 4, 6]),
    "causal": st.booleans(),
    "biases": st.booleans(),
    "seed": st.integers(0, 2**32),
}


def nice(groups, each, dim, head_dim, causal, biases, seed):
    options = {"key_heads": groups, "causal": causal, "biases": biases, "base": 7.0}
    return make_nice_rotary_layer(groups * each, dim, head_dim, rng=seed, **options)


def tokens(layer, seed, k=5):
    return np.random.default_rng(seed).standard_normal((2, k, layer.dim))


def by_loops(layer, x):
    """The definition on one token matrix: each query and key turned by its own position."""
    half, each = layer.head_dim // 2, layer.heads // layer.key_heads
    zeros = {
        "query_bias": np.zeros((layer.heads, 2 * half)),
        "key_bias": np.zeros((layer.key_heads, 2 * half)),
    }
    biases = {
        name: value if getattr(layer, name) is None else getattr(layer, name) for name, value in zeros.items()
    }

    def turned(vector, position):
        out = np.array(vector)
        for f, omega in enumerate(layer.frequencies):
            c, s = math.cos(position * omega), math.sin(position * omega)
            out[f], out[f + half] = c * vector[f] - s * vector[f + half], s * vector[f] + c * vector[f + half]
        return out

    out = np.zeros_like(x) + (0 if layer.bias is None else layer.bias)
    for i in range(layer.heads):
        for s, row in enumerate(x):
            query = turned(row @ layer.queries[i] + biases["query_bias"][i], s)
            seen = range(s + 1 if layer.causal else len(x))
            logits = [
                query @ turned(x[t] @ layer.keys[i // each] + biases["key_bias"][i // each], t) for t in seen
            ]
            weights = np.exp(logits) / np.exp(logits).sum()
            for t in seen:
                out[s] += weights[t] * (x[t] @ layer.w[i])
    return out


@given(**shapes)
def test_the_output_is_the_sum_over_heads_and_tokens(seed, **shape):
    layer = nice(seed=seed, **shape)
    x = tokens(layer, seed)
    np.testing.assert_allclose(layer(x), [by_loops(layer, one) for one in x], rtol=1e-10, atol=1e-12)
    assert layer.biased is shape["biases"]
    np.testing.assert_allclose(layer(x)[:, :1], layer(x[:, :1]) if layer.causal else layer(x)[:, :1])


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_array_libraries_give_the_same(library):
    layer = make_nice_rotary_layer(4, 6, 4, key_heads=2, biases=True, rng=0)
    convert = (
        pytest.importorskip("torch").from_numpy
        if library == "torch"
        else lambda array: array_api_strict.asarray(np.array(array))
    )
    x = tokens(layer, 1)
    outputs = layer.map(convert)(convert(x))
    assert type(outputs).__module__.split(".")[0] == library
    np.testing.assert_allclose(np.asarray(outputs), layer(x), atol=1e-13)


def test_positions_beyond_those_that_half_precision_holds_are_told_apart():
    torch = pytest.importorskip("torch")
    layer = make_nice_rotary_layer(1, 4, 2, causal=False, rng=0)
    x = tokens(layer, 1, 600)
    half = layer.map(lambda array: torch.from_numpy(array).bfloat16())(torch.from_numpy(x).bfloat16())
    assert np.abs(half.float().numpy() - layer(x)).max() < 0.05


@given(**shapes)
def test_the_logits_are_those_of_the_complex_maps(seed, **shape):
    layer = nice(seed=seed, **shape)
    x = tokens(layer, seed)
    more = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)
    far = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    turns = np.exp(1j * far[:, :, None] * layer.frequencies)
    logits = np.einsum("stf,nsa,mfab,ntb->nmst", turns, more, layer.score_maps, more).real
    np.testing.assert_allclose(layer.logits(x), logits, atol=1e-11)


def scaled(layer, c):
    """alpha_f -> c alpha_f, beta_f -> beta_f / conj(c), for each key head (rows) and frequency."""
    each = layer.heads // layer.key_heads

    def times(maps, factor):
        half = layer.head_dim // 2
        product = (maps[..., :half] + 1j * maps[..., half:]) * factor
        return np.concatenate([product.real, product.imag], axis=-1)

    by_head = np.repeat(c, each, axis=0)
    changes = {
        "queries": times(layer.queries, by_head[:, None]),
        "keys": times(layer.keys, 1 / c.conj()[:, None]),
    }
    if layer.query_bias is not None:
        changes["query_bias"] = times(layer.query_bias, by_head)
        changes["key_bias"] = times(layer.key_bias, 1 / c.conj())
    return replace(layer, **changes)


@given(**shapes)
def test_complex_factors_and_the_order_of_key_heads_and_of_pairs_are_no_part_of_the_function(seed, **shape):
    layer, rng = nice(seed=seed, **shape), np.random.default_rng(seed)
    half, each = layer.head_dim // 2, layer.heads // layer.key_heads
    c = np.exp(rng.uniform(-1, 1, (layer.key_heads, half)) + 1j * rng.uniform(0, 7, (layer.key_heads, half)))
    same = scaled(layer, c)
    group, pair = rng.permutation(layer.key_heads), rng.permutation(half)
    heads = (group[:, None] * each + rng.permutation(each)).ravel()
    pairs = np.concatenate([pair, pair + half])
    same = replace(
        same,
        queries=same.queries[heads][..., pairs],
        keys=same.keys[group][..., pairs],
        w=same.w[heads],
        frequencies=same.frequencies[pair],
        query_bias=None if same.query_bias is None else same.query_bias[heads][:, pairs],
        key_bias=None if same.key_bias is None else same.key_bias[group][:, pairs],
    )
    x = tokens(layer, seed)
    np.testing.assert_allclose(same(x), layer(x), atol=1e-11)
    errors = rotary_errors(same, layer)
    assert max(errors.w.max(), errors.score_maps.max(), errors.bias, errors.frequencies) < 1e-12
    assert errors.matching.tolist() == np.argsort(heads).tolist()


@given(causal=st.booleans(), seed=st.integers(0, 2**32))
def test_what_is_not_rotated_is_a_layer_without_positions(causal, seed):
    layer = make_nice_rotary_layer(2, 5, 4, key_heads=1, causal=causal, biases=True, rng=seed)
    layer = replace(layer, frequencies=np.zeros(2))
    keys = np.repeat(layer.keys, 2, axis=0)
    plain = AttentionLayer(
        layer.queries @ keys.swapaxes(1, 2),
        layer.w,
        np.einsum("mdp,mp->md", keys, layer.query_bias),
        layer.bias,
        causal=causal,
    )
    x = tokens(layer, seed)
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-12)
    # neither the key bias nor a matrix between queries and keys is seen then
    a = np.random.default_rng(seed).standard_normal((4, 4))
    same = replace(
        layer,
        queries=layer.queries @ a,
        query_bias=layer.query_bias @ a,
        keys=layer.keys @ np.linalg.inv(a).T,
        key_bias=None,
    )
    np.testing.assert_allclose(same(x), layer(x), rtol=1e-6, atol=1e-6)
    assert rotary_errors(same, layer).score_maps.max() < 1e-6


@pytest.mark.parametrize("frequencies", [(1.0, 0.3, 0.05), (1.0, 0.3, 0.0)])
def test_every_parameter_changes_the_function_and_its_errors(frequencies):
    layer = make_nice_rotary_layer(2, 5, 6, key_heads=1, biases=True, rng=0)
    layer = replace(layer, frequencies=np.array(frequencies))
    x = tokens(layer, 1)
    for name, array in layer.parameters.items():
        for place in np.ndindex(array.shape):
            if name == "key_bias" and frequencies[place[1] % 3] == 0:
                continue  # it adds the same to all logits of a row
            moved = np.array(array)
            moved[place] = moved[place] * 1.1 + 0.01
            other = replace(layer, **{name: moved})
            assert np.abs(other(x) - layer(x)).max() > 1e-7, (name, place)
            if name == "frequencies" and array[place] == 0:
                continue
            errors = rotary_errors(other, layer)
            assert max(errors.w.max(), errors.score_maps.max(), errors.bias, errors.frequencies) > 1e-5


def test_maps_of_equal_frequencies_count_by_their_sum():
    layer = replace(make_nice_rotary_layer(1, 5, 6, rng=0), frequencies=np.array([0.5, 0.5, 0.1]))
    angle = 0.4
    turn = np.eye(6)
    for f, g in ((0, 1), (3, 4)):  # mixes the two planes alike
        turn[[f, f, g, g], [f, g, f, g]] = math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
    same = replace(layer, queries=layer.queries @ turn, keys=layer.keys @ turn)
    x = tokens(layer, 1)
    np.testing.assert_allclose(same(x), layer(x), atol=1e-13)
    assert rotary_errors(same, layer).score_maps.shape == (1, 2)
    assert rotary_errors(same, layer).score_maps.max() < 1e-13


@pytest.mark.parametrize("biases", [True, False])
def test_a_file_gives_the_same_layer(tmp_path, biases):
    layer = make_nice_rotary_layer(4, 6, 4, key_heads=2, causal=biases, biases=biases, rng=0)
    path = tmp_path / "rotary.safetensors"
    save_layer(path, layer, inputs=GaussianInputs(3, 6), made={"seed": 0})
    stored = load_layer(path)
    assert (stored.kind, stored.inputs, stored.made) == ("rotary", GaussianInputs(3, 6), {"seed": 0})
    assert (repr(stored.layer), list(stored.layer.parameters)) == (repr(layer), list(layer.parameters))
    x = tokens(layer, 1)
    np.testing.assert_array_equal(stored.layer(x), layer(x))


def test_a_file_without_its_frequencies_is_refused(tmp_path):
    path, parameters = tmp_path / "rotary.safetensors", make_nice_rotary_layer(2, 6, 4, rng=0).parameters
    write_tensors(path, "rotary", {**parameters, "frequencies": np.ones(3)}, {})
    with pytest.raises(FileFormatError, match="half as many"):
        load_layer(path)
    write_tensors(path, "rotary", {name: parameters[name] for name in ("queries", "keys", "w")}, {})
    with pytest.raises(FileFormatError, match="no frequencies"):
        load_layer(path)


def test_a_fit_is_measured_up_to_the_symmetries():
    layer = make_nice_rotary_layer(2, 5, 4, biases=True, rng=0)
    truth = GroundTruth.draw(layer, GaussianInputs(3, 5), 50, rng=1)
    exact = truth.measure(layer=scaled(layer, np.full((2, 2), 1 + 2j)))
    assert set(exact) == {"relative_error", "unknown_part_error", "score_error", "w_error", "bias_error"}
    assert max(exact.values()) < 1e-13
    errors = truth.measure(layer=replace(layer, keys=1.5 * layer.keys, key_bias=1.5 * layer.key_bias))
    assert errors["score_error"] == pytest.approx(0.5)
    assert errors["w_error"] == 0
    unlike = truth.measure(layer=replace(layer, frequencies=np.array([1.0, 0.0])))
    plain = truth.measure(layer=AttentionLayer(np.zeros((2, 5, 5)), layer.w))
    assert set(unlike) == set(plain) == {"relative_error", "unknown_part_error"}


def test_a_nice_layer_has_logits_and_outputs_of_order_one():
    layer = make_nice_rotary_layer(4, 32, 8, key_heads=2, causal=False, rng=0)
    x = np.random.default_rng(1).standard_normal((50, 8, 32))
    assert 0.7 < layer.logits(x).std() < 1.4
    assert 0.7 < (x @ layer.w[0]).std() < 1.4
    assert (
        np.linalg.matrix_rank(np.concatenate([layer.w[0], layer.w[1]], axis=1)) == 8
    )  # one value map for both
    assert ValueOracle(layer).ask(x).shape == x.shape


@pytest.mark.bad_input
def test_what_does_not_fit_together_is_refused():
    layer = make_nice_rotary_layer(2, 5, 4, rng=0)
    with pytest.raises(ValueError, match="half as many"):
        replace(layer, frequencies=np.ones(3))
    with pytest.raises(ValueError, match="below pi"):
        replace(layer, frequencies=np.array([1.0, -0.1]))
    with pytest.raises(ValueError, match="a divisor is needed"):
        replace(layer, keys=np.ones((3, 5, 4)))
    with pytest.raises(ValueError, match="keys"):
        RotaryLayer(layer.queries, layer.keys[:, :4], layer.w, layer.frequencies)
    with pytest.raises(ValueError, match="compare the functions"):
        rotary_errors(layer, replace(layer, frequencies=np.array([1.0, 0.0])))
    with pytest.raises(ValueError, match="even number"):
        make_nice_rotary_layer(2, 5, 3)
    with pytest.raises(ValueError, match="tokens is needed"):
        layer(np.ones((2, 4)))
