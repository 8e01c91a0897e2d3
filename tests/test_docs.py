"""The pages: the code of each runs and prints what it says, and their links lead somewhere."""

import importlib.util
import re
import shlex
import shutil
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from arena.cli.main import app

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("blocks", ROOT / "docs" / "blocks.py")
blocks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(blocks)

PAGES = [path for path in blocks.pages() if path.is_file()]
ELSEWHERE = {ROOT / "README.md": "test_readme.py", ROOT / "CONTRIBUTING.md": "test_contributing.py"}
KINDS = {path: {block.kind for block in blocks.find_blocks(path)} for path in PAGES if path not in ELSEWHERE}
# commands are processes
WITH_CODE = [
    pytest.param(path, marks=pytest.mark.slow) if "console" in kinds else path
    for path, kinds in KINDS.items()
    if kinds & {*blocks.RUN}
]


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.bad_input  # pages show what happens on wrong input, too
@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page):
    found = blocks.find_blocks(page)
    commands = [command for block in found if block.kind == "console" for command in block.commands]
    there = shutil.which("attention-bounds", path=blocks.search_path())
    if any("attention-bounds" in command for command in commands) and not there:
        pytest.skip("the command attention-bounds is not on the path")
    report = blocks.run_page(page, slow=True)
    assert not report.broken
    assert not report.differences
    if not report.ran:
        pytest.skip(f"nothing is left to run: {'; '.join(report.left_out)}")


def test_every_page_that_is_written_is_found():
    assert {"README.md", "CONTRIBUTING.md", "docs/index.rst", "docs/newton.rst"} <= {
        name(path) for path in PAGES
    }
    assert not [path for path in PAGES if "_build" in path.parts or "gallery" in path.parts]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_of_a_kind_that_is_run_or_no_code(page):
    """A block of another kind, ```bash say, would be code that nobody runs."""
    kinds = {block.kind for block in blocks.find_blocks(page)}
    assert kinds <= {*blocks.RUN, *blocks.DATA, "sh"}


def test_commands_that_are_not_run_are_few():
    """What is marked `sh`: installing, and the long jobs; they are held to what the command line knows below."""
    allowed = re.compile(
        r"(python3? -m venv|pip install|pre-commit install|dask |attention-bounds (compare|check|study|curves)( |$))"
    )
    found = [(path, block) for path in PAGES for block in blocks.find_blocks(path) if block.kind == "sh"]
    for path, block in found:
        for line in block.lines:
            assert not line.strip() or allowed.match(line), f"{name(path)}:{block.start + 1}: {line}"
    assert len(found) <= 10


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_is_one_of_the_command_line(page):
    """Those that are not run, too: slow ones, and those in literal blocks."""
    for command in re.findall(
        r"^ *(?:\$ )?(attention-bounds .*)$", page.read_text(encoding="utf-8"), re.MULTILINE
    ):
        known, words = typer.main.get_command(app), arguments(command)
        while hasattr(known, "commands") and words:
            if words[0].startswith("-") and hasattr(known, "_default"):
                words = [known._default, *words]  # curves alone is curves sq
            assert words[0] in known.commands, command
            known = known.commands[words.pop(0)]
        try:
            known.make_context(command, words)  # reads the words and runs nothing
        except typer.BadParameter:
            pass  # a file that is not there
        except typer.Exit:
            pass  # --help


def arguments(command):
    """The words of a command after its name, up to a pipe or the like."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)[1:]
    return list(takewhile(lambda word: not set(word) <= set("|&;<>()"), words))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("attention-bounds compare", ["compare"]),
        ("attention-bounds families | cut -c 1-9", ["families"]),
        ("attention-bounds runs 'a b' --out x.csv > /dev/null  # all", ["runs", "a b", "--out", "x.csv"]),
    ],
)
def test_words_of_a_command(command, words):
    assert arguments(command) == words


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_of_markdown_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link


# The engine itself, on pages made for it.

RST = """Title
=====

