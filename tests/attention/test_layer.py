"""AttentionLayer: the identities of the target class, on three array libraries."""

import math
import warnings
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    GaussianInputs,
    attention_pattern,
    make_nice_layer,
)
from attention.layer import read_tokens

sizes = {
    "m": st.integers(1, 4),
    "k": st.integers(1, 5),
    "d": st.integers(1, 6),
    "seed": st.integers(0, 2**32),
}


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def library(request):
    """The name of an array library, and how an array becomes one of its arrays."""
    if request.param == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        return "torch", lambda array: torch.from_numpy(np.array(array))
    if request.param == "array_api_strict":
        return "array_api_strict", lambda array: array_api_strict.asarray(np.array(array))
    return "numpy", np.array


def module(array):
    return type(array).__module__.split(".")[0]


def by_loops(layer, x):
    """The definition, one sum after the other."""
    k, d = x.shape
    out = np.zeros((k, d)) + (0 if layer.bias is None else layer.bias)
    key_bias = np.zeros((layer.heads, d)) if layer.key_bias is None else layer.key_bias
    for theta, w, c in zip(layer.theta, layer.w, key_bias, strict=True):
        for a in range(k):
            logits = [
                sum(x[a, i] * theta[i, j] * x[b, j] for i in range(d) for j in range(d)) + c @ x[b]
                for b in range(k)
            ]
            weights = [math.exp(one - max(logits)) for one in logits]
            for b in range(k):
                out[a] += weights[b] / sum(weights) * (x[b] @ w)
    return out


class TestDefinition:
    @given(**sizes, with_c=st.booleans(), with_b=st.booleans())
    def test_output_is_the_triple_sum(self, m, k, d, seed, with_c, with_b):
        layer, x = make_nice_layer(heads=m, dim=d, rng=seed), GaussianInputs(k, d).sample(2, rng=seed)
        c, b = np.random.default_rng(seed).standard_normal((m + 1, d))[:m], np.arange(d) - 1.0
        layer = AttentionLayer(layer.theta, layer.w, c if with_c else None, b if with_b else None)
        assert layer.biased is (with_c or with_b)
        np.testing.assert_allclose(layer(x), [by_loops(layer, one) for one in x], rtol=1e-12, atol=1e-13)

    @given(**sizes)
    def test_logits_and_patterns_are_those_of_the_output(self, m, k, d, seed):
        layer, x = make_nice_layer(heads=m, dim=d, rng=seed), GaussianInputs(k, d).sample(3, rng=seed)
        logits, patterns = layer.logits(x), layer.patterns(x)
        assert logits.shape == patterns.shape == (3, m, k, k)
        np.testing.assert_allclose(logits, np.einsum("nai,mij,nbj->nmab", x, layer.theta, x), atol=1e-12)
        np.testing.assert_allclose(
            patterns, np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), rtol=1e-12
        )
        np.testing.assert_allclose(np.einsum("nmab,nbi,mij->naj", patterns, x, layer.w), layer(x), atol=1e-12)
        pattern, read = read_tokens(x, layer.theta)
        np.testing.assert_allclose(np.moveaxis(pattern, 2, 1), patterns, atol=1e-12)
        np.testing.assert_allclose((read @ layer.w.reshape(m * d, d)).reshape(x.shape), layer(x), atol=1e-12)

    def test_parameters_are_frozen_copies(self):
        theta = np.zeros((1, 2, 2))
        layer = AttentionLayer(theta=theta, w=theta)
        theta += 1
        assert not layer.theta.any()
        with pytest.raises(ValueError, match="read-only"):
            layer.theta[0] = 1
        with pytest.raises(AttributeError):
            layer.w = theta


class TestInvariance:
    @given(**sizes, shift=st.floats(-1e3, 1e3))
    def test_adding_one_number_to_every_logit_of_a_row_changes_nothing(self, m, k, d, seed, shift):
        layer, x = make_nice_layer(heads=m, dim=d, rng=seed), GaussianInputs(k, d).sample(2, rng=seed)
        logits = layer.logits(x)
        shifts = shift * np.random.default_rng(seed).standard_normal((*logits.shape[:-1], 1))
        moved = attention_pattern(logits + shifts)
        np.testing.assert_allclose(moved, layer.patterns(x), rtol=0, atol=1e-15 * (10 + np.abs(shifts).max()))

    @given(**sizes, batch=st.lists(st.integers(0, 3), max_size=3))
    def test_batch_equals_loop(self, m, k, d, seed, batch):
        layer, rng = make_nice_layer(heads=m, dim=d, rng=seed), np.random.default_rng(seed)
        x = rng.standard_normal((*batch, k, d))
        for method, inner in ((layer, (k, d)), (layer.logits, (m, k, k)), (layer.patterns, (m, k, k))):
            whole = method(x)
            assert whole.shape == (*batch, *inner)
            for index in np.ndindex(*batch):
                np.testing.assert_allclose(whole[index], method(x[index]), rtol=1e-12, atol=1e-13)


