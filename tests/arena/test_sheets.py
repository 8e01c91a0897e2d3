"""The spreadsheets of a page: every pair and every point of the curves, to the last digit."""

import csv
import io
from dataclasses import replace

import pytest

from arena.results import Results
from arena.sheets import curves_csv, table_csv


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_has_a_line_for_every_pair_with_all_digits(sample_results):
    lines = rows(table_csv(sample_results))
    assert len(lines) == 25
    for line in lines:
        summary = sample_results.summary(line["target"], line["learner"])
        assert line["verdict"] == summary.verdict
        assert (int(line["done"]), int(line["seeds"])) == (summary.done, summary.seeds)
        if summary.done:
            assert float(line["unknown_part_error"]) == summary.error
            assert (float(line["error_min"]), float(line["error_max"])) == (
                summary.error_min,
                summary.error_max,
            )
            assert (float(line["examples"]), float(line["seconds"])) == (summary.examples, summary.seconds)
        else:
            assert {line[name] for name in ("unknown_part_error", "error_min", "examples", "seconds")} == {""}
    assert [line["family"] for line in lines] == (
        15 * ["nice"] + 5 * ["HARD (proved for SQ)"] + 5 * ["EASY?"]
    )


def test_the_table_keeps_what_did_not_come_back(eventful_results):
    lines = {(line["target"], line["learner"]): line for line in rows(table_csv(eventful_results))}
    lost = lines["parity", "adam"]
    assert (lost["verdict"], lost["done"], lost["seeds"]) == ("timed out", "0", "2")
    assert lost["message"].startswith("It was stopped after 90 s")
    assert (lines["nice-4-4-32", "newton"]["done"], lines["nice-4-4-32", "newton"]["seeds"]) == ("1", "2")
    assert lines["lwr", "known"]["verdict"] == "not run"


def test_an_error_that_is_not_finite_is_infinite_in_the_table_and_empty_in_the_curves(sample_results):
    cells = tuple(
        replace(cell, unknown_part_error=None) if cell.learner == "newton" else cell
        for cell in sample_results.cells
    )
    results = replace(sample_results, cells=cells)
    assert rows(table_csv(results))[0]["unknown_part_error"] == "inf"
    ends = [line for line in rows(curves_csv(results)) if line["phase"] == "end"]
    assert ends[0]["unknown_part_error"] == ""


def test_the_curves_are_every_step_of_every_fit_and_its_end(sample_results):
    lines = iter(rows(curves_csv(sample_results)))
    for target in sample_results.targets:
        for learner in sample_results.learners:
            for cell in sample_results.cell(target.name, learner.name):
                if cell.status != "done":
                    continue
                for step, point in enumerate(cell.trace, start=1):
                    line = next(lines)
                    assert (line["target"], line["learner"]) == (target.name, learner.name)
                    assert (int(line["seed"]), int(line["step"])) == (cell.seed, step)
                    assert line["phase"] == point.name
                    assert (int(line["examples"]), float(line["seconds"])) == (point.examples, point.seconds)
                    assert float(line["unknown_part_error"]) == point.measures["unknown_part_error"]
                end = next(lines)
                assert (end["phase"], int(end["step"])) == ("end", len(cell.trace) + 1)
                assert float(end["unknown_part_error"]) == cell.unknown_part_error
                assert (int(end["examples"]), float(end["seconds"])) == (cell.examples_used, cell.seconds)
    assert next(lines, None) is None


def test_the_curves_of_a_target_are_its_lines_of_all(sample_results):
    whole = curves_csv(sample_results).splitlines()
    parts = [curves_csv(sample_results, target.name).splitlines() for target in sample_results.targets]
    assert {part[0] for part in parts} == {whole[0]}
    assert [line for part in parts for line in part[1:]] == whole[1:]


@pytest.mark.parametrize("evil", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", 'a"b,c\nd'])
def test_a_name_is_no_formula_and_breaks_no_line(sample_results, evil):
    first, *others = sample_results.learners
    cells = tuple(
        replace(cell, trace=tuple(replace(point, name=evil) for point in cell.trace))
        for cell in sample_results.cells
    )
    results = replace(sample_results, learners=(replace(first, title=evil), *others), cells=cells)
    shown = {line["learner_title"] for line in rows(table_csv(results))}
    shown |= {line["phase"] for line in rows(curves_csv(results))}
    assert ("'" + evil if evil[0] in "=+-@\t" else evil) in shown
    assert not any(text.startswith(("=", "+", "-", "@", "\t")) for text in shown)
    assert len(rows(table_csv(results))) == 25


def test_nothing_gives_a_header():
    empty = Results({}, (), (), ())
    assert table_csv(empty).count("\n") == curves_csv(empty).count("\n") == 1


@pytest.mark.bad_input
def test_an_unknown_target_is_refused(sample_results):
    with pytest.raises(ValueError, match="no target named"):
        curves_csv(sample_results, "nowhere")
