"""The study of positions: the derived biases by enumeration of all inputs, and what it makes of rows."""

import itertools

import numpy as np
import pytest

from attention import AttentionLayer, make_nice_layer
from studies.positions_phases import (
    gram_condition,
    phase_one_errors,
    positions_of,
    predicted_biases,
    projection_sums,
)

K, D = 2, 3
EVERY = np.array(list(itertools.product([-1.0, 1.0], repeat=K * D))).reshape(-1, K, D)
POSITIONS = positions_of("gaussian", K, D, scale=0.8, normal=np.random.default_rng(5).standard_normal((K, D)))


def nice(sigma=2.0):
    return make_nice_layer(heads=2, dim=D, sigma=sigma, rng=1)


class TestPhaseOne:
    def test_without_attention_the_mean_is_the_derived_one(self):
        layer, x = nice(sigma=0.0), EVERY + POSITIONS
        sums, total, mean = (
            projection_sums(x, layer(x), POSITIONS),
            layer.w.sum(axis=0),
            POSITIONS.mean(axis=0),
        )
        np.testing.assert_allclose(sums["as it is"], total + K * np.outer(mean, mean) @ total, atol=1e-12)
        np.testing.assert_allclose(sums["known positions"], total, atol=1e-12)
        np.testing.assert_allclose(sums["centred"], total, atol=1e-12)
        derived = predicted_biases(layer, POSITIONS, x)
        assert phase_one_errors(sums, layer)["as it is"] == pytest.approx(derived[0])
        assert derived[1] == pytest.approx(0.0, abs=1e-12)

    def test_known_positions_and_centring_have_the_same_mean_with_attention(self):
        layer, x = nice(), EVERY + POSITIONS
        sums = projection_sums(x, layer(x), POSITIONS)
        np.testing.assert_allclose(sums["known positions"], sums["centred"], atol=1e-12)
        assert not np.allclose(sums["known positions"], sums["as it is"], atol=0.01)

    def test_what_positions_add_after_centring_is_the_derived_term_to_first_order(self):
        small = AttentionLayer(theta=1e-4 * nice().theta, w=nice().w)
        with_them = projection_sums(EVERY + POSITIONS, small(EVERY + POSITIONS), POSITIONS)["centred"]
        without = projection_sums(EVERY, small(EVERY), np.zeros((K, D)))["centred"]
        added = np.linalg.norm(with_them - without) / np.linalg.norm(small.w.sum(axis=0))
        assert added > 1e-6
        assert added == pytest.approx(predicted_biases(small, POSITIONS, EVERY + POSITIONS)[1], rel=1e-2)


class TestPositions:
    def test_parallel_positions_condition_the_gram_matrix_worse(self):
        layer = make_nice_layer(heads=1, dim=D, sigma=0.0, rng=1)
        # without attention a read is the mean token: Gram matrix I/k + pi'^T pi'
        parallel = np.tile(POSITIONS[:1], (K, 1))
        assert gram_condition(layer, EVERY) == pytest.approx(1.0)
        assert gram_condition(layer, EVERY + parallel) == pytest.approx(1 + K * np.sum(POSITIONS[0] ** 2))
