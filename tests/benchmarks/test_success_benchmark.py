"""The benchmark of successes counts what it says it counts."""

import json

from benchmarks.success import run_success, success_complaint


def test_nice_layers_are_counted_and_written(tmp_path, capsys):
    rows = run_success(2, tmp_path / "success.json", cases=((2, 3, 8, 4),))
    assert rows[0]["successes"] == 2
    assert rows[0]["worst error"] < 1e-10
    assert rows[0]["interval"][0] < 0.2
    assert rows[0]["interval"][1] == 1
    assert json.loads((tmp_path / "success.json").read_text())["rows"] == rows
    assert success_complaint(rows) == ""
    assert "2/2" in capsys.readouterr().out


def test_too_few_successes_are_a_sentence():
    row = {"m": 2, "k": 3, "d": 8, "floors": 4, "targets": 20}
    assert success_complaint([row | {"successes": 19}]) == ""
    assert "18 of 20 are exact" in success_complaint([row | {"successes": 18}])
