"""The figures: well-formed, the same every time, honest about what cannot be drawn, readable in both themes."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from arena.figures import LEAST_ERROR, heat_map, learning_curve
from arena.palette import (
    CARD,
    FAINT,
    INK,
    ON_STRONG,
    ON_WEAK,
    heat_colours,
    heat_level,
    learner_colours,
    learner_look,
)
from arena.results import Cell, Results, TracePoint

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    """Every piece of text in a figure, in order; fails when the figure is not well-formed XML."""
    return [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def fills(svg):
    return re.findall(r"fill: (#[0-9a-f]{6})", svg)


def only(results, **edits):
    """The comparison with the cells of Newton on the first target edited."""
    return replace(
        results,
        cells=tuple(
            replace(cell, **edits) if (cell.target, cell.learner) == ("nice-2-2-32", "newton") else cell
            for cell in results.cells
        ),
    )


def luminance(colour):
    """Relative luminance as the Web Content Accessibility Guidelines 2.2 define it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_heat_map_names_and_numbers_every_pair(sample_results):
    shown = texts(heat_map(sample_results))
    for word in ("Newton", "Adam", "elimination", "Two-head parity", "5e-15", "1.16"):
        assert word in shown
    assert shown.count("learned") == 7
    assert shown.count("HARD (proved for SQ)") == shown.count("EASY?") == 1
    assert shown.index("Two-head parity") > shown.index("Nice, 4 heads")


def test_figures_are_the_same_every_time_and_undated(sample_results):
    for draw in (heat_map, lambda results: learning_curve(results, "parity", "examples")):
        first = draw(sample_results)
        assert draw(sample_results) == first
        assert not re.search(r"\b20\d\d-\d\d-\d\d|dc:date", first)


def test_figures_leave_no_trace_in_matplotlib(sample_results):
    import matplotlib
    from matplotlib._pylab_helpers import Gcf

    before = dict(matplotlib.rcParams)
    heat_map(sample_results)
    assert dict(matplotlib.rcParams) == before
    assert not Gcf.figs  # pyplot's global list


def test_stronger_colour_means_smaller_error(sample_results):
    def colour(error):
        return fills(heat_map(only(sample_results, unknown_part_error=error)))[1]

    shades = [luminance(colour(error)) for error in (1.0, 1e-2, 1e-4, 1e-8, 1e-12, 1e-16)]
    assert shades == sorted(shades, reverse=True)
    assert colour(0.0) == colour(1e-16) == heat_colours()[-1]
    assert colour(None) == colour(1.0) == heat_colours()[0]
    assert len(set(heat_colours())) == len(heat_colours()) == heat_level(0.0) + 1


def test_what_has_no_number_is_hatched_each_in_its_way(sample_results):
    assert heat_map(sample_results).count("<pattern") == 1
    failed = only(sample_results, status="failed", outcome="", unknown_part_error=None)
    svg = heat_map(failed)
    assert svg.count("<pattern") == 2
    assert "failed" in texts(svg)
    missing = replace(failed, cells=tuple(cell for cell in failed.cells if cell.learner != "linear"))
    assert texts(heat_map(missing)).count("not run") == 5


def test_no_colour_of_a_figure_is_two_things():
    names = [
        INK,
        FAINT,
        CARD,
        ON_WEAK,
        ON_STRONG,
        *heat_colours(),
        *learner_colours(),
    ]
    assert len(set(names)) == len(names)


def test_learners_differ_in_more_than_colour_for_long():
    looks = [tuple(map(str, learner_look(place).values())) for place in range(252)]
    assert len(set(looks)) == 252
    for first, second in pairwise(looks):
        assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_time_out_has_a_hatch_and_a_word_of_its_own(eventful_results):
    svg = heat_map(eventful_results)
    assert svg.count("<pattern") == 3  # and the pairs that were not run have none
    shown = " ".join(texts(svg))
    for words in ("timed out", "failed", "does not apply", "not run"):
        assert words in shown


def test_a_number_that_speaks_of_some_seeds_only_says_so(sample_results, eventful_results):
    assert "1 of 2 seeds" not in texts(heat_map(sample_results))
    assert texts(heat_map(eventful_results)).count("1 of 2 seeds") == 1


