"""The tutorials: every one runs as a plain script, from any folder, and leaves nothing behind."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("plot_*.py"))


@pytest.mark.parametrize(
    "path",
    [TUTORIALS[0], *(pytest.param(path, marks=pytest.mark.slow) for path in TUTORIALS[1:])],
    ids=lambda path: path.stem,
)
def test_it_runs(path, tmp_path):
    command = [sys.executable, "-W", "error", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_it_begins_with_a_title_and_shows_a_picture(path):
    """What a page of the documentation needs: a title, and cells that end in something to look at."""
    source = path.read_text(encoding="utf-8")
    title, line = ast.get_docstring(ast.parse(source)).splitlines()[:2]
    assert line == "=" * len(title)
    assert re.search(r"^results\.plot\(|^recovery\.drawing\b", source, re.MULTILINE)
