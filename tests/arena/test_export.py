"""Cells as CSV, JSON and Parquet: what is read back is what was kept."""

import csv
import io
import json
import math
import os
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena import Cell, LearnerRecord, StoredCell, TargetRecord, TracePoint, export_cells
from arena.export import EXPORTS, flat
from lower import Hardness

TARGET = TargetRecord(
    "toy",
    "A toy",
    "nice",
    1,
    2,
    4,
    {"kind": "boolean"},
    "Drawn at random.",
    seed=2**70,
    hardness=Hardness.PROVED,
)
LEARNER = LearnerRecord("newton", "=Newton", "None proved.", {"m": 1, "rate": 0.1})
FIELDS = [
    *("target", "learner", "seed", "status", "message", "outcome", "outcome_text", "succeeded"),
    *("relative_error", "unknown_part_error", "theta_error", "w_error", "examples_used", "seconds"),
    *("engine", "alone"),
    *(
        "target_title",
        "target_kind",
        "target_hardness",
        "target_heads",
        "target_tokens",
        "target_dim",
        "target_seed",
    ),
    *("learner_title", "finished", "timeout", "versions", "parameters", "key"),
]
WHOLE = ("seed", "examples_used", "target_heads", "target_tokens", "target_dim")
REAL = ("relative_error", "unknown_part_error", "theta_error", "w_error", "seconds", "timeout")


def _stored(cell=None, *, target=TARGET, timeout=None, key="key"):
    if cell is None:
        trace = (TracePoint("step", 3, 0.25, {"error": 0.5}),)
        cell = Cell(
            "toy", "newton", 0, "done", 'ü, "quoted"\nand\rbroken', unknown_part_error=0.1, trace=trace
        )
    return StoredCell(key, cell, target, LEARNER, {"numpy": "2"}, "2026-01-01T00:00:00.000+00:00", timeout)


def _small(stored):
    from dataclasses import replace

    return replace(stored, target=replace(stored.target, seed=3))


ROWS = [
    _stored(),
    _stored(
        Cell("a,b", "=1+1", -(2**63), "failed", message="@SUM(A1)", examples_used=2**62), timeout=0.1, key="2"
    ),
    _stored(
        Cell("ü\U0001f600", "+", 2**63 - 1, "timed out", message="-1", seconds=5e-324, w_error=1e308), key="3"
    ),
]


@pytest.fixture(params=EXPORTS)
def ending(request):
    if request.param == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return request.param


def _csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# CSV


def _disarmed(text):
    return text[1:] if text[:1] == "'" else text


def test_csv_holds_every_field(tmp_path):
    path = tmp_path / "cells.csv"
    export_cells(path, ROWS)
    rows = _csv(path)
    assert [list(row) for row in rows] == [FIELDS] * 3
    for row, stored in zip(rows, ROWS, strict=True):
        kept = flat(stored)
        for name in FIELDS:
            value = kept[name]
            if name in REAL and value is not None:
                assert float(row[name]) == value
            elif name in ("versions", "parameters"):
                assert json.loads(row[name]) == value
            else:
                assert _disarmed(row[name]) == ("" if value is None else str(value))


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://a","b")', "=", "-"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula(tmp_path, text):
    cell = Cell(text, text, 0, "failed", message=text, outcome=text, outcome_text=text)
    target = TargetRecord(text, text, "nice", 1, 2, 4, {}, "Drawn.")
    export_cells(tmp_path / "cells.csv", [_stored(cell, target=target)])
    (row,) = _csv(tmp_path / "cells.csv")
    for name in ("target", "learner", "message", "outcome", "outcome_text", "target_title"):
        assert row[name] == "'" + text
    assert row["learner_title"] == "'=Newton"


def test_numbers_stay_numbers(tmp_path):
    export_cells(tmp_path / "cells.csv", [_stored(Cell("toy", "newton", -5, "done"))])
    assert _csv(tmp_path / "cells.csv")[0]["seed"] == "-5"


@given(
    text=st.text(
        st.sampled_from("\r\n,;\"'=") | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
        max_size=5,
    )
)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_stays_in_its_field(tmp_path, text):
    export_cells(tmp_path / "cells.csv", [_stored(Cell(text, "newton", 0, "failed", message=text))] * 2)
    first, second = _csv(tmp_path / "cells.csv")
    assert first == second
    assert first["message"].removeprefix("'") == text.removeprefix("'")
    assert first["key"] == "key"


