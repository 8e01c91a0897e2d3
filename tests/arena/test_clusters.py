"""Cells on a dask cluster: a real scheduler and two workers on loopback, one of them killed in the middle."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import cloudpickle
import pytest

from arena import Results, cluster, compare, nice_target, parity_target
from arena.cli.main import run
from upper import KnownPart

pytest.importorskip(
    "distributed", reason="dask is not installed (pip install 'attention-bounds[distributed]')"
)
# dask leaves sockets and tasks to the garbage collector when a cluster ends
pytestmark = pytest.mark.filterwarnings("ignore")
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Sleepy(KnownPart):
    """The known part after a while, so that there is a middle in which to kill a worker."""

    seconds: float = 0.3

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        time.sleep(self.seconds)
        return super().fit(oracle, rng=rng, truth=truth, progress=progress)


@pytest.fixture
def dask(tmp_path):
    """The address of a scheduler and its two workers' processes; each worker has one thread."""
    file = tmp_path / "scheduler.json"
    started = [_dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", file=file)]
    try:
        deadline = time.monotonic() + 60
        while not _is_json(file):
            assert started[0].poll() is None, "the scheduler did not start"
            assert time.monotonic() < deadline, "the scheduler took too long"
            time.sleep(0.05)
        for _ in range(2):
            options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
            started.append(_dask("worker", *options, file=file))
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        _wait_for_workers(address, 2)
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _dask(command, *options, file):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", command, "--scheduler-file", file, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _is_json(file):
    with contextlib.suppress(OSError, ValueError):
        return "address" in json.loads(file.read_text(encoding="utf-8"))
    return False


def _wait_for_workers(address, number):
    from distributed import Client

    with Client(address, timeout=30, set_as_default=False) as client:
        client.wait_for_workers(number, timeout=60)


@pytest.fixture(scope="module")
def targets():
    return [nice_target(heads=1, tokens=2, dim=6, seed=1), parity_target(heads=2, dim=10, seed=2)]


def test_a_cluster_that_loses_a_worker_gives_the_same_table(dask, targets, tmp_path):
    address, workers = dask
    learners = ["newton", "linear", "elimination", Sleepy()]
    here = compare(targets, learners, seeds=4)
    seen = []

    def kill_one(cell):
        seen.append(cell)
        if len(seen) == 5:
            workers[0].send_signal(signal.SIGKILL)

    with cluster(address):
        there = compare(targets, learners, seeds=4, store=tmp_path / "runs.sqlite", on_cell=kill_one)
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert there.without_seconds() == here.without_seconds()
    assert len(seen) == len(here.cells) == 2 * 4 * 4
    again = compare(targets, learners, seeds=4, store=tmp_path / "runs.sqlite")
    assert again.made["reused"] == len(here.cells)


def test_the_command_runs_on_a_cluster(dask, tmp_path, capsys):
    address, _ = dask
    options = ["--learners", "linear,known-part,elimination", "--json"]
    assert run(["compare", *options, "-o", str(tmp_path / "there"), "--dask", address]) == 0
    there = Results.from_json(capsys.readouterr().out)
    assert run(["compare", *options, "-o", str(tmp_path / "here")]) == 0
    here = Results.from_json(capsys.readouterr().out)
    assert there.without_seconds() == here.without_seconds()
    # one cluster or one machine: the cells are the same, and so are their keys
    assert run(["compare", *options, "-o", str(tmp_path / "there")]) == 0
    assert Results.from_json(capsys.readouterr().out).made["reused"] == len(here.cells)


def test_a_cell_on_a_cluster_can_time_out(dask, targets):
    with cluster(dask[0]):
        results = compare(targets[:1], [Sleepy(seconds=3600), "linear"], timeout=1.0)
    assert [cell.status for cell in results.cells] == ["timed out", "done"]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "tcp://"])
def test_no_scheduler_is_one_line(address, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("arena.clusters._PATIENCE", 1.0)
    assert run(["compare", "--learners", "linear", "-o", str(tmp_path), "--dask", address]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("attention-bounds: No dask scheduler answers at")
    assert said.err.count("\n") == 1


def test_jobs_and_dask_exclude_each_other(tmp_path, capsys):
    options = ["--learners", "linear", "-o", str(tmp_path), "--dask", "tcp://127.0.0.1:9", "--jobs", "2"]
    assert run(["compare", *options]) == 2
    assert "--dask" in capsys.readouterr().err


def test_without_dask_its_name_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("arena.clusters.find_spec", lambda name: None)
    assert run(["compare", "--learners", "linear", "-o", str(tmp_path), "--dask", "tcp://127.0.0.1:9"]) == 2
    assert "attention-bounds[distributed]" in capsys.readouterr().err
