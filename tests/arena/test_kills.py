"""A command that is killed, told to end, or interrupted keeps its cells, and goes on where it was."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from lines import without_progress

from arena import Results, nice_target, parity_target, save_target
from runs import Store, StoreError

COMPARE = ["compare", "nice.safetensors", "parity.safetensors", "-o", "out", "--seeds", "3", "--learners"]


def start(folder, *command):
    """A command in a process of its own, once its store has cells; and their values."""
    command = [sys.executable, "-c", "from arena.cli import main; main()", *command]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in (folder / "out").glob("*.sqlite"):
            with contextlib.suppress(StoreError):  # it is being made
                if Store(path, read_only=True).values():
                    return process, path
        time.sleep(0.02)
    raise AssertionError("no cell was done in a minute")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        pytest.param("SIGTERM", "2", marks=pytest.mark.slow),
        pytest.param("SIGHUP", "1", marks=pytest.mark.slow),
        ("SIGINT", "2"),
    ],
)
def test_a_signal_ends_it_with_one_line_and_its_table_and_its_cells_are_kept(
    tmp_path, name, jobs, cli, monkeypatch
):
    save_target(tmp_path / "nice.safetensors", nice_target(heads=2, tokens=2, dim=16, seed=1))
    # at 24 the parity keeps Newton busy until the signal comes
    save_target(tmp_path / "parity.safetensors", parity_target(heads=2, dim=24, seed=2))
    process, _ = start(tmp_path, *COMPARE, "newton,linear,known-component,elimination", "--jobs", jobs)
    process.send_signal(getattr(signal, name))
    out, error = process.communicate(timeout=120)
    assert process.returncode == 130
    error = without_progress(error)
    assert error.count("\n") == 1, error
    assert error.startswith("attention-bounds: Interrupted: ")
    assert "of 24 cells are done and kept" in error
    assert "Error on the unknown part" in out
    written = Results.load(tmp_path / "out")
    assert 1 <= len(written.cells) < 24
    assert written.made["interrupted"] is True
    assert (tmp_path / "out" / "index.html").exists()
    monkeypatch.chdir(tmp_path)
    whole = Results.from_json(cli(*COMPARE, "linear,known-component,elimination", "--json").out)
    done = [cell for cell in written.cells if cell.learner != "newton"]
    assert len(whole.cells) == 18
    assert whole.made["reused"] >= len(done) > 0  # one may end while the others are stopped
    assert set(done) <= set(whole.cells)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_recovery_that_is_killed_keeps_its_layers_and_computes_the_others_only(
    tmp_path, checkpoint, cli, monkeypatch
):
    checkpoint(tmp_path / "model", dim=48, layers=8)
    command = ["recover", "model", "--by", "queries", "--jobs", "1", "-o", "out"]
    process, store = start(tmp_path, *command)
    process.kill()
    process.communicate()
    stored = {one["arguments"]["layer"]: one["value"] for one in Store(store, read_only=True).values()}
    assert 1 <= len(stored) < 8
    monkeypatch.chdir(tmp_path)
    layers = json.loads(cli(*command, "--json").out)["layers"]
    assert [one["layer"] for one in layers] == list(range(8))
    for one in layers:
        assert one["recovered"] == ["F", "Theta", "W", "c", "b"]
        if one["layer"] in stored:  # to the digits of its seconds
            assert one["seconds"] == stored[one["layer"]]["seconds"]
