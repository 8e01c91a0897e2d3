"""The benchmark of learners: medians, best settings and ratios, and a complaint for every aim that is missed."""

import json
from importlib.util import find_spec
from math import inf

import pytest

from benchmarks.learners import (
    CASES,
    ERRORS,
    FRESH,
    compare_at_errors,
    contenders,
    learners_complaint,
    run_learners,
    show_learners,
)
from benchmarks.peer_settings import REUSED, adam_settings, sgd_settings
from upper import SGD, Adam

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
CASE = (2, 3, 8)


def run(row, *trace, setting="", target=0, seconds=1.0):
    m, k, d = CASE
    return {"m": m, "k": k, "d": d, "row": row, "setting": setting, "target": target, "trace": list(trace)}


def field(newton, numpy, adam, lbfgs=(), *, examples=100, adam_examples=50_000):
    """Runs on one target that reach 1e-6 after so many seconds, and nothing else; without seconds, never."""
    rows = {
        "Newton": (newton, examples),
        "Newton, NumPy alone": (numpy, examples),
        FRESH: (adam, adam_examples),
    }
    runs = [run(row, (n, 0.0, 1.0), (n, seconds, 1e-6)) for row, (seconds, n) in rows.items()]
    return [*runs, run("L-BFGS", (10, 0.0, 1.0), *((10, seconds, 1e-6) for seconds in lbfgs))]


def at(error, rows):
    return next(row for row in rows if row["error"] == error)


def test_medians_are_of_the_first_looks_at_or_below_the_error():
    runs = [
        run("Newton", (50, 0.0, 1.0), (50, seconds, 1e-2), (50, 2 * seconds, 1e-13), target=target)
        for target, seconds in enumerate((1.0, 5.0, 2.0))
    ]
    runs += [run("Newton, NumPy alone", (50, 0.0, 1.0), target=target) for target in range(3)]
    runs += [run("L-BFGS", (90, 3.0, 1e-3), target=target) for target in range(3)]
    rows = compare_at_errors(runs, CASE)
    assert [row["error"] for row in rows] == list(ERRORS)
    coarse, _, fine = (row["learners"]["Newton"] for row in rows)
    assert (coarse["seconds"], coarse["examples"], coarse["reached"], coarse["of"]) == (2.0, 50, 3, 3)
    assert (fine["seconds"], fine["end"]) == (4.0, 1e-13)
    assert rows[0]["learners"]["Newton, NumPy alone"]["seconds"] == inf
    assert (rows[0]["best peer"], rows[1]["best peer"]) == ("L-BFGS", None)
    assert rows[0]["of the best peer's seconds"]["Newton"] == pytest.approx(2 / 3)


def test_an_error_that_half_of_the_targets_never_reach_is_never_reached():
    runs = [
        run("Newton", (9, 1.0, 1e-7), target=0),
        *(run("Newton", (9, 1.0, 0.5), target=t) for t in (1, 2)),
    ]
    runs += [run("Newton, NumPy alone", (9, 1.0, 0.5)), run("SGD", (9, 1.0, 0.5))]
    cost = at(1e-6, compare_at_errors(runs, CASE))["learners"]["Newton"]
    assert (cost["seconds"], cost["reached"]) == (inf, 1)


def test_of_several_settings_the_best_for_each_error_counts():
    runs = field(1.0, 1.0, 10.0)
    runs.append(run(FRESH, (700, 2.0, 1e-2), (900, 30.0, 1e-6), setting="short"))
    rows = compare_at_errors(runs, CASE)
    assert at(1e-2, rows)["learners"][FRESH]["setting"] == "short"
    assert at(1e-6, rows)["learners"][FRESH]["setting"] == ""
    assert at(1e-6, rows)["of Adam's seconds"]["Newton"] == pytest.approx(0.1)
    assert at(1e-2, rows)["of Adam's examples"] == pytest.approx(100 / 700)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (field(3.0, 6.0, 10.0, adam_examples=10_000), []),
        (field(3.1, 6.0, 10.0), ["Newton takes 0.31 of the best Adam's seconds"]),
        (field(3.0, 6.1, 10.0), ["Newton, NumPy alone takes 0.61"]),
        (field(inf, 6.0, 10.0), ["Newton takes inf", "Newton takes inf% of the best Adam's examples"]),
        (field(1.0, 1.0, 10.0, adam_examples=9000), ["Newton takes 1.11% of the best Adam's examples"]),
        (field(1.0, 1.0, inf), []),  # what Adam never reaches is no aim missed
    ],
    ids=["on the mark", "slow", "slow without torch", "never", "examples", "Adam never"],
)
def test_a_complaint_for_every_aim_missed(runs, said):
    for one in runs:
        one["trace"] = [
            (inf if seconds == inf else n, seconds, error)
            for n, seconds, error in one["trace"]
            if seconds != inf
        ] or [(1, 0.0, 1.0)]
    lines = learners_complaint({"rows": compare_at_errors(runs, CASE)}).splitlines()
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert words in line
        assert line.startswith("(m, k, d) = (2, 3, 8): ")