# JSON


def test_json_holds_every_field_and_the_trace(tmp_path):
    export_cells(tmp_path / "cells.json", ROWS)
    rows = json.loads((tmp_path / "cells.json").read_text(encoding="utf-8"))
    assert [set(row) for row in rows] == [{*FIELDS, "trace"}] * 3
    assert rows[0]["trace"] == [{"name": "step", "examples": 3, "seconds": 0.25, "measures": {"error": 0.5}}]
    for row, stored in zip(rows, ROWS, strict=True):
        assert row | {"trace": 0} == flat(stored) | {"trace": 0}
    assert rows[0]["target_seed"] == 2**70


# Parquet


def test_parquet_holds_every_field(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    small = [_small(stored) for stored in ROWS]
    export_cells(tmp_path / "cells.parquet", small)
    table = parquet.read_table(tmp_path / "cells.parquet")
    assert table.column_names == FIELDS
    kinds = {name: str(table.schema.field(name).type) for name in FIELDS}
    assert {name for name, kind in kinds.items() if kind == "int64"} == {*WHOLE, "target_seed"}
    assert {name for name, kind in kinds.items() if kind == "double"} == set(REAL)
    assert {name for name, kind in kinds.items() if kind == "bool"} == {"succeeded"}
    for row, stored in zip(table.to_pylist(), small, strict=True):
        kept = flat(stored)
        for name in FIELDS:
            value = json.loads(row[name]) if name in ("versions", "parameters") else row[name]
            assert value == kept[name]


def test_a_number_too_large_for_parquet_is_a_sentence(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(ValueError, match=r"64 bits.*\.json"):
        export_cells(tmp_path / "cells.parquet", ROWS)
    assert list(tmp_path.iterdir()) == []


def test_pandas_reads_them(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    small = [_small(stored) for stored in ROWS]
    readers = {".csv": pandas.read_csv, ".json": pandas.read_json}
    if find_spec("pyarrow") is not None:
        readers[".parquet"] = pandas.read_parquet
    for ending, read in readers.items():
        export_cells(tmp_path / f"cells{ending}", small)
        frame = read(tmp_path / f"cells{ending}")
        assert frame["examples_used"].tolist()[1] == 2**62 or ending == ".csv"
        assert math.isclose(frame["unknown_part_error"][0], 0.1)
        assert frame["target_heads"].tolist() == [1, 1, 1]


def test_without_pyarrow_parquet_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("arena.export.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^Parquet needs pyarrow: .* or write \.csv or \.json\.$"):
        export_cells(tmp_path / "cells.parquet", ROWS)
    assert list(tmp_path.iterdir()) == []


# files


def test_no_cells_are_an_empty_table(tmp_path, ending):
    path = tmp_path / f"cells{ending}"
    export_cells(path, [])
    if ending == ".csv":
        assert path.read_bytes().decode() == ",".join(FIELDS) + "\r\n"
    elif ending == ".json":
        assert json.loads(path.read_text()) == []
    else:
        from pyarrow import parquet

        table = parquet.read_table(path)
        assert (table.num_rows, table.column_names) == (0, FIELDS)


@pytest.mark.parametrize("name", ["cells", "cells.txt", "cells.csv.gz", ".csv"])
def test_another_ending_is_a_sentence(tmp_path, name):
    with pytest.raises(ValueError, match=r"ends in .*: \.csv, \.json, \.parquet are the formats\.$"):
        export_cells(tmp_path / name, ROWS)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path, ending, monkeypatch):
    path = tmp_path / f"cells{ending}"
    path.write_text("before")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            export_cells(path, [_small(ROWS[0])])
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    export_cells(str(path), [_small(ROWS[0])])
    assert path.read_bytes() != b"before"


def test_the_same_cells_give_the_same_bytes(tmp_path):
    for ending in (".csv", ".json"):
        export_cells(tmp_path / f"a{ending}", ROWS)
        export_cells(tmp_path / f"b{ending}", ROWS)
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_csv_needs_no_locale():
    buffer = io.StringIO()
    buffer.write(EXPORTS[".csv"](ROWS).decode("utf-8"))
    assert "ü" in buffer.getvalue()
