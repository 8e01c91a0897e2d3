"""Cubic features: the identities that make linear attention a linear regression; exact moments, ranks and spectra."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from upper.linear_attention import (
    cubic_features,
    cubic_kernel,
    feature_count,
    features_from_tensor,
    make_linear_attention,
    regress,
    tensor_from_features,
)
from upper.linear_attention.features import softmax_features
from upper.linear_attention.populations import exact_rank, population_moment

numbers = st.floats(-4, 4, allow_subnormal=False)


def tokens(d, n=None, batch=3):
    return hnp.arrays(float, (batch, n or 4, d), elements=numbers)


def elementwise(model, x):
    """y_a = sum_h V_ab G_bc Q_ce z_e, in the spec's own indices."""
    gram = np.einsum("nib,nic->nbc", x, x) / (x.shape[1] if model.average else 1)
    return np.einsum("hab,nbc,hce,ne->na", model.v, gram, model.q, x[:, -1])


@settings(max_examples=30, deadline=None)
@given(x=tokens(3), seed=st.integers(0, 9), average=st.booleans())
def test_model_is_linear_in_the_features_with_the_tensor_as_coefficients(x, seed, average):
    model = make_linear_attention(heads=2, dim=3, outputs=2, average=average, rng=seed)
    linear = cubic_features(x, average=average) @ features_from_tensor(model.tensor())
    np.testing.assert_allclose(linear, model(x), atol=1e-9)
    np.testing.assert_allclose(elementwise(model, x), model(x), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(x=tokens(3, 2), other=tokens(3, 5, 2), average=st.booleans())
def test_kernel_is_the_inner_product_of_features_for_any_two_lengths(x, other, average):
    phi, psi = (cubic_features(one, average=average) for one in (x, other))
    np.testing.assert_allclose(cubic_kernel(x, other, average=average), phi @ psi.T, atol=1e-8)
    frobenius = np.einsum("nib,mjb->nmij", x, other)
    direct = np.sum(frobenius**2, axis=(2, 3)) * (x[:, -1] @ other[:, -1].T)
    direct = direct / (10 if average else 1)
    np.testing.assert_allclose(cubic_kernel(x, other, average=average), direct, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_coefficients_and_symmetric_tensors_are_isometric(d):
    coefficients = np.random.default_rng(d).standard_normal((feature_count(d), 3))
    tensor = tensor_from_features(coefficients, d)
    np.testing.assert_array_equal(tensor, tensor.transpose(0, 2, 1, 3))
    np.testing.assert_allclose(np.linalg.norm(tensor), np.linalg.norm(coefficients), rtol=1e-14)
    np.testing.assert_allclose(features_from_tensor(tensor), coefficients, rtol=1e-14)


def test_array_type_in_is_array_type_out():
    strict = pytest.importorskip("array_api_strict")
    x = np.random.default_rng(0).standard_normal((3, 4, 3))
    xs = strict.asarray(x)
    model = make_linear_attention(heads=2, dim=3, rng=0)
    for function in (cubic_features, model):
        out = function(xs)
        assert type(out) is type(xs)
        np.testing.assert_allclose(np.asarray(out), function(x), rtol=1e-12)


def test_a_kernel_of_whole_numbers_does_not_wrap_around():
    x = np.full((1, 2, 3), 200, dtype=np.uint8)
    np.testing.assert_allclose(cubic_kernel(x, x), cubic_kernel(x.astype(float), x.astype(float)))


@pytest.mark.parametrize("average", [False, True])
def test_outputs_are_those_of_the_gram_matrix_and_the_query(average):
    model = make_linear_attention(heads=2, dim=3, average=average, rng=0)
    x = np.random.default_rng(0).standard_normal((60, 5, 3))
    gram = np.matrix_transpose(x) @ x / (5 if average else 1)
    for one in (model, regress(x, model(x), average=average)):
        np.testing.assert_allclose(one.of_gram(gram, x[:, -1:])[:, 0], model(x), atol=1e-12)
        assert not one.of_gram(gram, np.zeros((60, 1, 3))).any()
        with pytest.raises(ValueError, match="overflow"):
            one.of_gram(1e200 * gram, 1e200 * x)


def test_softmax_features_are_what_their_names_say():
    x = np.random.default_rng(1).standard_normal((6, 3, 4))
    mean = x.mean(axis=1)
    last = {kind: softmax_features(x, kind)[:, -1] for kind in ("plain", "aug", "cent")}
    plain = cubic_features(x)
    np.testing.assert_allclose(last["plain"], plain)
    np.testing.assert_allclose(last["aug"], np.hstack([plain, mean]))
    centred = np.einsum("nkb,nkc->nbc", x - mean[:, None], x - mean[:, None])
    b, c = np.triu_indices(4)
    weighted = centred[:, b, c] * np.where(b == c, 1, np.sqrt(2))
    cubic = np.einsum("np,ne->npe", weighted, x[:, -1]).reshape(6, -1)
    np.testing.assert_allclose(last["cent"], np.hstack([cubic, x[:, -1], mean]))


TOKENS = ("gaussian", "sphere", "boolean", "boolean-constant", "one-hot")


def _rank(moment):
    values = np.linalg.eigvalsh(moment)
    return int(np.sum(values > 1e-10 * values[-1]))


def _enumerated(token_values, weights, n):
    """The moment of n independent tokens that take the given values with the given weights."""
    choices = np.array(list(product(range(len(token_values)), repeat=n)))
    phi = cubic_features(np.asarray(token_values, dtype=float)[choices])
    return (phi * np.prod(np.asarray(weights)[choices], axis=1)[:, None]).T @ phi


def _signs(d):
    return np.array(list(product((-1.0, 1.0), repeat=d)))


def _nodes(kind, d):
    """Values of a token and their weights, over which powers up to the sixth have their exact mean."""
    if kind == "boolean":
        return _signs(d), np.full(2**d, 2.0**-d)
    if kind == "one-hot":
        return np.eye(d), np.full(d, 1 / d)
    if kind == "sphere":  # seven directions are enough on a circle
        angles = 2 * np.pi * np.arange(7) / 7
        return np.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)]), np.full(7, 1 / 7)
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # up to the seventh power
    shares = product(weights / weights.sum(), repeat=d)
    return np.array(list(product(nodes, repeat=d))), np.array([np.prod(one) for one in shares])


