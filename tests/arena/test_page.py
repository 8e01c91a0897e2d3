"""The page and the map of a notebook: one valid file that loads nothing and treats every name as text."""

import base64
import hashlib
import re
from dataclasses import replace
from html import escape

import pytest

from arena import Results
from arena.formats import error_text
from arena.records import Cell, LearnerRecord, Status, TargetRecord
from arena.views.page import render_page
from lower import Certificate, Fact, Key
from lower import Status as FactStatus

EVIL = (
    "</script><script>alert('1')</script>\"'><img src=x onerror=alert(1)> --> ]]> {{ 7*7 }} $x_1$ \u2028 你好"
)


@pytest.fixture(scope="module")
def text(sample_results):
    return render_page(sample_results)


@pytest.fixture(scope="module")
def page(text, parsed):
    return parsed(text)


@pytest.fixture(scope="module")
def stopped(eventful_results, parsed):
    return parsed(render_page(eventful_results))


@pytest.fixture(scope="module")
def hostile():
    """A comparison all of whose text is hostile."""
    certificate = Certificate(EVIL, (Fact(Key.RHO, 0.5, FactStatus.PROVED, EVIL),))
    shape = {"heads": 1, "tokens": 2, "dim": 3, "inputs": {"name": EVIL}, "how": EVIL, "known": EVIL}
    targets = (
        TargetRecord(EVIL, EVIL, "file", **shape, certificate=certificate),
        TargetRecord("other", EVIL, EVIL, **shape, conditions=({EVIL: EVIL},)),
    )
    learners = (LearnerRecord(EVIL, EVIL, EVIL, {EVIL: [EVIL]}), LearnerRecord("other", EVIL, EVIL))
    fitted = {"outcome": EVIL, "outcome_text": EVIL, "unknown_part_error": 0.5, "examples_used": 9}
    cells = (
        Cell(EVIL, EVIL, 0, Status.DONE, EVIL, **fitted, alone=EVIL, engine=EVIL),
        Cell(EVIL, "other", 0, Status.FAILED, message=EVIL),
        Cell("other", "other", 0, Status.NOT_APPLICABLE, message=EVIL),
    )
    made = {"command": EVIL, "versions": {EVIL: EVIL}, "interrupted": EVIL, EVIL: EVIL}
    return Results(made, targets, learners, cells)


def test_the_page_is_well_formed_and_its_links_lead_somewhere(page, stopped, text):
    for parts in (page, stopped):
        assert parts.errors == []
        assert len(set(parts.ids)) == len(parts.ids)
    wanted = {link[1:] for link in page.links if link.startswith("#") and len(link) > 1}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", text))
    wanted |= {
        attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes
    }
    assert len(wanted) > 30
    assert wanted <= set(page.ids)


def test_nothing_is_loaded_from_anywhere(page, text):
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "action", "data", "poster"} & set(attributes)
        if "href" in attributes:
            assert attributes["href"].startswith(("#", "data:")) or attributes["href"] == "results.json", tag
    spaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"'<> ]*", text)) <= spaces
    assert not re.search(r"@import|url\((?!#)", text)


def test_hostile_text_stays_text_and_only_the_pages_own_script_may_run(page, hostile, parsed):
    evil = parsed(render_page(hostile))
    for parts in (page, evil):
        policy = next(meta["content"] for meta in parts.all("meta") if "http-equiv" in meta)
        data, script = parts.scripts
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        assert parts.all("script")[0]["type"] == "application/json"
        assert "<" not in data
        assert not any(name.startswith("on") for _, attributes in parts.tags for name in attributes)
    assert evil.errors == evil.all("img") == []
    assert "{{ 7*7 }}" in evil.text
    assert Results.from_json(evil.scripts[0]) == hostile


def test_the_data_of_the_page_are_the_results(page, sample_results):
    assert Results.from_json(page.scripts[0]) == sample_results
    downloads = {
        link["download"]: base64.b64decode(link["href"].split(",", 1)[1]).decode()
        for link in page.all("a")
        if link["href"].startswith("data:")
    }
    assert downloads == {"heat-map.svg": sample_results.plot().svg, "results.csv": sample_results.to_csv()}


def test_headers_of_tables_say_what_they_head(page, text, parsed):
    assert {header.get("scope") for header in page.all("th")} == {"col", "row"}
    # where rows become cards, browsers forget that it was a table: the roles are written out
    for table in re.findall(r'<table [^>]*role="table".*?</table>', text, re.DOTALL):
        cells = [
            (tag, attributes.get("role")) for tag, attributes in parsed(table).tags if tag in ("th", "td")
        ]
        assert set(cells) == {("th", "columnheader"), ("th", "rowheader"), ("td", "cell")}


def test_the_page_says_what_there_is_to_say(page, sample_results):
    targets = sample_results.targets
    words = [word for target in targets for word in (target.title, target.how, target.known, target.name)]
    words += [statement.meaning for target in targets for statement in target.certificate or ()]
    words += [row["measured"] for target in targets for row in target.conditions]
    words += [learner.guarantee for learner in sample_results.learners]
    words += [
        cell.outcome_text if cell.status is Status.DONE else cell.message for cell in sample_results.cells
    ]
    words += ["numpy 2.3.4", "--preset quick --seeds 2", "boolean inputs"]
    assert not [word for word in words if " ".join(word.split()) not in page.words]


def test_what_did_not_come_back_is_told_by_its_own_word(page, stopped):
    assert "not complete" not in page.words
    for words in (
        "Stopped before the end (interactively): 44 of 50 fits",
        "Adam on Two-head parity, seed 1, timed out: It was stopped after 90 s",
        "Linear regression on Nice, Gaussian inputs, seed 0, failed: LinAlgError",
        "1 of 2 seeds",
        "Known part on Learning with rounding: not run.",
    ):
        assert words in stopped.words


def test_rows_have_keys_to_sort_by_and_infinite_errors_come_before_absent_ones(eventful_results):
    cells = [
        replace(cell, unknown_part_error=None) if cell.learner == "newton" else cell
        for cell in eventful_results.cells
    ]
    results = replace(eventful_results, cells=tuple(cells)).only(["nice-gaussian", "parity"])
    text = render_page(results)
    body = re.search(r'<table id="results".*?<tbody[^>]*>(.*?)</tbody>', text, re.DOTALL)[1]
    keys = [re.findall(r'data-key="([^"]*)"', row) for row in body.split("</tr>")[:-1]]
    assert [len(row) for row in keys] == [8] * 9  # pairs that ran
    errors = [row[3] for row in keys]
    assert (errors.count("1e999"), errors.count("")) == (2, 2)  # a failure and a time-out


def test_the_map_says_how_every_learner_did_on_every_target(eventful_results, parsed):
    html = eventful_results._repr_html_()
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    assert [row.count("<td") for row in rows] == [0] + 5 * [5]
    for target, row in zip(eventful_results.shown, rows[1:], strict=True):
        assert escape(target.title) in row
        for learner in eventful_results.learners:
            summary = eventful_results.summary(target.name, learner.name)
            assert summary.verdict in row
            assert not summary.done or error_text(summary.error) in row
    assert "nothing learned beyond what is known in advance" in parsed(html).words


def test_the_map_is_text_and_colour_only(eventful_results, hostile, parsed):
    for results in (eventful_results, hostile):
        parts = parsed(results._repr_html_())
        assert parts.errors == []
        tags = {tag for tag, _ in parts.tags}
        assert tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "strong", "small", "br"}
        names = {name for _, attributes in parts.tags for name in attributes}
        assert names <= {"class", "style", "scope", "title"}
    assert "{{ 7*7 }}" in parts.text
