"""A comparison as data frames and as CSV: every fit, pair and step, to the last digit, and no text a formula."""

import csv
import io
import math
from dataclasses import replace

import pandas
import pytest

from arena.formats import csv_text
from arena.views.page import pair_rows, step_rows
from attention.foreign import printable

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://a","b")', "="]


def rows(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_there_is_a_row_for_every_fit_with_numbers_of_their_types(sample_results):
    lost = replace(sample_results.cells[0], unknown_part_error=None, examples_used=None)
    results = replace(sample_results, cells=(lost, *sample_results.cells[1:]))
    frame = results.to_pandas()
    assert len(frame) == len(results.cells)
    for cell, row in zip(results.cells, frame.to_dict("records"), strict=True):
        target = results.target(cell.target)
        assert (row["target"], row["learner"], row["seed"]) == (cell.target, cell.learner, cell.seed)
        assert (row["status"], row["target_heads"]) == (cell.status.value, target.heads)
        assert row["learner_title"] == results.learner(cell.learner).title
        assert row["target_label"] == target.label
        error = row["unknown_part_error"]
        assert math.isnan(error) if cell.unknown_part_error is None else error == cell.unknown_part_error
    assert frame["examples_used"][0] is pandas.NA
    assert frame["seed"].dtype == frame["examples_used"].dtype == pandas.Int64Dtype()
    assert (frame["succeeded"].dtype, frame["seconds"].dtype) == (bool, float)
    assert replace(results, cells=()).to_pandas().dtypes.equals(frame.dtypes)


def test_there_is_a_row_for_every_pair(eventful_results):
    lines = {(line["target"], line["learner"]): line for line in rows(csv_text(pair_rows(eventful_results)))}
    assert len(lines) == 25
    for (target, learner), line in lines.items():
        summary = eventful_results.summary(target, learner)
        assert line["verdict"] == summary.verdict
        assert (int(line["done"]), int(line["seeds"])) == (summary.done, summary.seeds)
        if summary.done:
            for name in ("error", "error_min", "error_max", "examples", "seconds"):
                assert float(line[name]) == getattr(summary, name)
        else:
            assert {line[name] for name in ("error", "error_min", "examples", "seconds")} == {""}
    assert lines["lwr", "known-part"]["verdict"] == "not run"
    assert lines["parity", "adam"]["message"].startswith("It was stopped")


def test_there_is_a_row_for_every_step_and_for_the_end(eventful_results):
    lines = iter(rows(csv_text(step_rows(eventful_results))))
    for target in eventful_results.targets:
        for learner in eventful_results.learners:
            for cell in eventful_results.cell(target.name, learner.name):
                if not cell.fitted:
                    continue
                for step, point in enumerate(cell.trace, start=1):
                    line = next(lines)
                    assert (line["target"], line["learner"]) == (target.name, learner.name)
                    assert (int(line["seed"]), int(line["step"])) == (cell.seed, step)
                    assert (line["name"], float(line["error"])) == (point.name, point.error)
                    assert (float(line["examples"]), float(line["seconds"])) == (
                        point.examples,
                        point.seconds,
                    )
                end = next(lines)
                assert (end["name"], float(end["error"])) == ("end", cell.unknown_part_error)
    assert next(lines, None) is None


@pytest.mark.parametrize("evil", [*FORMULAS, 'a"b,c\nd', "ü\U0001f600"])
def test_a_text_is_no_formula_and_breaks_no_line(sample_results, evil):
    first, *others = sample_results.learners
    cells = tuple(
        replace(cell, message=evil, trace=tuple(replace(point, name=evil) for point in cell.trace[:2]))
        for cell in sample_results.cells
    )
    results = replace(sample_results, learners=(replace(first, title=evil), *others), cells=cells)
    shown = printable(evil)  # what begins with a tab or breaks a line is then no formula and breaks none
    wanted = "'" + shown if evil in FORMULAS and shown == evil else shown
    fits, pairs, steps = (rows(make(results).to_csv()) for make in (cell_table, pair_table, step_table))
    assert {line["message"] for line in fits} == {wanted}
    assert wanted in {line["learner_title"] for line in pairs}
    assert wanted in {line["name"] for line in steps}
    assert (len(fits), len(pairs)) == (50, 25)
