"""``curves lwr``: sizes in turn until two are not broken, kept as they are done, told and drawn."""

import csv
import json
import re
from xml.etree import ElementTree

import cloudpickle
import pytest

from arena import CurveStore, LWRCell, LWRPoint, draw_lwr_curve, largest_broken, lwr_curve, lwr_curve_text
from arena.isolation import IsolationError
from lwe import AttackOutcome, AttackResult

REACH = {"linearisation": 16, "exhaustive": 0, "bkw": 8, "newton": 64}


@pytest.fixture
def pretended(monkeypatch):
    """Attacks that break up to a size of their own, without running them; the calls made."""
    calls = []

    def run_isolated(job, **options):
        _, (kind, cell) = cloudpickle.loads(job)
        assert kind.name == cell.attack
        calls.append((kind.name, cell.secret_dim, cell.levels))
        reach = REACH[kind.name] // (2 if cell.levels > 2 else 1)
        broken = cell.secret_dim <= reach
        outcome = AttackOutcome.BROKEN if broken else AttackOutcome.NOTHING
        return AttackResult(kind.name, outcome, "Pretended.", accuracy=1.0 if broken else 0.5, seconds=0.25)

    monkeypatch.setattr("arena.calls.run_isolated", run_isolated)
    return calls


def curve(**options):
    return lwr_curve(list(REACH), [4, 8, 16, 32, 64], 16, [2, 4], samples=50, **options)


@pytest.mark.parametrize("jobs", [1, 4])
def test_sizes_are_tried_in_turn_until_two_are_not_broken(pretended, jobs):
    points = curve(jobs=jobs)
    assert sorted(pretended) == sorted(
        (point.cell.attack, point.cell.secret_dim, point.cell.levels) for point in points
    )
    tried = {}
    for point in points:
        tried.setdefault((point.cell.attack, point.cell.levels), []).append(point.cell.secret_dim)
    assert tried["linearisation", 2] == [4, 8, 16, 32, 64]
    assert tried["linearisation", 4] == [4, 8, 16, 32]
    assert tried["exhaustive", 2] == [4, 8]
    assert tried["bkw", 2] == [4, 8, 16, 32]
    assert largest_broken(points) == {
        ("linearisation", 2): 16,
        ("linearisation", 4): 8,
        ("exhaustive", 2): None,
        ("exhaustive", 4): None,
        ("bkw", 2): 8,
        ("bkw", 4): 4,
        ("newton", 2): 64,
        ("newton", 4): 32,
    }


def test_what_is_kept_is_not_run_again(pretended, tmp_path):
    with CurveStore(tmp_path / "lwr.sqlite") as store:
        first = curve(store=store)
        made = len(pretended)
        assert made == len(first)
        assert curve(store=store) == first
        assert len(pretended) == made
        assert curve(store=store, fresh=True) == first
        assert len(pretended) == 2 * made


