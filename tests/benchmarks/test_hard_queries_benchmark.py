"""The benchmark of hard families by value queries counts what it says it counts."""

import json

from benchmarks.hard_queries import hard_queries_complaint, run_hard_queries


def test_instances_are_counted_written_and_kept(tmp_path, capsys):
    given = {"store": tmp_path / "cells.sqlite", "cases": ("pair, d = 14", "bump, d = 14")}
    rows = run_hard_queries(1, out=tmp_path / "queries.json", **given)
    assert [row["successes"] for row in rows] == [1, 1, 1, 1]
    assert all(row["queries"] == row["most queries"] < 6000 and row["worst error"] < 1e-9 for row in rows)
    assert json.loads((tmp_path / "queries.json").read_text())["rows"] == rows
    assert hard_queries_complaint(rows) == ""
    assert "18 of 20" in hard_queries_complaint([rows[0] | {"successes": 18, "targets": 20}])
    assert "1/1" in capsys.readouterr().out
    assert run_hard_queries(1, **given) == rows
