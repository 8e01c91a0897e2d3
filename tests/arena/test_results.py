"""The record of a comparison: exact as JSON, refused when wrong, summed up over seeds, cut down, saved and loaded."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena import Cell, LearnerRecord, Results, Status, TargetRecord, TracePoint
from arena.results import summarise
from attention import FileFormatError

TARGET = TargetRecord("t", "T", "nice", 1, 2, 3, {"name": "boolean"}, "Made.")
LEARNER = LearnerRecord("l", "L", "Nothing.")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(min_value=0) | st.none()
points = st.builds(TracePoint, texts, st.integers(0, 10**12), numbers, numbers)
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
    trace=st.lists(points, max_size=3).map(tuple),
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


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null(bad):
    there = cell(error=bad, seconds=bad, trace=(TracePoint("step", 1, bad, bad),))
    assert (there.unknown_part_error, there.seconds) == (None, None)
    assert (there.trace[0].seconds, there.trace[0].error) == (None, None)


WRONG = [
    (lambda data: data.pop("format"), "format"),
    (lambda data: data.update(format="attention-bounds results 99"), "format"),
    (lambda data: data.update(made=[]), r"\$\.made"),
    (lambda data: data["cells"][0].pop("learner"), r"`learner`.*\$\.cells\[0\]"),
    (lambda data: data["cells"][0].update(status="perhaps"), r"\$\.cells\[0\]\.status"),
    (lambda data: data["cells"][0].update(seed=True), r"\$\.cells\[0\]\.seed"),
    (lambda data: data["cells"][0].update(trace=[7]), r"\$\.cells\[0\]\.trace\[0\]"),
    (lambda data: data["cells"][0].update(target="nowhere"), "'nowhere', which is not among the targets"),
    (lambda data: data["cells"].append(data["cells"][0]), "one is allowed"),
    (lambda data: data["targets"].append(data["targets"][0]), "a name of its own"),
    (lambda data: data["targets"][3].update(certificate="text"), r"\$\.targets\[3\]\.certificate"),
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
    summary = summarise([cell(n, 1e-9, Status(one), message=one) for n, one in enumerate(statuses)])
    assert (summary.verdict, summary.seeds) == (verdict, len(statuses))
    assert summary.done == statuses.count("done")
    assert math.isnan(summary.error) == (summary.done == 0)


def test_a_fit_that_does_not_speak_of_the_target_is_no_number():
    summary = summarise([cell(0, 1.0, outcome="NOT_APPLICABLE", outcome_text="For parities only.")])
    assert (summary.verdict, summary.done, summary.message) == ("does not apply", 0, "For parities only.")


def test_without_seconds_forgets_time_and_nothing_else(sample_results):
    slower = replace(
        sample_results,
        made={**sample_results.made, "seconds": 99.0, "jobs": 1, "command": "other"},
        cells=tuple(
            replace(one, seconds=9.0, trace=tuple(replace(point, seconds=9.0) for point in one.trace))
            for one in sample_results.cells
        ),
    )
    assert slower != sample_results
    assert slower.without_seconds() == sample_results.without_seconds()
    first, *others = sample_results.cells
    other = replace(first, unknown_part_error=float(np.nextafter(first.unknown_part_error, 1.0)))
    assert replace(slower, cells=(other, *others)).without_seconds() != sample_results.without_seconds()


def test_only_keeps_what_is_named_in_the_order_it_had(sample_results):
    part = sample_results.only(["lwr", "parity"], "newton", seeds=1)
    assert [target.name for target in part.targets] == ["parity", "lwr"]
    assert [(one.target, one.learner, one.seed) for one in part.cells] == [
        ("parity", "newton", 1),
        ("lwr", "newton", 1),
    ]
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
    sample_results = sample_results.only("parity", "elimination")
    folder = tmp_path / "new" / "folder"
    data, page = sample_results.save(folder)
    assert page.read_text(encoding="utf-8") == render_page(sample_results)
    assert Results.load(data) == Results.load(str(folder)) == sample_results
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "results.json"]


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
        assert len(results.to_pandas()) == 0
        assert Results.load(results.save(tmp_path / "none")[0]) == results
    assert "<svg" in of().plot("t").svg
