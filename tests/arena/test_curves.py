"""``curves``: what it writes, that it goes on where it was, and what it says of wrong input."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from xml.etree import ElementTree

import cloudpickle
import numpy as np
import pytest

import arena.curves
from arena import (
    CurveStore,
    PoolOracle,
    QueriedPhases,
    StoreError,
    WorkersLostError,
    draw_curves,
    draw_learner_side,
    learner_side,
    queried_phases,
    run_curves,
)
from arena.curve_words import curves_text, learner_side_text
from arena.curves import curve_key
from arena.isolation import IsolationError
from attention.errors import FileFormatError
from lower import query_lower_bound
from sq import CurveCell, CurvePoint, curve_cells, measure_cell
from upper.six_phase import QueryPlan, six_phase_queries
from upper.six_phase.statistical_queries import StatisticalQuery

PROGRAM = [sys.executable, "-c", "from arena.cli import main; main()"]
SMALL = ["--dims", "8,10", "--bits", "2", "--tau", "0.3,0.1"]


@pytest.fixture(scope="module")
def points():
    return run_curves(curve_cells([8, 10, 12], [1, 2], [0.3, 0.1]), isolated=False)


def labels(figure):
    ElementTree.fromstring(figure.svg)
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg))


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_command_writes_tables_figures_and_says_what_is_proved(cli, tmp_path):
    said = cli("curves", *SMALL, "--jobs", 2, "-o", tmp_path / "c").out
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        *("curves.csv", "curves.json", "curves.pdf", "curves.sqlite", "curves.svg"),
        *("learner-side.csv", "learner-side.pdf", "learner-side.svg"),
    ]
    for words in ("One scalar query counts one", "Proved: at least", "Measured: ", "group's bound"):
        assert words in said
    rows = read(tmp_path / "c" / "curves.csv")
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        assert int(row["lower_bound"]) == query_lower_bound(int(row["targets"]), row["tolerance"])
    group = {(row["dim"], row["tolerance"]): row["queries"] for row in rows if row["learner"] == "group"}
    assert group == {("8", "0.3"): "2", ("8", "0.1"): "1", ("10", "0.3"): "4", ("10", "0.1"): "1"}
    data = json.loads((tmp_path / "c" / "curves.json").read_text(encoding="utf-8"))
    assert [str(one["queries"]) for one in data["points"]] == [row["queries"] for row in rows]
    assert len(read(tmp_path / "c" / "learner-side.csv")) == len(data["learner_side"]["points"])
    # the second run computes nothing, in whatever number of processes, and writes the same bytes
    before = {
        path.name: path.read_bytes() for path in (tmp_path / "c").glob("*.*") if path.suffix != ".sqlite"
    }
    again = cli("curves", *SMALL, "--jobs", 1, "-o", tmp_path / "c", "--json").out
    assert json.loads(again) == data
    assert {name: (tmp_path / "c" / name).read_bytes() for name in before} == before


@pytest.mark.slow
def test_jobs_and_processes_change_no_number(points):
    cells = [point.cell for point in points][::5]
    assert run_curves(cells, jobs=3) == run_curves(cells, isolated=False) == points[::5]


def test_what_is_in_the_store_is_not_computed(tmp_path, monkeypatch):
    computed = Counter()

    def counted(cell):
        computed[cell] += 1
        return measure_cell(cell)

    monkeypatch.setattr(arena.curves, "measure_cell", counted)
    cells = curve_cells([6, 8], [1, 2], [0.3])
    seen = []
    with CurveStore(tmp_path / "s.sqlite") as store:
        first = run_curves(cells[:5], store=store, isolated=False)
        assert run_curves(cells, store=store, isolated=False, on_point=seen.append)[:5] == first
    assert set(computed.values()) == {1}
    assert {point.cell for point in seen} == set(cells)
    # all that a number depends on is in the key
    changes = [
        ("dim", 9),
        ("bits", 1),
        ("tolerance", 0.2),
        ("oracle", "exact"),
        ("seed", 1),
        ("learner", "group"),
    ]
    base = {"learner": "scan", "dim": 8, "bits": 2, "tolerance": 0.3}
    keys = {
        curve_key(CurveCell(**base)),
        *(curve_key(CurveCell(**base | {name: value})) for name, value in changes),
    }
    honest = [CurveCell(**base, oracle="honest", batch=batch) for batch in (10, 20)]
    assert len(keys | {curve_key(cell) for cell in honest}) == len(changes) + 3
    monkeypatch.setattr("arena.identity.toolkit_code", lambda: "other code")
    assert curve_key(CurveCell(**base)) not in keys


def test_a_cell_that_breaks_down_is_told_and_not_kept(tmp_path, monkeypatch):
    def broken(job, **options):
        raise IsolationError("its process was ended by SIGKILL (out of memory?)")

    cells = curve_cells([6], [1], [0.3], learners=["scan"])
    with CurveStore(tmp_path / "s.sqlite") as store:
        with monkeypatch.context() as patched:
            patched.setattr("arena.calls.run_isolated", broken)
            (point,) = run_curves(cells, store=store)
        assert (point.status, point.explanation) == (
            "failed",
            "Its process was ended by SIGKILL (out of memory?).",
        )
        assert run_curves(cells, store=store, isolated=False)[0].status == "found"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_run_that_was_ended_goes_on_and_computes_nothing_twice(tmp_path, name, cli):
    # the last cells take a while: 9139 targets, one query each
    arguments = [
        "curves",
        "--dims",
        "8,10,40",
        "--bits",
        "2,3",
        "--tau",
        "0.3,0.1",
        "--learners",
        "scan,group",
    ]
    arguments += ["--jobs", "1", "--no-learner-side", "-o", str(tmp_path / "c")]
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    keep = _wait_for_points(tmp_path / "c" / "curves.sqlite", 3, process)
    process.send_signal(getattr(signal, name))
    _, error = process.communicate(timeout=120)
    if name == "SIGINT":
        assert process.returncode == 130
        assert re.fullmatch(
            r"attention-bounds: Interrupted: \d+ of 24 cells are done and kept, and in \S+curves\.json and the files "
            r"beside it; the same command goes on\.\n",
            error,
        )
        assert keep <= len(read(tmp_path / "c" / "curves.csv")) < 24
    before = _stored(tmp_path / "c" / "curves.sqlite")
    assert keep <= len(before) < 24
    cli(*arguments)
    after = _stored(tmp_path / "c" / "curves.sqlite")
    # a value written again would have a new row number
    assert len(after) == 24
    assert {key: after[key] for key in before} == before
    assert all(row["status"] == "found" for row in read(tmp_path / "c" / "curves.csv"))


@pytest.fixture(scope="module")
def queried():
    return queried_phases([10], [1.0, 1000.0], examples=50_000, jobs=2)


@pytest.mark.slow
def test_the_six_phases_ask_as_planned_and_bear_their_tolerances_but_not_a_thousand_of_them(queried):
    within, beyond = queried
    plan = six_phase_queries(QueryPlan(m=2, k=2, d=10))
    assert within.queries == sum(one.count for one in plan)
    assert within.tolerance == within.planned == min(one.tolerance for one in plan)
    assert within.good
    assert within.span_error < 0.03
    assert not beyond.good
    assert beyond.queries <= within.queries


def test_a_run_of_the_phases_that_breaks_down_is_an_error_once_the_others_are_kept(tmp_path, monkeypatch):
    def run_isolated(job, **options):
        _, arguments = cloudpickle.loads(job)
        if arguments[1] == 1.0:
            raise IsolationError("its process was ended by SIGKILL (out of memory?)")
        return QueriedPhases(*arguments[:2], 7, 0.1, 0.1, 0.01, "Pretended.")

    given = {"dims": [10], "slacks": [1.0, 2.0], "examples": 100}
    seen = []
    with CurveStore(tmp_path / "s.sqlite") as store, monkeypatch.context() as patched:
        patched.setattr("arena.calls.run_isolated", run_isolated)
        for _ in range(2):
            with pytest.raises(WorkersLostError, match=r"d = 10: Its process was ended by SIGKILL"):
                queried_phases(**given, store=store, on_run=seen.append)
        assert [one.slack for one in seen] == [2.0, 2.0]
        patched.setattr("arena.calls.run_isolated", lambda *arguments, **options: seen[0])
        assert [one.slack for one in queried_phases(**given, store=store)] == [2.0, 2.0]
        assert len(_stored(tmp_path / "s.sqlite")) == 2


def test_measured_runs_are_told_and_marked(queried):
    side = learner_side([8, 16], [2])
    said = " ".join(learner_side_text(side, queried).split())
    assert "Measured, phases 1 to 5 through an oracle of statistical queries: d = 10, 6547 queries" in said
    assert "off by up to 1000 times the tolerance each declares: It gave up" in said
    assert {"measured: the span is found", "measured: it is not"} <= labels(draw_learner_side(side, queried))
    assert "measured: it is not" not in labels(draw_learner_side(side))


def test_a_pool_oracle_counts_queries_and_keeps_the_errors_it_is_given():
    x, y = np.ones((3, 2, 4)), np.full((3, 2, 4), 0.5)
    ask = StatisticalQuery("label", 1, lambda x, y: y[:, 0, 0], -1.0, 1.0, 0.01)
    exact = PoolOracle(x, y, slack=0.0)
    assert exact.query(ask) == 0.5
    assert exact.query_many([ask, ask]).tolist() == [0.5, 0.5]
    assert exact.asked == 3
    off = [PoolOracle(x, y, slack=3.0, rng=seed).query(ask) - 0.5 for seed in range(50)]
    assert 0.01 < max(map(abs, off)) <= 0.03


def test_fresh_measures_again_what_is_in_the_store(tmp_path):
    cells = curve_cells([8], [2], [0.3], learners=["scan"])
    with CurveStore(tmp_path / "curves.sqlite") as store:
        (point,) = run_curves(cells, store=store, isolated=False)
        store.put(curve_key(cells[0]), point.row() | {"asked": 1, "queries": 1})
        assert run_curves(cells, store=store, isolated=False)[0].queries == 1
        assert run_curves(cells, store=store, fresh=True, isolated=False) == (point,)
        assert run_curves(cells, store=store, isolated=False) == (point,)


def test_help_of_curves_shows_the_options_of_the_curves_themselves(cli):
    said = cli("curves", "--help").out
    assert all(word in said for word in ("--dims", "--fresh", "Commands"))


def _stored(path):
    with CurveStore(path) as store:
        return dict(store._database.execute("SELECT key, rowid FROM points").fetchall())


def _wait_for_points(path, number, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.stat().st_size:
            try:
                found = len(_stored(path))
            except (StoreError, FileFormatError):  # it is being made
                found = 0
            if found >= number:
                return found
        time.sleep(0.01)
    raise AssertionError("no point was done in a minute, or the command ended")


@pytest.mark.slow
def test_the_figure_has_a_line_for_every_learner_and_bound(points):
    figure = draw_curves(points)
    named = {"scan", "group learner", "signed-group learner", "group learner's bound"}
    assert named | {"lower bound (proved)", "number N of targets"} <= labels(figure)
    assert {"l = 1, τ = 0.3", "l = 2, τ = 0.1"} <= labels(figure)
    assert figure.pdf.startswith(b"%PDF")
    assert b"CreationDate" not in figure.pdf
    again = draw_curves(points)
    assert (again.svg, again.pdf) == (figure.svg, figure.pdf)
    changed = draw_curves(points[1:])
    assert changed.svg != figure.svg
    without = draw_curves([point for point in points if point.cell.learner == "scan"])
    assert not labels(without) & {"group learner", "group learner's bound"}


@pytest.mark.slow
def test_figures_of_one_cell_of_refusals_and_of_the_very_large_are_drawn():
    cells = [
        CurveCell("scan", 16, 3, 0.6, "most-preserving"),
        CurveCell("group", 16, 3, 0.6, "most-preserving"),
    ]
    refused = draw_curves([measure_cell(cell) for cell in cells])
    assert {"scan: refused", "group learner: refused"} <= labels(refused)
    assert "group learner's bound" not in labels(refused)  # not proved against that adversary
    large = draw_curves([measure_cell(CurveCell("scan", dim, 5, 0.1)) for dim in (12, 9000)])
    assert "scan: not run, d = 9000" in labels(large)
    draw_curves([measure_cell(CurveCell("scan", 2, 1, 0.1))])
    with pytest.raises(ValueError, match="2 oracles"):
        draw_curves([measure_cell(cells[0]), measure_cell(CurveCell("scan", 4, 1, 0.3))])


def test_figures_are_saved_as_svg_and_pdf_only(points, tmp_path):
    figure = draw_curves(points)
    assert figure.save(tmp_path / "a.pdf").read_bytes() == figure.pdf
    assert figure.save(tmp_path / "a.svg").read_text(encoding="utf-8") == figure.svg
    with pytest.raises(ValueError, match="SVG"):
        figure.save(tmp_path / "a.png")


def test_tables_show_refusals_and_reasons_in_words():
    cells = curve_cells([16, 400], [3], [0.6], oracle="most-preserving", learners=["scan", "signed-group"])
    text = curves_text([measure_cell(cell) if cell.dim == 16 else _not_run(cell) for cell in cells])
    line = next(line for line in text.splitlines() if " 455 " in line)
    assert line.split() == ["3", "0.6", "16", "455", "227", "refused", "454"]
    assert "scan, refused at l = 3, tau = 0.6, d = 16: " in text
    assert "scan, not run at l = 3, tau = 0.6, d = 400: Too many." in text
    assert "group's bound" not in text


def _not_run(cell):
    return CurvePoint(cell, "not run", "Too many.")


def test_learner_side_marks_exactly_what_the_bound_hides():
    side = learner_side()
    for one in side:
        # by the definition: as many queries of that tolerance rule out too few
        cap = -(-1 // (4 * one.tolerance**2)) - 1 if one.tolerance > 1e-6 else 1 / (4 * one.tolerance**2)
        assert one.invisible == (one.queries * cap < one.targets - 1)
        assert one.targets > 1
    assert any(one.invisible for one in side)
    assert not any(one.invisible for one in side if one.heads == 2)
    text = learner_side_text(side)
    assert text.count("e-16*") == 1
    assert "not that the six phases find a parity" in text.replace("\n  ", " ")
    named = labels(draw_learner_side(side))
    assert {"parities of 3 bits, 2 heads", "six phases, nice targets of 2 heads: their plan"} <= named


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--bits", "10", "--dims", "10,20"], "bits is 10 and dim 10"),
        (["--tau", "0.3,1"], "above 0 and below 1"),
        (["--tau", "0"], "above 0 and below 1"),
        (["--tau", "nan"], "--tau is 'nan'"),
        (["--dims", ""], "--dims is ''"),
        (["--dims", "10,x"], "whole numbers with commas"),
        (["--bits", "2,,3"], "--bits is '2,,3'"),
        (["--oracle", "delphi"], "reference, most-preserving, exact, honest"),
        (["--learners", "scan,guess"], "The learner is 'guess'"),
        (["--batch", "10"], "draws no examples"),
        (["--jobs", "0"], "jobs"),
        (["lwx"], "lwx"),
        (["sq", "lwx"], "lwx"),
    ],
)
@pytest.mark.bad_input
def test_wrong_input_is_one_sentence_before_any_work(cli, tmp_path, options, said):
    error = cli("curves", "-o", tmp_path / "c", *options, status=2).err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_what_is_no_store_is_left_alone(cli, tmp_path):
    (tmp_path / "curves.sqlite").write_text("hello")
    assert "no store of measured points" in cli("curves", *SMALL, "-o", tmp_path, status=2).err
    assert (tmp_path / "curves.sqlite").read_text() == "hello"
    with pytest.raises(FileFormatError, match="folder"):
        CurveStore(tmp_path)


@pytest.mark.bad_input
def test_more_jobs_than_none_need_processes():
    with pytest.raises(ValueError, match="isolated"):
        run_curves(curve_cells([6], [1], [0.3]), jobs=2, isolated=False)
    with pytest.raises(ValueError, match="jobs"):
        run_curves(curve_cells([6], [1], [0.3]), jobs=0)
    with pytest.raises(ValueError, match="isolated"):
        queried_phases([10], [1.0], jobs=2, isolated=False)


def test_jobs_and_dask_exclude_each_other(cli, tmp_path):
    for command in ("sq", "lwr"):
        error = cli(
            "curves", command, "-o", tmp_path, "--jobs", 2, "--dask", "tcp://127.0.0.1:9", status=2
        ).err
        assert "--jobs is for this machine" in error
