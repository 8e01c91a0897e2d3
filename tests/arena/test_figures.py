"""The figures: well-formed, the same every time, one colour for a learner, honest about what cannot be drawn."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from arena.learner_table import learner_looks
from arena.records import TracePoint
from arena.views.figures import heat_map, learning_curves
from runs.figures import heat_colours, heat_level

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</text><script>alert(1)</script> $x^2$ --> 你好"


def texts(drawing):
    """Every piece of text in a figure, in order; fails when the figure is not well-formed XML."""
    return [node.text for node in ElementTree.fromstring(drawing.svg).iter(f"{SVG}text")]


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
    return [
        group.find(f"{SVG}path") for group in groups if group.get("id", "").startswith(f"curve-{learner}-")
    ]


def test_the_heat_map_names_and_numbers_every_pair(sample_results):
    shown = texts(heat_map(sample_results))
    for word in (
        "Newton",
        "elimination",
        "5e-15",
        "1.16",
        "1.0e+30 queries at tau 0.1",
        "broken by BKW in 2^20",
    ):
        assert word in shown
    assert shown.count("learned") == 7
    assert shown.index("Two-head parity") > shown.index("Nice, 4 heads")


def test_the_heat_map_tells_learned_partly_nothing_and_worse_apart(sample_results):
    errors = (0.0, 1e-10, 1e-4, 0.5, 1.0, 3.0, None)  # what is not finite is worse than nothing
    drawings = [heat_map(edited(sample_results, unknown_part_error=error)) for error in errors]
    shown = [re.findall(r"fill: (#[0-9a-f]{6})", drawing.svg)[1] for drawing in drawings]
    levels = [heat_level(float("inf") if error is None else error) for error in errors]
    assert shown == [heat_colours()[level] for level in levels]
    assert len(set(shown)) == 6


def test_figures_are_the_same_every_time_and_undated(sample_results):
    for draw in (heat_map, lambda results: learning_curves(results, "parity", "examples")):
        drawing = draw(sample_results)
        assert drawing.svg == draw(sample_results).svg
        assert not re.search(r"\b20\d\d-\d\d-\d\d|dc:date", drawing.svg)


@pytest.mark.parametrize(("target", "ran"), [("nice-2-2-32", 4), ("parity", 5)])
@pytest.mark.parametrize("against", ["examples", "seconds"])
def test_there_is_a_panel_for_every_learner_that_ran_and_no_other(sample_results, target, ran, against):
    drawing = learning_curves(sample_results, target, against)
    titles = [learner.title for learner in sample_results.learners]
    assert [text for text in texts(drawing) if text in titles] == titles[:ran]
    colour = f"stroke: {learner_looks(['newton', 'adam'])['adam']['color']};"  # the same in every figure
    assert all(colour in path.get("style") for path in curves(drawing, "adam"))


def test_every_step_is_a_point_of_its_curve(sample_results):
    """A reader of the page points at them: none may be simplified away, as those of long straight lines are."""
    trace = tuple(TracePoint("step", number, float(number), 0.9) for number in range(1, 201))
    drawing = learning_curves(edited(sample_results, trace=trace), "nice-2-2-32", "seconds")
    lengths = [len(re.findall(r"[ML] ", path.get("d"))) for path in curves(drawing, "newton")]
    assert lengths == [201, 201]  # and the end


def test_points_without_a_number_are_left_out(sample_results):
    bare = (TracePoint("a", 10, None, None), TracePoint("b", 20, 0.1, None))
    results = edited(sample_results, trace=bare, unknown_part_error=None)
    for against in ("examples", "seconds"):
        assert "Newton" not in texts(learning_curves(results, "nice-2-2-32", against))


@pytest.mark.parametrize("name", [EVIL, "$x^2$"])
def test_names_are_text(sample_results, name):
    first, *others = sample_results.learners
    results = replace(sample_results, learners=(replace(first, title=name), *others))
    for drawing in (heat_map(results), learning_curves(results, "parity", "examples")):
        assert f"{SVG}script" not in {node.tag for node in ElementTree.fromstring(drawing.svg).iter()}
        assert any(name[:5] in (text or "") for text in texts(drawing))  # no formula


def test_a_drawing_is_saved_as_the_svg_or_the_pdf_it_is(sample_results, tmp_path):
    drawing = heat_map(sample_results)
    assert drawing.save(tmp_path / "errors.pdf").read_bytes().startswith(b"%PDF")
    assert drawing.save(tmp_path / "errors.svg").read_bytes().decode() == drawing.svg == drawing._repr_svg_()
    for wrong in ("errors.png", "errors", "svg"):
        with pytest.raises(ValueError, match=r"neither \.svg nor \.pdf"):
            drawing.save(tmp_path / wrong)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["errors.pdf", "errors.svg"]
