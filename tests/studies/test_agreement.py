"""Agreement of two heads: shares by enumeration of all tokens, the lattice law, and the committed record."""

import itertools

import numpy as np
import pytest

from studies.agreement import FRACTIONS, STUDY, heads_of_kind, lattice_law, parallel_pairs, spacing


def measured(**cell):
    given = {"heads": "generic", "inputs": "boolean", "dim": 6, "draw": 0, "batches": 3} | cell
    return STUDY.measure(rng=np.random.default_rng(1), **given)


def gaps_of(layer, dim):
    """Every pair of Boolean tokens, and its gap."""
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))
    coefficients = every @ (layer.theta[0] - layer.theta[1])
    return every, np.einsum("ad,abd->ab", coefficients, every[:, None] - every)


def test_pairs_of_equal_and_opposite_tokens_are_found():
    rng = np.random.default_rng(0)
    own, other = rng.choice([-1.0, 1.0], (90, 5)), rng.choice([-1.0, 1.0], (90, 5))
    found = np.zeros((90, 90), dtype=bool)
    found[parallel_pairs(own, other)] = True
    assert np.array_equal(found, np.abs(own @ other.T) == 5)


def test_shares_are_those_of_all_tokens_but_the_two_along_the_first():
    """With d = 6 a thirty-second of all pairs is equal or opposite, and would be all agreement at small tolerances."""
    found = measured(batches=6)
    every, gaps = gaps_of(heads_of_kind("generic", 6, np.random.default_rng(1)), 6)
    gaps, others = np.abs(gaps), np.abs(every @ every.T) < 6
    assert found["left_out"] == pytest.approx(1 / 32, rel=0.02)
    for fraction, share in zip(FRACTIONS, found["share"], strict=True):
        assert share == pytest.approx(np.mean(gaps[others] <= fraction / np.sqrt(6)), abs=0.002)
    assert found["share"][-1] < 0.002
    assert np.mean(gaps <= FRACTIONS[-1] / np.sqrt(6)) > 0.015


def test_gaussian_tokens_are_never_left_out_and_agree_as_the_law_says():
    found = measured(inputs="gaussian", dim=8)
    assert found["left_out"] == 0
    assert found["ratio"][:4] == pytest.approx([1.0] * 4, abs=0.05)


@pytest.mark.parametrize("kind", ["lattice", "signs"])
def test_gaps_on_a_lattice_have_its_spacing_and_agree_as_often_as_its_points(kind):
    _, gaps = gaps_of(heads_of_kind(kind, 8, np.random.default_rng(3)), 8)
    places = gaps / spacing(kind, 8)
    assert np.allclose(places, np.round(places))
    assert set(np.unique(np.abs(np.round(places)))) >= {0.0, 1.0}
    assert [lattice_law(one) for one in (0.25, 1.0, 1.9, 2.0)] == pytest.approx([2.0, 1.5, 3 / 3.8, 1.25])
    within = [fraction / np.sqrt(32) / spacing(kind, 32) for fraction in FRACTIONS]
    law = [lattice_law(one) for one in within]
    assert measured(heads=kind, dim=32)["ratio"] == pytest.approx(law, rel=0.05)
