"""``attention-bounds study``: one command makes record, table and figure; wrong use is one line."""

import json
from dataclasses import replace

import pytest

from runs import Scale
from studies import STUDIES, find_studies, linear_ranks


@pytest.fixture
def small(monkeypatch):
    cells = list(linear_ranks.STUDY.cells(Scale.QUICK))[:3]
    monkeypatch.setattr(linear_ranks, "STUDY", replace(linear_ranks.STUDY, cells=lambda scale: cells))
    return cells


def test_the_list_has_every_study_and_its_question(cli):
    said = cli("study", "--list").out
    assert [line.split()[0] for line in said.splitlines() if not line.startswith(" ")] == list(STUDIES)
    assert all(study.question in " ".join(said.split()) for study in find_studies(["all"]))
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize("command", [("study", "linear-ranks"), ("linear", "experiment", "ranks")])
def test_the_command_writes_record_table_and_figure(cli, tmp_path, small, command):
    out = tmp_path / "studies"
    said = cli(*command, "-o", out, "--jobs", 1).out
    for ending in ("svg", "pdf", "csv", "json"):
        assert (out / f"linear-ranks.{ending}").stat().st_size > 50
        assert f"linear-ranks.{ending}" in said
    (again,) = json.loads(cli(*command, "-o", out, "--json").out)
    assert len(again["rows"]) == len(small)
    stored = json.loads((out / "linear-ranks.json").read_text())["rows"]
    assert [row["rank"] for row in again["rows"]] == [row["rank"] for row in stored]


def test_cells_differ():
    for study in find_studies(["all"]):
        for scale in Scale:
            cells = [json.dumps(cell, sort_keys=True) for cell in study.cells(scale)]
            assert len(set(cells)) == len(cells) > 0


def test_redrawing_measures_nothing(cli, tmp_path, small, monkeypatch):
    cli("study", "linear-ranks", "--redraw", "-o", tmp_path, status=2)
    cli("study", "linear-ranks", "-o", tmp_path, "--jobs", 1)
    before = (tmp_path / "linear-ranks.csv").read_bytes()
    (tmp_path / "linear-ranks.csv").unlink()
    monkeypatch.setattr("arena.cli.study.run_study", None)
    cli("study", "linear-ranks", "--redraw", "-o", tmp_path)
    assert (tmp_path / "linear-ranks.csv").read_bytes() == before
    (tmp_path / "linear-ranks.json").write_text(
        (tmp_path / "linear-ranks.json").read_text().replace('"part"', '"whole"')
    )
    assert "other rows" in cli("study", "linear-ranks", "--redraw", "-o", tmp_path, status=2).err
