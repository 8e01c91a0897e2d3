"""The study of symmetry: curvatures against the whole Hessian, equal heads, growth at the predicted rate."""

from functools import cache

import numpy as np
import pytest

from attention import BooleanInputs, make_nice_layer
from studies.symmetry import descend, gradient, halved_head, largest_curvature, least_curvature, measure


@cache
def saddle():
    """Examples of a nice target, and the best single head on them, halved."""
    layer, x = make_nice_layer(heads=2, dim=6, rng=4), BooleanInputs(2, 6).sample(54, rng=4)
    return x, layer(x), halved_head(x, layer(x), np.random.default_rng(5))


@cache
def hessian():
    """The matrix of second derivatives in the parameters of both heads, by differences."""
    x, y, heads = saddle()
    ways = 1e-5 * np.eye(heads.size).reshape(-1, *heads.shape)
    return np.stack(
        [(gradient(x, y, heads + way) - gradient(x, y, heads - way)).ravel() / 2e-5 for way in ways]
    )


def test_the_halved_single_head_is_stationary():
    assert np.abs(gradient(*saddle())).max() < 1e-5


def test_the_hessian_over_opposite_changes_has_a_zero_block_and_the_least_curvature():
    matrix = hessian()[:72, :72] - hessian()[:72, 72:]
    assert np.abs(matrix[36:, 36:]).max() < 1e-8
    curvatures, directions = np.linalg.eigh((matrix + matrix.T) / 2)
    curvature, direction = least_curvature(*saddle())
    assert curvature == pytest.approx(curvatures[0], rel=1e-5)
    assert curvature < 0
    assert abs(direction @ directions[:, 0]) == pytest.approx(1, abs=1e-4)


def test_the_largest_curvature_is_that_of_the_whole_hessian():
    most = np.linalg.eigvalsh((hessian() + hessian().T) / 2)[-1]
    assert largest_curvature(*saddle()) == pytest.approx(most, rel=1e-2)


def test_equal_heads_stay_equal():
    x, y, heads = saddle()
    distances, _ = descend(x, y, 1.1 * heads, rate=0.01, steps=50)
    assert len(distances) == 51
    assert distances.max() < 1e-13


def test_gradient_descent_leaves_at_the_rate_of_the_least_curvature_and_when_predicted():
    cell = {"part": "escape", "target": "nice", "tokens": 2, "dim": 8}
    rows = measure(rng=np.random.default_rng(5), **cell, draw=0, steps=900)
    assert [row["growth"] for row in rows[:3]] == pytest.approx([1.0] * 3, rel=1e-3)
    assert [row["parted"] / row["predicted"] for row in rows[:3]] == pytest.approx([1.0] * 3, rel=0.1)
