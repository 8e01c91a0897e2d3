"""The study of agreement: shares by enumeration of all tokens, pairs that are left out, sentences."""

import itertools
import json

import numpy as np
import pytest

from arena.studies.agreement import STUDY, _layer, _parallel
from paper_checks import Scale


def measured(**cell):
    given = {"heads": "generic", "inputs": "boolean", "dim": 6, "draw": 0, "batches": 3} | cell
    return STUDY.measure(rng=np.random.default_rng(1), **given)


def test_pairs_of_equal_and_opposite_tokens_are_found():
    rng = np.random.default_rng(0)
    own, other = rng.choice([-1.0, 1.0], (90, 5)), rng.choice([-1.0, 1.0], (90, 5))
    found = np.zeros((90, 90), dtype=bool)
    found[_parallel(own, other)] = True
    assert np.array_equal(found, np.abs(own @ other.T) == 5)
    assert found.any()


def test_shares_and_law_are_those_of_all_tokens_but_the_two_along_the_first():
    """With d = 6 a thirty-second of all pairs is equal or opposite, which agreement at small tolerances would be."""
    found = measured(batches=6)
    layer = _layer("generic", 6, np.random.default_rng(1))
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
    contrast = layer.theta[0] - layer.theta[1]
    gaps = np.abs(np.einsum("ad,abd->ab", every @ contrast, every[:, None] - every))
    others = np.abs(every @ every.T) < 6
    assert found["left_out"] == pytest.approx(1 / 32, rel=0.02)
    for fraction, share in zip(found["fractions"], found["share"], strict=True):
        assert share == pytest.approx(np.mean(gaps[others] <= fraction / np.sqrt(6)), abs=0.002)
    # the least tolerance: no agreement that is not by chance
    assert found["share"][-1] < 0.002
    counted = np.mean(gaps <= found["fractions"][-1] / np.sqrt(6))
    assert counted > 0.015


def test_gaussian_tokens_are_never_left_out_and_agree_as_the_law_says():
    found = measured(inputs="gaussian", dim=8)
    assert found["left_out"] == 0
    assert found["ratio"][:4] == pytest.approx([1.0] * 4, abs=0.05)


def made_up(heads, inputs, dim, ratio, left_out=0.0):
    off = {"low": [0.99 * one for one in ratio], "high": [1.01 * one for one in ratio]}
    cell = {"heads": heads, "inputs": inputs, "dim": dim, "draw": 0, "arithmetic": 0.5, "left_out": left_out}
    return {**cell, "fractions": [4.0**-power for power in range(6)], "ratio": ratio, **off}


FINE, OFTEN = [1.0, 1.01, 0.99, 1.0, 1.0, 1.02], [1.0, 1.2, 1.5, 2.0, 8.0, 32.0]


def test_the_sentence_names_the_tolerance_and_the_worst_of_every_d():
    rows = [
        made_up("generic", "boolean", 16, FINE, left_out=3e-5),
        made_up("generic", "gaussian", 16, FINE),
        made_up("lattice", "boolean", 16, OFTEN),
        made_up("generic", "boolean", 64, [1.0] * 6),
        made_up("lattice", "boolean", 64, OFTEN),
    ]
    found = STUDY.found(rows)
    assert (
        "within 2.0% at every d and tolerance measured, while heads whose entries take few values agree 32"
        in found
    )
    assert "32 times as often at 1/(1024√d)" in found
    assert (
        "32 times as often as the law says at 1/(1024√d), the smallest tolerance measured, 8 times at 1/(256√d)"
        in found
    )
    assert "left out, were 3.0e-05 of all at d = 16" in found
    worse = [made_up("generic", "boolean", 16, [*FINE[:5], 1.3]), *rows[2:]]
    assert "only within 30.0%" in STUDY.found(worse)


@pytest.mark.parametrize("place", [0, 1, None])
def test_sentence_table_and_figure_do_with_few_rows(place):
    rows = [made_up("generic", "boolean", 16, FINE), made_up("signs", "boolean", 16, OFTEN)]
    few = rows if place is None else rows[place : place + 1]
    assert STUDY.found(few).endswith(".")
    assert len(STUDY.table(few).rows) == len(few)
    assert "<svg" in STUDY.draw(few).svg


@pytest.mark.parametrize("scale", list(Scale), ids=lambda scale: scale.value)
def test_cells_are_distinct(scale):
    cells = STUDY.cells(scale)
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
