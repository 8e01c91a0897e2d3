"""The benchmark of linear attention measures what it says it measures."""

import json

from benchmarks.linear_attention import linear_complaint, run_linear


def test_every_way_solves_the_same_problem_and_is_written(tmp_path, capsys):
    found = run_linear(tmp_path / "linear.json", dims=(4,), large=5, turns=1, threads=1)
    (row,) = found["rows"]
    assert (row["features"], row["examples"]) == (40, 80)
    assert max(row["error"], found["large"]["error"]) < 1e-12
    assert row["ratio"] == row["seconds"] / row["plain seconds"]
    assert found["large"]["bytes"] >= found["large"]["bytes before"] > 1 << 24
    assert json.loads((tmp_path / "linear.json").read_text()) == found
    assert linear_complaint({"rows": [row], "large": found["large"]}) == ""
    slow, large = row | {"d": 16, "seconds": 4.5}, found["large"] | {"bytes": 2.5 * 2**30}
    assert linear_complaint({"rows": [slow], "large": large}).count("allowed") == 2
    assert "ratio to plain" in capsys.readouterr().out
