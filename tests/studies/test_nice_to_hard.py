"""The path from a nice layer to a parity: its ends, what is known without the secret, and the study made of it."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from attention import BooleanInputs
from sq import make_parity_instance
from studies.nice_to_hard import STUDY
from studies.nice_to_hard_path import STEEPEST, draw_path

_X = BooleanInputs(tokens=2, dim=7).sample(200, rng=1)


@pytest.fixture(scope="module", name="path")
def _path():
    return draw_path(dim=7, bits=3, rng=np.random.default_rng(2))


@pytest.mark.parametrize("slope", [0.0, 0.4, 1.0])
def test_path_ends_at_the_minimal_parity_at_every_slope(path, slope):
    slopes = (STEEPEST**slope * path.parity.slopes).tolist()
    hard = make_parity_instance(dim=7, secret=path.secret, slopes=slopes).layer
    layer = path.point(1.0, slope).layer
    np.testing.assert_allclose(layer.theta, hard.theta, rtol=1e-14, atol=0)
    np.testing.assert_allclose(layer.w, hard.w, rtol=1e-14, atol=0)


def test_secret_enters_by_the_number_of_differing_coordinates_only(path):
    point = path.point(0.6, 0.3, projections=0.8)
    number = (_X[:, 0, path.secret] != _X[:, 1, path.secret]).sum(axis=1)
    chosen = point.by_count(_X)[number, np.arange(len(_X))]
    np.testing.assert_allclose(chosen, point.layer(_X), atol=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_known_part_is_the_mean_over_all_secrets(bits):
    path = draw_path(dim=7, bits=bits, rng=np.random.default_rng(3))
    secrets = [np.array(one) for one in combinations(range(1, 7), bits)]
    layers = [replace(path, secret=one).point(0.7, 0.2).layer(_X) for one in secrets]
    np.testing.assert_allclose(path.point(0.7, 0.2).known(_X), np.mean(layers, axis=0), atol=1e-12)


def test_known_part_at_the_end_is_that_of_the_parity_and_the_mean_of_parities(path):
    instance = make_parity_instance(dim=7, secret=path.secret)
    differ = _X[:, 0, 1:] * _X[:, 1, 1:]
    parities = [differ[:, list(one)].prod(axis=1) for one in combinations(range(6), 3)]
    signal = np.mean(parities, axis=0) * (_X[:, 0, 0] - _X[:, 1, 0]) / 2
    mean = np.zeros_like(_X)
    mean[:, 0, 0], mean[:, 1, 0] = signal, -signal
    np.testing.assert_allclose(path.point(1.0).known(_X), instance.known(_X) + mean, atol=1e-11)


def _measured(learner, shape, **others):
    cell = {"learner": learner, "dim": 7, "bits": 3, "ends": "generic", "slope": 0.0, "shape": shape}
    cell |= {"projections": shape, "work": 400, "draw": 0, **others}
    return {**cell, **STUDY.measure(rng=np.random.default_rng([7, 8]), **cell)}


@pytest.fixture(scope="module", name="rows")
def _rows():
    return [
        _measured("newton", 0.0),
        _measured("newton", 1.0),
        _measured("newton", 1.0, projections=0.0),
        _measured("linear", 1.0),
        _measured("elimination", 0.5),
        _measured("elimination", 1.0),
        _measured("elimination", 1.0, slope=1.0),
    ]


def test_newton_is_exact_at_the_nice_end_and_with_the_parity_attention_alone(
    rows,
):
    nice, hard, attention_alone = (row["error"] for row in rows[:3])
    assert max(nice, attention_alone) < 1e-9
    assert hard > 0.3


def test_elimination_is_exact_at_the_hard_end_only(rows):
    before, *ends = (row["error"] for row in rows[4:])
    assert before > 0.3
    assert max(ends) < 1e-9


def test_a_linear_predictor_finds_nothing_of_a_parity(rows):
    # beyond the known part of the parity, which is linear, only the mean of all 20 parities is known
    assert rows[3]["error"] > 0.95
