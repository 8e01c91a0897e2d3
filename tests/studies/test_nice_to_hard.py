"""The path from a nice layer to a parity: its ends, what is known without the secret, and where learners stop."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from attention import BooleanInputs
from sq import make_parity_instance, parity_heads
from studies.nice_to_hard import draw_point, measure

_X = BooleanInputs(tokens=2, dim=7).sample(200, rng=1)


def point(attention, slope=0.0, projections=None, *, bits=3):
    shares = {"shape": attention, "projections": attention if projections is None else projections}
    return draw_point(7, bits, **shares, slope=slope, rng=np.random.default_rng(2))


@pytest.mark.parametrize("slope", [0.0, 0.4, 1.0])
def test_path_ends_at_the_minimal_parity_at_every_slope(slope):
    end = point(1.0, slope)
    slopes = (8.0**slope * parity_heads("D", bits=3).slopes).tolist()
    hard = make_parity_instance(dim=7, secret=end.secret, slopes=slopes).layer
    np.testing.assert_allclose(end.layer.theta, hard.theta, rtol=1e-14, atol=0)
    np.testing.assert_allclose(end.layer.w, hard.w, rtol=1e-14, atol=0)


def test_secret_enters_by_the_number_of_differing_coordinates_only():
    middle = point(0.6, 0.3, projections=0.8)
    number = (_X[:, 0, middle.secret] != _X[:, 1, middle.secret]).sum(axis=1)
    outputs = middle.by_count(_X)[number, np.arange(len(_X))]
    np.testing.assert_allclose(outputs, middle.layer(_X), atol=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_known_part_is_the_mean_over_all_secrets(bits):
    middle = point(0.7, 0.2, bits=bits)
    secrets = [np.array(secret) for secret in combinations(range(1, 7), bits)]
    outputs = [replace(middle, secret=secret).layer(_X) for secret in secrets]
    np.testing.assert_allclose(middle.known(_X), np.mean(outputs, axis=0), atol=1e-12)


def test_newton_learns_the_nice_end_and_the_attention_of_the_parity_but_not_the_parity():
    cell = {"learner": "newton", "dim": 7, "bits": 3, "ends": "generic", "slope": 0.0, "draw": 0}
    nice, attention, parity = (
        measure(rng=np.random.default_rng([7, 8]), **cell, shape=a, projections=b)["error"]
        for a, b in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    )
    assert max(nice, attention) < 1e-9
    assert parity > 0.3
