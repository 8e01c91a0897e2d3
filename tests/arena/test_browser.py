"""The page in headless Chromium: it loads, sorts, filters and saves; it fits a phone and paper; nothing hostile runs.

Pictures of the page, and its print, are kept in the folder that the environment variable ATTENTION_BOUNDS_ARTEFACTS
names, or else in build/artefacts of the project's root.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from arena import Results
from arena.formats import error_text
from arena.views.page import render_page

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path (apt-get install chromium)")
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
PHONE, DESKTOP, PAPER = 390, 1280, 688
# elements that are wider than their box, and texts that are too small to read
WIDE = """() => [...document.querySelectorAll("body *:not(.unseen, .skip, .scrolls, svg *)")].filter((one) =>
  one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1
  && getComputedStyle(one).display !== "inline").map((one) => one.outerHTML.slice(0, 120))"""
SMALL = """() => [...document.body.querySelectorAll("*")].filter((one) =>
  [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  && !one.closest("script, .unseen, .skip") && one.checkVisibility() && one.getBoundingClientRect().width
  && Math.abs(one.ownerSVGElement ? one.getScreenCTM().a : 1) * parseFloat(getComputedStyle(one).fontSize) < 10
  ).map((one) => one.textContent)"""
ARTEFACTS = Path(
    os.environ.get("ATTENTION_BOUNDS_ARTEFACTS") or Path(__file__).parents[2] / "build/artefacts"
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages():
    """Pages by the identity of their results: drawing the figures of one takes seconds."""
    return {}


@pytest.fixture
def show(browser, pages, tmp_path):
    """Show results in a tab; what the console says and what is asked of the network fails the test."""
    complaints = []

    def shown(results, *, width=DESKTOP, dark=False, scripts=True):
        if id(results) not in pages:
            pages[id(results)] = results, render_page(results)
        path = tmp_path / "index.html"
        path.write_text(pages[id(results)][1], encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda ask: ask.url.startswith(("file:", "data:")) or complaints.append(ask.url))
        tab.goto(path.as_uri())
        return tab

    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    yield shown
    assert complaints == []


def column(tab, place):
    """The texts of a column in the rows that are shown."""
    cells = tab.locator(f"#results tbody tr:visible > :nth-child({place + 1})")
    return cells.all_inner_texts()


def test_the_table_sorts_by_its_headings(show, eventful_results):
    tab = show(eventful_results, width=PHONE)
    before = column(tab, 0)

    def press(place):
        tab.evaluate(f"document.querySelectorAll('#results thead button')[{place}].click()")
        return tab.locator("#results thead th").nth(place).get_attribute("aria-sort")

    def errors():
        lines = [text.removeprefix("Error").split() for text in column(tab, 3)]
        return [float(line[0]) if line and line != ["–"] else None for line in lines]

    assert press(3) == "ascending"
    up = errors()
    assert up[:-2] == sorted(up[:-2])
    assert up[-2:] == [None, None]  # a failure and a time-out have no number: they are last
    assert press(3) == "descending"
    assert errors() == [*up[:-2][::-1], None, None]
    press(0)
    assert column(tab, 0) == before


def test_the_filter_keeps_the_rows_with_every_word(show, sample_results):
    tab = show(sample_results)
    for words, titles in (("PARITY newton", ["Two-head parity"]), ("nothing of this kind", [])):
        tab.fill("#filter", words)
        assert column(tab, 0) == titles
    tab.fill("#filter", "")
    assert len(column(tab, 0)) == 21


def test_a_reader_who_points_at_a_curve_is_shown_the_step(show, sample_results):
    tab = show(sample_results)
    end = """(curve) => {
      curve.scrollIntoView({ block: "center", behavior: "instant" });
      const { x, y } = curve.getPointAtLength(curve.getTotalLength()).matrixTransform(curve.getScreenCTM());
      return [x, y];
    }"""
    x, y = tab.locator("#target-0 .curve path").first.evaluate(end)
    tip = tab.locator(".tip")
    assert not tip.is_visible()
    tab.mouse.move(x, y)
    (cell,) = sample_results.cell("nice-2-2-32", "newton")[:1]
    assert tip.inner_text().startswith(error_text(cell.unknown_part_error))
    tab.mouse.move(2, 2)
    assert not tip.is_visible()


def test_every_download_holds_its_content(show, sample_results):
    tab = show(sample_results, dark=True)

    def saved(selector):
        with tab.expect_download() as download:
            tab.locator(selector).evaluate("(link) => link.click()")
        return download.value.path().read_bytes().decode()

    assert Results.from_json(saved("#save-json")) == sample_results
    assert saved("#repeat [download='results.csv']") == sample_results.to_csv()
    assert saved("#glance [download='heat-map.svg']") == sample_results.plot().svg
    assert "Newton" in saved(".save[data-name='nice-2-2-32-error-against-seconds.svg']")


@pytest.mark.parametrize("width", [360, DESKTOP])
def test_nothing_is_wider_than_the_window_or_too_small_to_read(show, eventful_results, width):
    tab = show(eventful_results, width=width)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(WIDE) == []
    assert tab.evaluate(SMALL) == []


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [pytest.param("desktop", DESKTOP, False, marks=pytest.mark.slow), ("phone-dark", PHONE, True)],
)
def test_pictures_of_the_page_are_in_the_theme(show, sample_results, name, width, dark):
    from PIL import Image

    path = ARTEFACTS / f"{name}.png"
    show(sample_results, width=width, dark=dark).screenshot(path=path, full_page=True)
    with Image.open(path) as picture:
        part = picture.convert("RGB").resize((width // 3, picture.height // 3), Image.Resampling.NEAREST)
    colours = part.getcolors(part.width * part.height)
    assert len(colours) > 100
    ground = max(colours)[1]  # covers most of it
    assert (max(ground) < 40) if dark else (min(ground) > 240)


def test_on_paper_and_without_scripts_the_page_is_light_open_and_whole(show, sample_results):
    tab = show(sample_results, width=PAPER, dark=True, scripts=False)
    words = tab.locator("body").inner_text()
    assert all(target.how in words for target in sample_results.targets)
    assert not tab.locator(".scripted").first.is_visible()
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate(WIDE) == []
    assert tab.get_by_text("theta incoherence").first.is_visible()  # folded on a screen
    assert not tab.locator(".save").first.is_visible()
    tab.pdf(path=ARTEFACTS / "print.pdf", prefer_css_page_size=True)
    assert 5 <= (ARTEFACTS / "print.pdf").read_bytes().count(b"/Type /Page\n") <= 20


def test_nothing_hostile_runs_or_widens_the_page(show, sample_results):
    long, sample_results = EVIL + 30 * "endless", sample_results.only(["lwr", "parity"])
    results = replace(
        sample_results,
        made={"command": long},
        targets=tuple(replace(target, title=long, how=long, known=long) for target in sample_results.targets),
        learners=tuple(replace(learner, title=long, guarantee=long) for learner in sample_results.learners),
    )
    tab = show(results, width=PHONE)
    assert tab.title() == "Learners against attention layers"
    assert tab.evaluate("document.documentElement.scrollWidth") == PHONE
