"""A dask cluster computes what this machine does, also when a worker is lost."""

import contextlib
import json
import signal
import subprocess
import sys
import time

import cloudpickle
import pytest

from runs import Cell, Store, cell, run

pytest.importorskip("distributed", reason="dask is not installed (pip install dask distributed)")
# dask leaves sockets and tasks to the garbage collector when a cluster ends
pytestmark = pytest.mark.filterwarnings("ignore")
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def later(number, seconds):
    time.sleep(seconds)
    return number**2


@contextlib.contextmanager
def started(folder, workers):
    """The address of a scheduler, and the processes of its workers."""
    file, processes = folder / "scheduler.json", []

    def start(command, *options):
        arguments = [command, "--scheduler-file", str(file), "--no-dashboard", *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes.append(subprocess.Popen([sys.executable, "-m", "dask", *arguments], **quiet))

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0")
        for _ in range(workers):
            start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, KeyError):
                address = json.loads(file.read_text())["address"]
                break
            time.sleep(0.05)
        from distributed import Client

        with Client(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with started(tmp_path_factory.mktemp("cluster"), workers=2) as (address, _):
        yield address


def values(cells, **options):
    return {result.cell.key: (result.status, result.value) for result in run(cells, **options)}


def test_the_values_are_those_made_here_and_are_kept(address, tmp_path):
    cells = [Cell(later, {"number": number, "seconds": 0.0}) for number in range(5)]
    store = Store(tmp_path / "runs.sqlite")
    here = values(cells, isolated=False)
    assert values(cells, cluster=address, store=store) == here
    assert all(result.reused for result in run(cells, store=store))


def test_a_cell_can_time_out_there(address):
    cells = [Cell(later, {"number": 1, "seconds": seconds}) for seconds in (0.0, 60.0)]
    assert sorted(status for status, _ in values(cells, cluster=address, timeout=2.0).values()) == [
        "done",
        "timed out",
    ]


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_value(tmp_path):
    cells = [Cell(later, {"number": number, "seconds": 0.5}) for number in range(10)]
    with started(tmp_path, workers=2) as (address, workers):
        found = {}
        for result in run(cells, cluster=address):
            found[result.cell.key] = (result.status, result.value)
            if len(found) == 2:
                workers[0].send_signal(signal.SIGKILL)
        assert workers[0].wait(timeout=30) == -signal.SIGKILL
    assert found == {cell.key: ("done", cell.arguments["number"] ** 2) for cell in cells}


def test_a_worker_with_other_packages_is_refused(address, monkeypatch):
    real = cell.version
    monkeypatch.setattr(cell, "version", lambda name: "0.1" if name == "numpy" else real(name))
    with pytest.raises(ValueError, match=r"has numpy .* and here it is 0\.1"):
        list(run([Cell(later, {"number": 1, "seconds": 0.0})], cluster=address))


@pytest.mark.parametrize(
    ("place", "said"), [("nowhere", "scheduler's address"), ("tcp://127.0.0.1:1", "No dask")]
)
def test_no_scheduler_is_a_sentence(place, said, monkeypatch):
    monkeypatch.setattr("runs.cluster._PATIENCE", 0.5)
    with pytest.raises((ValueError, OSError), match=said):
        list(run([Cell(later, {"number": 1, "seconds": 0.0})], cluster=place))


def test_without_dask_its_name_is_said(monkeypatch):
    monkeypatch.setattr("runs.cluster.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="distributed"):
        list(run([Cell(later, {"number": 1, "seconds": 0.0})], cluster="tcp://127.0.0.1:1"))
