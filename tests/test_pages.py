"""The pages: their code runs and prints what they say, their commands and links exist."""

import contextlib
import importlib
import importlib.util
import itertools
import re
import shlex
import shutil
import sys
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from arena.cli.main import app
from arena.formats import error_text
from arena.results import Results
from arena.targets import registered_families
from lower import FAMILIES

ROOT = Path(__file__).parent.parent


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages, comparison = script("pages"), script("comparison")

PAGES = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in pages.pages()]
TEXTS = {path: path.read_text(encoding="utf-8") for path in pages.pages()}
_BLOCK = re.compile(r"^ *(?:```(\w[\w+-]*)|\.\. (?:code-block|code|sourcecode):: *(.*))$", re.MULTILINE)


def kinds(path):
    return {first or second for first, second in _BLOCK.findall(TEXTS[path])}


WITH_CODE = [
    # commands are processes of a second or more; those of the README always run
    pytest.param(
        path, marks=[pytest.mark.slow] * ("console" in kinds(path) and path.suffix == ".rst"), id=name
    )
    for path, name in ((param.values[0], param.id) for param in PAGES)
    if kinds(path) & {"python", "console"}
]


@pytest.fixture
def families():
    """What a page registers is forgotten after it."""
    before = dict(registered_families())
    yield
    FAMILIES.clear()
    FAMILIES.update(before)


@pytest.mark.bad_input  # pages show what happens on wrong input, too
@pytest.mark.parametrize("page", WITH_CODE)
@pytest.mark.usefixtures("families")
def test_the_code_of_a_page_runs_and_prints_what_it_says(page):
    pytest.importorskip("torch", reason="pages use PyTorch, too")
    if (
        "console" in kinds(page)
        and shutil.which("attention-bounds", path=Path(sys.executable).parent) is None
    ):
        pytest.skip("the command attention-bounds is not installed")
    pages.run_page(page, slow=page.suffix == ".rst")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_is_no_code(page):
    """Code in a block of another kind, ``bash`` say, would be code that nobody runs."""
    assert kinds(page) <= {"python", "console", "sh", "text", "none", "toml"}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_is_one_of_the_command_line(page):
    """Those of blocks that are not run as well."""
    for command in re.findall(r"^ *(?:\$ )?(attention-bounds .*)$", TEXTS[page], re.MULTILINE):
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(takewhile(lambda word: not set(word) <= set("|&;<>()"), list(lexer)[1:]))
        known = typer.main.get_command(app)
        while hasattr(known, "commands") and words and words[0] != "--help":
            known = known.get_command(None, words.pop(0))
            assert known is not None, command
        with contextlib.suppress(typer.BadParameter, typer.Exit):  # a file that is not there; --help
            known.make_context(command, words)  # reads the words and runs nothing


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_files_that_markdown_links_to_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    links += re.findall(
        r"`((?:arena|attention|lower|lwe|runs|sq|studies|tests|upper|docs|\.ci)/[\w./-]+)`", text
    )
    for link in links:
        if not re.search(r"NAME|GROUP|_build", link):
            assert (ROOT / link).exists(), link


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_table_and_the_picture_of_the_comparison_are_of_its_record():
    results = Results.load(comparison.RECORD)
    assert comparison.record_of(results) == results
    text = comparison.README.read_text(encoding="utf-8")
    assert comparison.fill_readme(text, results) == text
    picture = comparison.PICTURE.read_text(encoding="utf-8")
    for target, learner in itertools.product(results.targets, results.learners):
        if (summary := results.summary(target.name, learner.name)).done:
            assert f">{error_text(summary.error)}<" in picture


def test_no_drawing_of_the_documentation_is_large():
    drawings = [
        path
        for path in (ROOT / "docs").rglob("*.svg")
        if "_build" not in path.parts and "gallery" not in path.parts
    ]
    assert len(drawings) > 20
    assert {path.name for path in drawings if path.stat().st_size > 60_000} == set()


def test_types_of_the_architecture_are_public():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("## The types that travel") : text.index("A comparison, for example")]
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \|", table, re.MULTILINE)
    assert len(rows) > 10
    for names, packages in rows:
        modules = [importlib.import_module(package) for package in re.findall(r"`(\w+)`", packages)]
        for name in re.findall(r"`(\w+)", names):
            assert any(name in module.__all__ for module in modules), name


PAGE = """Title

.. code-block:: python

   number = 41

.. skip: next if(missing("no_such_module"), reason="not installed")

.. code-block:: python

   import no_such_module

.. code-block:: python

   >>> number + 1
   42

.. code-block:: console

   $ printf 'took %s s\\n' 3 > told.txt; \\
   cat told.txt
   took 77 s
   $ echo words
   words

.. code-block:: python

   from pathlib import Path

   assert Path("told.txt").read_text() == "took 3 s\\n"
"""


def test_a_page_runs_in_one_namespace_and_is_refreshed(tmp_path):
    page = tmp_path / "page.rst"
    page.write_text(PAGE)
    assert pages.run_page(page) == PAGE
    assert pages.run_page(page, refresh=True) == PAGE.replace("77", "3")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("number = 41", "number = 1 / 0", "division by zero"),
        ("   42", "   43", "Got:\n    42"),
        ("cat told", "cat untold", "status 1"),
        ("took 77", "it took 77", "-it took #"),  # a number may differ, a word may not
        ('"took 3', '"took 4', None),
    ],
)
def test_a_page_that_is_wrong_is_an_error(tmp_path, old, new, match):
    page = tmp_path / "page.rst"
    page.write_text(PAGE.replace(old, new))
    with pytest.raises((AssertionError, ZeroDivisionError), match=match):
        pages.run_page(page)
