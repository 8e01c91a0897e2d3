"""The page in headless Chromium: what a reader does works, on every kind of screen and on paper.

The tests leave what they saw in a folder: desktop.png, desktop-dark.png, phone.png, phone-dark.png, stopped.png (a
comparison that was stopped, with failures) and print.pdf. The folder is the one that the environment variable
ATTENTION_BOUNDS_ARTEFACTS names, or else build/artefacts in the project's root.
"""

import base64
import csv
import importlib.util
import io
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

from arena.page import render_page
from arena.results import Results
from arena.sheets import curves_csv, table_csv

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_picture", ROOT / "docs" / "make_picture.py")
make_picture = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_picture)
CHROMIUM = next((found for name in make_picture.BROWSERS if (found := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on the path (Debian: apt-get install chromium)"
)
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
PHONE, DESKTOP, PAPER = 390, 1280, 688

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
        options = [*make_picture.QUIET, "--hide-scrollbars", "--force-color-profile=srgb"]
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


COLUMN = "[...document.querySelectorAll('#results tbody tr')].map((row) => row.cells[{}].innerText.split('\\n').at(-1))"
FIRST = COLUMN.replace(".at(-1)", "[0]")
PRESS = "document.querySelectorAll('#results thead button')[{}].click()"
ARIA = "[...document.querySelectorAll('#results thead th')].map((head) => head.getAttribute('aria-sort'))"


@needs_chromium
def test_the_page_loads_without_a_word_of_complaint_and_without_network(browser, page):
    tab = browser.open(page)
    assert tab.complaints() == ([], [])
    assert tab.run("document.querySelectorAll('#results thead button').length") == 8
    assert tab.run("document.querySelector('.scripted').innerText") == "Press a heading to sort."


@needs_chromium
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_table_sorts_by_every_heading(browser, page, sample_results, width):
    tab = browser.open(page, width=width)
    read = FIRST if width == DESKTOP else COLUMN
    texts = {column: tab.run(COLUMN.format(column)) for column in range(8)}
    tab.run(PRESS.format(3))
    errors = [row.split("\n") for row in tab.run(COLUMN.format(3).replace(".split('\\n').at(-1)", ""))]
    assert tab.run(ARIA)[3] == "ascending"
    up = [float(next(part for part in parts if part != "Error")) for parts in errors if "–" not in parts]
    assert up == sorted(up)
    assert len(up) == 21  # and the four without a number are last
    assert all("–" in parts for parts in errors[-4:])
    tab.run(PRESS.format(3))
    assert tab.run(ARIA)[3] == "descending"
    down = [row.split("\n") for row in tab.run(COLUMN.format(3).replace(".split('\\n').at(-1)", ""))]
    assert all("–" in parts for parts in down[-4:])
    assert [float(next(part for part in parts if part != "Error")) for parts in down[:21]] == up[::-1]
    tab.run(PRESS.format(2))
    assert tab.run(ARIA) == [None, None, "ascending", *[None] * 5]
    titles = [learner.title for learner in sample_results.learners]
    assert tab.run(read.format(2)) == [title for title in titles for _ in range(5)]
    tab.run(PRESS.format(5))
    counts = [int(text.replace(",", "")) for text in tab.run(COLUMN.format(5)) if text.strip("–")]
    assert counts == sorted(counts)
    tab.run(PRESS.format(0))
    assert tab.run(COLUMN.format(0)) == texts[0]
    assert {column: sorted(tab.run(COLUMN.format(column))) for column in range(8)} == {
        column: sorted(text) for column, text in texts.items()
    }


@needs_chromium
def test_every_download_holds_what_it_says(browser, page, sample_results):
    tab = browser.open(page)
    text, name = tab.save("#save-json")
    assert name == "results.json"
    assert Results.from_json(text) == sample_results
    for wanted, content in (
        ("results.csv", sample_results.to_csv()),
        ("table.csv", table_csv(sample_results)),
        ("curves.csv", curves_csv(sample_results)),
    ):
        assert tab.save(f"#repeat [download='{wanted}']") == (content, wanted)
    for place, target in enumerate(sample_results.targets):
        text, name = tab.save(f"#target-{place} .save-line a")
        assert name == f"{target.name}-curves.csv"
        assert text == curves_csv(sample_results, target.name)
        assert {row["target"] for row in csv.DictReader(io.StringIO(text))} == {target.name}


@needs_chromium
def test_every_figure_is_saved_as_a_drawing_that_stands_alone(browser, page, sample_results):
    tab = browser.open(page, dark=True)
    names = tab.run("[...document.querySelectorAll('.save')].map((link) => link.dataset.name)")
    assert len(names) == len(set(names)) == 1 + 2 * len(sample_results.targets)
    for place, wanted in enumerate(names):
        if place % 9 == 8:  # the browser holds up who takes more than ten files from one tab
            tab = browser.open(page, dark=True)
        text, name = tab.save(f".save[data-name='{wanted}']")
        drawing = ElementTree.fromstring(text)
        assert name == wanted
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(drawing.get("width").removesuffix("pt")) > 200
        assert "var(" not in text
        assert "inherit" not in text
        assert "#fefefe" in text  # the light theme, whatever the page shows
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}text"))) > 8


# what is seen: every element that shows text itself, with its size in pixels of the screen
SEEN = """
(() => {
  const seen = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (!own || element.closest("script, .unseen, .skip") || !element.checkVisibility() || !box.width) continue;
    const scale = element.ownerSVGElement ? element.getScreenCTM().a : 1;
    seen.push({ text: element.textContent.trim().slice(0, 40), left: box.left, right: box.right,
                size: Math.abs(scale || 1) * parseFloat(getComputedStyle(element).fontSize) });
  }
  return seen;
})()
"""
BOXES = """
[...document.querySelectorAll("body *:not(.unseen, .skip, svg *)")].filter((element) => element.checkVisibility()
  && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1
  && getComputedStyle(element).display !== "inline").map((element) => element.outerHTML.slice(0, 120))
"""


@needs_chromium
@pytest.mark.parametrize(
    ("which", "width"),
    [*(("page", width) for width in (360, PHONE, 760, 1000)), ("stopped", PHONE), ("stopped", DESKTOP)],
)
def test_nothing_is_wider_than_the_window_and_everything_can_be_read(browser, request, which, width):
    tab = browser.open(request.getfixturevalue(which), width=width)
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(BOXES) == []
    seen = tab.run(SEEN)
    assert len(seen) > 400
    assert [one for one in seen if one["left"] < -0.5 or one["right"] > width + 0.5] == []
    least = 10 if width < PHONE else 11
    assert [one for one in seen if one["size"] < least] == []


@needs_chromium
def test_a_phone_gets_tiles_and_cards_and_a_desktop_a_map_and_a_table(browser, page):
    shown = "[...document.querySelectorAll('.map > *')].map((one) => one.checkVisibility())"
    display = "getComputedStyle(document.querySelector('#results tbody tr')).display"
    phone, desktop = browser.open(page, width=PHONE), browser.open(page)
    assert (phone.run(shown), phone.run(display)) == ([False, True], "grid")
    assert (desktop.run(shown), desktop.run(display)) == ([True, False], "table-row")
    assert phone.run("document.querySelectorAll('.tiles li').length") == 25
    label = "getComputedStyle(document.querySelector('#results .error'), '::before').content"
    assert phone.run(label) == '"Error"'


@needs_chromium
@pytest.mark.parametrize("width", [pytest.param(DESKTOP, marks=pytest.mark.slow), PHONE])
@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pictures_of_the_page_are_kept(browser, page, width, dark):
    from PIL import Image

    tab = browser.open(page, width=width, dark=dark)
    name = f"{'desktop' if width == DESKTOP else 'phone'}{'-dark' if dark else ''}.png"
    path, size = tab.picture(name)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.size == size
        assert picture.width == width
        assert picture.height > 5000
        part = picture.convert("RGB").resize((width // 3, picture.height // 3), Image.Resampling.NEAREST)
    colours = part.getcolors(part.width * part.height)
    assert len(colours) > 300
    # the ground covers most of it, and it is the theme's
    ground = max(colours)[1]
    wanted = "rgb(15, 20, 26)" if dark else "rgb(246, 247, 249)"
    assert tab.run("getComputedStyle(document.body).backgroundColor") == wanted
    assert (max(ground) < 40) if dark else (min(ground) > 240)


@needs_chromium
def test_a_picture_of_a_stopped_comparison_is_kept_and_says_so_at_its_top(browser, stopped):
    tab = browser.open(stopped)
    notice = tab.run("document.querySelector('.notice').innerText")
    assert notice.startswith("This comparison is not complete. Stopped by hand before the end: 44 of 50 fits")
    assert tab.run("document.querySelector('.notice').getBoundingClientRect().top") < 300
    path, _ = tab.picture("stopped.png")
    assert path.stat().st_size > 50_000


@needs_chromium
def test_on_paper_the_page_is_light_open_and_whole(browser, page):
    # without scripts, so that it is the style sheet that opens what is folded
    tab = browser.open(page, width=PAPER, dark=True, media="print", scripts=False)
    light = browser.open(page, width=PAPER)
    for one in (".badge.nice", ".badge.hard", "#results .swatch", ".key", ".heat-map svg path[style*=heat]"):
        style = f"getComputedStyle(document.querySelector('{one}'))"
        look = f"(({{ backgroundColor, fill }}) => [backgroundColor, fill])({style})"
        assert tab.run(look) == light.run(look), one
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    swatch = "getComputedStyle(document.querySelector('#results .swatch')).printColorAdjust"
    assert tab.run(swatch) == "exact"
    assert tab.run(BOXES) == []
    seen = tab.run(SEEN)
    assert [one for one in seen if one["right"] > PAPER + 0.5] == []
    folded = "least stable rank            9.8"
    assert any(folded in one["text"] for one in seen)
    assert not any(folded in one["text"] for one in light.run(SEEN))
    assert not any(one["text"] in ("Save as SVG", "table.csv", "At a glance ") for one in seen)
    assert tab.run("getComputedStyle(document.querySelector('#results tbody tr')).display") == "table-row"


@needs_chromium
def test_the_page_is_printed_and_kept(browser, page):
    tab = browser.open(page, dark=True)
    data = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    path = keep("print.pdf", data)
    assert data.startswith(b"%PDF-")
    assert path.stat().st_size > 40_000
    pages = len(re.findall(rb"/Type /Page\b", data))
    assert 5 <= pages <= 20
    # what was opened for the paper is folded again
    assert tab.run("document.querySelectorAll('details[open]').length") == 0


@needs_chromium
def test_without_scripts_there_is_everything_to_read(browser, page, sample_results):
    tab = browser.open(page, scripts=False)
    assert tab.complaints() == ([], [])
    assert tab.run("document.querySelectorAll('#results thead button').length") == 0
    assert tab.run("document.querySelector('.scripted').checkVisibility()") is False
    words = tab.run("document.body.innerText")
    for target in sample_results.targets:
        assert target.how in words
    assert tab.run("document.querySelectorAll('.drawing svg').length") == 11
    phone = browser.open(page, scripts=False, width=PHONE)
    assert phone.run("document.querySelector('#results thead').checkVisibility()") is False
    # a link that only the script could serve is not there
    assert phone.run("document.querySelector('.save').checkVisibility()") is False


@needs_chromium
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_keyboard_goes_through_the_page_from_top_to_bottom_and_is_seen(browser, page, width):
    tab = browser.open(page, width=width)
    where = """(() => {
      const all = [...document.querySelectorAll("a[href], button, summary, pre[tabindex]")];
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


@pytest.mark.slow
@needs_chromium
def test_nothing_hostile_runs(browser, sample_results, tmp_path):
    results = replace(
        sample_results,
        made={"command": EVIL},
        targets=tuple(
            replace(one, title=EVIL, how=EVIL, certificate=(EVIL,)) for one in sample_results.targets
        ),
        learners=tuple(replace(one, title=EVIL, guarantee=EVIL) for one in sample_results.learners),
    )
    path = written(results, tmp_path)
    for width in (PHONE, DESKTOP):
        tab = browser.open(path, width=width)
        assert tab.complaints() == ([], [])
        assert tab.run("document.title") == "Learners against attention layers"
        assert tab.run("document.documentElement.scrollWidth") == width


@needs_chromium
def test_the_picture_is_made(page, tmp_path):
    out = tmp_path / "folder" / "picture.png"
    script = ROOT / "docs" / "make_picture.py"
    subprocess.run(
        [sys.executable, script, page, out, "--width", "640", "--height", "480"], check=True, timeout=120
    )
    head = out.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) == (640, 480)
    assert out.stat().st_size > 10_000


def test_a_missing_browser_and_a_missing_page_are_one_line(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_picture", str(page), str(tmp_path / "out.png")])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make_picture.main() == 1
    assert capsys.readouterr().err.startswith("make_picture: No Chromium is on the path")
    monkeypatch.setattr(sys, "argv", ["make_picture", str(tmp_path / "none.html"), str(tmp_path / "out.png")])
    assert make_picture.main() == 1
    error = capsys.readouterr().err
    assert "There is no page" in error
    assert error.count("\n") == 1
