"""The README: its commands print what it says, and its Python runs."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def text():
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("attention-bounds") is None, reason="the command is not on the path")
def test_commands_print_what_the_page_says():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    assert readme.main(["--check"]) == 0


@pytest.mark.bad_input  # the contract tries wrong input
def test_python_runs(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes files
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_exactly_two_set_up_commands(text):
    assert re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL) == [
        "pip install torch==2.13.0 -e '.[torch]' && attention-bounds compare",
        "pip install -e '.[test]' && pytest",
    ]


def test_everything_linked_exists(text):
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link
