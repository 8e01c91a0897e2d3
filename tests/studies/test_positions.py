"""The study of positions: the derived biases by enumeration of all inputs, and what it makes of rows."""

import itertools
import json

import numpy as np
import pytest

from attention import AttentionLayer, make_nice_layer
from studies.positions import STUDY
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
    @pytest.mark.parametrize("kind", ["sinusoidal", "gaussian", "one-hot"])
    def test_each_has_the_norm_of_a_token_times_the_scale(self, kind):
        rows = positions_of(kind, 3, 8, scale=0.5, normal=np.random.default_rng(0).standard_normal((3, 8)))
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 0.5 * np.sqrt(8))

    def test_parallel_positions_condition_the_gram_matrix_worse(self):
        layer = make_nice_layer(heads=1, dim=D, sigma=0.0, rng=1)
        # without attention a read is the mean token: Gram matrix I/k + pi'^T pi'
        parallel = np.tile(POSITIONS[:1], (K, 1))
        assert gram_condition(layer, EVERY) == pytest.approx(1.0)
        assert gram_condition(layer, EVERY + parallel) == pytest.approx(1 + K * np.sum(POSITIONS[0] ** 2))


def phases(kind, scale, *, raw=(0.1, 0.001, 0.01), centred=(0.1, 0.001, 0.01), tokens=2):
    """A row of the phases by the errors of phase 1, of phase 3 and of the span."""
    cell = {
        "part": "phases",
        "heads": 2,
        "tokens": tokens,
        "dim": 16,
        "kind": kind,
        "scale": scale,
        "draw": 0,
    }
    stages = {
        what: {"as it is": one, "centred": other}
        for what, one, other in zip(("crude", "refined", "span"), raw, centred, strict=True)
    }
    both = {"as it is": 1e-12, "centred": 1e-12}
    return {**cell, **stages, "predicted": both, "final": both}


class TestStudy:
    def test_a_measurement_is_plain_and_newton_is_exact_on_small_positions(self):
        cell = {"part": "newton", "heads": 1, "tokens": 2, "dim": 4, "kind": "sinusoidal", "scale": 0.5}
        found = STUDY.measure(rng=np.random.default_rng(3), **cell, floors=4, draw=0)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["error"] < 1e-9


class TestWhatBreaks:
    def breaks(self, *rows):
        numbers = STUDY.numbers([phases("none", 0.0), *rows])
        return [numbers[f"breaks_{what}_2"] for what in ("crude", "refined", "span")]

    def test_a_phase_breaks_at_twice_the_error_between_two_measured_scales(self):
        rows = [
            phases("gaussian", 0.5, raw=(0.1, 0.001, 0.05)),
            phases("gaussian", 2.0, raw=(0.4, 0.001, 0.1)),
        ]
        assert self.breaks(*rows) == ["1", "never", "0.5"]

    def test_what_larger_logits_alone_explain_is_not_put_down_to_positions(self):
        off = (5.0, 0.5, 0.03)
        assert self.breaks(phases("gaussian", 1.0, raw=off)) == ["1", "1", "1"]
        control = phases("larger logits", 1.0, raw=off)
        assert self.breaks(phases("gaussian", 1.0, raw=off), control) == ["never"] * 3
