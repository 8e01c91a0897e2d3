"""``curves lwr``: sizes in turn until two are not broken, and how far each attack reaches."""

from collections import defaultdict

import pytest

import studies.lwr_reach
from lwe import AttackOutcome, AttackResult
from studies import run_study
from studies.lwr_reach import lwr_reach

REACH = {"linearisation": 16, "exhaustive": 0, "bkw": 8, "newton": 64}


@pytest.fixture
def ends(monkeypatch):
    """Attacks that end as a function of their name and their parameters says, without running them."""

    def pretend(end):
        def run_attack(attack, samples, parameters, **options):
            outcome, accuracy = end(attack.name, parameters)
            return AttackResult(attack.name, AttackOutcome[outcome], "Pretended.", accuracy, seconds=0.25)

        monkeypatch.setattr(studies.lwr_reach, "run_attack", run_attack)

    return pretend


def test_sizes_grow_until_two_are_not_broken_and_the_table_and_the_figure_say_how_far(ends):
    reached = lambda name, at: at.n <= REACH[name] // (2 if at.p > 2 else 1)  # noqa: E731
    ends(lambda name, at: ("BROKEN", 1.0) if reached(name, at) else ("NOTHING", 0.5))
    study = lwr_reach(n=[4, 8, 16, 32, 64], q=16, p=[2, 4], attacks=list(REACH), samples=50)
    rows = run_study(study, isolated=False).rows
    tried = defaultdict(list)
    for row in rows:
        tried[row["attack"], row["p"]].append(row["n"])
    assert tried["linearisation", 2] == [4, 8, 16, 32, 64]
    assert tried["linearisation", 4] == [4, 8, 16, 32]
    assert tried["exhaustive", 2] == [4, 8]
    assert tried["bkw", 2] == [4, 8, 16, 32]
    lines = {line.pop("largest n broken"): list(line.values()) for line in study.tables(rows)["reach"]}
    assert lines["Linearisation"] == ["16", "8"]
    assert lines["Exhaustive"] == ["-", "-"]
    assert lines["Newton"] == ["64+", "32"]
    short = [row for row in rows if row["attack"] == "newton" and (row["p"] == 2 or row["n"] < 16)]
    assert study.tables(short)["reach"][0]["p = 4"] == "8?"
    (axes,) = study.figure(rows).axes
    assert axes.get_legend_handles_labels()[1] == ["Linearisation", "BKW", "Newton"]
    assert [round(y) for line in axes.lines[:3] for y in line.get_ydata()] == [8, 16, 4, 8, 32, 64]


def test_most_labels_count_as_broken_and_a_frequent_label_does_not(ends):
    by_size = {4: ("PREDICTS", 0.96), 5: ("PREDICTS", 0.94), 6: ("BROKEN", 1.0), 7: ("NOTHING", 0.97)}
    ends(lambda name, at: by_size[at.n])
    rows = run_study(
        lwr_reach(n=list(by_size), q=16, p=[2], attacks=["adam"], samples=50), isolated=False
    ).rows
    assert [row["broken"] for row in rows] == [True, False, True, False]
