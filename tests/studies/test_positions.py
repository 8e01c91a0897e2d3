"""The study of positions: the derived biases of phase 1, by enumeration of all inputs."""

import itertools

import numpy as np
import pytest

from attention import AttentionLayer, make_nice_layer
from studies.positions import positions_of, predicted_biases, projection_sums

K, D = 2, 3
EVERY = np.array(list(itertools.product([-1.0, 1.0], repeat=K * D))).reshape(-1, K, D)
POSITIONS = positions_of("gaussian", np.random.default_rng(5).standard_normal((K, D)), scale=0.8)


def nice(sigma=2.0):
    return make_nice_layer(heads=2, dim=D, sigma=sigma, rng=1)


def test_without_attention_the_mean_is_the_derived_one():
    layer, x = nice(sigma=0.0), EVERY + POSITIONS
    sums, total, mean = projection_sums(x, layer(x)), layer.w.sum(axis=0), POSITIONS.mean(axis=0)
    np.testing.assert_allclose(sums[""], total + K * np.outer(mean, mean) @ total, atol=1e-12)
    np.testing.assert_allclose(sums["_centred"], total, atol=1e-12)
    plain, centred = predicted_biases(layer, POSITIONS, x)
    assert np.linalg.norm(sums[""] - total) / np.linalg.norm(total) == pytest.approx(plain)
    assert centred == pytest.approx(0.0, abs=1e-12)


def test_what_positions_add_after_centring_is_the_derived_term_to_first_order():
    small = AttentionLayer(theta=1e-4 * nice().theta, w=nice().w)
    with_them, without = (projection_sums(x, small(x))["_centred"] for x in (EVERY + POSITIONS, EVERY))
    added = np.linalg.norm(with_them - without) / np.linalg.norm(small.w.sum(axis=0))
    assert added > 1e-6
    assert added == pytest.approx(predicted_biases(small, POSITIONS, EVERY + POSITIONS)[1], rel=1e-2)


@pytest.mark.parametrize("kind", ["sinusoidal", "gaussian"])
def test_a_position_has_the_norm_scale_times_root_d(kind):
    positions = positions_of(kind, np.random.default_rng(0).standard_normal((4, 16)), scale=0.5)
    assert np.linalg.norm(positions, axis=1) == pytest.approx([2.0] * 4)
