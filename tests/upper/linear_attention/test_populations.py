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
