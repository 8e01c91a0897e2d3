"""The figures: well-formed, the same every time, one colour for a learner, honest about what cannot be drawn."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from arena.views.figures import heat_map, learning_curves
from arena.learner_table import learner_looks
from arena.records import TracePoint
from runs.figures import heat_colours, heat_level

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</text><script>alert(1)</script> $x^2$ --> 你好"


def texts(drawing):
    """Every piece of text in a figure, in order; fails when the figure is not well-formed XML."""
    return [node.text for node in ElementTree.fromstring(drawing.svg).iter(f"{SVG}text")]


def fills(drawing):
    return re.findall(r"fill: (#[0-9a-f]{6})", drawing.svg)


def edited(results, **fields):
    """The comparison with the cells of Newton on the first target edited."""
    key = ("nice-2-2-32", "newton")
    cells = [
        replace(cell, **fields) if (cell.target, cell.learner) == key else cell for cell in results.cells
    ]
    return replace(results, cells=tuple(cells))


def curves(drawing, learner):
    """The paths of every curve of a learner."""
    groups = ElementTree.fromstring(drawing.svg).iter(f"{SVG}g")
    groups = [one for one in groups if one.get("id", "").startswith(f"curve-{learner}-")]
    return [one.find(f"{SVG}path") for one in groups]


@pytest.fixture(scope="module")
def drawn(sample_results):
    """The curves of a nice and of a hard target."""
    return {
        (target, against): learning_curves(sample_results, target, against)
        for target in ("nice-2-2-32", "parity")
        for against in ("examples", "seconds")
    }


def test_the_heat_map_names_and_numbers_every_pair(sample_results):
    shown = texts(heat_map(sample_results))
    for word in ("Newton", "Adam", "elimination", "Two-head parity", "5e-15", "1.16"):
        assert word in shown
    assert shown.count("learned") == 7
    assert "1.0e+30 queries at tau 0.1" in shown
    assert "broken by BKW in 2^20" in shown
    assert shown.index("Two-head parity") > shown.index("Nice, 4 heads")


def test_the_heat_map_tells_learned_partly_nothing_and_worse_apart(sample_results):
    def colour(error):
        return fills(heat_map(edited(sample_results, unknown_part_error=error)))[1]

    found = [colour(error) for error in (0.0, 1e-10, 1e-4, 0.5, 1.0, 3.0)]
    assert len(set(found)) == 6
    assert found == [heat_colours()[heat_level(error)] for error in (0.0, 1e-10, 1e-4, 0.5, 1.0, 3.0)]
    assert colour(None) == found[-1]  # not finite is worse than nothing


def test_figures_are_the_same_every_time_and_undated(sample_results, drawn):
    again = learning_curves(sample_results, "parity", "examples")
    for one, other in (
        (heat_map(sample_results), heat_map(sample_results)),
        (drawn["parity", "examples"], again),
    ):
        assert one.svg == other.svg
        assert not re.search(r"\b20\d\d-\d\d-\d\d|dc:date", one.svg)


def test_there_is_a_panel_for_every_learner_that_ran_and_no_other(sample_results, drawn):
    titles = [learner.title for learner in sample_results.learners]
    for (target, _), drawing in drawn.items():
        assert [text for text in texts(drawing) if text in titles] == titles[: 5 if target == "parity" else 4]


def test_a_learner_has_the_same_colour_in_every_figure(sample_results, drawn):
    alone = learning_curves(sample_results.only(learners="adam"), "parity", "examples")
    colour = f"stroke: {learner_looks(['adam'])['adam']['color']};"
    for drawing in (*drawn.values(), alone):
        assert all(colour in path.get("style") for path in curves(drawing, "adam"))


def test_every_step_is_a_point_of_its_curve(sample_results):
    """A reader of the page points at them: none may be simplified away, as those of long straight lines are."""
    trace = tuple(TracePoint("step", number, float(number), 0.9) for number in range(1, 201))
    drawing = learning_curves(edited(sample_results, trace=trace), "nice-2-2-32", "seconds")
    paths = curves(drawing, "newton")
    assert [len(re.findall(r"[ML] ", path.get("d"))) for path in paths] == [201, 201]  # and the end


def test_points_without_a_number_are_left_out(sample_results):
    bare = (TracePoint("a", 10, None, None), TracePoint("b", 20, 0.1, None))
    results = edited(sample_results, trace=bare, unknown_part_error=None)
    for against in ("examples", "seconds"):
        assert "Newton" not in texts(learning_curves(results, "nice-2-2-32", against))


def test_names_are_text(sample_results):
    first, *others = sample_results.learners
    for target in sample_results.targets[:1]:
        results = replace(
            sample_results,
            targets=(replace(target, title=EVIL), *sample_results.targets[1:]),
            learners=(replace(first, title=EVIL), *others),
        )
    for drawing in (heat_map(results), learning_curves(results, "parity", "examples")):
        tags = {node.tag for node in ElementTree.fromstring(drawing.svg).iter()}
        assert f"{SVG}script" not in tags
        assert any("</text" in (text or "") for text in texts(drawing))
    dollars = replace(sample_results, learners=(replace(first, title="$x^2$"), *others))
    assert "$x^2$" in texts(heat_map(dollars))  # no formula
    assert "$x^2$" in texts(learning_curves(dollars, "parity", "examples"))


def test_a_drawing_is_saved_as_the_svg_or_the_pdf_it_is(sample_results, tmp_path):
    drawing = heat_map(sample_results)
    assert drawing.save(tmp_path / "errors.pdf").read_bytes().startswith(b"%PDF")
    path = drawing.save(tmp_path / "errors.svg")
    assert path.read_bytes().decode() == drawing.svg == drawing._repr_svg_()
    for wrong in ("errors.png", "errors", "svg"):
        with pytest.raises(ValueError, match=r"neither \.svg nor \.pdf"):
            drawing.save(tmp_path / wrong)
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["errors.pdf", "errors.svg"]