@pytest.mark.parametrize("against", ["examples", "seconds"])
def test_the_legend_is_read_row_by_row(sample_results, against):
    svg = ElementTree.fromstring(learning_curve(sample_results, "parity", against))
    titles = [learner.title for learner in sample_results.learners]
    # top to bottom, and left to right within a row
    found = sorted(
        (float(node.get("y")), float(node.get("x")), node.text)
        for node in svg.iter(f"{SVG}text")
        if node.text in titles
    )
    assert [text for _, _, text in found] == titles


@pytest.mark.parametrize("against", ["examples", "seconds"])
def test_a_curve_shows_the_learners_that_ran_and_no_other(sample_results, against):
    nice = texts(learning_curve(sample_results, "nice-2-2-32", against))
    assert {"Newton", "Adam", "Linear regression", "Known part"} <= set(nice)
    assert "Parity elimination" not in nice
    assert "Parity elimination" in texts(learning_curve(sample_results, "parity", against))


def test_a_learner_keeps_its_colour_in_every_figure(sample_results):
    orange = learner_look(4)["color"]
    for target in sample_results.targets:
        svg = learning_curve(sample_results, target.name, "examples")
        assert (orange in svg) == (target.name == "parity")


def test_errors_of_zero_are_drawn_and_said(sample_results):
    assert "10⁻¹⁷" not in " ".join(texts(learning_curve(sample_results, "nice-2-2-32", "seconds")))
    zero = only(sample_results, unknown_part_error=0.0)
    said = " ".join(texts(learning_curve(zero, "nice-2-2-32", "seconds")))
    assert "0 is drawn at 10⁻¹⁷" in said
    least = learning_curve(only(sample_results, unknown_part_error=1e-17), "nice-2-2-32", "seconds")
    drawn = re.findall(r"<use [^>]*>", learning_curve(zero, "nice-2-2-32", "seconds"))
    assert LEAST_ERROR == 1e-17
    assert [mark.split()[2:4] for mark in drawn] == [
        mark.split()[2:4] for mark in re.findall(r"<use [^>]*>", least)
    ]


def test_what_lies_off_the_axes_is_said(sample_results):
    assert "no examples: left edge" in texts(learning_curve(sample_results, "lwr", "examples"))
    huge = only(sample_results, unknown_part_error=1e200)
    said = " ".join(texts(learning_curve(huge, "nice-2-2-32", "examples")))
    assert "errors above 100: top edge" in said


def test_a_single_point_is_a_marker(sample_results):
    alone = replace(
        sample_results,
        cells=(Cell("lwr", "linear", 0, "done", unknown_part_error=0.9, examples_used=100, seconds=1.0),),
    )
    svg = learning_curve(alone, "lwr", "examples")
    assert svg.count(f"{learner_look(2)['color']}; stroke: {CARD}") >= 2  # in the figure and in its legend
    assert "100" in texts(svg)


def test_points_without_a_number_are_left_out(sample_results):
    trace = (TracePoint("a", 10, None, {}), TracePoint("b", 20, 0.1, {"unknown_part_error": None}))
    for against in ("examples", "seconds"):
        bare = only(sample_results, trace=trace, unknown_part_error=None)
        assert "Newton" not in texts(learning_curve(bare, "nice-2-2-32", against))


def test_nothing_to_draw_is_drawn_all_the_same(sample_results):
    empty = Results({}, (), (), ())
    assert texts(heat_map(empty))
    assert texts(learning_curve(replace(sample_results, cells=()), "lwr", "seconds"))


def test_names_are_text(sample_results):
    evil = "</text><script>alert(1)</script> $\\frac{1}$ --> 你好"
    first, *others = sample_results.learners
    results = replace(sample_results, learners=(replace(first, title=evil), *others))
    for svg in (heat_map(results), learning_curve(results, "parity", "examples")):
        tags = {node.tag for node in ElementTree.fromstring(svg).iter()}
        assert f"{SVG}script" not in tags
        assert any("$" in (text or "") or "</text" in (text or "") for text in texts(svg))


def test_a_dollar_starts_no_formula(sample_results):
    first, *others = sample_results.learners
    results = replace(sample_results, learners=(replace(first, title="$x^2$"), *others))
    assert "$x^2$" in texts(heat_map(results))
    assert "$x^2$" in texts(learning_curve(results, "parity", "examples"))


@pytest.mark.bad_input
def test_unknown_axes_and_targets_are_refused(sample_results):
    with pytest.raises(ValueError, match="'examples' and 'seconds' can be drawn"):
        learning_curve(sample_results, "parity", "work")
    with pytest.raises(ValueError, match="no target named"):
        learning_curve(sample_results, "nowhere", "seconds")
