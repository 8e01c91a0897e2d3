"""The page in headless Chromium: what a reader does works, on every kind of screen and on paper.

The tests leave what they saw in a folder: desktop.png, desktop-dark.png, phone.png, phone-dark.png and print.pdf. The
folder is the one that the environment variable ATTENTION_BOUNDS_ARTEFACTS names, or else build/artefacts in the
project's root.
"""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from arena.formats import error_text
from arena.frames import pair_table, step_table
from arena.page import render_page
from arena.results import Results

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM = next((found for name in BROWSERS if (found := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on the path (Debian: apt-get install chromium)"
)
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
PHONE, DESKTOP, PAPER = 390, 1280, 688
pytestmark = needs_chromium

# the browser reads commands from its file descriptor 3 and answers on 4
START = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 16) for fd in sys.argv[1:3])
os.dup2(commands, 3), os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """Chromium under the DevTools protocol, over a pipe: one JSON message after the other, NUL between them."""

    def __init__(self, folder):
        (commands, self.write), (self.read, answers) = os.pipe(), os.pipe()
        options = [*QUIET, "--hide-scrollbars", "--force-color-profile=srgb"]
        options += [f"--user-data-dir={folder}/profile", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(commands), str(answers), CHROMIUM, *options],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands), os.close(answers)
        self.rest, self.calls, self.events = b"", 0, []
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        self.call(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(self.downloads),
            eventsEnabled=True,
        )

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.write), os.close(self.read)

    def call(self, method, session=None, **parameters):
        """Run a command and return its result."""
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.calls:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, **wanted):
        """The parameters of the first event of that name since the last command that has these among them."""
        while True:
            for place, event in enumerate(self.events):
                if event["method"] == method and wanted.items() <= event["params"].items():
                    return self.events.pop(place)["params"]
            self.events.append(self.next_message())

    def next_message(self, seconds=30):
        deadline = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, ("the browser says nothing", self.events[-8:])
            part = os.read(self.read, 1 << 16)
            assert part, "the browser ended"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, *, width=DESKTOP, dark=False, media="", scripts=True):
        """A tab that shows a file."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        tab = Tab(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        tab.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        tab.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        return tab


class Tab:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def run(self, script):
        """The value of a script's last expression."""
        done = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def complaints(self):
        """What the console says, and what was asked of the network besides the page itself."""
        self.run("0")
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        said = [event for event in self.browser.events if event["method"] in bad]
        asked = [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return said, [url for url in asked if not url.startswith(("file:", "data:"))]

    def save(self, link):
        """The text of the file that a click on the link of that selector downloads, and its name."""
        assert self.run(f"document.querySelector({json.dumps(link)})?.click() ?? true"), link
        begun = self.browser.wait_for("Browser.downloadWillBegin")
        self.browser.wait_for("Browser.downloadProgress", guid=begun["guid"], state="completed")
        path = self.browser.downloads / begun["suggestedFilename"]
        text = path.read_bytes().decode()  # line ends as they are
        path.unlink()
        return text, begun["suggestedFilename"]

    def picture(self, name):
        """The whole page as a picture, kept among the artefacts, and the size it should have."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        return keep(name, base64.b64decode(data)), (round(size["width"]), round(size["height"]))


def keep(name, content):
    folder = Path(os.environ.get("ATTENTION_BOUNDS_ARTEFACTS") or ROOT / "build" / "artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


def written(results, folder):
    path = folder / "index.html"
    path.write_text(render_page(results), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(sample_results, tmp_path_factory):
    return written(sample_results, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def stopped(eventful_results, tmp_path_factory):
    return written(eventful_results, tmp_path_factory.mktemp("stopped"))


def column(tab, place):
    """What the rows that are shown say in a column."""
    rows = "[...document.querySelectorAll('#results tbody tr')].filter((row) => row.checkVisibility())"
    return tab.run(f"{rows}.map((row) => row.cells[{place}].innerText)")


def press(tab, place):
    """Press the heading of a column and return how the column is sorted now."""
    tab.run(f"document.querySelectorAll('#results thead button')[{place}].click()")
    return tab.run(f"document.querySelectorAll('#results thead th')[{place}].getAttribute('aria-sort')")


def test_the_page_loads_without_a_complaint_and_without_network(browser, page, stopped):
    for path in (page, stopped):
        assert browser.open(path).complaints() == ([], [])


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_table_sorts_by_every_heading(browser, stopped, eventful_results, width):
    tab = browser.open(stopped, width=width)
    before = column(tab, 0)

    def errors():
        lines = [text.removeprefix("Error").split() for text in column(tab, 3)]
        return [float(line[0]) if line and line != ["–"] else None for line in lines]

    assert press(tab, 3) == "ascending"
    up = errors()
    assert up[:-2] == sorted(up[:-2])
    assert up[-2:] == [None, None]  # a failure and a time-out have no number: they are last
    assert press(tab, 3) == "descending"
    assert errors() == [*up[:-2][::-1], None, None]
    assert press(tab, 2) == "ascending"
    titles = [learner.title for learner in eventful_results.learners]
    places = [titles.index(" ".join(text.split())) for text in column(tab, 2)]
    assert places == sorted(places)
    assert tab.run("document.querySelectorAll('[aria-sort]').length") == 1
    press(tab, 0)
    assert column(tab, 0) == before


def test_the_filter_keeps_the_rows_with_every_word(browser, page):
    tab = browser.open(page)
    write = "((field) => {{ field.value = '{}'; field.dispatchEvent(new Event('input')); }})(filter)"
    tab.run(write.format("PARITY newton"))
    assert column(tab, 0) == ["Two-head parity"]
    assert tab.run("document.getElementById('shown').innerText") == "1 of 21"
    tab.run(write.format("nothing of this kind"))
    assert column(tab, 0) == []
    tab.run(write.format(""))
    assert len(column(tab, 0)) == 21


def test_a_reader_who_points_at_a_curve_is_shown_the_step(browser, page, sample_results):
    tab = browser.open(page)
    place = """(() => {
      const curve = document.querySelector("#target-0 .curve path");
      curve.scrollIntoView({ block: "center", behavior: "instant" });
      const point = curve.getPointAtLength(curve.getTotalLength()).matrixTransform(curve.getScreenCTM());
      return [point.x, point.y];
    })()"""
    x, y = tab.run(place)
    tip = "(({ hidden, textContent }) => hidden ? '' : textContent)(document.querySelector('.tip'))"
    assert tab.run(tip) == ""
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    cell = sample_results.cell("nice-2-2-32", "newton")[0]
    assert tab.run(tip).startswith(error_text(cell.unknown_part_error))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert tab.run(tip) == ""


def test_every_download_holds_what_it_says(browser, page, sample_results):
    tab = browser.open(page, dark=True)
    text, name = tab.save("#save-json")
    assert (name, Results.from_json(text)) == ("results.json", sample_results)
    for name, content in (
        ("results.csv", sample_results.to_csv()),
        ("table.csv", pair_table(sample_results).to_csv()),
        ("curves.csv", step_table(sample_results).to_csv()),
    ):
        assert tab.save(f"#repeat [download='{name}']") == (content, name)
    heat, _ = tab.save("#glance [download='heat-map.svg']")
    assert heat == sample_results.plot().svg
    wanted = "nice-2-2-32-error-against-seconds.svg"
    text, name = tab.save(f".save[data-name='{wanted}']")
    drawing = ElementTree.fromstring(text)
    assert (name, drawing.tag) == (wanted, "{http://www.w3.org/2000/svg}svg")
    assert float(drawing.get("width").removesuffix("pt")) > 200
    assert "Newton" in "".join(drawing.itertext())


# what is seen: every element that shows text itself and does not stand in a box that scrolls, with its size in pixels
SEEN = """
(() => {
  const seen = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (!own || element.closest("script, .unseen, .skip") || !element.checkVisibility() || !box.width) continue;
    const scale = element.ownerSVGElement ? element.getScreenCTM().a : 1;
    const scrolls = element.closest(".scrolls") && getComputedStyle(element.closest(".scrolls")).overflowX === "auto";
    seen.push({ text: element.textContent.trim().slice(0, 40), left: box.left, right: scrolls ? 0 : box.right,
                size: Math.abs(scale || 1) * parseFloat(getComputedStyle(element).fontSize) });
  }
  return seen;
})()
"""
BOXES = """
[...document.querySelectorAll("body *:not(.unseen, .skip, .scrolls, svg *)")].filter((element) =>
  element.checkVisibility() && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1
  && getComputedStyle(element).display !== "inline").map((element) => element.outerHTML.slice(0, 120))
