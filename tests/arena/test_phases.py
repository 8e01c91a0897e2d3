"""The six phases told: the numbers of any other run, in words, as figures and as a page that needs nothing else."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
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
from arena.learned import UnusedSettingError
from arena.palette import CARD, FAINT, INK, heat_colours, learner_colours
from arena.phase_figures import FIGURES, draw_phases
from arena.phase_outputs import draw_outputs
from arena.phase_words import PHASES, digits, tell_phases
from arena.phases import LAYER_FILE
from arena.students import STUDENTS
from attention import Outcome
from upper import Newton
from upper.six_phase import SixPhase

PAPER = [
    *("phase-1-sum", "phase-2-agreement", "phase-3-sum", "phase-4-agreement", "phase-4-spectrum"),
    *("phase-5-span", "phase-6-net"),
]
PRACTICAL = [
    *("phase-1-sum", "phase-2-thresholds", "phase-3-sum", "phase-4-agreement", "phase-4-spectrum"),
    *("phase-5-span", "phase-6-residual"),
]


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
def single_head():
    return learn_phases(
        nice_target(heads=1, tokens=2, dim=12, seed=1), "six-phase-paper", preset="quick", work=500
    )


@pytest.fixture(scope="module")
def three_heads():
    return learn_phases(
        nice_target(heads=3, tokens=2, dim=16, seed=1), "six-phase-paper", preset="quick", work=2000
    )


@pytest.fixture(scope="module")
def every(paper, practical, failed, single_head, three_heads):
    rounding = learn_phases(
        lwr_target(secret_dim=5, modulus=8, levels=2, seed=1), "six-phase", preset="quick"
    )
    single = learn_phases(nice_target(heads=2, tokens=1, dim=8, seed=1), "six-phase")
    few = learn_phases(nice_target(heads=4, tokens=4, dim=12, seed=0), "six-phase-paper", preset="quick")
    assert few.fit.outcome is Outcome.NO_LARGE_MARGIN
    return [paper, practical, failed, rounding, single, single_head, three_heads, few]


def timeless(said):
    said = {name: value for name, value in said.items() if name != "seconds"}
    if "trace" in said:
        said["trace"] = [timeless(step) for step in said["trace"]]
    return said


@pytest.mark.slow
def test_the_numbers_are_those_of_learn_and_compare(nice, paper, practical):
    again = learn(nice, "six-phase", seed=0, preset="quick")
    assert timeless(practical.learned.to_json()) == timeless(again.to_json())
    (cell,) = compare([nice], "six-phase-paper", seeds=1, isolated=False, jobs=1).cells
    assert (cell.unknown_part_error, cell.examples_used) == (paper.error, paper.fit.examples_used)


def test_a_nice_layer_is_learned_in_all_phases(paper, practical):
    assert [story.state for story in paper.stories] == ["done"] * 6
    assert [story.state for story in practical.stories] == ["done", "not run", *["done"] * 4]
    assert paper.error < 0.01
    assert practical.error < 1e-12
    assert [story.title for story in paper.stories] == list(PHASES)
    assert paper.phases.failed is None
    assert list(paper.drawings) == PAPER
    assert list(practical.drawings) == PRACTICAL
    assert set(PAPER + PRACTICAL) < set(FIGURES)


def test_the_words_give_the_figures_of_the_trace(paper):
    steps = {step.phase: step.measures for step in paper.fit.trace}
    words = [" ".join((*story.found, *story.error)) for story in paper.stories]
    assert digits(steps[1]["sum_error"]) in words[0]
    assert f"{steps[1]['phase_examples']:,.0f} examples" in words[0]
    assert digits(steps[2]["threshold"]) in words[1]
    assert digits(steps[3]["sum_error"]) in words[2]
    assert steps[3]["sum_error"] < steps[1]["sum_error"]
    assert digits(steps[4]["gap"]) in words[3]
    assert digits(steps[5]["span_error"]) in words[4]
    assert digits(steps[6]["unknown_part_error"]) in words[5]


def test_the_examples_of_the_phases_add_up(every):
    for told in every:
        assert sum(story.examples for story in told.stories) == told.fit.examples_used


def test_a_failure_names_its_phase_and_shows_what_there_is(failed):
    assert [story.state for story in failed.stories] == ["done", "failed", *["not reached"] * 4]
    assert failed.fit.outcome is Outcome.CONTRADICTION
    assert "the best matrix explains" in failed.stories[1].ended
    assert list(failed.drawings) == ["phase-1-sum", "phase-2-agreement", "phase-2-spectrum"]
    page = failed.page()
    assert "Phase 2 failed:" in page
    assert "the best matrix explains" in page
    assert "Phase 2 failed" in str(failed)


@pytest.mark.parametrize("body", ["ellipsoid", pytest.param("polytope", marks=pytest.mark.slow)])
def test_equations_of_a_hidden_parity_contradict_one_another_for_both_bodies(body):
    told = learn_phases(parity_target(heads=2, dim=10), SixPhase(m=2, mode="paper", body=body), seed=1)
    assert told.fit.outcome is Outcome.CONTRADICTION
    assert told.phases.failed == 2


def test_projections_that_cancel_are_told_without_shares_of_nothing():
    told = learn_phases(lwr_target(secret_dim=12, modulus=16, levels=2), "six-phase-paper", preset="quick")
    assert told.fit.outcome is Outcome.NO_PROJECTION_SUM
    first = told.stories[0]
    assert "is zero: the projections cancel" in first.found[0]
    assert first.error == ("The true sum is zero: the projections of the heads cancel.",)


def test_where_phase_four_fails_the_words_say_so(paper, nice):
    trace = tuple(step for step in paper.fit.trace if step.phase in (1, 2, 3))
    run = replace(
        paper.phases,
        fit=replace(paper.fit, outcome=Outcome.NO_AGREEMENT, trace=trace),
        reason="no agreement events were found.",
        failed=4,
    )
    stories = tell_phases(run, nice.layer, "paper")
    assert [story.state for story in stories] == [*["done"] * 3, "failed", *["not reached"] * 2]
    assert "No agreement events were found" in stories[3].ended


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.tags, self.labels = [], [], [], []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.append(tag)
        self.ids += [known["id"]] if "id" in known else []
        self.links += [known[name] for name in ("href", "src") if name in known]
        self.labels += [known.get("aria-label", "")] if tag == "svg" else []


@pytest.mark.slow
def test_the_page_needs_nothing_else(every):
    for told in every:
        page = told.page()
        assert page.startswith("<!DOCTYPE html>")
        assert page.rstrip().endswith("</html>")
        seen = _Page()
        seen.feed(page)
        assert "script" not in seen.tags
        assert all(link.startswith(("#", "data:")) for link in seen.links)
        assert len(seen.ids) == len(set(seen.ids))
        assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)
        assert not re.search(r"url\((?!#|&quot;#)", page)
        assert seen.labels == [drawing.words for drawing in told.drawings.values()]
        assert all(len(label) > 40 for label in seen.labels)
        assert [page.index(f'id="phase-{number}"') for number in range(1, 7)] == sorted(
            page.index(f'id="phase-{number}"') for number in range(1, 7)
        )
        for story in told.stories:
            assert story.title in page


def test_the_page_and_the_figures_are_the_same_every_time(nice, paper):
    again = draw_phases(paper.phases, nice.layer, nice.inputs)
    assert {name: one.svg for name, one in again.items()} == {
        name: one.svg for name, one in paper.drawings.items()
    }
    assert paper.page() == paper.page()


def test_figures_use_the_colours_that_follow_the_theme(every):
    known = {INK, FAINT, CARD, *heat_colours(), *learner_colours(), "#000000"}
    for told in every:
        for name, drawing in told.drawings.items():
            ElementTree.fromstring(drawing.svg)
            assert set(re.findall(r"#[0-9a-f]{6}\b", drawing.svg)) <= known, name
            assert len(drawing.svg) < 300_000
            assert "nan" not in drawing.words


def test_the_surface_marks_the_chosen_pair(paper, nice):
    words = paper.drawings["phase-6-net"].words
    places = [float(place) for place in re.findall(r"-?\d+\.\d+(?= and| *,|\.$)", words)]
    chosen, true = sorted(places[-4:-2]), sorted(places[-2:])
    np.testing.assert_allclose(chosen, true, atol=0.05)
    span, unit = paper.phases.spans[-1], np.linalg.norm(paper.phases.spans[-1].centre)
    along = sorted(np.vdot(theta - span.centre, span.directions[0]) / unit for theta in nice.layer.theta)
    np.testing.assert_allclose(true, along, atol=0.01)


def test_without_a_surface_the_outputs_are_drawn(single_head, three_heads):
    without = [name for name in PAPER if name != "phase-6-net"] + ["phase-6-outputs"]
    for told in (single_head, three_heads):
        assert list(told.drawings) == without
        drawing, measures = told.drawings["phase-6-outputs"], told.stories[5].measures
        assert drawing.words.endswith(f"the relative error is {digits(measures['relative_error'])}.")
        assert f"off by {digits(measures['relative_error'])}" in drawing.svg
        assert "on the line the fitted layer is right" in told.page()
    assert "The hull of one head is a point" in single_head.page()
    assert "triples were tried" in three_heads.page()
    assert "one head: no direction is wide" in single_head.drawings["phase-4-spectrum"].svg
    assert three_heads.phases.failed == 6
    assert "is asked for" in three_heads.stories[5].ended
    assert "no tuple of the net reaches the tolerance" in three_heads.page()


def test_the_outputs_lie_on_the_line_where_the_layer_is_right(nice):
    opposite = replace(nice.layer, w=-nice.layer.w)
    right, wrong = (
        _marks(draw_outputs(layer, nice.layer, nice.inputs, error=0.0).svg)
        for layer in (nice.layer, opposite)
    )
    # an SVG counts downwards
    assert np.corrcoef(right)[0, 1] == pytest.approx(-1, abs=1e-6)
    assert np.corrcoef(wrong)[0, 1] == pytest.approx(1, abs=1e-6)


def _marks(svg):
    """Where the marks of a scatter are, from the left and from the top, the legend's left out."""
    places = re.findall(r'<use xlink:href="#[^"]*" x="([\d.]+)" y="([\d.]+)" style="fill: #0c4aa2', svg)
    assert len(places) == 501
    return np.array(places[:-1], dtype=float).T


