"""``attention-bounds runs``: what a store holds, as a list, as JSON, as a file or as a data frame."""

import csv
import json
import os
import sqlite3
from dataclasses import asdict

import pandas
import pytest

from arena import Cell, LearnerRecord, Status, TargetRecord, TracePoint, export_cells, stored_cells
from arena.cells import _computed
from arena.cli.main import run
from arena.run_store import EXPORTS
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


@pytest.fixture
def cli(capsys):
    def call(*arguments, status=0):
        assert run(["runs", *map(str, arguments)]) == status
        return capsys.readouterr()

    return call


def written(path, cells=CELLS, target_seed=7):
    store = Store(path)
    for number, cell in enumerate(cells):
        target = TargetRecord(
            cell.target, "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn.", target_seed
        )
        learner = LearnerRecord(cell.learner, cell.learner.title(), "None proved.", {"m": 1, "rate": 0.1})
        about = {"target": asdict(target), "learner": asdict(learner), "seed": cell.seed}
        kept = EngineCell(_computed, about)
        lost = Result(kept, cell.status.value, message=cell.message)
        store.put(str(number), (lost if cell.status.lost else Result(kept, "done", asdict(cell))).to_json())
    return path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "runs.sqlite")


def test_the_list_has_a_line_a_cell(cli, path):
    said = cli(path)
    head, *lines = said.out.splitlines()
    assert head.split()[2:4] == ["target", "m"]
    assert lines[-1] == f"5 cells in {path}."
    for line, cell in zip(lines, CELLS, strict=False):
        assert cell.target in line
        assert cell.learner in line
    assert "timed out: Stopped after 3 seconds." in lines[1]
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
        (["--target", "n*"], {0, 1, 2}),
        (["--target", "parity", "--learner", "newton"], {3}),
        (["--learner", "?dam"], {1, 2}),
        (["--seed", 1], {2}),
        (["--seed", 7], set()),
    ],
    ids=str,
)
def test_filters(cli, path, options, numbers):
    rows = json.loads(cli(path, "--json", *options).out)
    assert [row["message"] for row in rows] == [CELLS[number].message for number in sorted(numbers)]
    cells = "1 cell" if len(numbers) == 1 else f"{len(numbers)} cells"
    assert cli(path, *options).out.splitlines()[-1] == f"{cells} in {path}."


def test_a_data_frame_of_every_cell_with_its_trace(path):
    frame = stored_cells(Store(path, read_only=True))
    assert frame["status"].tolist() == [cell.status.value for cell in CELLS]
    assert frame["unknown_part_error"][3] == 1 / 3
    assert json.loads(frame["trace"][0]) == [{"name": "step", "examples": 3, "seconds": 0.25, "error": 0.5}]
    assert json.loads(frame["parameters"][0]) == {"m": 1, "rate": 0.1}
    assert frame["examples_used"][1] is pandas.NA


def test_csv_keeps_every_digit_and_starts_no_formula(cli, path, tmp_path):
    said = cli(path, "--out", tmp_path / "cells.csv")
    assert said.out == f"{tmp_path / 'cells.csv'}: 5 cells.\n"
    with open(tmp_path / "cells.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(rows[number]["unknown_part_error"]) for number in (0, 3)] == [5e-324, 1 / 3]
    assert rows[2]["message"] == CELLS[2].message
    assert (rows[4]["learner"], rows[4]["message"]) == ("'=1+1", "'" + CELLS[4].message)


def test_parquet_keeps_every_type(path, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = stored_cells(Store(path, read_only=True))
    export_cells(tmp_path / "cells.parquet", frame)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "cells.parquet"), frame)


def test_a_number_too_large_for_parquet_is_a_sentence(cli, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    store = written(tmp_path / "runs.sqlite", target_seed=2**70)
    frame = stored_cells(Store(store, read_only=True))
    with pytest.raises(ValueError, match=r"64 bits.*\.json"):
        export_cells(tmp_path / "cells.parquet", frame)
    export_cells(tmp_path / "cells.json", frame)
    assert str(2**70) in (tmp_path / "cells.json").read_text(encoding="utf-8")
    assert "5 cells" in cli(store).out


@pytest.mark.parametrize("ending", EXPORTS)
def test_a_file_is_replaced_only_by_a_whole_one(path, tmp_path, ending, monkeypatch):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    out = tmp_path / f"cells{ending}"
    out.write_text("before")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    frame = stored_cells(Store(path, read_only=True))
    before = _files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            export_cells(out, frame)
    assert out.read_text() == "before"
    assert _files(tmp_path) == before
    export_cells(out, frame)
    first = out.read_bytes()
    export_cells(out, frame)
    assert out.read_bytes() == first != b"before"


def test_an_empty_store_is_no_error(cli, tmp_path):
    empty = tmp_path / "empty.sqlite"
    Store(empty)
    assert cli(empty).out.splitlines()[-1] == f"0 cells in {empty}."
    assert json.loads(cli(empty, "--json").out) == []
    cli(empty, "--out", tmp_path / "cells.csv")
    assert (tmp_path / "cells.csv").read_text().count("\n") == 1


def _files(folder):
    """What is in a folder, but for what SQLite puts beside a file to read it."""
    return {name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm"))}


@pytest.mark.parametrize(
    ("options", "status", "complaint"),
    [
        (["{folder}/none.sqlite"], 1, "is not there"),
        (["{folder}"], 1, "is a folder"),
        (["{folder}/text.sqlite"], 1, "no store"),
        (["{folder}/other.sqlite"], 1, "no store"),
        (["{folder}/damaged.sqlite"], 1, "is damaged"),
        (["{path}", "--out", "{folder}/cells.txt"], 2, r".csv, .json, .parquet are the formats"),
        (["{path}", "--out", "{folder}/none/cells.csv"], 2, "does not exist"),
        (["{path}", "--out", "{folder}/folder.csv"], 2, "is a folder"),
        (["{path}", "--seed", "many"], 2, "--seed"),
        (["{path}", "--nothing"], 2, "nothing"),
    ],
    ids=str,
)
def test_errors_are_one_line(cli, path, tmp_path, options, status, complaint):
    (tmp_path / "text.sqlite").write_text("no database" * 100)
    (tmp_path / "folder.csv").mkdir()
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    broken = Result(EngineCell(_computed, {"target": {}, "learner": {}, "seed": 0}), "done", {"target": 1})
    Store(tmp_path / "damaged.sqlite").put("0", broken.to_json())
    before = _files(tmp_path)
    arguments = [option.format(folder=tmp_path, path=path) for option in options]
    for more in ([], ["--json"]):
        said = cli(*arguments, *more, status=status)
        (line,) = said.err.splitlines()
        assert line.startswith("attention-bounds: ")
        assert complaint in line
        assert said.out == ""
        assert _files(tmp_path) == before
