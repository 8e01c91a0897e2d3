"""Who meets the conditions: measures of known layers, and training."""

import numpy as np
import pytest

from attention import make_nice_layer
from studies.conditions import measure, trained_layer

pytest.importorskip("torch")


def measured(family, dim):
    return measure(rng=np.random.default_rng(7), family=family, dim=dim, draws=1)


def test_measures_of_random_layers_are_those_of_nice_layers():
    theta = make_nice_layer(heads=4, dim=32, rng=np.random.default_rng(7)).theta
    units = theta.reshape(4, -1) / np.linalg.norm(theta, axis=(1, 2))[:, None]
    row = measured("random", 32)
    assert row["incoherence"] == pytest.approx(np.abs(units @ units.T - np.eye(4)).max(), rel=1e-9)
    traces = [np.trace(head) ** 2 / np.sum(head**2) for head in theta]
    assert row["Tr²/‖Θ‖²"] == pytest.approx(max(traces), rel=1e-9)
    assert row["loss"] is None


def test_layers_of_pytorch_lack_rank_at_small_dimensions_and_lattices_are_seen():
    assert measured("imported, untrained", 16)["fails on every layer"] == "theta stable rank, w stable rank"
    diagonal = measured("diagonal", 16)
    assert diagonal["lattice"] > diagonal["threshold of lattice"]


def test_training_beats_the_best_constant():
    layer, loss = trained_layer(16, np.random.default_rng(0), steps=150)
    assert loss < 0.9
    assert layer.theta.shape == (4, 16, 16)
