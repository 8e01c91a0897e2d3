"""The results of a comparison: exact as JSON, refused when wrong, as rows, summed up over seeds, saved and loaded."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena import Results
from arena.records import Cell, LearnerRecord, Status, TargetRecord, TracePoint
from arena.results import summarise
from attention import FileFormatError
from attention.foreign import printable

TARGET = TargetRecord("t", "T", "nice", 1, 2, 3, {"name": "boolean"}, "Made.")
LEARNER = LearnerRecord("l", "L", "Nothing.")
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "="]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats() | st.none()  # what is not finite becomes None
cells = st.builds(
    Cell,
    target=st.just("t"),
    learner=st.just("l"),
    seed=st.integers(),
    status=st.sampled_from(Status),
    message=texts,
    outcome=texts,
    succeeded=st.booleans(),
    unknown_part_error=numbers,
    examples_used=st.integers(0, 10**15) | st.none(),
    seconds=numbers,
    trace=st.lists(st.builds(TracePoint, texts, st.integers(0, 10**12), numbers, numbers), max_size=3).map(
        tuple
    ),
)


def of(*cells):
    return Results({}, (TARGET,), (LEARNER,), cells)


def cell(seed=0, error=None, status=Status.DONE, **fields):
    outcome = "EXACT" if status is Status.DONE else ""
    return Cell("t", "l", seed, status, **{"outcome": outcome} | fields, unknown_part_error=error)


@pytest.mark.bad_input  # the shape checks draw random numbers, which hypothesis forbids inside strategies
@given(cell=cells)
def test_json_gives_back_equal_records(cell):
    results = of(cell)
    assert Results.from_json(results.to_json()) == results
    assert Results.from_json(results.to_json()).to_json() == results.to_json()


WRONG = [
    (lambda data: data.update(format="attention-bounds results 99"), "format"),
    (lambda data: data.update(made=[]), r"\$\.made"),
    (lambda data: data["cells"][0].pop("learner"), r"`learner`.*\$\.cells\[0\]"),
    (lambda data: data["cells"][0].update(status="perhaps"), r"\$\.cells\[0\]\.status"),
    (lambda data: data["cells"][0].update(seed=True), r"\$\.cells\[0\]\.seed"),
    (lambda data: data["cells"][0].update(target="nowhere"), "'nowhere', which is not among the targets"),
    (lambda data: data["cells"].append(data["cells"][0]), "one is allowed"),
    (lambda data: data["targets"].append(data["targets"][0]), "a name of its own"),
    (lambda data: data["targets"][3]["certificate"]["facts"][0].update(source=""), "empty text"),
]


@pytest.mark.bad_input
@pytest.mark.parametrize(("edit", "message"), WRONG)
def test_wrong_content_is_refused_and_its_place_named(sample_results, edit, message):
    data = json.loads(sample_results.to_json())
    edit(data)
    with pytest.raises(ValueError, match=message):
        Results.from_json(json.dumps(data))


@pytest.mark.bad_input
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"format": NaN}', "[" * 100_000, "1" * 5000])
def test_what_is_no_comparison_is_refused(text):
    with pytest.raises(ValueError, match=r"comparison|not JSON|digits"):
        Results.from_json(text)


def test_a_summary_is_the_median_and_the_range_over_seeds():
    three = (cell(0, 0.5, examples_used=10), cell(1, 1e-9, examples_used=30), cell(2, 0.1, examples_used=20))
    summary = of(*three).summary("t", "l")
    assert (summary.error, summary.error_min, summary.error_max) == (0.1, 1e-9, 0.5)
    assert (summary.examples, summary.seeds, summary.done, summary.verdict) == (20.0, 3, 3, "partly")
    assert math.isnan(summary.seconds)
    lost = summarise([cell(0, 1e-9), cell(1, None), cell(2, None)])
    assert (lost.error, lost.error_min, lost.verdict) == (math.inf, 1e-9, "nothing")


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(0.0, "learned"), (1e-3, "learned"), (1.1e-3, "partly"), (0.9, "nothing"), (None, "nothing")],
)
def test_verdicts(error, verdict):
    assert summarise([cell(error=error)]).verdict == verdict


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["timed out", "failed", "does not apply"], "failed"),
        (["does not apply", "timed out"], "timed out"),
        (["not installed", "does not apply"], "not installed"),
        (["failed", "done", "timed out"], "learned"),
        ([], "not run"),
    ],
)
def test_a_pair_is_what_the_gravest_of_its_cells_is(statuses, verdict):
    summary = summarise([cell(n, 1e-9, Status(status), message=status) for n, status in enumerate(statuses)])
    assert (summary.verdict, summary.seeds) == (verdict, len(statuses))
    assert summary.done == statuses.count("done")
    assert math.isnan(summary.error) == (summary.done == 0)


def test_a_fit_that_does_not_speak_of_the_target_is_no_number():
    summary = summarise([cell(0, 1.0, outcome="NOT_APPLICABLE", outcome_text="For parities only.")])
    assert (summary.verdict, summary.done, summary.message) == ("does not apply", 0, "For parities only.")


def test_only_keeps_what_is_named_in_the_order_it_had(sample_results):
    part = sample_results.only(["lwr", "parity"], "newton", seeds=1)
    assert [target.name for target in part.targets] == ["parity", "lwr"]
    keys = [(fit.target, fit.learner, fit.seed) for fit in part.cells]
    assert keys == [("parity", "newton", 1), ("lwr", "newton", 1)]
    assert part.seeds == 1
    assert sample_results.only() == sample_results
    assert sample_results.only(learners=[]).cells == ()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda results: results.only(["lwr", "nowhere"]), "no target 'nowhere': there are nice-2-2-32"),
        (lambda results: results.only(seeds=7), "no seed 7: there are 0, 1"),
        (lambda results: results.plot("lwr", against="hope"), "'examples' and 'seconds' can be drawn"),
        (lambda results: results.plot(against="seconds"), "a heat map has no such axis"),
    ],
)
@pytest.mark.bad_input
def test_what_is_not_there_is_named(sample_results, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(sample_results)


def test_save_and_load_give_back_equal_records(sample_results, tmp_path):
    results = sample_results.only("parity", "elimination")
    data, page = results.save(tmp_path / "new" / "folder")
    assert (data.name, page.name) == ("results.json", "index.html")
    assert Results.load(data) == Results.load(str(data.parent)) == results


def test_what_cannot_be_loaded_or_saved_is_a_sentence(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "text").write_text("hello")
    for name, message in (
        ("", r"There is no file .*results\.json"),
        ("binary", "not UTF-8"),
        ("text", "text: The results are not JSON"),
    ):
        with pytest.raises(FileFormatError, match=message):
            Results.load(tmp_path / name)
    with pytest.raises(NotADirectoryError, match="give the path of a folder"):
        of().save(tmp_path / "text")


def test_nothing_at_all_can_be_looked_at(tmp_path):
    for results in (Results({}, (), (), ()), of()):
        assert str(results)
        assert "Target" in results._repr_html_()
        assert "<svg" in results.plot().svg
        assert results.rows() == []
        assert Results.load(results.save(tmp_path / "none")[0]) == results
    assert "<svg" in of().plot("t").svg


def test_there_is_a_row_for_every_fit(sample_results):
    pytest.importorskip("pandas", reason="pandas is not installed")
    lost = replace(sample_results.cells[0], unknown_part_error=None)
    results = replace(sample_results, cells=(lost, *sample_results.cells[1:]))
    for fit, row in zip(results.cells, results.to_pandas().to_dict("records"), strict=True):
        target = results.target(fit.target)
        assert (row["target"], row["learner"], row["seed"]) == (fit.target, fit.learner, fit.seed)
        assert (row["status"], row["target_heads"]) == (fit.status.value, target.heads)
        assert row["learner_title"] == results.learner(fit.learner).title
        assert row["target_label"] == target.label
        error = row["unknown_part_error"]
        assert math.isnan(error) if fit.unknown_part_error is None else error == fit.unknown_part_error


@pytest.mark.parametrize("evil", [*FORMULAS, '=HYPERLINK("http://a","b")', 'a"b,c\nd', "ü\U0001f600"])
def test_a_text_is_no_formula_and_breaks_no_line(sample_results, evil):
    first, *others = sample_results.learners
    results = replace(
        sample_results,
        learners=(replace(first, title=evil), *others),
        cells=tuple(replace(fit, message=evil) for fit in sample_results.cells),
    )
    shown = printable(evil)  # what begins with a tab or breaks a line is then no formula and breaks none
    wanted = "'" + shown if shown == evil and evil[0] in "=+-@" else shown
    rows = list(csv.DictReader(io.StringIO(results.to_csv(), newline="")))
    assert len(rows) == 50
    assert {row["message"] for row in rows} == {wanted}
    assert wanted in {row["learner_title"] for row in rows}
    assert [float(row["seconds"]) for row in rows[:8]] == [fit.seconds for fit in results.cells[:8]]
