"""Studies: cells measured once, kept as they are done, the same numbers wherever they are measured."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from arena import CurveStore, versions
from arena._canvas import canvas
from arena.paper_figure import paper_figure
from arena.studies import Study, Table, load_result, run_study, study_text, write_study
from arena.studies.running import study_key
from attention.errors import FileFormatError
from paper_checks import Scale

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _cells(scale):
    return [
        {"size": size, "draw": draw} for size in (1, 2) for draw in range(2 if scale is Scale.QUICK else 3)
    ]


def _measure(*, rng, size, draw):
    return {"value": size + rng.random(), "list": [size]}


def _draw(rows):
    with canvas(3.0, 2.0) as figure:
        figure.add_axes((0.1, 0.1, 0.8, 0.8)).plot([row["value"] for row in rows])
        return paper_figure(figure, "Values")


TOY = Study(
    name="toy",
    title="A toy",
    question="Is a size more than nothing?",
    expected="It is, by the definition of a size.",
    limits="Nothing is shown about other sizes.",
    how="By adding.",
    cells=_cells,
    measure=_measure,
    found=lambda rows: f"The least value is {min(row['value'] for row in rows):.2f}.",
    table=lambda rows: Table(("size", "value"), tuple((str(r["size"]), f"{r['value']:.2f}") for r in rows)),
    draw=_draw,
)


def test_jobs_and_processes_change_no_number():
    here = run_study(TOY, isolated=False)
    apart = run_study(TOY, jobs=2)
    assert here.rows == apart.rows
    assert [(row["size"], row["draw"]) for row in here.rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert len({row["value"] % 1 for row in here.rows}) == 4
    assert run_study(TOY, isolated=False, seed=1).rows != here.rows


def test_cells_that_share_their_stream_draw_the_same():
    rows = run_study(replace(TOY, stream=("draw",)), isolated=False).rows
    draws = {(row["size"], row["draw"]): row["value"] - row["size"] for row in rows}
    assert draws[1, 0] == pytest.approx(draws[2, 0], abs=1e-12)
    assert abs(draws[1, 0] - draws[1, 1]) > 1e-6


def test_a_row_that_is_kept_is_not_measured_again_and_a_larger_scale_adds_to_it(tmp_path):
    log = tmp_path / "log"

    def measure(*, rng, size, draw):
        with log.open("a") as file:
            file.write("x")
        return _measure(rng=rng, size=size, draw=draw)

    study = replace(TOY, measure=measure)
    with CurveStore(tmp_path / "s.sqlite") as store:
        first = run_study(study, store=store, isolated=False)
        assert run_study(study, store=store, isolated=False).rows == first.rows
        assert len(log.read_text()) == 4
        run_study(study, store=store, isolated=False, scale=Scale.FULL)
        assert len(log.read_text()) == 6
        run_study(study, store=store, isolated=False, fresh=True)
        assert len(log.read_text()) == 10


def test_what_was_measured_before_an_interruption_is_kept(tmp_path):
    def stop(row):
        if row["draw"] == 1:
            raise KeyboardInterrupt

    with CurveStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            run_study(TOY, store=store, isolated=False, on_row=stop)
        cells = _cells(Scale.QUICK)
        assert len(store.find([study_key(TOY, cell, 0, versions()) for cell in cells])) == 2
        assert run_study(TOY, store=store, isolated=False).rows == run_study(TOY, isolated=False).rows


def test_a_cell_that_fails_is_told_and_the_others_are_there(tmp_path):
    def measure(*, rng, size, draw):
        if size == 2 and draw == 1:
            os._exit(3)
        return {"value": float("nan") if size == 2 else 1.0}

    with CurveStore(tmp_path / "s.sqlite") as store:
        result = run_study(replace(TOY, measure=measure), store=store)
        assert [row["size"] for row in result.rows] == [1, 1]
        assert [failure.partition(":")[0] for failure in result.failures] == [
            "size 2, draw 0",
            "size 2, draw 1",
        ]
        assert "2 cells failed" in study_text(TOY, result)


def test_another_measurement_has_another_key():
    cell = {"size": 1, "draw": 0}
    other = replace(TOY, measure=lambda *, rng, size, draw: {"value": 0.0})
    key = study_key(TOY, cell, 0, {"numpy": "2.0"})
    assert key != study_key(other, cell, 0, {"numpy": "2.0"})
    assert key != study_key(TOY, cell, 1, {"numpy": "2.0"})
    assert key != study_key(TOY, cell, 0, {"numpy": "2.1"})
    assert key != study_key(TOY, {"size": 1, "draw": 1}, 0, {"numpy": "2.0"})
    assert key == study_key(replace(TOY, question="Another?"), cell, 0, {"numpy": "2.0"})


def test_what_is_written_is_read_back_and_shows_the_three_sentences(tmp_path):
    result = run_study(TOY, isolated=False)
    files = write_study(tmp_path, TOY, result)
    assert {path.suffix for path in files} == {".svg", ".pdf", ".json", ".csv", ".rst"}
    assert load_result(tmp_path / "toy.json") == result
    page = (tmp_path / "toy.rst").read_text()
    least = min(row["value"] for row in result.rows)
    for words in (TOY.expected, f"The least value is {least:.2f}.", TOY.limits, TOY.how):
        assert words in page
    assert (tmp_path / "toy.csv").read_text().splitlines()[0] == "size,draw,value,list"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "rows": [1]}'])
def test_what_is_no_record_is_refused_in_a_sentence(tmp_path, text):
    path = tmp_path / "toy.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="is no record of a study"):
        load_result(path)


def test_wrong_arguments_and_absent_packages_are_told():
    with pytest.raises(ValueError, match="jobs"):
        run_study(TOY, jobs=0)
    with pytest.raises(ImportError, match="needs no_such_package"):
        run_study(replace(TOY, needs=("no_such_package",)))
    with pytest.raises(ValueError, match="same cell twice"):
        run_study(replace(TOY, cells=lambda scale: [{"size": 1}, {"size": 1}]))
    with pytest.raises(ValueError, match="No cell"):
        write_study(Path("nowhere"), TOY, replace(run_study(TOY, isolated=False), rows=()))
    with pytest.raises(ValueError, match="2 cells where the header has 1"):
        Table(("one",), (("a", "b"),))


def test_numbers_are_kept_to_the_last_bit(tmp_path):
    result = run_study(TOY, isolated=False)
    write_study(tmp_path, TOY, result)
    kept = json.loads((tmp_path / "toy.json").read_text())["rows"]
    assert (
        np.array([row["value"] for row in kept]).tobytes()
        == np.array([row["value"] for row in result.rows]).tobytes()
    )


@pytest.mark.bad_input
def test_a_scale_that_is_none_is_refused_and_its_name_is_enough():
    assert run_study(TOY, scale="quick", isolated=False).rows == run_study(TOY, isolated=False).rows
    with pytest.raises(ValueError, match="scale is 'tiny': 'quick' or 'full' is needed"):
        run_study(TOY, scale="tiny", isolated=False)
    with pytest.raises(ValueError, match="scale is 'tiny'"):
        TOY.cells("tiny")


def test_a_name_that_cannot_name_files_is_refused():
    with pytest.raises(ValueError, match="lower-case words with hyphens"):
        replace(TOY, name="a b/c")


@pytest.mark.bad_input
def test_a_time_out_or_store_that_is_none_is_refused():
    with pytest.raises(ValueError, match="timeout"):
        run_study(TOY, timeout=float("nan"), isolated=False)
    with pytest.raises(ValueError, match="CurveStore"):
        run_study(TOY, store="/tmp/somewhere", isolated=False)
