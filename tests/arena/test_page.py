"""The page: one valid file that loads nothing, says everything, and treats every name as text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from arena.page import render_page
from arena.palette import learner_colours
from arena.results import Cell, LearnerRecord, Results, TargetRecord
from arena.sheets import curves_csv, table_csv
from arena.words import in_order, short_error
from lower import Hardness

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
def stopped(eventful_results):
    return render_page(eventful_results)


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
    held = {
        one["download"]: base64.b64decode(one["href"].split(",", 1)[1]).decode()
        for one in page.all("a")
        if one.get("href", "").startswith("data:text/csv")
    }
    curves = {
        f"{target.name}-curves.csv": curves_csv(sample_results, target.name)
        for target in sample_results.targets
    }
    assert held == curves | {
        "results.csv": sample_results.to_csv(),
        "table.csv": table_csv(sample_results),
        "curves.csv": curves_csv(sample_results),
    }


def test_every_figure_can_be_saved_under_a_name_of_its_own(page, sample_results):
    names = [one["data-name"] for one in page.all("a") if one.get("class") == "save"]
    wanted = [
        f"{target.name}-error-against-{against}.svg"
        for target in sample_results.targets
        for against in ("examples", "seconds")
    ]
    assert names == ["heat-map.svg", *wanted]


def test_a_file_is_named_in_plain_letters_whatever_the_target_is_called(sample_results):
    first, second, *_ = sample_results.targets
    names = ("../../Etc/Pass wd", "你好")
    targets = (replace(first, name=names[0]), replace(second, name=names[1]))
    found = Page(render_page(Results({}, targets, sample_results.learners, ()))).all("a")
    files = {one["download"] for one in found if "curves" in one.get("download", "")}
    assert files == {"curves.csv", "etc-pass-wd-curves.csv", "target-1-curves.csv"}


def test_headings_are_in_order_under_a_single_first_one(page):
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))


def test_headers_of_tables_say_what_they_head(page):
    heads = page.all("th")
    assert len(heads) > 50
    assert {one.get("scope") for one in heads} == {"col", "row"}
    # where rows become cards, browsers forget that it was a table: the roles are written out
    assert {one["role"] for one in heads} == {"columnheader", "rowheader"}
    assert len(page.all("table")) == 6
    assert all(one["role"] == "cell" for one in page.all("td"))


def test_every_target_and_every_learner_has_a_section(text, sample_results):
    for place, target in enumerate(sample_results.targets):
        section = re.search(rf'<article id="target-{place}".*?</article>', text, re.DOTALL)[0]
        assert escape(target.how) in section
        assert "Its known part" in section
        assert (
            "What is known of its hardness" if target.has_secret else "What was measured of it"
        ) in section
        assert section.count("<svg") == 2
        assert "Error against examples drawn" in section
        assert "Error against time" in section
    for place, learner in enumerate(sample_results.learners):
        section = re.search(rf'<article id="learner-{place}".*?</article>', text, re.DOTALL)[0]
        assert f"<strong>Promise.</strong> {escape(learner.guarantee)}" in section
        for cell in sample_results.cells:
            if cell.learner == learner.name:
                assert escape(cell.outcome_text if cell.status == "done" else cell.message) in section


def test_the_tiles_of_a_narrow_window_say_what_the_map_says(text, sample_results):
    tiles = re.search(r'<div class="tiles">(.*?)</div>', text, re.DOTALL)[1]
    said = [re.sub(r"<[^>]*>|\s+", " ", one).split() for one in re.findall(r"<li.*?</li>", tiles)]
    wanted = []
    for target in in_order(sample_results):
        for learner in sample_results.learners:
            summary = sample_results.summary(target.name, learner.name)
            number = [short_error(summary.error)] if summary.done else []
            wanted.append([*learner.title.split(), *number, *summary.verdict.split()])
    assert said == wanted


def test_what_did_not_come_back_is_told_by_its_own_word(stopped):
    assert "<h3>What failed or timed out</h3>" in stopped
    items = re.findall("<li><strong>.*?</li>", stopped)
    items = [" ".join(re.sub("<[^>]*>", "", one).split()) for one in items]
    assert (
        "Adam on Two-head parity, seed 1, timed out: It was stopped after 90 s, the time a fit may take."
        in items
    )
    assert (
        "Linear regression on Nice, Gaussian inputs, seed 0, failed: LinAlgError: SVD did not converge"
        in items
    )
    table = re.search(r'<table id="results".*?</table>', stopped, re.DOTALL)[0]
    assert table.count("<small>1 of 2 seeds</small>") == 1
    assert table.count('<span class="verdict broken">timed out</span>') == 1
    assert table.count('<span class="verdict broken">failed</span>') == 1
    assert table.count('">not run</span>') == 3
    assert "Newton 4e-16, learned (1 of 2 seeds)" in Page(stopped).all("svg")[0]["aria-label"]


def test_only_time_outs_are_not_called_failures(eventful_results):
    cells = [cell for cell in eventful_results.cells if cell.status == "timed out"]
    targets = [one for one in eventful_results.targets if one.name == cells[0].target]
    of_one = tuple(cell for cell in cells if cell.target == cells[0].target)
    text = render_page(replace(eventful_results, targets=tuple(targets), cells=of_one))
    assert "<h3>What timed out</h3>" in text


def test_a_comparison_that_was_stopped_says_so_first_and_how_it_was_run(text, stopped):
    assert 'class="notice"' not in text
    notice = stopped.index("Stopped by hand before the end: 44 of 50 fits are here.")
    assert stopped.index("<h1>") < notice < stopped.index('class="lead"')
    words = " ".join(" ".join(Page(stopped).words).split())
    for said in (
        "fits taken from an earlier run 12",
        "time-out of a fit 90 s",
        "kept in runs.sqlite",
        "stopped before the end by hand",
        "took 71 s",
    ):
        assert said in words
    other = render_page(Results({"interrupted": True, "timeout": None}, (), (), ()))
    words = " ".join(" ".join(Page(other).words).split())
    assert "stopped before the end yes" in words
    assert "time-out of a fit not set" in words


def test_conditions_in_columns_are_a_table(sample_results):
    lines = (
        "Non-degeneracy: all conditions hold",
        "condition          on     measured  wanted   verdict",
        "-----------------  -----  --------  -------  -------",
        "theta_incoherence  Theta  0.0813    <= 0.25  holds",
        "w_stable_rank      W      8         >= 3.47  holds",
        "The thresholds are this toolkit's own.",
    )
    target = replace(sample_results.targets[0], certificate=lines)
    text = render_page(Results({}, (target,), (), ()))
    assert "<summary>Non-degeneracy: all conditions hold</summary>" in text
    table = re.search(r'<table class="card measured">.*?</table>', text, re.DOTALL)[0]
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == [
        "condition",
        "on",
        "measured",
        "wanted",
        "verdict",
    ]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["theta incoherence", "w stable rank"]
    assert "<td>&lt;= 0.25</td>" in table
    assert '<p class="note">The thresholds are this toolkit&#39;s own.</p>' in text


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
    body = re.search(r'<table id="results".*?<tbody[^>]*>(.*?)</tbody>', text, re.DOTALL)[1]
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
    named = set(re.findall(r"var\(--(heat-\d+|on-\w+|learner-\d+),", text))
    assert {"learner-0", "learner-4", "heat-0", "on-weak"} <= named
    for name in named:
        assert f"--{name}:" in dark
    figures = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    for colour in ("#1d2733", "#5d6875", "#fefefe", *learner_colours()[:5]):
        assert colour in figures
        assert re.sub(r"var\(--[a-z0-9-]+, #[0-9a-f]{6}\)", "", figures).count(colour) == 0


def test_a_certificate_of_sentences_is_a_list_and_one_of_columns_stays_as_it_is(sample_results):
    first, second, *others = sample_results.targets
    columns = (*second.certificate, "A remark below the columns that is long. " * 4)
    long = "A learner needs at least this many of them. " * 3
    lines = ("Certificate", f"  queries: 164 (derived). {long}[Derived here]")
    both = (replace(first, certificate=lines), replace(second, certificate=columns))
    text = render_page(replace(sample_results, targets=(*both, *others)))
    assert "<li>Certificate</li>" in text
    assert "<li><strong>queries:</strong> 164 (derived). A learner" in text
    assert '<span class="source">[Derived here]</span></li>' in text
    assert text.count('class="card sentences"') == 1
    assert "incoherence of the heads     0.049   small is good" in text
    assert "incoherence of the heads     0.021" not in text.split('id="data"')[0]
    # a single line has nothing to fold away
    assert "<p>incoherence of the heads     0.033   small is good   meets it</p>" in text


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
    target = TargetRecord(EVIL, EVIL, "file", 1, 2, 3, {}, EVIL, hardness=Hardness.ASSUMED)
    learner = LearnerRecord(EVIL, EVIL, EVIL)
    page = Page(
        render_page(Results({}, (target,), (learner,), (Cell(EVIL, EVIL, 0, "failed", message=EVIL),)))
    )
    assert page.errors == []
    assert len(page.all("script")) == 2
    assert "What failed" in page.words


def test_an_empty_comparison_is_a_page():
    assert Page(render_page(Results({}, (), (), ()))).errors == []


@pytest.mark.slow
def test_the_page_is_the_same_every_time(text, sample_results):
    assert render_page(Results.from_json(json.loads(json.dumps(sample_results.to_json())))) == text


@pytest.mark.slow
def test_infinite_errors_sort_last_among_numbers_and_absent_ones_after_them(sample_results):
    cells = tuple(
        replace(cell, unknown_part_error=None) if cell.learner == "newton" else cell
        for cell in sample_results.cells
    )
    text = render_page(replace(sample_results, cells=cells))
    assert text.count('data-key="1e999"') == 10
