"""Exact moments of cubic features against enumeration and quadrature, and their ranks and spectra."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention import cubic_features
from upper.linear_attention.populations import exact_rank, population_moment

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


@pytest.mark.parametrize(("d", "n"), [(4, 3), (3, 1), (2, 4)])
def test_the_boolean_moment_is_the_mean_over_all_inputs(d, n):
    signs = _signs(d)
    enumerated = _enumerated(signs, np.full(len(signs), 2.0**-d), n)
    np.testing.assert_allclose(population_moment("boolean", d, n), enumerated, atol=1e-10)


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


@pytest.mark.parametrize(("d", "n"), [(3, 3), (4, 2), (3, 1)])
def test_the_one_hot_moment_is_the_mean_over_all_inputs(d, n):
    enumerated = _enumerated(np.eye(d), np.full(d, 1 / d), n)
    np.testing.assert_allclose(population_moment("one-hot", d, n), enumerated, atol=1e-13)


@pytest.mark.parametrize(("d", "n"), [(2, 2), (1, 3), (2, 1)])
def test_the_gaussian_moment_is_its_quadrature(d, n):
    """Four nodes a coordinate integrate its powers up to the seventh exactly, and the sixth is the highest."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.array(list(product(nodes, repeat=d)))
    shares = np.array([np.prod(w) for w in product(weights / weights.sum(), repeat=d)])
    np.testing.assert_allclose(population_moment("gaussian", d, n), _enumerated(grid, shares, n), atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_moment_on_the_circle_is_the_mean_over_a_regular_polygon(n):
    """Seven directions integrate trigonometric polynomials up to degree six exactly."""
    angles = 2 * np.pi * np.arange(7) / 7
    circle = np.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)])
    enumerated = _enumerated(circle, np.full(7, 1 / 7), n)
    np.testing.assert_allclose(population_moment("sphere", 2, n), enumerated, atol=1e-11)


@given(tokens=st.sampled_from(TOKENS), d=st.integers(1, 5), n=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_rank_is_that_of_the_moment(tokens, d, n):
    assert _rank(population_moment(tokens, d, n)) == exact_rank(tokens, d, n)