class TestLibraries:
    def test_array_type_in_equals_array_type_out(self, library):
        name, convert = library
        plain, x = make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(4, 3).sample(5, rng=0)
        layer = plain.map(convert)
        theta = np.array(plain.theta)
        for result, expected in (
            (layer(convert(x)), plain(x)),
            (layer.logits(convert(x)), plain.logits(x)),
            (layer.patterns(convert(x)), plain.patterns(x)),
            (attention_pattern(convert(x)), attention_pattern(x)),
            *zip(read_tokens(convert(x), convert(theta)), read_tokens(x, theta), strict=True),
        ):
            assert module(result) == name
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("dtype", [bool, np.complex128])
    def test_truth_values_and_complex_numbers_are_refused(self, library, dtype):
        _, convert = library
        wrong, right = convert(np.ones((1, 2, 2), dtype)), convert(np.ones((1, 2, 2)))
        with pytest.raises(ValueError, match=r"real floating-point or integer entries|theta is an array of"):
            AttentionLayer(theta=wrong, w=right)
        with pytest.raises(ValueError, match="real floating-point or integer entries"):
            AttentionLayer(theta=right, w=right)(wrong)

    def test_mixed_libraries(self):
        zeros = np.zeros((1, 2, 2))
        strict = array_api_strict.asarray(zeros)
        with pytest.raises(ValueError, match="array_api_strict and numpy"):
            AttentionLayer(theta=zeros, w=strict)
        with pytest.raises(ValueError, match="one library"):
            AttentionLayer(theta=zeros, w=zeros)(strict)


class TestHardMax:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("size", [1e6, -1e6])
    def test_logits_of_a_million_give_the_hard_maximum(self, library, dtype, size):
        _, convert = library
        # tokens e_1, e_2, e_3: the logit of a on b is Theta_ab, and token a reads exactly its favourite
        order = np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 0.5], [0.25, 1.0, 0.5]])
        w = np.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
        layer = AttentionLayer(theta=convert((size * order[None]).astype(dtype)), w=convert(w.astype(dtype)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = layer(convert(np.eye(3, dtype=dtype)))
            pattern = layer.patterns(convert(np.eye(3, dtype=dtype)))
        favourite = (np.sign(size) * order).argmax(axis=1)
        np.testing.assert_array_equal(np.asarray(out), w[0][favourite])
        np.testing.assert_array_equal(np.asarray(pattern)[0], np.eye(3)[favourite])

    def test_ties_split_evenly(self, library):
        _, convert = library
        logits = 1e6 * np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, -1, 0, 0]])
        expected = [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4, [1 / 3, 0, 1 / 3, 1 / 3]]
        np.testing.assert_array_equal(np.asarray(attention_pattern(convert(logits))), expected)
        np.testing.assert_array_equal(attention_pattern(np.array([1e308, 1e307])), [1, 0])

    @pytest.mark.bad_input
    def test_logits_that_are_not_finite_or_none_are_an_error(self):
        for wrong in (np.inf, -np.inf, np.nan):
            with pytest.raises(ValueError, match="logits contain NaN or infinite"):
                attention_pattern(np.array([0.0, wrong]))
        for wrong in (np.array(1.0), np.zeros((2, 0))):
            with pytest.raises(ValueError, match="logits have shape"):
                attention_pattern(wrong)


class TestCausal:
    def test_row_a_is_the_last_row_of_the_layer_on_the_tokens_up_to_a(self, library):
        name, convert = library
        layer = make_nice_layer(heads=2, dim=4, rng=0)
        biased = AttentionLayer(layer.theta, layer.w, np.ones((2, 4)), np.arange(4.0))
        causal = replace(biased, causal=True).map(convert)
        x = np.random.default_rng(1).standard_normal((3, 5, 4))
        out = causal(convert(x))
        assert module(out) == ("numpy" if name == "numpy" else name)
        for a in range(5):
            np.testing.assert_allclose(np.asarray(out)[:, a], biased(x[:, : a + 1])[:, a], atol=1e-13)
        _, read = read_tokens(x, layer.theta, causal=True)
        expected = replace(layer, causal=True)(x)
        np.testing.assert_allclose((read @ layer.w.reshape(8, 4)).reshape(x.shape), expected, atol=1e-13)
        patterns = np.asarray(causal.patterns(convert(x)))
        np.testing.assert_array_equal(np.triu(patterns, 1), 0)
        np.testing.assert_allclose(patterns.sum(axis=-1), 1)

    def test_large_logits_of_later_tokens_hide_nothing(self):
        layer = AttentionLayer(1e6 * np.eye(2)[None], np.eye(2)[None], causal=True)
        x = np.array([[1.0, 0.0], [300.0, 0.0]])
        np.testing.assert_array_equal(layer(x)[0], x[0])


class TestWrongInput:
    @pytest.mark.bad_input
    @pytest.mark.parametrize("shape", [(3,), (2, 4), (0, 3), (5, 2, 4)])
    def test_token_shapes(self, shape):
        layer = make_nice_layer(heads=1, dim=3, rng=0)
        for method in (layer, layer.logits, layer.patterns):
            with pytest.raises(ValueError, match=r"x has shape"):
                method(np.zeros(shape))
