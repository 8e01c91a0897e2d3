"""The page in headless Chromium: no errors, sorting works, the picture is made."""

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arena.page import render_page

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_picture", ROOT / "docs" / "make_picture.py")
make_picture = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_picture)
CHROMIUM = next((found for name in make_picture.BROWSERS if (found := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on the path (Debian: apt-get install chromium)"
)
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"

# what a user would do, done by a script in a copy of the page: its findings are written into the document
CLICKS = """
const column = (place) => [...document.querySelectorAll("#results tbody tr")].map((row) => row.cells[place].innerText);
const head = (place) => document.querySelectorAll("#results thead th")[place];
const said = {};
said.before = column(3);
head(3).querySelector("button").click(); said.up = column(3); said.aria = head(3).getAttribute("aria-sort");
head(3).querySelector("button").click(); said.down = column(3); said.aria2 = head(3).getAttribute("aria-sort");
head(2).querySelector("button").click(); said.learners = column(2); said.aria3 = head(3).getAttribute("aria-sort");
head(5).querySelector("button").click(); said.examples = column(5);
head(0).querySelector("button").click(); said.targets = column(0); said.again = column(3);
const link = document.getElementById("save-json");
link.addEventListener("click", (event) => event.preventDefault());
link.click(); said.json = link.href.slice(0, 5);
const save = document.querySelector(".save");
save.addEventListener("click", (event) => event.preventDefault());
save.click(); said.svg = save.href.slice(0, 5); said.name = save.download; said.hidden = save.hidden;
said.wide = document.documentElement.scrollWidth > window.innerWidth;
said.title = document.title;
const out = document.createElement("pre"); out.id = "said"; out.textContent = JSON.stringify(said);
document.body.append(out);
"""


def browse(page, tmp_path, *options):
    """The document after its scripts ran, and what the console said."""
    command = [
        CHROMIUM,
        *make_picture.QUIET,
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/profile",
        *options,
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True, encoding="utf-8")
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


@pytest.fixture(scope="module")
def page(sample_results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(render_page(sample_results), encoding="utf-8")
    return path


def clicked(results, tmp_path, *options):
    import html
    import json

    text = render_page(results)
    allowed = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", text)
    assert allowed != text
    path = tmp_path / "clicked.html"
    path.write_text(allowed.replace("</body>", f"<script>{CLICKS}</script></body>"), encoding="utf-8")
    document, console = browse(path, tmp_path, *options)
    found = re.search(r'<pre id="said">(.*?)</pre>', document, re.DOTALL)
    assert found, console
    return json.loads(html.unescape(found[1])), console


@needs_chromium
def test_the_page_runs_without_an_error(page, tmp_path):
    document, console = browse(page, tmp_path)
    assert console == []
    assert document.count("<button") == 8
    assert "Click a heading to sort." in document


@needs_chromium
def test_sorting_and_saving_work(sample_results, tmp_path):
    said, console = clicked(sample_results, tmp_path, "--window-size=1280,900")
    assert console == []
    assert not said["wide"]
    up = [text.split("\n")[0] for text in said["up"]]
    numbers = [float(text) for text in up if text != "–"]
    assert numbers == sorted(numbers)
    assert up[-4:] == ["–"] * 4
    assert sorted(said["up"]) == sorted(said["before"])
    assert (said["aria"], said["aria2"], said["aria3"]) == ("ascending", "descending", None)
    down = [text.split("\n")[0] for text in said["down"]]
    numbers = [float(text) for text in down if text != "–"]
    assert numbers == sorted(numbers, reverse=True)
    assert down[-4:] == ["–"] * 4
    titles = [learner.title for learner in sample_results.learners]
    assert [titles.index(title) for title in said["learners"]] == sorted(5 * [0, 1, 2, 3, 4])
    counts = [int(text.replace(",", "")) for text in said["examples"] if text != "–"]
    assert counts == sorted(counts)
    assert said["targets"] == [target.title for target in sample_results.targets for _ in range(5)]
    assert (said["json"], said["svg"], said["name"], said["hidden"]) == (
        "blob:",
        "blob:",
        "heat-map.svg",
        False,
    )


@needs_chromium
def test_nothing_hostile_runs_even_where_scripts_may(sample_results, tmp_path):
    results = replace(
        sample_results,
        made={"command": EVIL},
        targets=tuple(
            replace(one, title=EVIL, how=EVIL, certificate=(EVIL,)) for one in sample_results.targets
        ),
        learners=tuple(replace(one, title=EVIL, guarantee=EVIL) for one in sample_results.learners),
    )
    said, console = clicked(results, tmp_path, "--window-size=500,900")
    assert console == []
    assert not said["wide"]  # tables and figures scroll in their own boxes, on a narrow window too
    assert said["title"] == "Learners against attention layers"


@needs_chromium
def test_the_picture_is_made(page, tmp_path):
    out = tmp_path / "folder" / "picture.png"
    command = [
        sys.executable,
        ROOT / "docs" / "make_picture.py",
        page,
        out,
        "--width",
        "640",
        "--height",
        "480",
    ]
    subprocess.run(command, check=True, timeout=120)
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