def test_a_run_that_was_interrupted_goes_on_with_what_is_kept(pretended, tmp_path):
    seen = []

    def interrupt(point):
        seen.append(point)
        if len(seen) == 7:
            raise KeyboardInterrupt

    with CurveStore(tmp_path / "lwr.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            curve(store=store, jobs=2, on_point=interrupt)
        pretended.clear()
        told = []
        points = curve(store=store, jobs=2, on_point=told.append)
    assert len(pretended) == len(points) - 7
    assert set(seen) <= set(points)
    assert sorted(map(repr, told)) == sorted(map(repr, points))


@pytest.mark.parametrize("how", [TimeoutError("stopped"), IsolationError("its process ended with status 3")])
def test_an_attack_that_is_ended_by_force_or_dies_loses_no_other(monkeypatch, tmp_path, how):
    def run_isolated(job, **options):
        _, (kind, _) = cloudpickle.loads(job)
        if kind.name == "bkw":
            raise how
        return AttackResult(kind.name, AttackOutcome.BROKEN, "Pretended.", accuracy=1.0)

    monkeypatch.setattr("arena.calls.run_isolated", run_isolated)
    with CurveStore(tmp_path / "lwr.sqlite") as store:
        points = lwr_curve(["bkw", "newton"], [4, 8, 16], 16, [2], samples=50, seconds=2.0, store=store)
    expected = {"TimeoutError": "BUDGET_SPENT", "IsolationError": "FAILED"}[type(how).__name__]
    assert [(point.cell.attack, point.cell.secret_dim, point.outcome) for point in points] == [
        ("bkw", 4, expected),
        ("bkw", 8, expected),
        ("newton", 4, "BROKEN"),
        ("newton", 8, "BROKEN"),
        ("newton", 16, "BROKEN"),
    ]
    said = {"BUDGET_SPENT": "ended by force after 12 seconds", "FAILED": "Its process ended with status 3."}
    assert said[expected] in points[0].explanation


@pytest.mark.parametrize(
    "outcome", [AttackOutcome.MISSING, pytest.param(AttackOutcome.FAILED, marks=pytest.mark.slow)]
)
def test_what_another_run_may_find_otherwise_is_not_kept(pretended, monkeypatch, tmp_path, outcome):
    def run_isolated(job, **options):
        _, (kind, _) = cloudpickle.loads(job)
        pretended.append(kind.name)
        return AttackResult(kind.name, outcome, "Pretended.")

    monkeypatch.setattr("arena.calls.run_isolated", run_isolated)
    with CurveStore(tmp_path / "lwr.sqlite") as store:
        curve(store=store)
        made = len(pretended)
        curve(store=store)
    assert len(pretended) == 2 * made


def test_most_labels_count_as_broken_and_a_frequent_label_does_not():
    cell = LWRCell("adam", 4, 16, 2)
    outcomes = [("PREDICTS", 0.96), ("PREDICTS", 0.94), ("NOTHING", 0.97), ("BUDGET_SPENT", None)]
    points = [LWRPoint(cell, outcome, "Pretended.", accuracy, 0.1) for outcome, accuracy in outcomes]
    assert [point.broken for point in points] == [True, False, False, False]


def test_a_series_that_was_interrupted_has_a_question_mark(pretended):
    points = curve()
    kept = [
        point
        for point in points
        if point.cell.attack == "newton" and (point.cell.levels, point.cell.secret_dim) <= (4, 8)
    ]
    said = lwr_curve_text(kept, attacks=["newton", "bkw"], dims=[4, 8, 16, 32, 64])
    assert re.search(r"Newton +64\+ +8\?", said)
    assert re.search(r"BKW +\? +\?", said)
    assert "?" not in lwr_curve_text(points).split("Measured")[0]


def test_samples_that_hold_all_rows_are_said_and_shaded(pretended):
    assert "Up to n = 5 the samples hold most rows" in lwr_curve_text(curve())
    assert "Up to n = 5 the samples hold most rows" in draw_lwr_curve(curve()).svg


def test_a_figure_of_attacks_that_break_nothing_names_them():
    points = [LWRPoint(LWRCell("bkw", n, 16, 4), "NOTHING", "Pretended.", 0.5, 0.1) for n in (4, 8)]
    assert "No size broken by BKW." in draw_lwr_curve(points).svg
    assert "BKW" in lwr_curve_text(points)


def test_rows_give_the_point_back(pretended):
    for point in curve():
        assert LWRPoint.from_row(json.loads(json.dumps(point.row()))) == point


def test_the_table_and_the_figure_say_how_far_each_reaches(pretended):
    points = curve()
    said = lwr_curve_text(points)
    assert re.search(r"Linearisation +16 +8", said)
    assert re.search(r"Exhaustive +- +-", said)
    assert re.search(r"Newton +64\+ +32", said)
    assert "no claim of security" in " ".join(said.split())
    figure = draw_lwr_curve(points)
    ElementTree.fromstring(figure.svg)
    labels = set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg))
    assert {"Linearisation", "BKW", "Newton", "q / p"} <= labels
    assert "Exhaustive" not in labels
    assert "No size broken by Exhaustive." in labels
    with pytest.raises(ValueError, match="no point to draw"):
        draw_lwr_curve([])


@pytest.mark.slow
def test_attacks_break_what_they_should(tmp_path, cli):
    given = [
        "--modulus",
        4,
        "--levels",
        2,
        "--dims",
        "6,10",
        "--attacks",
        "linearisation,elimination",
        "--samples",
        800,
    ]
    said = cli("curves", "lwr", *given, "--jobs", 1, "-o", tmp_path / "c").out
    assert re.search(r"Linearisation +10\+", said)
    assert re.search(r"Elimination +-", said)
    with (tmp_path / "c" / "lwr.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["attack"], row["secret_dim"], row["outcome"]) for row in rows] == [
        ("linearisation", "6", "BROKEN"),
        ("linearisation", "10", "BROKEN"),
        ("elimination", "6", "NOT_APPLICABLE"),
        ("elimination", "10", "NOT_APPLICABLE"),
    ]
    assert sorted(path.suffix for path in (tmp_path / "c").iterdir()) == [
        ".csv",
        ".json",
        ".pdf",
        ".sqlite",
        ".svg",
    ]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dims", "4,x"], "whole numbers with commas"),
        (["--levels", "128", "--modulus", "64"], "at most as many levels"),
        (["--matrix", "square"], "--matrix is 'square'"),
        (["--attacks", "guess"], "'guess' is no attack"),
        (["--budget", "0"], "seconds"),
        (["--secret-law", "odd"], "'odd'"),
        (["--modulus", "12", "--matrix", "gadget", "--levels", "2"], "power of two"),
    ],
)
def test_wrong_input_is_one_sentence_before_any_work(cli, tmp_path, options, said):
    error = cli("curves", "lwr", "-o", tmp_path / "c", *options, status=2).err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.bad_input
def test_cells_name_what_is_wrong():
    with pytest.raises(ValueError, match="no attack"):
        LWRCell("guess", 8, 16, 2)
    with pytest.raises(ValueError, match="dims is empty"):
        lwr_curve(["bkw"], [], 16, [2])