def test_where_nothing_applies_no_phase_is_blamed(every):
    single = next(told for told in every if told.fit.outcome is Outcome.NOT_APPLICABLE)
    page = single.page()
    assert (
        '<p class="notice">The six phases do not apply: one token has no attention pattern to learn.</p>'
        in page
    )
    assert "this attack" not in page


@pytest.mark.slow
def test_a_body_without_a_spectrum_is_said_to_have_none():
    polytope = SixPhase(m=2, mode="paper", body="polytope", work=2000)
    told = learn_phases(nice_target(heads=2, tokens=2, dim=8, seed=1), polytope, preset="quick")
    assert "this kind of body has no spectrum" in told.stories[4].found[1]
    assert "phase-4-spectrum" not in told.drawings
    assert sorted(told.to_json()["phases"][3]["arrays"]) == ["bins", "histogram"]


def test_no_gap_is_told_as_none(failed):
    assert "has no gap after 1 wide direction" in failed.stories[1].found[1]
    assert "no gap after" in failed.drawings["phase-2-spectrum"].svg


def test_the_result_holds_what_every_phase_reports(paper, practical, single_head, three_heads):
    for told in (paper, practical, single_head, three_heads):
        result = json.loads(json.dumps(told.to_json()))
        assert result["failed"] == told.phases.failed
        phases = {phase["number"]: phase for phase in result["phases"]}
        assert sum(phase["examples"] for phase in phases.values()) == told.fit.examples_used
        hulls = told.phases.hulls
        for number, hull in zip((2, 4)[-len(hulls) :], hulls, strict=True):
            phase = phases[number]
            arrays, measures = phase["arrays"], phase["measures"]
            assert phase["acceptance"] == measures["acceptance"] == hull.accepted / hull.rows
            # examples that determine no pattern, as with repeated tokens, have no residual
            assert 0.99 * hull.rows < sum(arrays["histogram"]) <= hull.rows
            assert len(arrays["bins"]) == len(arrays["histogram"]) + 1
            below = np.searchsorted(arrays["bins"], measures["threshold"])
            assert sum(arrays["histogram"][:below]) >= hull.accepted
            np.testing.assert_array_equal(arrays["spectrum"], hull.body.spectrum)
            if (m := told.phases.heads) > 1:
                spectrum = arrays["spectrum"]
                np.testing.assert_allclose(measures["gap"], spectrum[m - 1] / spectrum[m - 2])
        assert phases[3]["measures"]["condition"] == told.phases.refinements[-1].measures["condition"] >= 1
        assert {name for phase in phases.values() if not phase["examples"] for name in phase["arrays"]} <= {
            "reach"
        }
    assert three_heads.to_json()["failed"] == 6
    assert paper.to_json()["failed"] is None


