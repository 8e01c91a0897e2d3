"""A new family is one record: everything else finds it, with no other file touched."""

import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from arena import family_target
from arena.comparison import engine_cell
from arena.learner_table import LEARNERS, PRESETS
from lower import FAMILIES, Heads, constructor
from sq import ProfileFamily, two_head_families
from sq.family import Dim
from sq.profiles import Bits, Slope
from studies import run_study
from studies.query_curves import query_curves


@pytest.fixture(autouse=True)
def stair():
    """The record; it is forgotten after each test."""
    before = dict(FAMILIES)

    @constructor("sq-stair", "Stair, {bits}, {heads}")
    def stair_family(*, dim: Dim, bits: Bits, beta: Slope = 40.0) -> ProfileFamily:
        """Two heads that say whether some, and whether all of the secret coordinates differ."""
        heads = Heads.counting(bits, [0.5, bits - 0.5], np.ones(2), np.full(2, beta))
        return ProfileFamily(dim=dim, bits=bits, heads=heads, others={"beta": beta})

    yield stair_family
    FAMILIES.clear()
    FAMILIES.update(before)


def test_it_is_listed_generated_verified_and_compared(tmp_path, cli):
    assert "Stair, 4 bits, 2 heads" in cli("families", "--dim", 12, "--bits", 4).out
    assert "sq-stair" in cli("generate", "--help").out
    said = " ".join(cli("generate", "sq-stair", "--help").out.split())
    assert "Two heads that say whether some" in said
    assert "Slope of all heads. [default: 40.0]" in said
    path = tmp_path / "stair.safetensors"
    said = cli("generate", "sq-stair", "--dim", 8, "--bits", 3, "--beta", 30, "-o", path).out
    assert "Stair, 3 bits, 2 heads" in said
    assert "Verified on all inputs: 2 heads" in cli("inspect", path, "--verify").out
    out = tmp_path / "results"
    cli("compare", path, "--learners", "known-component", "--jobs", 1, "--out", out)
    (target,) = json.loads((out / "results.json").read_text())["targets"]
    assert (target["kind"], target["title"]) == ("stair", "stair: Stair, 3 bits, 2 heads")


def test_its_curve_is_measured():
    rows = run_study(
        query_curves(dims=[8, 10], bits=[3], tau=[0.1], learners=["exhaustive"], family="sq-stair"),
        isolated=False,
    ).rows
    assert [row["status"] for row in rows] == ["found"] * 2
    assert {row["family"] for row in rows} == {"sq-stair"}
    assert all(0 < row["lower_bound"] <= row["queries"] for row in rows)


def test_it_is_in_the_table_of_the_documentation(stair, tmp_path):
    assert any(one.name == stair.name for one in two_head_families())
    path = Path(__file__).parents[2] / "docs" / "figures.py"
    spec = importlib.util.spec_from_file_location("figures", path)
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    figures.make_families(tmp_path)
    assert "``sq-stair``" in (tmp_path / "families.csv").read_text()


def test_its_cells_are_found_again_and_it_reaches_other_processes(stair):
    for family in (stair(dim=8, bits=3), ProfileFamily.bump(dim=8, bits=3)):
        target = family_target(family, seed=1)
        cells = [engine_cell(target, LEARNERS["known-component"], 0, PRESETS["quick"]) for _ in range(2)]
        assert cells[0].arguments == cells[1].arguments
        assert pickle.loads(pickle.dumps(family.instance(2))).family == family
