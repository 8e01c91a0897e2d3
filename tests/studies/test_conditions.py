"""Who meets the conditions: measures of known layers, training, exponents of known laws, and the committed record."""

import numpy as np
import pytest

from attention import make_nice_layer
from runs import Scale
from studies.conditions import STUDY, exponents, heaviest_column_law, stable_rank_law

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def rows():
    """The quick cells of layers that are not trained, one layer each."""
    cells = [{**cell, "draws": 1} for cell in STUDY.cells(Scale.QUICK)]
    cells = [cell for cell in cells if cell["family"] not in ("imported, recall", "imported, masked")]
    return [{**cell, **STUDY.measure(rng=np.random.default_rng(7), **cell)} for cell in cells]


def _of(rows, family, dim):
    (row,) = (row for row in rows if (row["family"], row["dim"]) == (family, dim))
    return {name: values[0] for name, values in row["measured"].items()}


def test_random_rows_are_measures_of_nice_layers(rows):
    theta = make_nice_layer(heads=4, dim=32, rng=np.random.default_rng(7)).theta
    units = theta.reshape(4, -1) / np.linalg.norm(theta, axis=(1, 2))[:, None]
    found = _of(rows, "random", 32)
    overlap = np.abs(units @ units.T - np.eye(4)).max()
    assert found["theta_incoherence"] == pytest.approx(overlap, rel=1e-9)
    traces = [np.trace(head) ** 2 / np.sum(head**2) for head in theta]
    assert found["theta_trace"] == pytest.approx(max(traces), rel=1e-9)


@pytest.mark.parametrize(("task", "most"), [("recall", 0.9), ("masked", 0.97)])
def test_training_beats_the_best_constant(task, most):
    from studies.trained_heads import trained_layer

    layer, loss = trained_layer(task, 16, np.random.default_rng(0), steps=150)
    assert loss < most
    assert layer.theta.shape == (4, 16, 16)


def test_exponents_are_those_of_exact_power_laws():
    powers = {"incoherence": -1.0, "trace": -0.5, "column": -1.0, "norms": -1.0, "rank": 1.0, "gap": -1.5}
    names = {
        "theta_incoherence": lambda d: 3 / d,
        "theta_trace": lambda d: d**-0.5,
        "theta_heavy_column": lambda d: 2 / d,
        "theta_norms_comparable": lambda d: 1 + 1 / d,
        "theta_distinct_singular_values": lambda d: d**-1.5,
    }
    made = [
        {
            "family": "random",
            "dim": dim,
            "draws": 3,
            "mean_stable_rank": [dim / 4] * 3,
            "measured": {name: [law(dim)] * 3 for name, law in names.items()},
        }
        for dim in (16, 64, 256)
    ]
    assert {name: slope.estimate for name, (slope, _) in exponents(made).items()} == pytest.approx(powers)


def test_laws_of_the_heaviest_column_and_of_the_stable_rank():
    rng = np.random.default_rng(3)
    draws = rng.chisquare(16, size=(4000, 4 * 16)).max(axis=1) / 16**2
    assert heaviest_column_law(16) == pytest.approx(np.median(draws), rel=0.01)
    heads = rng.standard_normal((40, 64, 64))
    ranks = np.sum(heads**2, axis=(1, 2)) / np.linalg.norm(heads, 2, axis=(1, 2)) ** 2
    assert stable_rank_law(64) == pytest.approx(np.mean(ranks), rel=0.03)


def test_measures_of_random_layers_follow_their_laws_and_small_imported_layers_lack_rank(record):
    rows = record("conditions").rows
    small = [row for row in rows if row["family"] == "imported, untrained" and row["dim"] < 64]
    assert {name for row in small for names in row["violated"] for name in names} == {
        "theta_stable_rank",
        "w_stable_rank",
    }
    for slope, law in exponents(rows).values():
        assert slope.low - 0.02 < law < slope.high + 0.02
