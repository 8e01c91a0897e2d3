"""``compare`` as a command: what it keeps, what it says of failures, and disks that do not take what it writes."""

import ctypes
import subprocess
import sys

import cloudpickle
import pytest
from lines import without_progress

import arena.cli.compare
from arena import LEARNERS, LearnerEntry, Results
from upper import KnownComponentBaseline

cloudpickle.register_pickle_by_value(sys.modules[__name__])
PROGRAM = [sys.executable, "-c", "from arena.cli import main; main()"]
FEW = ["--learners", "linear,known-component", "--jobs", 1]


class _Broken(KnownComponentBaseline):
    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        return 1 / 0


class _Endless(KnownComponentBaseline):
    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        while True:
            pass


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_failures_are_status_one_and_lose_nothing(cli, file, tmp_path, monkeypatch):
    entries = [LEARNERS["known-component"]]
    entries += [
        LearnerEntry(kind.__name__, "X", "None.", lambda *_, kind=kind: kind())
        for kind in (_Broken, _Endless)
    ]
    monkeypatch.setattr(arena.cli.compare, "choose_learners", lambda names: entries)
    (line,) = cli("compare", file, "--timeout", 1, "--out", tmp_path / "r", status=1).err.splitlines()
    assert "2 of 3 cells failed" in line
    assert "ZeroDivisionError" in line or "Stopped after 1 seconds" in line
    assert [cell.status for cell in Results.load(tmp_path / "r").cells] == ["done", "failed", "timed out"]


def test_what_is_no_store_is_left_alone(cli, file, tmp_path):
    (tmp_path / "runs.sqlite").write_text("hello")
    (line,) = cli("compare", file, *FEW, "-o", tmp_path, status=1).err.splitlines()
    assert "no store" in line
    assert (tmp_path / "runs.sqlite").read_text() == "hello"


def _without_privilege():
    """Root loses the right to write anywhere: mode bits count for it too."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def command(*arguments, status):
    """A command in a process of its own: what it printed, and its one line if it failed."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, preexec_fn=_without_privilege
    )
    complaint = without_progress(done.stderr)
    assert (done.returncode, complaint.count("\n")) == (status, int(status > 0)), done.stderr
    return done.stdout, complaint


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mode bits of Linux")
def test_a_read_only_store_serves_its_cells_and_refuses_new_ones_in_one_line(cli, file, tmp_path):
    folder, other = tmp_path / "locked", tmp_path / "other"
    cli("compare", file, *FEW, "-o", folder)
    for kept in folder.glob("runs.sqlite*"):
        kept.chmod(0o400)
    folder.chmod(0o500)
    try:
        assert "Nothing can be written in" in command("compare", file, *FEW, "-o", folder, status=2)[1]
        again = ("compare", file, *FEW, "-o", other, "--store", folder / "runs.sqlite")
        command(*again, status=0)  # nothing is left to compute
        assert "readonly" in command(*again, "--fresh", status=1)[1].replace("-", "")
        assert "2 cells in" in command("runs", folder / "runs.sqlite", status=0)[0]
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("name", ["results.json", "index.html"])
def test_a_full_disk_is_one_line_after_the_table(cli, file, tmp_path, monkeypatch, name):
    def full(path, content):
        if path.name == name:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(content)

    monkeypatch.setattr(arena.cli.compare, "write_whole", full)
    said = cli("compare", file, *FEW, "-o", tmp_path / "out", status=1)
    assert f"{name}: No space left on device: free some space" in said.err
    assert "Error on the unknown part" in said.out
