"""The record of a comparison: JSON gives back what was written, and wrong content is refused."""

import csv
import json
import math
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.drawing import Drawing
from arena.figures import heat_map, learning_curve
from arena.results import Cell, LearnerRecord, Results, TargetRecord, TracePoint
from arena.table import table_text
from attention import FileFormatError

TARGET = TargetRecord("t", "T", "nice", 1, 2, 3, {"name": "boolean"}, "Made.")
LEARNER = LearnerRecord("l", "L", "Nothing.", {})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(min_value=0) | st.none()
points = st.builds(
    TracePoint,
    texts,
    st.integers(0, 10**12),
    numbers,
    st.dictionaries(texts, st.floats(allow_nan=True) | st.none(), max_size=3),
)
cells = st.builds(
    Cell,
    target=st.just("t"),
    learner=st.just("l"),
    seed=st.integers(),
    status=st.sampled_from(["done", "not applicable", "failed"]),
    message=texts,
    outcome=texts,
    outcome_text=texts,
    succeeded=st.booleans(),
    relative_error=numbers,
    unknown_part_error=numbers,
    theta_error=numbers,
    w_error=numbers,
    examples_used=st.integers(0, 10**15) | st.none(),
    seconds=numbers,
    engine=texts,
    trace=st.lists(points, max_size=3).map(tuple),
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def one(cell: Cell) -> Results:
    return Results({}, (TARGET,), (LEARNER,), (cell,))


def cell(seed=0, error=None, **fields):
    return Cell("t", "l", seed, **{"status": "done", "outcome": "EXACT"} | fields, unknown_part_error=error)


@pytest.mark.bad_input  # the shape checks draw random numbers, which hypothesis forbids inside strategies
@given(cell=cells, made=st.dictionaries(texts, plain, max_size=3))
def test_json_gives_back_equal_records(cell, made):
    results = Results(made, (replace(TARGET, inputs=made),), (LEARNER,), (cell,))
    assert Results.from_json(results.to_json()) == results
    assert Results.from_json(results.to_json()).to_json() == results.to_json()


def test_json_of_the_sample_is_strict_and_exact(sample_results):
    text = sample_results.to_json()
    assert Results.from_json(text) == sample_results
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_every_float_comes_back_to_its_last_bit():
    for error in (0.1, 5e-324, 1.7976931348623157e308, np.nextafter(1.0, 2.0), np.float64(1 / 3)):
        back = Results.from_json(one(cell(error=float(error))).to_json()).cells[0]
        assert back.unknown_part_error.hex() == float(error).hex()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null(bad):
    point = TracePoint("step", 1, abs(bad), {"loss": bad})
    there = cell(error=abs(bad), seconds=abs(bad), trace=(point,))
    assert there.unknown_part_error is None
    assert there.seconds is None
    assert there.trace[0].measures == {"loss": None}
    assert Results({"seconds": bad}, (), (), ()).made == {"seconds": None}


def test_numbers_of_numpy_and_tuples_are_taken():
    results = Results({"seeds": (np.int64(1), np.float32(0.5), np.bool_(True))}, (TARGET,), (LEARNER,), ())
    assert results.made == {"seeds": [1, 0.5, True]}
    assert Results.from_json(results.to_json()) == results


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda data: data.pop("format"), "format field"),
        (lambda data: data.update(format="attention-bounds results 99"), "format field"),
        (lambda data: data.pop("cells"), "lacks cells"),
        (lambda data: data.update(more=1), "unknown fields more"),
        (lambda data: data.update(cells={}), "a list is needed"),
        (lambda data: data.update(made=[]), "mapping with text keys"),
        (lambda data: data["cells"][0].pop("trace"), "lacks trace"),
        (lambda data: data["cells"][0].update(colour="red"), "unknown fields colour"),
        (lambda data: data["cells"][0].update(status="perhaps"), "one of done, not applicable, failed"),
        (lambda data: data["cells"][0].update(seed=True), "whole number"),
        (lambda data: data["cells"][0].update(examples_used="\ud800"), "whole number"),
        (lambda data: data["cells"][0].update(succeeded=1), "true or false"),
        (lambda data: data["cells"][0].update(examples_used=-1), "at least 0"),
        (lambda data: data["cells"][0].update(unknown_part_error="small"), "number of at least 0"),
        (lambda data: data["cells"][0].update(target="nowhere"), "not among the targets"),
        (lambda data: data["cells"][0].update(trace=[7]), "an object with named fields is needed"),
        (lambda data: data["cells"][0].update(message="\ud800"), "UTF-8"),
        (lambda data: data["cells"].append(data["cells"][0]), "one is allowed"),
        (lambda data: data["targets"].append(data["targets"][0]), "a name of its own"),
        (lambda data: data["targets"][0].update(kind="easy"), "one of nice"),
        (lambda data: data["targets"][0].update(heads=0), "at least 1"),
        (lambda data: data["targets"][0].update(certificate="text"), "list of lines"),
        (lambda data: data["targets"][0].update(inputs={"a": "\udfff"}), "UTF-8"),
        (lambda data: data["learners"][0].update(title=None), "text"),
        (lambda data: data["learners"].__setitem__(0, None), "an object with named fields is needed"),
    ],
)
def test_wrong_content_is_refused_with_a_sentence(sample_results, edit, message):
    data = json.loads(sample_results.to_json())
    edit(data)
    with pytest.raises(ValueError, match=message):
        Results.from_json(json.dumps(data))


