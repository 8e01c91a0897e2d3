"""Agreement of two heads: shares by enumeration of all tokens, and the law of lattices."""

import itertools

import numpy as np
import pytest

from studies.agreement import heads_of_kind, lattice_law, measure, spacing


def measured(**cell):
    cell = {"heads": "generic", "inputs": "boolean", "dim": 6, "draw": 0, "batches": 3} | cell
    return measure(rng=np.random.default_rng(1), **cell)


def gaps_of(layer, dim):
    """Every pair of Boolean tokens, and its gap."""
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))
    coefficients = every @ (layer.theta[0] - layer.theta[1])
    return every, np.einsum("ad,abd->ab", coefficients, every[:, None] - every)


def test_shares_are_those_of_all_pairs_of_tokens_that_are_not_parallel():
    """With d = 6 a thirty-second of all pairs is parallel, and would be all agreement at small tolerances."""
    every, gaps = gaps_of(heads_of_kind("generic", 6, np.random.default_rng(1)), 6)
    gaps, others = np.abs(gaps), np.abs(every @ every.T) < 6
    for row in measured(batches=6):
        share = np.mean(gaps[others] <= 4.0 ** -row["power"] / np.sqrt(6))
        assert row["share"] == pytest.approx(share, abs=0.002)
    assert row["share"] < 0.002
    assert np.mean(gaps <= 4.0**-5 / np.sqrt(6)) > 0.015


def test_gaussian_tokens_agree_as_the_normal_law_says():
    excess = [row["excess"] for row in measured(inputs="gaussian", dim=8)]
    assert excess[:4] == pytest.approx([0.0] * 4, abs=0.05)


@pytest.mark.parametrize("kind", ["lattice", "signs"])
def test_gaps_on_a_lattice_have_its_spacing_and_agree_as_often_as_its_points(kind):
    _, gaps = gaps_of(heads_of_kind(kind, 8, np.random.default_rng(3)), 8)
    places = gaps / spacing(kind, 8)
    assert np.allclose(places, np.round(places))
    assert set(np.unique(np.abs(np.round(places)))) >= {0.0, 1.0}
    assert [lattice_law(place) for place in (0.25, 1.0, 1.9, 2.0)] == pytest.approx([2.0, 1.5, 3 / 3.8, 1.25])
    law = [lattice_law(4.0**-power / np.sqrt(32) / spacing(kind, 32)) for power in range(6)]
    assert [1 + row["excess"] for row in measured(heads=kind, dim=32)] == pytest.approx(law, rel=0.05)
