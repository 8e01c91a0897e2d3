"""``attention-bounds runs``: a list to read, JSON for machines, files, and one line for every error."""

import csv
import json
import os
import sqlite3

import pytest

from arena import Cell, LearnerRecord, RunStore, TargetRecord
from arena.cli.main import run

CELLS = [
    Cell(
        "nice-2-2-8",
        "newton",
        0,
        "done",
        outcome="EXACT",
        unknown_part_error=1e-15,
        examples_used=512,
        seconds=0.5,
    ),
    Cell("nice-2-2-8", "adam", 0, "timed out", message="Stopped after 3 seconds."),
    Cell("nice-2-2-8", "adam", 1, "failed", message="ValueError: broken\nin two\x1b[31m lines"),
    Cell(
        "parity",
        "newton",
        0,
        "done",
        outcome="LOCAL_MINIMUM",
        unknown_part_error=1.25,
        examples_used=96,
        seconds=4.0,
    ),
    Cell("parity", "elimination", 0, "not applicable", message="For parities only."),
]


@pytest.fixture
def cli(capsys):
    def call(*arguments, status=0):
        assert run(["runs", *map(str, arguments)]) == status
        return capsys.readouterr()

    return call


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "runs.sqlite"
    with RunStore(path) as store:
        for number, cell in enumerate(CELLS):
            target = TargetRecord(
                cell.target, "A toy", "nice", 1, 2, 4, {"kind": "boolean"}, "Drawn at random."
            )
            learner = LearnerRecord(cell.learner, cell.learner.title(), "None proved.", {"m": 1})
            store.put(f"key {number}", cell, target=target, learner=learner, versions={"numpy": "2"})
    return path


def _keys(said):
    return {row["key"] for row in json.loads(said.out)}


def test_the_list_has_a_line_a_cell(cli, path):
    said = cli(path)
    head, *lines = said.out.splitlines()
    assert (
        " ".join(head.split()) == "finished (UTC) target m k d learner seed error examples time how it ended"
    )
    assert len(lines) == len(CELLS) + 2
    assert lines[-1] == f"5 cells in {path}."
    for line, cell in zip(lines, CELLS, strict=False):
        assert cell.target in line
        assert cell.learner in line
    assert "timed out: Stopped after 3 seconds." in lines[1]
    assert "1e-15" in lines[0]
    assert "\x1b" not in said.out
    assert said.err == ""


def test_the_default_is_where_compare_writes(cli, path, monkeypatch, tmp_path):
    (tmp_path / "results").mkdir()
    path.rename(tmp_path / "results" / "runs.sqlite")
    monkeypatch.chdir(tmp_path)
    assert len(json.loads(cli("--json").out)) == 5


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ([], {0, 1, 2, 3, 4}),
        (["--target", "nice*"], {0, 1, 2}),
        (["--target", "parity", "--learner", "newton"], {3}),
        (["--learner", "?dam"], {1, 2}),
        (["--seed", 1], {2}),
        (["--seed", 7], set()),
        (["--status", "done"], {0, 3}),
        (["--status", "timed out"], {1}),
        (["--status", "not applicable", "--target", "p*"], {4}),
    ],
    ids=str,
)
def test_filters(cli, path, options, numbers):
    assert _keys(cli(path, "--json", *options)) == {f"key {number}" for number in numbers}
    cells = "1 cell" if len(numbers) == 1 else f"{len(numbers)} cells"
    assert cli(path, *options).out.splitlines()[-1] == f"{cells} in {path}."


def test_json_is_alone_on_standard_output(cli, path, tmp_path):
    for more in ([], ["--out", tmp_path / "cells.csv"]):
        said = cli(path, "--json", *more)
        rows = json.loads(said.out)
        assert [row["message"] for row in rows] == [cell.message for cell in CELLS]
        assert said.err == ""
    assert (tmp_path / "cells.csv").exists()


def test_out_writes_a_file_of_the_cells_that_fit(cli, path, tmp_path):
    said = cli(path, "--learner", "newton", "--out", tmp_path / "cells.csv")
    assert said.out == f"{tmp_path / 'cells.csv'}: 2 cells.\n"
    with open(tmp_path / "cells.csv", encoding="utf-8", newline="") as file:
        assert [row["key"] for row in csv.DictReader(file)] == ["key 0", "key 3"]
    cli(path, "-o", tmp_path / "cells.json")
    assert len(json.loads((tmp_path / "cells.json").read_text(encoding="utf-8"))) == 5


def test_parquet(cli, path, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    cli(path, "--out", tmp_path / "cells.parquet")
    assert parquet.read_table(tmp_path / "cells.parquet").num_rows == 5


def test_an_empty_store_is_no_error(cli, tmp_path):
    RunStore(tmp_path / "empty.sqlite").close()
    assert cli(tmp_path / "empty.sqlite").out.splitlines()[-1] == f"0 cells in {tmp_path / 'empty.sqlite'}."
    assert json.loads(cli(tmp_path / "empty.sqlite", "--json").out) == []


def test_looking_leaves_the_file_as_it_is(cli, path):
    before = path.read_bytes()
    cli(path)
    assert path.read_bytes() == before


def _files(folder):
    """What is in a folder, but for what SQLite puts beside a file to read it."""
    return {name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm"))}


def _complaint(said):
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("attention-bounds: ")
    return line


@pytest.mark.parametrize(
    ("options", "status", "complaint"),
    [
        (["{folder}/none.sqlite"], 2, "there is no such file; compare makes one"),
        (["{folder}"], 2, "is a folder"),
        (["{folder}/text.sqlite"], 2, "no run store"),
        (["{folder}/other.sqlite"], 2, "no run store"),
        (["{path}", "--out", "{folder}/cells.txt"], 2, r".csv, .json, .parquet are the formats"),
        (["{path}", "--out", "{folder}/none/cells.csv"], 2, "does not exist"),
        (["{path}", "--out", "{folder}/folder.csv"], 2, "is a folder"),
        (["{path}", "--status", "finished"], 2, "'finished': done, not applicable, failed, timed out"),
        (["{path}", "--status", ""], 2, "'': done, not applicable, failed, timed out"),
        (["{path}", "--seed", "many"], 2, "--seed"),
        (["{path}", "--seed", str(2**70)], 2, "seed is too large"),
        (["{path}", "--nothing"], 2, "nothing"),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["words", "json"])
def test_errors_are_one_line(cli, path, tmp_path, options, status, complaint, more):
    (tmp_path / "text.sqlite").write_text("no database" * 100)
    (tmp_path / "folder.csv").mkdir()
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    before = _files(tmp_path)
    arguments = [option.format(folder=tmp_path, path=path) for option in options]
    assert complaint in _complaint(cli(*arguments, *more, status=status))
    assert _files(tmp_path) == before


def test_without_pyarrow_parquet_is_one_line(cli, path, tmp_path, monkeypatch):
    monkeypatch.setattr("arena.export.find_spec", lambda name: None)
    assert "Parquet needs pyarrow" in _complaint(cli(path, "--out", tmp_path / "cells.parquet", status=2))


def test_help_shows_an_example(cli):
    said = cli("--help").out
    assert "Example: attention-bounds runs" in said
    for option in ("--target", "--learner", "--seed", "--status", "--out", "--json"):
        assert option in said
