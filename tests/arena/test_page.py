"""The page: one valid file that loads nothing, says everything, and treats every name as text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from arena.page import render_page
from arena.results import Cell, LearnerRecord, Results, TargetRecord

EVIL = (
    "</script><script>alert('1')</script>\"'><img src=x onerror=alert(1)> --> ]]> {{ 7*7 }} $x_1$ \u2028 你好"
)
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags, ids and text of a page; what is open when it should not be is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.errors = [], [], []
        self.within = {"script": [], "svg": []}
        self.words = []
        self.feed(text)
        self.close()
        self.errors += [f"{tag} is never closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) < len(names):
            self.errors.append(f"{tag} has an attribute twice")
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.within["script"].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.within["script"][-1] += data
        elif "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text(sample_results):
    return render_page(sample_results)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def poisoned(results):
    """Every piece of text of a comparison replaced by a hostile one."""
    targets = tuple(
        replace(one, title=EVIL, how=EVIL, known=EVIL, certificate=(EVIL,), inputs={"name": EVIL, EVIL: 1})
        for one in results.targets
    )
    learners = tuple(
        replace(one, title=EVIL, guarantee=EVIL, parameters={EVIL: [EVIL]}) for one in results.learners
    )
    cells = tuple(
        replace(
            cell,
            outcome_text=EVIL,
            message=EVIL,
            status="failed" if cell.learner == "linear" else cell.status,
        )
        for cell in results.cells
    )
    return Results({"command": EVIL, "versions": {EVIL: EVIL}}, targets, learners, cells)


def test_the_page_is_well_formed_and_ids_are_unique(page):
    assert page.errors == []
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_links_within_the_page_and_its_figures_lead_somewhere(page, text):
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    wanted = {
        one["href"][1:] for one in page.all("a") if one["href"].startswith("#") and len(one["href"]) > 1
    }
    wanted |= {one["href"][1:] for one in page.all("use")} | set(re.findall(r"url\(#([^)]+)\)", text))
    wanted |= {one["aria-labelledby"] for _, one in page.tags if "aria-labelledby" in one}
    assert len(wanted) > 15
    assert wanted <= ids


def test_nothing_is_loaded_from_anywhere(page, text):
    for tag, attributes in page.tags:
        for name in ("src", "srcset", "action", "data", "poster"):
            assert name not in attributes
        if "href" in attributes:
            assert attributes["href"].startswith(("#", "data:")) or attributes["href"] == "results.json", tag
    assert set(re.findall(r"https?://[^\"'<> ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\((?!#)", text)


def test_only_the_pages_own_script_may_run(page):
    policy = next(
        one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"
    )
    _, script = page.within["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert page.all("script")[0]["type"] == "application/json"
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_the_data_of_the_page_are_the_results(page, sample_results):
    assert Results.from_json(page.within["script"][0]) == sample_results
    link = next(one for one in page.all("a") if one.get("download") == "results.csv")
    assert base64.b64decode(link["href"].split(",", 1)[1]).decode() == sample_results.to_csv()


def test_the_page_says_what_there_is_to_say(page, sample_results):
    words = " ".join(" ".join(page.words).split())
    for target in sample_results.targets:
        for said in (target.title, target.how, target.known, target.name, *target.certificate):
            assert " ".join(said.split()) in words
    for learner in sample_results.learners:
        assert learner.guarantee in words
        assert all(name.replace("_", " ") in words for name in learner.parameters)
    for cell in sample_results.cells:
        assert (cell.outcome_text if cell.status == "done" else cell.message) in words
    for said in (
        "All 3 nice targets are learned by Newton and Adam.",
        "numpy 2.3.4",
        "--preset quick --seeds 2",
    ):
        assert said in words


def test_there_is_a_row_for_every_pair_with_keys_to_sort_by(text):
    body = re.search(r'<table id="results">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)[1]
    rows = body.split("</tr>")[:-1]
    assert len(rows) == 25
    for row in rows:
        keys = re.findall(r'data-key="([^"]*)"', row)
        assert len(keys) == 8
        assert (keys[3] == "") == ("does not apply" in row)


def test_every_figure_has_words_for_those_who_do_not_see_it(page):
    figures = page.all("svg")
    assert len(figures) == 11
    for figure in figures:
        assert figure["role"] == "img"
        assert len(figure["aria-label"]) > 80
    assert "Two-head parity: Newton 1.16, nothing" in figures[0]["aria-label"]


def test_figures_follow_the_theme_of_the_page(text):
    dark = re.search(r"prefers-color-scheme: dark\) \{\s*:root \{ --on-weak.*?\}", text, re.DOTALL)[0]
    for name in set(re.findall(r"var\(--(heat-\d+|on-\w+),", text)):
        assert f"--{name}:" in dark
    figures = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    for colour in ("#1d2733", "#5d6875", "#fefefe"):
        assert colour in figures
        assert re.sub(r"var\(--[a-z]+, #[0-9a-f]{6}\)", "", figures).count(colour) == 0


def test_a_certificate_of_sentences_is_a_list_and_one_of_columns_stays_as_it_is(sample_results):
    first, second, *others = sample_results.targets
    columns = (*second.certificate, "A remark below the columns that is long. " * 4)
    lines = ("Certificate", "  queries: 164 (derived). " + "A learner needs at least this many of them. " * 3)
    both = (replace(first, certificate=lines), replace(second, certificate=columns))
    text = render_page(replace(sample_results, targets=(*both, *others)))
    assert "<li>Certificate</li>" in text
    assert "<li><strong>queries:</strong> 164 (derived). A learner" in text
    assert text.count('class="card sentences"') == 1
    assert "incoherence of the heads     0.049   small is good" in text
    assert "incoherence of the heads     0.021" not in text.split('id="data"')[0]


def test_hostile_text_stays_text(sample_results):
    results = poisoned(sample_results)
    text = render_page(results)
    page = Page(text)
    assert page.errors == []
    assert len(page.all("script")) == 2
    assert page.all("img") == []
    assert "{{ 7*7 }}" in "".join(page.words)
    assert Results.from_json(page.within["script"][0]) == results
    assert "<" not in page.within["script"][0]


def test_hostile_names_stay_text():
    target = TargetRecord(EVIL, EVIL, "file", 1, 2, 3, {}, EVIL, hard=True)
    learner = LearnerRecord(EVIL, EVIL, EVIL)
    page = Page(
        render_page(Results({}, (target,), (learner,), (Cell(EVIL, EVIL, 0, "failed", message=EVIL),)))
    )
    assert page.errors == []
    assert len(page.all("script")) == 2
    assert "What failed" in page.words


def test_an_empty_comparison_is_a_page():
    assert Page(render_page(Results({}, (), (), ()))).errors == []


def test_the_page_is_the_same_every_time(text, sample_results):
    assert render_page(Results.from_json(json.loads(json.dumps(sample_results.to_json())))) == text


def test_infinite_errors_sort_last_among_numbers_and_absent_ones_after_them(sample_results):
    cells = tuple(
        replace(cell, unknown_part_error=None) if cell.learner == "newton" else cell
        for cell in sample_results.cells
    )
    text = render_page(replace(sample_results, cells=cells))
    assert text.count('data-key="1e999"') == 10