def test_without_adam_nothing_is_claimed():
    runs = [one for one in field(1.0, 1.0, 10.0) if one["row"] != FRESH]
    assert "Adam did not run" in learners_complaint({"rows": compare_at_errors(runs, CASE)})


def test_a_peer_that_wins_shows():
    row = at(1e-6, compare_at_errors(field(1.0, 2.0, 10.0, lbfgs=(0.5,)), CASE))
    assert row["best peer"] == "L-BFGS"
    assert row["of the best peer's seconds"] == {"Newton": 2.0, "Newton, NumPy alone": 4.0}


@needs_torch
@pytest.mark.parametrize("case", CASES)
def test_adam_has_two_to_four_settings_a_case_and_a_grid_around_them(case):
    few, grid = adam_settings(*case), adam_settings(*case, full=True)
    assert 2 <= len(few["fresh"]) + len(few["reused"]) <= 4
    for kind, settings in few.items():
        assert set(settings) <= set(grid[kind])
        assert len(grid[kind]) > 20
        assert {one.reused for one in grid[kind]} == ({None} if kind == "fresh" else {REUSED})


@pytest.mark.parametrize("case", CASES)
def test_sgd_has_one_setting_a_case_for_fresh_and_for_reused_examples(case):
    settings = sgd_settings(*case)
    assert [one.reused for one in settings] == [None, REUSED]
    assert all(isinstance(one, SGD) and one.m == case[0] for one in settings)
    assert all(0.25 <= one.learning_rate * case[2] <= 1 for one in settings)


def test_every_learner_stands_in_a_row_and_its_setting_once():
    there = contenders(*CASE)
    assert len({(one.row, one.setting) for one in there}) == len(there)
    assert [one.row for one in there][:2] == ["Newton", "Newton, NumPy alone"]


@pytest.mark.slow
def test_a_small_run_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.learners._LBFGS_PASSES", 200)
    monkeypatch.setattr("benchmarks.learners._FEATURES", 16)
    monkeypatch.setattr(
        "benchmarks.learners.adam_settings",
        lambda m, *_, **__: {"fresh": [Adam(m, work=50, batch=16)], "reused": [Adam(m, work=50, reused=32)]},
    )
    monkeypatch.setattr(
        "benchmarks.learners.sgd_settings",
        lambda m, *_: [SGD(m, work=60, learning_rate=0.1), SGD(m, work=60, learning_rate=0.1, reused=32)],
    )
    found = run_learners(2, tmp_path / "l.json", tmp_path / "l.svg", cases=[CASE])
    stored = json.loads((tmp_path / "l.json").read_text(encoding="utf-8"))
    assert len(stored["rows"]) == len(ERRORS)
    assert len(stored["runs"]) == 2 * len({(run["row"], run["setting"]) for run in found["runs"]})
    first, second = ([run["row"] for run in found["runs"] if run["target"] == target] for target in (0, 1))
    assert second == [*first[1:], first[0]]
    for one in found["rows"]:
        assert one["learners"]["Newton"]["reached"] == 2
    drawn = (tmp_path / "l.svg").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "never" in printed
    again = show_learners(tmp_path / "l.json", tmp_path / "again.json", tmp_path / "again.svg")
    assert again["rows"] == found["rows"]
    assert capsys.readouterr().out == printed
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == drawn
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "l.json").read_bytes()
    assert "relative error" in drawn
    assert drawn.count("m, k, d = 2, 3, 8") == 2  # against seconds and against examples


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="no file of this benchmark"):
        show_learners(tmp_path / "other.json")