@pytest.mark.bad_input
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"format": NaN}', "[" * 100_000, "1" * 5000])
def test_what_is_no_comparison_is_refused(text):
    with pytest.raises(ValueError, match=r"comparison|not JSON"):
        Results.from_json(text)


def test_a_cut_file_is_refused(sample_results):
    text = sample_results.to_json()
    for end in range(0, len(text) - 1, 7919):
        with pytest.raises(ValueError, match="not JSON"):
            Results.from_json(text[:end])


@pytest.mark.bad_input
def test_a_number_past_the_floats_is_an_infinity():
    data = json.loads(one(cell(error=1.0)).to_json())
    data["cells"][0]["unknown_part_error"] = 10**400
    assert Results.from_json(json.dumps(data)).cells[0].unknown_part_error is None


def test_summary_is_the_median_and_the_range_over_seeds():
    made = (cell(0, 0.5, examples_used=10), cell(1, 1e-9, examples_used=30), cell(2, 0.1, examples_used=20))
    summary = replace(one(made[0]), cells=made).summary("t", "l")
    assert (summary.error, summary.error_min, summary.error_max) == (0.1, 1e-9, 0.5)
    assert (summary.examples, summary.seconds, summary.seeds, summary.done) == (20.0, None, 3, 3)
    assert summary.verdict == "partly"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (0.0, "learned"),
        (1e-3, "learned"),
        (1.1e-3, "partly"),
        (0.89, "partly"),
        (0.9, "nothing"),
        (None, "nothing"),
    ],
)
def test_verdict(error, verdict):
    assert one(cell(error=error)).summary("t", "l").verdict == verdict


def test_a_fit_whose_error_is_not_finite_counts_as_infinite():
    results = replace(one(cell()), cells=(cell(0, 1e-9), cell(1, None), cell(2, None)))
    summary = results.summary("t", "l")
    assert (summary.error, summary.error_min, summary.error_max) == (None, 1e-9, None)
    assert summary.verdict == "nothing"


def test_status_of_a_summary():
    results = one(cell(status="failed", outcome="", message="It broke."))
    assert results.summary("t", "l").status == "failed"
    assert results.summary("t", "l").message == "It broke."
    assert one(cell(outcome="NOT_APPLICABLE", error=1.0)).summary("t", "l").verdict == "does not apply"
    assert replace(results, cells=()).summary("t", "l").verdict == "not run"
    mixed = replace(results, cells=(cell(0, 1e-9), cell(1, status="failed", outcome="", message="It broke.")))
    assert (mixed.summary("t", "l").verdict, mixed.summary("t", "l").done) == ("learned", 1)


def test_cells_come_in_order_of_seeds(sample_results):
    shuffled = replace(sample_results, cells=sample_results.cells[::-1])
    assert [cell.seed for cell in shuffled.cell("parity", "adam")] == [0, 1]
    assert shuffled.summary("parity", "adam") == sample_results.summary("parity", "adam")


