"""``attention-bounds runs``: what a store holds, as a list, as JSON, or as a file."""

import contextlib
import csv
import json
import os
import sqlite3
from dataclasses import asdict

import pytest

from arena.cli.runs import stored_cells
from arena.comparison import _computed
from arena.records import Cell, LearnerRecord, Status, TargetRecord, TracePoint
from runs import Cell as EngineCell
from runs import Result, Store

FITTED = {"outcome": "EXACT", "examples_used": 512, "trace": (TracePoint("step", 3, 0.25, 0.5),)}
CELLS = [
    Cell("nice", "newton", 0, Status.DONE, **FITTED, unknown_part_error=5e-324, seconds=0.1),
    Cell("nice", "adam", 0, Status.TIMED_OUT, message="Stopped after 3 seconds."),
    Cell("nice", "adam", 1, Status.FAILED, message="ValueError: broken\nin two\x1b[31m lines"),
    Cell("parity", "newton", 0, Status.DONE, **FITTED, unknown_part_error=1 / 3, seconds=4.0),
    Cell("parity", "=1+1", 0, Status.NOT_APPLICABLE, message='@SUM(A1), "ü"'),
]


def written(path):
    store = Store(path)
    for number, cell in enumerate(CELLS):
        shape = {"heads": 1, "tokens": 2, "dim": 4, "inputs": {"name": "boolean"}}
        target = TargetRecord(cell.target, "A toy", "nice", **shape, how="Drawn.", seed=2**70)
        learner = LearnerRecord(cell.learner, cell.learner.title(), "None proved.", {"heads": 1, "rate": 0.1})
        about = {"target": asdict(target), "learner": asdict(learner), "seed": cell.seed}
        kept = EngineCell(_computed, about)
        lost = Result(kept, cell.status.value, message=cell.message)
        store.put(str(number), (lost if cell.status.lost else Result(kept, "done", asdict(cell))).to_json())
    return path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "runs.sqlite")


@pytest.fixture
def rows(path):
    return stored_cells(Store(path, read_only=True))


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ([], {0, 1, 2, 3, 4}),
        (["--target", "n*"], {0, 1, 2}),
        (["--target", "parity", "--learner", "newton"], {3}),
        (["--learner", "?dam"], {1, 2}),
        (["--seed", 1], {2}),
        (["--seed", 7], set()),
    ],
    ids=str,
)
def test_filters(cli, path, options, numbers):
    rows = json.loads(cli("runs", path, "--json", *options).out)
    assert [row["message"] for row in rows] == [CELLS[number].message for number in sorted(numbers)]
    shown = cli("runs", path, *options).out
    assert shown.endswith(f"in {path}.\n")
    assert "\x1b" not in shown


def test_a_row_has_what_is_known_of_its_cell(rows):
    first, late = rows[0], rows[3]
    assert [row["status"] for row in rows] == [cell.status.value for cell in CELLS]
    assert (late["unknown_part_error"], late["target_dim"], rows[1]["examples_used"]) == (1 / 3, 4, None)
    assert json.loads(first["trace"]) == [{"name": "step", "examples": 3, "seconds": 0.25, "error": 0.5}]
    assert json.loads(first["parameters"]) == {"heads": 1, "rate": 0.1}


def test_csv_keeps_every_digit_and_starts_no_formula(cli, path, tmp_path):
    assert cli("runs", path, "--out", tmp_path / "cells.csv").out == f"{tmp_path / 'cells.csv'}: 5 cells.\n"
    with open(tmp_path / "cells.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(rows[number]["unknown_part_error"]) for number in (0, 3)] == [5e-324, 1 / 3]
    assert rows[2]["message"] == CELLS[2].message
    assert (rows[4]["learner"], rows[4]["message"]) == ("'=1+1", "'" + CELLS[4].message)


def _files(folder):
    """What is in a folder, but for what SQLite puts beside a file to read it."""
    return {name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm"))}


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_file_is_replaced_only_by_a_whole_one(cli, path, tmp_path, ending, monkeypatch):
    out = tmp_path / f"cells{ending}"
    out.write_text("before")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    before = _files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert "No space left" in cli("runs", path, "--out", out, status=1).err
    assert out.read_text() == "before"
    assert _files(tmp_path) == before
    cli("runs", path, "--out", out)
    assert out.read_bytes() != b"before"


@pytest.mark.parametrize(
    ("name", "status", "complaint"),
    [("none.sqlite", 1, "is not there"), ("damaged.sqlite", 1, "is damaged")],
)
def test_errors_are_one_line(cli, tmp_path, name, status, complaint):
    broken = Result(EngineCell(_computed, {"target": {}, "learner": {}, "seed": 0}), "done", {"target": 1})
    Store(tmp_path / "damaged.sqlite").put("0", broken.to_json())
    said = cli("runs", tmp_path / name, status=status)
    (line,) = said.err.splitlines()
    assert complaint in line
    assert (said.out, _files(tmp_path)) == ("", {"damaged.sqlite"})


def test_cells_of_a_store_from_before_their_function_moved_are_listed(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        texts = database.execute("SELECT value FROM results").fetchall()
    before = [json.loads(text) | {"function": "arena.cells._computed"} for (text,) in texts]
    store = Store(path.with_name("old.sqlite"))
    for number, value in enumerate(before):
        store.put(str(number), value)
    assert [row["message"] for row in stored_cells(store)] == [cell.message for cell in CELLS]
