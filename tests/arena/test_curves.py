"""``curves``: counts against what is proved, files that are the same again, and what is kept."""

import csv
import json
import re
from xml.etree import ElementTree

import pytest

from arena import draw_curves, learner_side, run_curves
from lower import query_lower_bound
from sq import CurveCell, curve_cells, measure_cell

SMALL = ["curves", "sq", "--dims", "8,10", "--bits", "2", "--tau", "0.3,0.1"]


@pytest.fixture(scope="module")
def points():
    return run_curves(curve_cells([8, 10], [1, 2], [0.3, 0.1]), isolated=False)


def labels(figure):
    ElementTree.fromstring(figure.svg)
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg))


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_counts_hold_the_lower_bound_and_a_second_run_writes_the_same_bytes(cli, tmp_path):
    cli(*SMALL, "--jobs", 2, "-o", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".json", ".pdf", ".sqlite", ".svg"}
    rows = read(tmp_path / "curves.csv")
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        bound = query_lower_bound(int(row["targets"]), row["tolerance"])
        assert int(row["lower_bound"]) == bound <= int(row["queries"])
    group = {(row["dim"], row["tolerance"]): row["queries"] for row in rows if row["learner"] == "group"}
    assert group == {("8", "0.3"): "2", ("8", "0.1"): "1", ("10", "0.3"): "4", ("10", "0.1"): "1"}
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".sqlite"}
    again = json.loads(cli(*SMALL, "--jobs", 1, "-o", tmp_path, "--json").out)
    assert [str(one["queries"]) for one in again["points"]] == [row["queries"] for row in rows]
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_named_once_the_others_are_written(cli, tmp_path):
    given = ["curves", "sq", "--dims", "8,200", "--bits", 3, "--tau", 0.3, "--learners", "exhaustive"]
    error = cli(*given, "--timeout", 3, "--jobs", 1, "-o", tmp_path, status=1).err
    assert "1 of 2 cells failed" in error
    assert [row["status"] for row in read(tmp_path / "curves.csv")] == ["found", "failed"]


def test_the_figure_has_a_line_for_every_learner_and_bound(points):
    figure = draw_curves(points)
    named = {"exhaustive", "group", "signed-group", "group's bound (proved)", "lower bound (proved)"}
    assert named | {"l = 1, τ = 0.3", "l = 2, τ = 0.1"} <= labels(figure)
    assert figure.pdf.startswith(b"%PDF")
    again = draw_curves(points)
    assert (again.svg, again.pdf) == (figure.svg, figure.pdf)
    without = draw_curves([point for point in points if point.cell.learner == "exhaustive"])
    assert not labels(without) & {"group", "group's bound (proved)"}
    with pytest.raises(ValueError, match="2 oracles"):
        draw_curves([points[0], measure_cell(CurveCell("exhaustive", 4, 1, 0.3, "exact"))])


def test_learner_side_marks_exactly_what_the_bound_hides():
    side = learner_side()
    for one in side:
        # by the definition: as many queries of that tolerance rule out too few
        cap = -(-1 // (4 * one.tolerance**2)) - 1 if one.tolerance > 1e-6 else 1 / (4 * one.tolerance**2)
        assert one.invisible == (one.queries * cap < one.targets - 1)
        assert one.targets > 1
    assert any(one.invisible for one in side)
    assert not any(one.invisible for one in side if one.heads == 2)


def test_learner_side_is_written(cli, tmp_path):
    said = cli("curves", "learner-side", "--dims", "64,1024", "-o", tmp_path).out
    assert said.count("e-25*") == 1
    assert len(read(tmp_path / "learner-side.csv")) == 8
    assert "parities of 31 bits, m = 16" in (tmp_path / "learner-side.svg").read_text(encoding="utf-8")