@pytest.mark.parametrize(
    ("kind", "d", "n"),
    [
        *(("boolean", d, n) for d, n in ((4, 3), (3, 1), (2, 4))),
        *(("one-hot", d, n) for d, n in ((3, 3), (4, 2), (3, 1))),
        *(("gaussian", d, n) for d, n in ((2, 2), (1, 3), (2, 1))),
        *(("sphere", 2, n) for n in (1, 2, 3)),
    ],
)
def test_a_moment_is_the_mean_over_all_inputs_or_over_the_nodes_of_a_quadrature(kind, d, n):
    np.testing.assert_allclose(population_moment(kind, d, n), _enumerated(*_nodes(kind, d), n), atol=1e-10)


@given(d=st.integers(1, 5), n=st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_a_constant_coordinate_is_worth_a_sign(d, n):
    np.testing.assert_array_equal(
        population_moment("boolean-constant", d, n), population_moment("boolean", d + 1, n)
    )
    assert exact_rank("boolean-constant", d, n) == exact_rank("boolean", d + 1, n)
    if n >= 2:
        assert exact_rank("boolean-constant", d, n) == (
            1 + 2 * d + d * d + d * (d - 1) // 2 + d * d * (d - 1) // 2
        )


@given(tokens=st.sampled_from(TOKENS), d=st.integers(1, 5), n=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_rank_is_that_of_the_moment(tokens, d, n):
    assert _rank(population_moment(tokens, d, n)) == exact_rank(tokens, d, n)