"""
OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.mark.parametrize("which", ["page", "stopped"])
@pytest.mark.parametrize("width", [360, PHONE, 760, 1000, DESKTOP])
def test_nothing_is_wider_than_the_window_and_everything_can_be_read(browser, request, which, width):
    tab = browser.open(request.getfixturevalue(which), width=width)
    tab.run(OPEN)
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(BOXES) == []
    seen = tab.run(SEEN)
    assert len(seen) > 400
    assert [one for one in seen if one["left"] < -0.5 or one["right"] > width + 0.5] == []
    assert [one for one in seen if one["size"] < 10] == []


def test_figures_are_drawn_at_one_size_however_many_learners_there_are(browser, sample_results, tmp_path):
    few, many = (
        browser.open(written(sample_results.only(learners=names), tmp_path))
        for names in ("newton", ["newton", "adam", "linear", "known-part"])
    )
    scale = "document.querySelector('.drawing svg').getScreenCTM().a"
    assert few.run(scale) == pytest.approx(many.run(scale), rel=0.01)


def test_a_phone_gets_cards_and_a_desktop_a_table(browser, page):
    display = "getComputedStyle(document.querySelector('#results tbody tr')).display"
    assert browser.open(page, width=PHONE).run(display) == "grid"
    assert browser.open(page).run(display) == "table-row"


@pytest.mark.parametrize("width", [pytest.param(DESKTOP, marks=pytest.mark.slow), PHONE])
@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pictures_of_the_page_are_kept(browser, page, width, dark):
    from PIL import Image

    tab = browser.open(page, width=width, dark=dark)
    name = f"{'desktop' if width == DESKTOP else 'phone'}{'-dark' if dark else ''}.png"
    path, size = tab.picture(name)
    with Image.open(path) as picture:
        assert picture.size == size
        part = picture.convert("RGB").resize((width // 3, picture.height // 3), Image.Resampling.NEAREST)
    colours = part.getcolors(part.width * part.height)
    assert len(colours) > 100
    ground = max(colours)[1]  # covers most of it, and is the theme's
    assert (max(ground) < 40) if dark else (min(ground) > 240)


def test_a_learner_has_one_colour_in_its_figures_and_its_heading_by_dark(browser, page):
    tab = browser.open(page, dark=True)
    filters = "['.key', '.drawing svg'].map((one) => getComputedStyle(document.querySelector(one)).filter)"
    heading, figure = tab.run(filters)
    assert heading == figure != "none"
    drawn = "getComputedStyle(document.querySelector('#target-0 .curve path')).stroke"
    assert tab.run(drawn) == tab.run("getComputedStyle(document.querySelector('.key')).backgroundColor")


def test_on_paper_the_page_is_light_open_and_whole(browser, page):
    # without scripts, so that it is the style sheet that opens what is folded
    tab = browser.open(page, width=PAPER, dark=True, media="print", scripts=False)
    light = browser.open(page, width=PAPER)
    for one in (".badge.nice", ".badge.hard", ".map td", ".key", ".drawing svg"):
        style = f"getComputedStyle(document.querySelector('{one}'))"
        look = f"(({{ backgroundColor, filter }}) => [backgroundColor, filter])({style})"
        assert tab.run(look) == light.run(look), one
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("getComputedStyle(document.querySelector('.map td')).printColorAdjust") == "exact"
    assert tab.run(BOXES) == []
    seen = tab.run(SEEN)
    assert [one for one in seen if one["right"] > PAPER + 0.5] == []
    assert any("theta incoherence" in one["text"] for one in seen)  # folded on a screen
    assert not any(one["text"] in ("Save as SVG", "table.csv", "At a glance ") for one in seen)


def test_the_page_is_printed_on_few_pages_all_of_them_filled(browser, stopped, tmp_path):
    from PIL import Image

    tab = browser.open(stopped, dark=True)
    data = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    path = keep("print.pdf", data)
    assert 5 <= len(re.findall(rb"/Type /Page\b", data)) <= 20
    assert tab.run("document.querySelectorAll('details[open]').length") == 0  # folded again
    if shutil.which("pdftoppm") is None:
        pytest.skip("no pdftoppm on the path (Debian: apt-get install poppler-utils)")
    subprocess.run(["pdftoppm", "-r", "30", "-gray", path, tmp_path / "sheet"], check=True)
    *sheets, _ = sorted(tmp_path.glob("sheet*.pgm"))
    for sheet in sheets:
        with Image.open(sheet) as picture:
            _, _, _, last = picture.point(lambda grey: 255 if grey < 200 else 0).getbbox()
            assert last > 0.6 * picture.height, sheet.name


def test_without_scripts_there_is_everything_to_read(browser, page, sample_results):
    tab = browser.open(page, scripts=False)
    assert tab.complaints() == ([], [])
    for one in (".scripted", ".save"):  # what only the script could serve is not there
        assert tab.run(f"document.querySelector('{one}').checkVisibility()") is False
    words = tab.run("document.body.innerText")
    assert all(target.how in words for target in sample_results.targets)
    assert tab.run("document.querySelectorAll('#results thead button').length") == 0


def test_the_keyboard_goes_through_the_page_from_top_to_bottom_and_is_seen(browser, page):
    tab = browser.open(page)
    where = """(() => {
      const all = [...document.querySelectorAll("a[href], button, summary, input, [tabindex]")];
      const [at, box] = [document.activeElement, document.activeElement.getBoundingClientRect()];
      return [all.indexOf(at), getComputedStyle(at).outlineStyle, box.width > 20 && box.height > 10];
    })()"""
    places = []
    for _ in range(25):
        for kind in ("rawKeyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        place, outline, large = tab.run(where)
        places.append(place)
        assert outline in ("solid", "auto")
        assert large
    assert places == list(range(25))


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_nothing_hostile_runs_or_widens_the_page(browser, sample_results, tmp_path, width):
    long = EVIL + 30 * "endless"
    results = replace(
        sample_results,
        made={"command": long},
        targets=tuple(replace(one, title=long, how=long, known=long) for one in sample_results.targets),
        learners=tuple(replace(one, title=long, guarantee=long) for one in sample_results.learners),
    )
    tab = browser.open(written(results, tmp_path), width=width)
    assert tab.complaints() == ([], [])
    assert tab.run("document.title") == "Learners against attention layers"
    assert tab.run("document.documentElement.scrollWidth") == width
