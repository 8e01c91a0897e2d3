"""The study of symmetry: the Hessian against differences, equal heads, growth at the predicted rate, sentences."""

from functools import cache

import numpy as np
import pytest

from studies.symmetry_descent import descend, escape, halves, make_target
from studies.symmetry_saddle import fitted_error, symmetric_saddle
from upper.baselines.descent import random_start, squared_error_gradient, stack_heads


@cache
def examples(tokens=2, target="nice"):
    _, x, y = make_target(target, tokens, 6, np.random.default_rng(4))
    return x, y


@cache
def saddle(tokens=2):
    return symmetric_saddle(*examples(tokens), rng=np.random.default_rng(5))


def pair(point, change):
    """Two heads, the first moved by a change and the second by its negative."""
    a, b = change.reshape(2, *point.theta.shape)
    return stack_heads(np.stack([point.theta + a, point.theta - a]), np.stack([point.w + b, point.w - b]))


@pytest.mark.parametrize("tokens", [2, 4])
def test_the_halved_single_head_is_stationary_and_the_hessian_is_the_difference_of_gradients(tokens):
    point = saddle(tokens)
    assert (
        max(
            np.abs(part).max()
            for part in squared_error_gradient(point.x, point.y, *pair(point, np.zeros(72)))[1:]
        )
        < 1e-5
    )
    change = np.random.default_rng(0).standard_normal(72)
    ends = [
        halves(*squared_error_gradient(point.x, point.y, *pair(point, step * change))[1:])[0]
        for step in (1e-5, -1e-5)
    ]
    assert point.hessian(change) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_the_hessian_is_symmetric_with_a_zero_block_and_a_negative_eigenvalue():
    point = saddle()
    matrix = np.stack([point.hessian(row) for row in np.eye(72)])
    assert matrix == pytest.approx(matrix.T, abs=1e-12)
    assert np.all(matrix[36:, 36:] == 0)
    values, vectors = np.linalg.eigh(matrix)
    curvature, direction = point.unstable
    assert curvature == pytest.approx(values[0], rel=1e-6)
    assert values[0] < 0
    assert abs(direction @ vectors[:, 0]) == pytest.approx(1, abs=1e-4)


def test_the_largest_curvature_is_that_of_the_whole_hessian():
    point = saddle()
    flat = np.concatenate([part.ravel() for part in pair(point, np.zeros(72))])

    def gradient(at):
        _, *parts = squared_error_gradient(point.x, point.y, at[:72].reshape(6, 12), at[72:].reshape(12, 6))
        return np.concatenate([part.ravel() for part in parts])

    matrix = np.stack(
        [(gradient(flat + 1e-5 * row) - gradient(flat - 1e-5 * row)) / 2e-5 for row in np.eye(144)]
    )
    assert point.largest_curvature == pytest.approx(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1], rel=1e-2)


@pytest.mark.parametrize("optimiser", ["gradient descent", "Adam"])
def test_equal_heads_stay_equal(optimiser):
    theta, w = random_start(1, 6, np.random.default_rng(0))
    both = np.concatenate([theta, theta], axis=1), np.concatenate([w, w])
    run = descend(*examples(), *both, optimiser=optimiser, rate=0.01, steps=50)
    assert run.distances.max() < 1e-13
    assert fitted_error(*examples(), run.theta, run.w) < fitted_error(*examples(), *both)


def test_gradient_descent_leaves_at_the_rate_of_the_least_curvature_and_when_predicted():
    found = escape(
        *examples(), optimiser="gradient descent", rate=0.5, steps=600, rng=np.random.default_rng(5)
    )
    assert found["growths"][:3] == pytest.approx([found["growth_predicted"]] * 3, rel=1e-3)
    assert found["breaking"][:3] == pytest.approx(found["predicted"][:3], rel=0.1)


def test_adam_is_the_adam_of_its_authors():
    x, y = examples()
    theta, w = random_start(2, 6, np.random.default_rng(1))
    run = descend(x, y, theta, w, optimiser="Adam", rate=0.01, steps=1)
    _, gradient, _ = squared_error_gradient(x, y, theta, w)
    # the first step is the rate times the sign, but for epsilon
    assert run.theta == pytest.approx(theta - 0.01 * gradient / (np.abs(gradient) + 1e-8), abs=1e-14)
