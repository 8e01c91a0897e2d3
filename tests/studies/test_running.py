"""Studies: cells measured once, kept as they are done, the same numbers wherever they are measured."""

import os
import sys
import time
from dataclasses import replace

import cloudpickle
import pytest

from runs import Scale, Store
from studies import Study, run_study
from studies.line_figure import Panel, line_figure
from studies.rows import table

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _cells(scale):
    return [
        {"size": size, "draw": draw} for size in (1, 2) for draw in range(2 if scale is Scale.QUICK else 3)
    ]


def _measure(*, rng, size, draw):
    return {"value": size + rng.random()}


TOY = Study(
    name="toy",
    title="A toy",
    question="Is a size more than nothing?",
    cells=_cells,
    measure=_measure,
    numbers=lambda rows: {"least": f"{min(row['value'] for row in rows):.2f}"},
    tables=lambda rows: {"sizes": table(rows, {"size": "size"}, {"value": "value"})},
    figure=lambda rows: line_figure([Panel("size", "value", {"": [(1, 1), (2, 2)]})]),
)


def test_every_cell_has_a_stream_of_its_own_that_the_seed_changes_and_processes_do_not():
    here = run_study(TOY, isolated=False).rows
    assert run_study(TOY, jobs=2).rows == here
    assert len({row["value"] % 1 for row in here}) == 4
    assert run_study(TOY, isolated=False, seed=1).rows != here


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
    store = Store(tmp_path / "s.sqlite")
    first = run_study(study, store=store, isolated=False)
    assert run_study(study, store=store, isolated=False).rows == first.rows
    assert len(log.read_text()) == 4
    run_study(study, store=store, isolated=False, scale=Scale.FULL)
    assert len(log.read_text()) == 6
    run_study(study, store=store, isolated=False, fresh=True)
    assert len(log.read_text()) == 10


def test_a_cell_that_fails_is_told_and_the_others_are_there(tmp_path):
    def measure(*, rng, size, draw):
        if size == 2 and draw == 1:
            os._exit(3)
        return {"value": float("nan") if size == 2 else 1.0}

    result = run_study(replace(TOY, measure=measure), store=Store(tmp_path / "s.sqlite"))
    assert [row["size"] for row in result.rows] == [1, 1]
    assert [failure.partition(":")[0] for failure in result.failures] == ["size 2, draw 0", "size 2, draw 1"]


def test_cells_that_follow_from_rows_are_measured_until_there_is_no_new_one(tmp_path):
    def following(rows):
        return [{"size": row["size"] + 1, "draw": 0} for row in rows if row["value"] < 4]

    study = replace(TOY, cells=lambda scale: [{"size": 0, "draw": 0}], following=following, stream=())
    store = Store(tmp_path / "s.sqlite")
    rows = run_study(study, isolated=False, store=store).rows
    assert [row["size"] for row in rows] == list(range(5 - (rows[-1]["value"] % 1 == 0)))
    assert run_study(study, isolated=False, store=store).rows == rows


def test_a_cell_that_takes_too_long_fails_or_has_the_measurements_that_its_study_says():
    def measure(*, rng, size, draw, pause):
        time.sleep(pause)

    study = replace(
        TOY, measure=measure, objects={"pause": 600}, seconds=0.1, cells=lambda scale: _cells(scale)[:1]
    )
    (failure,) = run_study(study).failures
    assert failure == "size 1, draw 0: It took more than 0.1 seconds."
    (row,) = run_study(replace(study, timed_out={"value": None})).rows
    assert row == {"size": 1, "draw": 0, "value": None}


def test_a_cell_has_one_or_several_rows_of_scalars():
    several = replace(TOY, measure=lambda *, rng, size, draw: [{"value": size}, {"value": None}])
    rows = run_study(several, isolated=False).rows
    assert [(row["size"], row["draw"], row["value"]) for row in rows[:3]] == [
        (1, 0, 1),
        (1, 0, None),
        (1, 1, 1),
    ]
    result = run_study(replace(TOY, measure=lambda *, rng, size, draw: {"value": [size]}), isolated=False)
    assert not result.rows
    assert "measured value as list" in result.failures[0]


def test_absent_packages_and_equal_cells_are_told():
    with pytest.raises(ImportError, match="needs no_such_package"):
        run_study(replace(TOY, needs=("no_such_package",)))
    with pytest.raises(ValueError, match="same cell twice"):
        run_study(replace(TOY, cells=lambda scale: [{"size": 1}, {"size": 1}]))