@pytest.mark.slow
def test_the_result_holds_the_arrays_of_the_other_phases(paper, practical, nice):
    of_paper, of_practical = (
        [phase["arrays"] for phase in told.to_json()["phases"]] for told in (paper, practical)
    )
    found = paper.phases
    assert paper.to_json()["phases"][2]["acceptance"] == found.refinements[0].measures["row_share"]
    assert of_paper[2] == {"margins": found.refinements[0].series["margins"].tolist()}
    assert of_paper[4] == {"reach": found.spans[-1].reach.tolist()}
    assert of_paper[5] == {"grid": found.net.grid.tolist()}
    assert sorted(of_practical[2]) == ["changes", "thresholds"]
    assert of_practical[1] == of_paper[0] == {}
    twice = learn_phases(nice, SixPhase(m=2, mode="paper", rounds=2, work=900))
    third, fourth = twice.to_json()["phases"][2:4]
    first, second = twice.phases.hulls[1:]
    assert [one["histogram"] for one in fourth["earlier_arrays"]] == [first.histogram.tolist()]
    assert fourth["arrays"]["histogram"] == second.histogram.tolist()
    assert len(third["earlier_arrays"]) == 1


def test_the_result_of_a_failure_names_its_phase(failed):
    result = failed.to_json()
    assert (result["failed"], result["outcome"]) == (2, "CONTRADICTION")
    hull = failed.phases.hulls[0]
    assert hull.accepted < sum(result["phases"][1]["arrays"]["histogram"]) <= hull.rows
    assert "the best matrix explains" in result["phases"][1]["ended"]
    assert [phase["arrays"] for phase in result["phases"][2:]] == [{}] * 4


