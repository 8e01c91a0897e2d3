"""``attention-bounds study``: one command makes record, table and figure; wrong use is one line."""

import json

import pytest

from runs import Scale
from studies import STUDIES, find_studies, linear_learning, load_result


@pytest.fixture
def small(monkeypatch):
    cells = [cell for cell in linear_learning.cells(Scale.QUICK) if cell["part"] == "threshold"][:3]
    monkeypatch.setattr(linear_learning, "cells", lambda scale: cells)
    monkeypatch.setattr(linear_learning, "NEEDS", ())
    return cells


def test_the_list_has_every_study_and_its_question(cli):
    said = cli("study", "--list").out
    assert [line.split()[0] for line in said.splitlines() if not line.startswith(" ")] == list(STUDIES)
    assert all(study.question in " ".join(said.split()) for study in find_studies(["all"]))
    assert max(map(len, said.splitlines())) <= 100


def test_the_command_writes_record_table_and_figure(cli, tmp_path, small):
    out, command = tmp_path / "studies", ("study", "linear-learning")
    said = cli(*command, "-o", out, "--jobs", 1).out
    for ending in ("svg", "pdf", "csv"):
        assert (out / f"linear-learning.{ending}").stat().st_size > 50
        assert f"linear-learning.{ending}" in said
    (again,) = json.loads(cli(*command, "-o", out, "--json").out)
    assert {row["d"] for row in again["rows"]} == {cell["d"] for cell in small}
    stored = load_result(out / "linear-learning.csv").rows
    assert [row["features"] for row in again["rows"]] == [row["features"] for row in stored]


def test_cells_differ():
    for study in find_studies(["all"]):
        for scale in Scale:
            cells = [json.dumps(cell, sort_keys=True) for cell in study.cells(scale)]
            assert len(set(cells)) == len(cells) > 0


def test_redrawing_measures_nothing(cli, tmp_path, small, monkeypatch):
    cli("study", "linear-learning", "--redraw", "-o", tmp_path, status=2)
    cli("study", "linear-learning", "-o", tmp_path, "--jobs", 1)
    record, figure = (tmp_path / f"linear-learning.{ending}" for ending in ("csv", "svg"))
    before = figure.read_bytes()
    figure.unlink()
    monkeypatch.setattr("arena.cli.study.run_study", None)
    cli("study", "linear-learning", "--redraw", "-o", tmp_path)
    assert figure.read_bytes() == before
    with record.open("a") as file:
        file.write("threshold,99,99,6,6,0.5\n")  # of a cell that is gone
    cli("study", "linear-learning", "--redraw", "-o", tmp_path)
    assert figure.read_bytes() == before
    record.write_text(record.read_text().replace("error", "whole"))
    assert "other rows" in cli("study", "linear-learning", "--redraw", "-o", tmp_path, status=2).err
    record.rename(record.with_suffix(".json"))
    assert "earlier version" in cli("study", "linear-learning", "--redraw", "-o", tmp_path, status=2).err
