"""The benchmark of learners: medians, best settings and ratios, and a complaint for every aim that is missed."""

import json
from math import inf

import pytest

from benchmarks.learners import (
    ERRORS,
    FRESH,
    Contender,
    compare_at_errors,
    learners_complaint,
    run_learners,
    show_learners,
)
from upper import GradientDescent, Newton

CASE = (2, 3, 8)


def run(row, *trace, setting="", target=0, seconds=1.0):
    m, k, d = CASE
    return {"m": m, "k": k, "d": d, "row": row, "setting": setting, "target": target, "trace": list(trace)}


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


def field(newton, numpy, adam, *, examples=100, adam_examples=50_000):
    """The rows of runs on one target that reach 1e-6 after so many seconds, and nothing else; without, never."""
    costs = {
        "Newton": (newton, examples),
        "Newton, NumPy alone": (numpy, examples),
        FRESH: (adam, adam_examples),
    }
    runs = [
        run(row, (1 if seconds == inf else n, 0.0, 1.0), *([(n, seconds, 1e-6)] if seconds < inf else []))
        for row, (seconds, n) in costs.items()
        if seconds
    ]
    runs += [run("L-BFGS", (10, 0.0, 1.0)), run(FRESH, (700, 2.0, 1e-2), setting="short")][: 1 + bool(adam)]
    return compare_at_errors(runs, CASE)


def test_of_several_settings_the_best_for_each_error_counts():
    coarse, middle, _ = field(1.0, 1.0, 10.0)
    assert (coarse["learners"][FRESH]["setting"], middle["learners"][FRESH]["setting"]) == ("short", "")
    assert middle["of Adam's seconds"]["Newton"] == pytest.approx(0.1)
    assert coarse["of Adam's examples"] == pytest.approx(100 / 700)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (field(3.0, 6.0, 10.0, adam_examples=10_000), []),
        (field(3.1, 6.0, 10.0), ["Newton takes 0.31 of the best Adam's seconds"]),
        (field(3.0, 6.1, 10.0), ["Newton, NumPy alone takes 0.61"]),
        (field(inf, 6.0, 10.0), ["Newton takes inf", "Newton takes inf% of the best Adam's examples"]),
        (field(1.0, 1.0, 10.0, adam_examples=9000), ["Newton takes 1.11% of the best Adam's examples"]),
        (field(1.0, 1.0, inf), []),  # what Adam never reaches is no aim missed
        (field(1.0, 1.0, None), ["Adam did not run"]),
    ],
    ids=["on the mark", "slow", "slow without torch", "never", "examples", "Adam never", "no Adam"],
)
def test_a_complaint_for_every_aim_missed(rows, said):
    lines = learners_complaint({"rows": rows}).splitlines()
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert words in line
        assert line.startswith("(m, k, d) = (2, 3, 8): ")


@pytest.mark.slow
def test_a_small_run_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.learners._LBFGS_PASSES", 200)
    monkeypatch.setattr(
        "benchmarks.learners.adam_settings",
        lambda m, *_, **__: {
            "fresh": [GradientDescent(m, work=50, batch=16, learning_rate=0.003)],
            "reused": [GradientDescent(m, work=50, reused=32, learning_rate=0.003)],
        },
    )
    monkeypatch.setattr(
        "benchmarks.learners.peer_settings",
        lambda name, m, *_: [
            GradientDescent(m, optimizer=name, work=60, learning_rate=0.1, reused=reused)
            for reused in (None, 32)
        ],
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
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="no file of this benchmark"):
        show_learners(tmp_path / "other.json")


@pytest.mark.slow
def test_no_further_target_begins_when_the_time_is_up(monkeypatch, capsys):
    monkeypatch.setattr(
        "benchmarks.learners.contenders", lambda *_, **__: [Contender("Newton", "", Newton(2))]
    )
    monkeypatch.setattr("benchmarks.learners._written", lambda made, runs, *_: {**made, "runs": runs})
    for minutes, done in ((0.0, 1), (5.0, 3)):
        found = run_learners(3, cases=[CASE, (1, 2, 6)], minutes=minutes)
        assert found["targets"] == done
        assert len(found["runs"]) == 2 * done
