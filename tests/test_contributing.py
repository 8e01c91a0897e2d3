"""CONTRIBUTING.md: its examples run as they stand, are short, and name files and registries that are there."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
_spec = importlib.util.spec_from_file_location("blocks", ROOT / "docs" / "blocks.py")
blocks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(blocks)


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


EXAMPLES = [block for block in blocks.find_blocks(PAGE) if block.kind == "python"]


@pytest.mark.bad_input  # the contract tries wrong input
@pytest.mark.parametrize("example", EXAMPLES, ids=["learner", "family", "attack", "check"])
def test_each_example_runs_alone(example, tmp_path):
    """Someone takes one of them, and not those above it."""
    page = tmp_path / "page.md"
    page.write_text("\n".join(["```python", *example.lines, "```", ""]), encoding="utf-8")
    report = blocks.run_page(page)
    assert report.broken == ""
    assert report.ran == 1


def test_examples_are_complete_and_under_30_lines_of_code():
    defined = [
        re.findall(r"^(?:class|def) (\w+)", "\n".join(block.lines), re.MULTILINE) for block in EXAMPLES
    ]
    assert defined == [["NearestExample"], ["StairFamily"], ["OneEntryAttack"], ["two_tokens"]]
    for block in EXAMPLES:
        assert "import" in block.lines[0]
        assert any(line.startswith(("assert ", "    assert ")) for line in block.lines)
        assert sum(bool(line.strip()) for line in block.lines) < 30


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_examples_are_in_the_house_style(tmp_path):
    for number, block in enumerate(EXAMPLES):
        path = tmp_path / f"example_{number}.py"
        path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    for command in (["check", "--ignore", "D"], ["format", "--check"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--config",
            str(ROOT / "pyproject.toml"),
            "--no-cache",
        ]
        done = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_the_check_passes_the_checks_of_where_it_goes(tmp_path):
    """Docstrings and types: a module of claims has them, so that the example can be taken as it is."""
    path = tmp_path / "example.py"
    path.write_text("\n".join(['"""Claims."""', "", *EXAMPLES[3].lines, ""]), encoding="utf-8")
    config = str(ROOT / "pyproject.toml")
    types = ["mypy", "--disallow-untyped-defs", "--follow-imports=silent", "--config-file="]
    for command in (["ruff", "check", "--config", config, "--no-cache"], [*types, f"--cache-dir={tmp_path}"]):
        done = subprocess.run(
            [sys.executable, "-m", *command, str(path)], capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_files_it_names_are_there(text):
    named = set(
        re.findall(r"`((?:arena|attention|lower|lwe|paper_checks|sq|tests|upper|docs|\.ci)/[\w./-]+)`", text)
    )
    assert len(named) > 20
    made_later = {"docs/_build/html", "docs/claims"}
    missing = {
        name
        for name in named - made_later
        if not re.search(r"(NAME|GROUP)\.", name) and not (ROOT / name).exists()
    }
    assert not missing


@pytest.mark.parametrize(
    ("registry", "module"),
    [
        ("STUDENTS", "arena.student_table"),
        ("ATTACKS", "arena.attacks"),
        ("FAMILIES", "lower.family"),
        ("two_head_families", "sq.families"),
        ("GROUPS", "paper_checks.registry"),
    ],
)
def test_registries_are_where_it_says(text, registry, module):
    assert hasattr(importlib.import_module(module), registry)
    assert f"`{module.replace('.', '/')}.py`" in text
    assert f"`{registry}`" in text


def test_checks_are_those_of_the_ci(text):
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in (
        "ruff check .",
        "ruff format --check .",
        "lint-imports",
        "mypy",
        "sphinx-build -W -q",
        "check_results.py",
        "pytest --passed",
    ):
        assert command in ci
        assert command in text


def test_commands_that_make_things_are_known(text):
    """Every script and subcommand of the table of generated things is there."""
    table = text[text.index("## What is generated") :]
    for script in re.findall(r"python (docs/\w+\.py)", table):
        assert (ROOT / script).is_file(), script
    benchmarks = (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")
    for name in re.findall(r"python -m benchmarks ([a-z-]+)", table):
        assert f'"{name}"' in benchmarks, name
