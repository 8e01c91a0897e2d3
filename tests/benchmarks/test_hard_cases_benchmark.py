"""The benchmark of hard cases: its targets, its table, its files."""

import json

import numpy as np
import pytest

from benchmarks.hard_cases import CASES, Case, Remedy, run_hard_cases


@pytest.mark.parametrize("case", [case for case in CASES if case.gap is not None], ids=str)
def test_the_gap_is_relative_to_the_first_head(case):
    theta = case.target(3).theta
    assert np.linalg.norm(theta[1] - theta[0]) == pytest.approx(case.gap * np.linalg.norm(theta[0]))


def test_a_small_case_is_run_written_and_drawn(tmp_path, capsys):
    easy, hopeless = Remedy("enough"), Remedy("no work", work=1)
    case = Case("small", 1, 3, 6, remedies=(easy, hopeless))
    run_hard_cases(tmp_path / "out.json", tmp_path / "out.svg", targets=2, cases=(case,))
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert [row["successes"] for row in rows] == [2, 0]
    assert all(len(row["errors"]) == len(row["passes"]) == 2 for row in rows)
    assert "<svg" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert "2/2" in capsys.readouterr().out