def test_without_seconds_forgets_time_and_nothing_else(sample_results):
    slower = replace(
        sample_results,
        made={**sample_results.made, "seconds": 99.0, "jobs": 1, "command": "other"},
        cells=tuple(
            replace(
                cell,
                seconds=None if cell.seconds is None else 2 * cell.seconds,
                trace=tuple(replace(point, seconds=9.0) for point in cell.trace),
            )
            for cell in sample_results.cells
        ),
    )
    assert slower != sample_results
    assert slower.without_seconds() == sample_results.without_seconds()
    first = sample_results.cells[0]
    other = replace(first, unknown_part_error=np.nextafter(first.unknown_part_error, 1.0))
    changed = replace(sample_results, cells=(other, *sample_results.cells[1:]))
    assert changed.without_seconds() != sample_results.without_seconds()


def test_csv_holds_every_cell_and_starts_no_formula(sample_results):
    evil = '=HYPERLINK("x"),\n@'
    first = replace(sample_results.cells[0], message=evil)
    results = replace(sample_results, cells=(first, *sample_results.cells[1:]))
    rows = list(csv.DictReader(results.to_csv().splitlines(keepends=True)))
    assert len(rows) == len(results.cells)
    assert rows[0]["message"] == "'" + evil
    assert float(rows[0]["unknown_part_error"]) == first.unknown_part_error
    assert rows[-1]["unknown_part_error"] == ""


def test_names_are_found_or_named(sample_results):
    assert sample_results.target("lwr").heads == 14
    assert sample_results.learner("adam").title == "Adam"
    with pytest.raises(ValueError, match="no target named 'nowhere': there are nice-2-2-32"):
        sample_results.target("nowhere")


def test_text_is_the_table_and_repr_is_one_line(sample_results):
    assert str(sample_results) + "\n" == table_text(sample_results)
    assert repr(sample_results) == "<Results: 5 targets, 5 learners, 50 cells>"
    assert repr(one(cell())) == "<Results: 1 target, 1 learner, 1 cell>"


def test_plot_draws_the_figures(sample_results):
    assert sample_results.plot().svg == heat_map(sample_results)
    assert sample_results.plot("lwr").svg == learning_curve(sample_results, "lwr", "examples")
    assert sample_results.plot("lwr", against="seconds").svg == learning_curve(
        sample_results, "lwr", "seconds"
    )
    assert "Learning with rounding" in repr(sample_results.plot("lwr"))
    evil = replace(sample_results, targets=(replace(TARGET, title="a\x1b[31mb"),), cells=())
    assert "a?[31mb" in repr(evil.plot("t"))


@pytest.mark.bad_input
def test_what_cannot_be_plotted_is_a_sentence(sample_results):
    with pytest.raises(ValueError, match="no target named 'nowhere'"):
        sample_results.plot("nowhere")
    with pytest.raises(ValueError, match="'examples' and 'seconds' can be drawn"):
        sample_results.plot("lwr", against="hope")
    with pytest.raises(ValueError, match="a heat map has no such axis"):
        sample_results.plot(against="seconds")


def test_nothing_at_all_can_be_looked_at(tmp_path):
    nothing = Results({}, (), (), ())
    no_cells = Results({}, (TARGET,), (LEARNER,), ())
    for results in (nothing, no_cells):
        assert str(results)
        assert results._repr_html_()
        ET.fromstring(results.plot().svg)
        assert results.page().startswith("<!DOCTYPE html>")
        assert Results.load(results.save(tmp_path / "none")[0]) == results
    assert "<svg" in no_cells.plot("t").svg


def test_a_drawing_is_saved_as_the_svg_it_is(sample_results, tmp_path):
    drawing = sample_results.plot()
    path = drawing.save(tmp_path / "errors.svg")
    assert path.read_bytes().decode() == drawing.svg == drawing._repr_svg_()
    assert len(repr(drawing)) < 100
    for wrong in ("errors.png", "errors", "svg"):
        with pytest.raises(ValueError, match=r"does not end in \.svg"):
            drawing.save(tmp_path / wrong)
    assert [one.name for one in tmp_path.iterdir()] == ["errors.svg"]
    assert Drawing("<svg/>") == Drawing("<svg/>")


@pytest.mark.slow
def test_save_and_load_give_back_equal_records(sample_results, tmp_path):
    folder = tmp_path / "new" / "folder"
    data, page = sample_results.save(folder)
    assert page.read_text(encoding="utf-8") == sample_results.page()
    assert Results.load(data) == Results.load(str(folder)) == sample_results
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "results.json"]


