"""The tutorials: every one runs as a plain script, from any folder, and leaves nothing behind."""

import os
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