def test_save_fills_a_folder(paper, practical, tmp_path):
    folder = tmp_path / "made" / "here"
    assert practical.save(folder) == folder
    assert paper.save(folder) == folder
    wanted = {"index.html", "result.json", LAYER_FILE, *(f"{name}.svg" for name in PAPER)}
    assert {path.name for path in folder.iterdir()} == wanted  # the earlier run's own figures are gone
    said = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert said == json.loads(json.dumps(paper.to_json()))
    assert [phase["state"] for phase in said["phases"]] == ["done"] * 6
    np.testing.assert_array_equal(load_target(folder / LAYER_FILE).layer.theta, paper.layer.theta)
    assert (folder / "phase-1-sum.svg").read_text(encoding="utf-8") == paper.drawings["phase-1-sum"].svg
    assert (folder / "index.html").read_text(encoding="utf-8") == paper.page()


def test_json_is_plain_whatever_happened(every):
    for told in every:
        json.dumps(told.to_json(), allow_nan=False)
        assert len(told.to_json()["phases"]) == 6


def test_a_title_that_is_markup_stays_text(paper):
    evil = "<script>document.title='taken'</script>"
    record = replace(paper.target.record, title=evil)
    page = replace(paper, target=replace(paper.target, record=record)).page()
    assert evil not in page
    assert "&lt;script&gt;" in page


def test_words_fit_the_width(every):
    for told in every:
        assert max(map(len, told.words(60).splitlines())) <= 100
        assert str(told) == told.words(100)
        for number, title in enumerate(PHASES, 1):
            assert f"Phase {number}: {title}" in str(told)
        assert repr(told).startswith("<LearnedPhases: Six-phase")


@pytest.mark.slow
def test_a_learner_that_is_set_up_and_settings(nice):
    told = learn_phases(nice, SixPhase(m=2, mode="paper", rounds=2, work=2000), heads=2, work=900)
    assert told.learned.learner.parameters["work"] == 900
    assert told.learned.learner.parameters["rounds"] == 2
    assert [story.state for story in told.stories][:5] == ["done"] * 5
    assert "Round 2: " in told.stories[3].error[1]
    assert "round 2" in told.drawings["phase-5-span"].words
    steps = []
    few = learn_phases(nice, STUDENTS["six-phase"], examples=1000, progress=steps.append)
    assert few.fit.examples_used <= 1000
    assert tuple(steps) == few.fit.trace


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "newton"}, "^Newton has no six phases: choose six-phase or six-phase-paper"),
        ({"learner": Newton(m=2)}, "^Newton has no six phases"),
        ({"learner": "nobody"}, "'nobody' is no learner"),
        ({"learner": "six-phase,newton"}, "2 learners are named"),
        ({"preset": "slow"}, "'quick' or 'full'"),
        ({"examples": 3}, "at least"),
        ({"heads": 0}, "m is 0: a whole number of at least 1"),
    ],
)
def test_what_cannot_be_told_is_a_sentence(nice, options, message):
    with pytest.raises(ValueError, match=message):
        learn_phases(nice, **options)


def test_unused_settings_have_their_kind(nice):
    with pytest.raises(UnusedSettingError):
        learn_phases(nice, "linear", heads=2)