def test_what_cannot_be_loaded_is_a_sentence(tmp_path):
    with pytest.raises(FileFormatError, match=r"There is no file .*results\.json"):
        Results.load(tmp_path)
    binary, text = tmp_path / "binary", tmp_path / "text"
    binary.write_bytes(b"\xff\xfe")
    text.write_text("hello")
    with pytest.raises(FileFormatError, match="binary is not UTF-8"):
        Results.load(binary)
    with pytest.raises(FileFormatError, match="text: The results are not JSON"):
        Results.load(text)
    (tmp_path / "results.json").mkdir()
    with pytest.raises(FileFormatError, match="cannot be read"):
        Results.load(tmp_path)
    with pytest.raises(NotADirectoryError, match="is a file: give the path of a folder"):
        one(cell()).save(text)


def test_only_keeps_what_is_named_in_the_order_it_had(sample_results):
    part = sample_results.only(["lwr", "parity"], "newton", seeds=1)
    assert [target.name for target in part.targets] == ["parity", "lwr"]
    assert [learner.name for learner in part.learners] == ["newton"]
    assert [(one.target, one.learner, one.seed) for one in part.cells] == [
        ("parity", "newton", 1),
        ("lwr", "newton", 1),
    ]
    assert part.made == {**sample_results.made, "seeds": [1]}
    assert "of 2 seeds" not in str(part)
    assert sample_results.only() == sample_results
    every = {"targets": [t.name for t in sample_results.targets], "learners": [], "seeds": (0, 1)}
    assert sample_results.only(**every).cells == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"targets": ["lwr", "nowhere"]}, "no target named 'nowhere': there are nice-2-2-32"),
        ({"learners": "nobody"}, "no learner named 'nobody': there are newton"),
        ({"seeds": 7}, "no seed 7: there are 0, 1"),
    ],
)
def test_only_knows_what_is_there(sample_results, names, message):
    with pytest.raises(ValueError, match=message):
        sample_results.only(**names)


def test_the_data_frame_holds_every_cell(sample_results):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    failed = replace(sample_results.cells[0], status="failed", unknown_part_error=None, examples_used=None)
    results = replace(sample_results, cells=(failed, *sample_results.cells[1:]))
    frame = results.to_pandas()
    header = results.to_csv().splitlines()[0].split(",")
    assert list(frame.columns[: len(header)]) == header
    assert len(frame) == len(results.cells)
    for cell, row in zip(results.cells, frame.to_dict("records"), strict=True):
        assert (row["target"], row["learner"], row["seed"]) == (cell.target, cell.learner, cell.seed)
        target = results.target(cell.target)
        assert pandas.isna(row["target_hardness"]) == (target.hardness is None)
        assert target.hardness is None or row["target_hardness"] == target.hardness
        assert (row["target_title"], row["target_heads"], row["target_dim"]) == (
            target.title,
            target.heads,
            target.dim,
        )
        assert row["learner_title"] == results.learner(cell.learner).title
        error = row["unknown_part_error"]
        assert math.isnan(error) if cell.unknown_part_error is None else error == cell.unknown_part_error
    assert frame["examples_used"][0] is pandas.NA
    assert frame["seed"].dtype == frame["examples_used"].dtype == pandas.Int64Dtype()
    assert frame["succeeded"].dtype == bool
    assert frame["seconds"].dtype == frame["theta_error"].dtype == float


def test_the_data_frame_of_no_cells_has_the_same_columns(sample_results):
    pytest.importorskip("pandas", reason="pandas is not installed")
    full, empty = sample_results.to_pandas(), replace(sample_results, cells=()).to_pandas()
    assert len(empty) == 0
    assert empty.dtypes.equals(full.dtypes)
    large = one(cell(seed=2**70)).to_pandas()
    assert large["seed"][0] == 2**70


def test_without_pandas_there_is_a_sentence(sample_results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"^pandas is not installed: pip install 'attention-bounds\[tables\]'"
    ):
        sample_results.to_pandas()


def test_importing_the_arena_imports_nothing_heavy():
    import subprocess

    heavy = "pandas", "torch", "matplotlib", "distributed", "jinja2"
    asked = f"import sys, arena; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"


def test_results_written_before_hardness_was_told_say_that_there_is_a_secret(sample_results):
    data = json.loads(sample_results.to_json())
    for target in data["targets"]:
        target["hard"] = target.pop("hardness") is not None
    again = Results.from_json(json.dumps(data))
    assert [one.has_secret for one in again.targets] == [one.has_secret for one in sample_results.targets]
