"""The six phases: the numbers of any other run, as records, a table, figures and a page that needs nothing else."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from arena import (
    compare,
    learn,
    learn_phases,
    load_target,
    lwr_target,
    nice_target,
    parity_target,
)
from arena.formats import number_text
from arena.phase_record import phase_records
from arena.phases import LAYER_FILE
from attention import Outcome
from upper import Newton

PAPER = ["phase-1-sum", "phase-2-agreement", "phase-3-sum", "phase-4-agreement", "phase-4-spectrum"]
PAPER += ["phase-5-span", "phase-6-net"]
PRACTICAL = ["phase-1-sum", "phase-3-sum", "phase-4-agreement", "phase-4-spectrum", "phase-5-span"]
PRACTICAL += ["phase-6-residual"]


@pytest.fixture(scope="module")
def nice():
    return nice_target(heads=2, tokens=2, dim=16, seed=0)


@pytest.fixture(scope="module")
def paper(nice):
    return learn_phases(nice, "six-phase-paper", seed=0, preset="quick")


@pytest.fixture(scope="module")
def practical(nice):
    return learn_phases(nice, "six-phase", seed=0, preset="quick")


@pytest.fixture(scope="module")
def failed():
    return learn_phases(parity_target(heads=2, dim=16, seed=1), "six-phase-paper", preset="quick")


@pytest.fixture(scope="module")
def every(paper, practical, failed):
    """Runs that ended in all ways, with one and two heads."""
    return [
        paper,
        practical,
        failed,
        learn_phases(
            lwr_target(secret_dim=5, modulus=8, levels=2, seed=1), "six-phase", preset="quick", work=300
        ),
        learn_phases(nice_target(heads=2, tokens=1, dim=8, seed=1), "six-phase"),
        learn_phases(
            nice_target(heads=1, tokens=2, dim=8, seed=1), "six-phase-paper", preset="quick", work=300
        ),
    ]


def timeless(data):
    data = {name: value for name, value in data.items() if name != "seconds"}
    return data | {"trace": [timeless(step) for step in data["trace"]]} if "trace" in data else data


@pytest.mark.slow
def test_the_numbers_are_those_of_learn_and_compare(nice, paper, practical):
    again = learn(nice, "six-phase", seed=0, preset="quick")
    assert timeless(practical.learned.to_json()) == timeless(again.to_json())
    (cell,) = compare([nice], "six-phase-paper", seeds=1, isolated=False, jobs=1).cells
    assert (cell.unknown_part_error, cell.examples_used) == (paper.error, paper.fit.examples_used)


def test_a_nice_layer_is_learned_in_all_phases(paper, practical):
    assert [one.state for one in paper.records] == ["done"] * 6
    assert [one.state for one in practical.records] == ["done", "not run", *["done"] * 4]
    assert paper.error < 0.01
    assert practical.error < 1e-12
    assert list(paper.drawings) == PAPER
    assert list(practical.drawings) == PRACTICAL


def test_the_records_hold_the_measures_of_the_trace(paper):
    for record in paper.records:
        (step,) = [step for step in paper.fit.trace if step.phase == record.number]
        assert record.measures == step.measures
        assert set(record.found.values()) | set(record.errors.values()) <= set(step.measures.values())
    assert paper.records[2].errors["error of the sum"] < paper.records[0].errors["error of the sum"]


def test_the_examples_of_the_phases_add_up(every):
    for told in every:
        assert sum(one.examples for one in told.records) == told.fit.examples_used


def test_a_failure_names_its_phase_and_shows_what_there_is(failed):
    assert [one.state for one in failed.records] == ["done", "failed", *["not reached"] * 4]
    assert failed.fit.outcome is Outcome.CONTRADICTION
    assert [bool(one.reason) for one in failed.records] == [False, True, *[False] * 4]
    assert list(failed.drawings) == ["phase-1-sum", "phase-2-agreement", "phase-2-spectrum"]
    assert failed.to_json()["failed"] == 2
    for text in (failed.page(), str(failed)):
        assert failed.phases.explanation in text


def test_a_phase_that_fails_before_its_step_drew_the_rest_of_the_examples(paper):
    trace = tuple(step for step in paper.fit.trace if step.phase in (1, 2, 3))
    fit = replace(paper.fit, outcome=Outcome.NO_AGREEMENT, trace=trace)
    run = replace(paper.phases, fit=fit, reason="no agreement events were found.", failed=4)
    records = phase_records(run, "paper")
    assert [one.state for one in records] == [*["done"] * 3, "failed", *["not reached"] * 2]
    assert sum(one.examples for one in records) == fit.examples_used


def test_the_arrays_are_what_the_phases_found(paper, practical):
    for told in (paper, practical):
        hulls = told.phases.hulls
        for number, hull in zip((2, 4)[-len(hulls) :], hulls, strict=True):
            arrays = told.records[number - 1].arrays
            assert arrays["spectrum"] == hull.body.spectrum.tolist()
            assert len(arrays["bins"]) == len(arrays["histogram"]) + 1
            below = np.searchsorted(arrays["bins"], hull.threshold)
            # examples that determine no pattern, as with repeated tokens, have no residual
            assert hull.accepted <= sum(arrays["histogram"][:below]) <= sum(arrays["histogram"]) <= hull.rows
        assert told.records[4].arrays == {"reach": told.phases.span.reach.tolist()}
    assert list(paper.records[2].arrays) == ["margins"]
    assert sorted(practical.records[2].arrays) == ["changes", "thresholds"]
    assert paper.records[5].arrays == {"grid": paper.phases.net.grid.tolist()}


def test_the_page_needs_nothing_else_and_there_is_json_and_a_table_whatever_happened(every, parsed):
    for told in every:
        page = told.page()
        seen = parsed(page)
        assert page.startswith("<!DOCTYPE html>")
        assert (seen.errors, seen.all("script")) == ([], [])
        assert all(link.startswith(("#", "data:")) for link in seen.links)
        assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)
        assert len(seen.all("svg")) == len(told.drawings)
        assert [name for name in seen.ids if name in {f"phase-{n}" for n in range(1, 7)}] == [
            f"phase-{n}" for n in range(1, 7)
        ]
        for record in told.records:
            for label, value in (record.found | record.errors).items():
                assert label.replace("'", "&#39;") in page
                assert f">{number_text(value)}<" in page
        json.dumps(told.to_json(), allow_nan=False)
        assert len(re.findall(r"^[1-6]\. ", str(told), re.MULTILINE)) == 6
        for drawing in told.drawings.values():
            ElementTree.fromstring(drawing.svg)
    evil = replace(told.target.record, title="<script>document.title='taken'</script>")
    page = replace(told, target=replace(told.target, record=evil)).page()
    assert evil.title not in page
    assert "&lt;script&gt;" in page


def test_save_fills_a_folder(paper, practical, tmp_path):
    folder = tmp_path / "made" / "here"
    assert practical.save(folder) == folder
    assert paper.save(folder) == folder
    wanted = {"index.html", "result.json", LAYER_FILE, *(f"{name}.svg" for name in PAPER)}
    assert {path.name for path in folder.iterdir()} == wanted  # the earlier run's own figures are gone
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(paper.to_json()))
    np.testing.assert_array_equal(load_target(folder / LAYER_FILE).layer.theta, paper.layer.theta)
    assert (folder / "index.html").read_text(encoding="utf-8") == paper.page()


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": Newton(m=2)}, "has no six phases"),
        ({"learner": "six-phase,newton"}, "2 learners are named"),
    ],
)
def test_what_cannot_be_run_is_a_sentence(nice, options, message):
    with pytest.raises(ValueError, match=message):
        learn_phases(nice, **options)
