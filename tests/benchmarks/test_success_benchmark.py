"""The benchmark of successes counts what it says it counts."""

import json

from benchmarks.success import run_success, success_complaint


def test_nice_layers_are_counted_and_written(tmp_path, capsys):
    rows = run_success(
        2, tmp_path / "success.json", cases=((2, 3, 8, 4, "nice"), (2, 3, 16, 8, "low rank", 8))
    )
    assert rows[0]["successes"] == 2
    assert rows[0]["worst error"] < 1e-10
    assert rows[0]["interval"][0] < 0.2
    assert rows[0]["interval"][1] == 1
    assert json.loads((tmp_path / "success.json").read_text())["rows"] == rows
    assert success_complaint(rows) == ""
    assert "18 of 20 are exact" in success_complaint([rows[0] | {"successes": 18, "targets": 20}])
    assert "2/2" in capsys.readouterr().out