.. code-block:: python

   number = 41

.. slow

.. code-block:: python
   :caption: long

   raise SystemError("slow ones are not run")

.. needs: no_such_module

.. code-block:: python

   import no_such_module

Text, and in it:

>>> number + 1
42

.. code-block:: console

   $ printf 'took %s s\\n' 3 > told.txt; \\
     cat told.txt
   took 77 s

.. code-block:: python

   from pathlib import Path

   assert Path("told.txt").read_text() == "took 3 s\\n"
"""
MARKDOWN = """# Title

```sh
pip install something
```

<!-- slow -->
```console
$ false
```

1. A list:

   ```python
   print("not shown")
   ```

```console
$ echo 3.5 words
4 words
$ echo more
```
"""


def written(folder, text, name="page.rst"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_blocks_of_restructuredtext_run_in_order_in_one_namespace_and_folder(tmp_path):
    page = written(tmp_path, RST)
    kinds = [(block.kind, block.slow, block.needs) for block in blocks.find_blocks(page)]
    assert kinds == [
        ("python", False, ()),
        ("python", True, ()),
        ("python", False, ("no_such_module",)),
        ("doctest", False, ()),
        ("console", False, ()),
        ("python", False, ()),
    ]
    report = blocks.run_page(page)
    assert (report.broken, report.differences, report.ran) == ("", [], 4)
    assert [line.partition(": ")[2] for line in report.left_out] == [
        "slow",
        "no_such_module is not installed",
    ]
    assert report.text == RST.replace("77", "3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.rst"]


def test_blocks_of_markdown(tmp_path):
    page = written(tmp_path, MARKDOWN, "page.md")
    assert [(block.kind, block.slow) for block in blocks.find_blocks(page)] == [
        ("sh", False),
        ("console", True),
        ("python", False),
        ("console", False),
    ]
    report = blocks.run_page(page)
    assert report.broken == ""
    [told] = report.differences
    assert "the page ends" in told
    assert "'more'" in told
    assert report.text == MARKDOWN.replace("4 words", "3.5 words").replace("echo more\n", "echo more\nmore\n")
    assert "'false' ended with status 1" in blocks.run_page(page, slow=True).broken


def test_checking_writes_nothing_and_refreshing_writes_what_commands_print(tmp_path, capsys):
    page = written(tmp_path, MARKDOWN, "page.md")
    assert blocks.main([str(page), "--check"]) == 1
    assert page.read_text(encoding="utf-8") == MARKDOWN
    assert "the page ends, the command prints 'more'" in capsys.readouterr().err
    assert blocks.main([str(page)]) == 0
    assert blocks.main([str(page), "--check"]) == 0
    assert "echo more\nmore\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("number = 41", "number = 1 / 0", ":6: line 6, 'number = 1 / 0': ZeroDivisionError"),
        ("number + 1\n42", "number + 1\n43", "Got:\n    42"),
        ("cat told.txt", "cat other.txt", "ended with status 1: cat: other.txt"),
        ('"took 3', '"took 4', "AssertionError"),
    ],
)
def test_what_breaks_down_is_said_and_nothing_is_written(tmp_path, capsys, old, new, said):
    page = written(tmp_path, RST.replace(old, new))
    assert blocks.main([str(page)]) == 1
    assert said in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == RST.replace(old, new)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("error 1.2e-15, 3 heads", "error 9e-14, 4 heads", True),
        ("took 3 ms", "took 2.1 s", True),
        ("took <1ms", "took 2.1 s", True),
        ("learned", "broken", False),
        ("a   b", "a b", True),
    ],
)
def test_numbers_and_times_may_differ_and_words_may_not(tmp_path, before, after, same):
    page = written(tmp_path, f"```console\n$ echo '{after}'\n{before}\n```\n", "page.md")
    assert bool(blocks.run_page(page).differences) is not same
