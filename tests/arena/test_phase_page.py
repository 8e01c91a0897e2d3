"""What the six phases found: as JSON, a table, figures and a page that needs nothing else."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from arena import learn, load_target, lwr_target, nice_target, parity_target
from arena.formats import number_text
from arena.views.phases import LAYER_FILE, draw_phases, phase_rows, phase_table, save_phases
from attention import Outcome


@pytest.fixture(scope="module")
def nice():
    return nice_target(heads=2, tokens=2, dim=16, seed=0)


@pytest.fixture(scope="module")
def paper(nice):
    return learn(nice, "six-phase-paper", seed=0, preset="quick")


@pytest.fixture(scope="module")
def practical(nice):
    return learn(nice, "six-phase", seed=0, preset="quick")


@pytest.fixture(scope="module")
def failed():
    target = parity_target(heads=2, dim=16, seed=1)
    return target, learn(target, "six-phase-paper", preset="quick")


@pytest.fixture(scope="module")
def every(nice, paper, practical, failed):
    """Runs that ended in all ways, with one and two heads, each with its target."""
    targets = [
        (lwr_target(n=5, q=8, p=2, seed=1), "six-phase", {"work": 300}),
        (nice_target(heads=2, tokens=1, dim=8, seed=1), "six-phase", {}),
        (nice_target(heads=1, tokens=2, dim=8, seed=1), "six-phase-paper", {"work": 300}),
    ]
    runs = [(target, learn(target, name, preset="quick", **settings)) for target, name, settings in targets]
    return [(nice, paper), (nice, practical), failed, *runs]


def states(fit):
    return [row.state for row in phase_rows(fit)]


def test_a_nice_layer_is_learned_in_all_phases(nice, paper, practical):
    assert states(paper.fit) == ["done"] * 6
    assert states(practical.fit) == ["done", "not run", *["done"] * 4]
    for learned in (paper, practical):
        assert set(draw_phases(learned.fit, nice.layer)) == {"sum", "search"}


def test_a_failure_names_its_phase_and_shows_what_there_is(failed, tmp_path):
    target, learned = failed
    assert states(learned.fit) == ["done", "failed", *["not reached"] * 4]
    assert learned.fit.outcome is Outcome.CONTRADICTION
    assert set(draw_phases(learned.fit, target.layer)) == {"sum"}
    assert learned.to_json()["details"]["failed"] == 2
    page = (save_phases(learned, tmp_path) / "index.html").read_text(encoding="utf-8")
    for text in (page, str(learned)):
        assert learned.fit.details.explanation in text


def test_a_phase_that_fails_before_its_step_drew_the_rest_of_the_examples(paper):
    trace = tuple(step for step in paper.fit.trace if step.phase in (1, 2, 3))
    details = replace(paper.fit.details, failed=4)
    fit = replace(paper.fit, outcome=Outcome.NO_AGREEMENT, trace=trace, details=details)
    assert states(fit) == [*["done"] * 3, "failed", *["not reached"] * 2]
    assert sum(row.examples for row in phase_rows(fit)) == fit.examples_used


def test_the_details_are_written_with_their_arrays(paper, practical):
    for learned in (paper, practical):
        phases, written = learned.fit.details, learned.to_json()["details"]
        data = written["hull"]
        assert data["spectrum"] == phases.hull.body.spectrum.tolist()
        assert len(data["bins"]) == len(data["histogram"]) + 1
        below = np.searchsorted(data["bins"], phases.hull.threshold)
        # examples that determine no pattern, as with repeated tokens, have no residual
        seen = [sum(data["histogram"][:below]), sum(data["histogram"])]
        assert phases.hull.accepted <= seen[0] <= seen[1] <= phases.hull.rows
        assert written["span"]["reach"] == phases.span.reach
    assert practical.to_json()["details"]["crude_hull"] is None


def test_the_page_needs_nothing_else_and_has_what_the_phases_measured(every, parsed, tmp_path):
    for place, (target, learned) in enumerate(every):
        target = replace(target, title="<script>document.title='taken'</script>")
        hostile = replace(learned, target=target)
        text = (save_phases(hostile, tmp_path / str(place)) / "index.html").read_text("utf-8")
        page, drawings = parsed(text), draw_phases(learned.fit, target.layer)
        assert text.startswith("<!DOCTYPE html>")
        assert (page.errors, page.all("script")) == ([], [])
        assert all(link.startswith(("#", "data:")) for link in page.links)
        assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
        assert len(page.all("svg")) == len(drawings)
        rows = phase_rows(learned.fit)
        assert sum(row.examples for row in rows) == learned.fit.examples_used
        for row in rows:
            assert f"phase-{row.number}" in page.ids
            for name, value in {**row.measured, **row.errors}.items():
                assert name.replace("_", " ") in text
                assert f">{number_text(value)}<" in text
        assert len(phase_table(learned.fit).splitlines()) == 7
        for drawing in drawings.values():
            ElementTree.fromstring(drawing.svg)


def test_save_fills_a_folder(nice, paper, practical, tmp_path):
    folder = tmp_path / "made" / "here"
    folder.mkdir(parents=True)
    (folder / "phase-1-sum.svg").touch()  # of an earlier version
    assert save_phases(practical, folder) == save_phases(paper, folder) == folder
    wanted = {"index.html", "result.json", LAYER_FILE, "phases-sum.svg", "phases-search.svg"}
    assert {path.name for path in folder.iterdir()} == wanted  # the earlier run's own figures are gone
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(paper.to_json()))
    np.testing.assert_array_equal(load_target(folder / LAYER_FILE).layer.theta, paper.layer.theta)


@pytest.mark.slow
def test_learn_fills_a_folder(cli, tmp_path):
    nice, out = tmp_path / "nice.safetensors", tmp_path / "phases"
    cli("generate", "nice", "--heads", 2, "--tokens", 2, "--dim", 12, "--seed", 1, "-o", nice)
    command = ["learn", nice, "--learner", "six-phase-paper", "--preset", "quick", "--out", out]
    text = cli(*command, "--json").out
    assert (out / "result.json").read_text(encoding="utf-8") == text
    result = json.loads(text)
    assert (result["file"], result["fitted"]) == (str(nice), str(out / LAYER_FILE))
    assert {path.stem for path in out.glob("*.svg")} == {"phases-sum", "phases-search"}
    text = cli(*command).out
    assert str(out / "index.html") in text
    assert "6. Search the span for the heads" in text
