"""The margin of a row over a hull is that of the hull's worst matrix."""

import numpy as np
import pytest

from attention import BooleanInputs
from upper.six_phase.hull_margin import HullMargin


@pytest.fixture
def hull():
    rng = np.random.default_rng(0)
    flat = np.linalg.qr(rng.standard_normal((25, 2)))[0].T.reshape(2, 5, 5)
    return rng.standard_normal((5, 5)), flat


@pytest.fixture
def x():
    return BooleanInputs(k=3, d=5).sample(40, rng=0)


def worst(x, top, matrices):
    """The least margin of the token `top` under any of the matrices."""
    least = np.full(top.shape, np.inf)
    for theta in matrices:
        logits = (x @ theta) @ np.swapaxes(x, 1, 2)
        gaps = np.take_along_axis(logits, top[..., None], -1) - logits
        np.put_along_axis(gaps, top[..., None], np.inf, -1)
        least = np.minimum(least, gaps.min(axis=-1))
    return least


def test_over_a_disc_it_is_that_of_the_worst_point_of_its_edge(hull, x):
    centre, (first, second) = hull
    margins, top = HullMargin(centre, np.stack([first, second]), np.full(2, 0.7), 0.7)(x)
    turns = np.linspace(0, 2 * np.pi, 2001)
    edge = [centre + 0.7 * (np.cos(t) * first + np.sin(t) * second) for t in turns]
    np.testing.assert_allclose(margins, worst(x, top, edge), atol=1e-4)


def test_over_a_box_it_is_that_of_the_worst_corner(hull, x):
    centre, flat = hull
    reach = np.array([0.3, 0.8])
    margins, top = HullMargin(centre, flat, reach, float(np.hypot(*reach)))(x)
    signs = [(a, b) for a in (-1, 1) for b in (-1, 1)]
    corners = [centre + np.tensordot(np.multiply(sign, reach), flat, 1) for sign in signs]
    np.testing.assert_allclose(margins, worst(x, top, corners), atol=1e-12)


def test_under_one_matrix_it_is_the_margin_of_its_logits(hull, x):
    centre, _ = hull
    margins, top = HullMargin.under(centre)(x)
    ordered = np.sort((x @ centre) @ np.swapaxes(x, 1, 2), axis=-1)
    np.testing.assert_allclose(margins, ordered[..., -1] - ordered[..., -2], atol=1e-12)
    assert np.all(margins >= 0)
    assert top.shape == (40, 3)
