"""A comparison that is killed, told to end, or interrupted goes on where it was, and its table is the same."""

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

COMMAND = ["compare", "nice.safetensors", "parity.safetensors", "-o", "out"]
COMMAND += ["--learners", "newton,linear,known-component,elimination"]


@pytest.fixture
def folder(tmp_path, request):
    dim = getattr(request, "param", 24)  # at 24 the parity keeps a learner busy until a signal comes
    save_target(tmp_path / "nice.safetensors", nice_target(heads=2, tokens=2, dim=16, seed=1))
    save_target(tmp_path / "parity.safetensors", parity_target(heads=2, dim=dim, seed=2))
    return tmp_path


def start(folder, *options, command=COMMAND):
    command = [sys.executable, "-c", "from arena.cli import main; main()", *command, *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_cells(folder, number, store="runs"):
    """The values in the store once it holds so many."""
    path, deadline = folder / "out" / f"{store}.sqlite", time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists():
            with contextlib.suppress(StoreError):  # it is being made
                values = Store(path, read_only=True).values()
                if len(values) >= number:
                    return values
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
def test_a_signal_ends_it_with_one_line_and_its_table(folder, name, jobs):
    process = start(folder, "--jobs", jobs, "--seeds", "3")
    wait_for_cells(folder, 3)
    process.send_signal(getattr(signal, name))
    out, error = process.communicate(timeout=120)
    assert process.returncode == 130
    error = without_progress(error)
    assert error.count("\n") == 1, error
    assert error.startswith("attention-bounds: Interrupted: ")
    assert "of 24 cells are done and kept" in error
    assert "Error on the unknown part" in out
    written = Results.load(folder / "out")
    assert 3 <= len(written.cells) < 24
    assert written.made["interrupted"] is True
    assert (folder / "out" / "index.html").exists()


@pytest.mark.parametrize("folder", [12], indirect=True)
def test_a_second_comparison_takes_over_what_a_killed_one_was_at(folder, cli, monkeypatch):
    given = ["--jobs", "1", "--seeds", "2"]
    process = start(folder, *given)
    wait_for_cells(folder, 1)
    process.kill()
    process.communicate()
    monkeypatch.chdir(folder)
    found = Results.from_json(cli(*COMMAND, *given, "--json").out)
    assert found.made["reused"] >= 1
    assert len(found.cells) == 16


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_recovery_that_is_killed_keeps_its_layers_and_computes_the_others_only(tmp_path, checkpoint):
    checkpoint(tmp_path / "model", dim=48, layers=8)
    command = ["recover", "model", "--by", "queries", "--jobs", "1", "-o", "out"]
    process = start(tmp_path, command=command)
    wait_for_cells(tmp_path, 1, "recover")
    process.kill()
    process.communicate()
    kept = {one["arguments"]["layer"]: one["value"] for one in wait_for_cells(tmp_path, 1, "recover")}
    assert 1 <= len(kept) < 8
    again = start(tmp_path, "--json", command=command)
    out, error = again.communicate(timeout=120)
    assert again.returncode == 0, error
    layers = json.loads(out)["layers"]
    assert [one["layer"] for one in layers] == list(range(8))
    for one in layers:
        assert one["recovered"] == ["F", "Theta", "W", "c", "b"]
        if one["layer"] in kept:  # to the digits of its seconds
            assert one["seconds"] == kept[one["layer"]]["seconds"]
