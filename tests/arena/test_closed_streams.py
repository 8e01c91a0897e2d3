"""Output that is closed, or can hold nothing more, changes no status and is no traceback."""

import subprocess
import sys

import pytest

from arena import nice_target, save_target

PROGRAM = f"exec {sys.executable} -c 'from arena.cli import main; main()'"


@pytest.mark.parametrize(
    ("file", "streams", "status"),
    [
        pytest.param("nice.safetensors", ">&- <&-", 0, marks=pytest.mark.slow),
        ("missing.safetensors", "2>&-", 2),
        pytest.param("missing.safetensors", "2>/dev/full", 2, marks=pytest.mark.slow),
    ],
)
def test_the_status_tells_what_no_stream_can(tmp_path, file, streams, status):
    save_target(tmp_path / "nice.safetensors", nice_target(heads=1, tokens=2, dim=3))
    done = subprocess.run(
        ["sh", "-c", f"{PROGRAM} inspect {tmp_path / file} {streams}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert not done.stdout
    assert not done.stderr
