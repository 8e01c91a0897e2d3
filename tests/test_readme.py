"""The README: its commands print what it says, and its Python runs."""

import importlib.util
import shutil
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "README.md"
_spec = importlib.util.spec_from_file_location("blocks", PAGE.parent / "docs" / "blocks.py")
blocks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(blocks)


needs_command = pytest.mark.skipif(
    shutil.which("attention-bounds", path=blocks.search_path()) is None,
    reason="the command is not on the path",
)


@needs_command
@pytest.mark.bad_input  # the contract tries wrong input
def test_commands_print_what_the_page_says_and_python_runs():
    report = blocks.run_page(PAGE)
    assert not report.broken
    assert not report.differences
    assert report.ran > 15


@needs_command
@pytest.mark.slow
def test_long_commands_print_what_the_page_says(tmp_path):
    """All but the comparison, which is held to the page where it runs with nothing else installed."""
    pytest.importorskip("fpylll", reason="fpylll is not installed")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    chosen = [
        block
        for block in blocks.find_blocks(PAGE)
        if any(" -o lwr.safetensors" in command for command in block.commands)
        or (block.slow and " compare " not in block.commands[0])
    ]
    page = tmp_path / "page.md"
    page.write_text("\n".join("\n".join(lines[one.start - 1 : one.stop + 1]) for one in chosen) + "\n")
    report = blocks.run_page(page)
    assert (report.broken, report.differences, report.ran) == ("", [], 3)


def test_only_the_longest_commands_are_left_out():
    slow = [command for block in blocks.find_blocks(PAGE) if block.slow for command in block.commands]
    assert {command.split()[1] for command in slow} <= {"compare", "curves", "attack"}
    assert len(slow) <= 3


def test_exactly_two_set_up_commands():
    assert [block.lines for block in blocks.find_blocks(PAGE) if block.kind == "sh"] == [
        ("pip install torch==2.13.0 -e '.[torch,lattice]' && attention-bounds compare",),
        ("pip install -e '.[test]' && pytest",),
    ]
