"""The table in a notebook: what it says, that it is only text and colour, and that its text can be read."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from arena.palette import CARD, INK, heat_colours, heat_level
from arena.results import Cell, LearnerRecord, Results, TargetRecord
from arena.words import findings, short_error

EVIL = "<script>alert(1)</script>\" onmouseover='x' &amp; {{ 7*7 }} {% raw %} \u202e\x00 </td></table>"
VOID = {"br"}


class _Reader(HTMLParser):
    """Elements, attributes and text; a tag that is not closed in turn is an error."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.text += " "
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(results):
    reader = _Reader()
    reader.feed(results._repr_html_())
    reader.close()
    assert not reader.open
    return reader


def words(reader):
    return " ".join(reader.text.split())


def test_it_says_what_the_table_says(sample_results):
    said = words(read(sample_results))
    for sentence in findings(sample_results):
        assert sentence in said
    for target in sample_results.targets:
        kind = target.hardness.label if target.hardness else "nice"
        assert (
            f"{target.title} {target.name} {kind}, m={target.heads} k={target.tokens} d={target.dim}" in said
        )
        for learner in sample_results.learners:
            summary = sample_results.summary(target.name, learner.name)
            assert summary.verdict in said
            if summary.status == "done":
                assert short_error(summary.error) in said
    assert "1.0 = nothing learned beyond what is known in advance" in said


def test_targets_are_down_and_learners_across(sample_results):
    rows = re.findall(r"<tr.*?</tr>", sample_results._repr_html_(), re.DOTALL)
    assert len(rows) == 1 + len(sample_results.targets)
    assert [row.count("<td") for row in rows] == [0] + 5 * [len(sample_results.learners)]
    assert rows[0].count('scope="col"') == 1 + len(sample_results.learners)
    assert all(row.count('scope="row"') == 1 for row in rows[1:])


def test_it_is_the_same_for_the_same_results(sample_results):
    again = Results.from_json(sample_results.to_json())
    assert again._repr_html_() == sample_results._repr_html_()


def evil_results():
    target = TargetRecord("t", EVIL, "nice", 1, 2, 3, {}, EVIL)
    learner = LearnerRecord("l", EVIL, EVIL)
    cells = (
        Cell("t", "l", 0, "failed", message=EVIL),
        Cell("t", "l", 1, "done", outcome=EVIL, outcome_text=EVIL, unknown_part_error=0.5),
        Cell("t", "l", 2, "not applicable", message=EVIL),
    )
    return Results({"interrupted": EVIL}, (target,), (learner,), cells)


@pytest.mark.parametrize("kept", [(0, 1, 2), (0,), (1,), (2,), ()])
def test_names_and_messages_are_text_whatever_they_hold(kept):
    results = evil_results()
    reader = read(replace(results, cells=tuple(results.cells[place] for place in kept)))
    assert {tag for tag, _ in reader.elements} <= {
        *("div", "table", "thead", "tbody", "tr", "th", "td"),
        *("strong", "span", "br"),
    }
    assert {name for _, attributes in reader.elements for name in attributes} <= {"style", "scope", "title"}
    assert "<script>alert(1)</script>" in reader.text
    assert "{{ 7*7 }}" in reader.text
    assert "\u202e" not in reader.text
    assert "\x00" not in reader.text


def test_nothing_is_fetched_and_nothing_runs(sample_results):
    html = sample_results._repr_html_()
    for word in ("<script", "<style", "<link", "<img", "http", "url(", "javascript:"):
        assert word not in html


def test_the_heat_is_the_palettes_and_every_text_on_it_can_be_read(sample_results):
    painted = 0
    for error in [10.0**-power for power in range(18)] + [0.0, 0.03, 5.0]:
        cell = replace(sample_results.cells[0], unknown_part_error=error)
        html = replace(sample_results, cells=(cell,))._repr_html_()
        ((ground, text),) = re.findall(r"background-color:(#\w{6});color:(#\w{6})", html)
        assert ground == heat_colours()[heat_level(error)]
        assert contrast(ground, text) >= 4.5
        painted += 1
    assert painted == 21


def test_what_is_no_cell_takes_the_notebooks_colours(sample_results):
    """Text without a ground of its own must read on a light and on a dark page: it names no colour at all."""
    for tag, attributes in read(sample_results).elements:
        style = attributes.get("style", "")
        if "background-color:#" not in style:
            assert "#" not in style, tag
            for opacity in re.findall(r"opacity:([.\d]+)", style):
                # what is faint is still readable, dark on light and light on dark
                for ground, text in ((CARD, INK), ("#111111", "#e0e0e0")):
                    assert contrast(ground, mixed(text, ground, float(opacity))) >= 4.5


def test_cells_that_did_not_come_back_say_so(sample_results):
    lost = [
        Cell("parity", "newton", 0, "failed", message="ValueError: no"),
        Cell("parity", "newton", 1, "failed", message="again"),
        Cell("lwr", "newton", 0, "timed out", message="It took more than 3 seconds."),
    ]
    kept = [one for one in sample_results.cells if (one.target, one.learner) == ("nice-2-2-32", "newton")]
    results = replace(sample_results, made={"seeds": 2}, cells=(*kept[:1], *lost))
    said = words(read(results))
    assert "Failed: Newton on Two-head parity, seed 0 (and 1 more): ValueError: no" in said
    assert "Timed out: Newton on Learning with rounding, seed 0: It took more than 3 seconds." in said
    assert "not run" in said
    assert "1 of 2 seeds" in said


def test_no_cells_no_learners_no_targets():
    target = TargetRecord("t", "T", "nice", 1, 2, 3, {}, "Made.")
    learner = LearnerRecord("l", "L", "Nothing.")
    for targets in ((), (target,)):
        for learners in ((), (learner,)):
            reader = read(Results({}, targets, learners, ()))
            assert "Target" in reader.text
    assert "not run" in reader.text


def contrast(one, other):
    """The contrast of two colours, as in the Web Content Accessibility Guidelines 2.1."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(text, ground, opacity):
    parts = [
        round(opacity * int(text[i : i + 2], 16) + (1 - opacity) * int(ground[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)
