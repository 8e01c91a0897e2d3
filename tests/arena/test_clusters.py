"""Cells on a dask cluster: a real scheduler and real workers on loopback; nothing may run anywhere else."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import pytest
from joblib import parallel_config

import arena.isolation
from arena import (
    CurveStore,
    Results,
    cluster,
    compare,
    lwr_curve,
    nice_target,
    parity_target,
    queried_phases,
    run_curves,
    save_target,
)
from arena.calls import Call, run_calls
from arena.cli.main import run
from arena.made_with import made_with
from arena.studies import Study, Table, run_study
from sq import CurveCell, curve_cells
from upper import KnownPart

pytest.importorskip(
    "distributed", reason="dask is not installed (pip install 'attention-bounds[distributed]')"
)
# dask leaves sockets and tasks to the garbage collector when a cluster ends
pytestmark = pytest.mark.filterwarnings("ignore")
cloudpickle.register_pickle_by_value(sys.modules[__name__])
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@dataclass(frozen=True)
class Logged(KnownPart):
    """The known part after a while; it writes down its process and the one that started it, once for each cell."""

    log: str = ""
    seconds: float = 0.0
    stays_on: int = 0
    """Cells started by this process take an hour."""
    kills: bool = False
    """Whether a cell kills the process that started it."""
    meets: int = 0
    """Cells wait until so many have begun."""

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{os.getppid()} {os.getpid()}\n")
        if self.kills:
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600 if self.kills or self.stays_on == os.getppid() else self.seconds)
        deadline = time.monotonic() + 300
        while len(_begun(self.log)) < self.meets:
            if time.monotonic() > deadline:
                raise TimeoutError("too few cells run at once")
            time.sleep(0.02)
        return super().fit(oracle, rng=rng, truth=truth, progress=progress)


def _begun(log):
    """For each cell that has begun, the process that started the cell's, and the cell's."""
    with contextlib.suppress(FileNotFoundError):
        text = Path(log).read_text(encoding="utf-8")
        return [tuple(int(word) for word in line.split()) for line in text.splitlines() if line.count(" ")]
    return []


class _Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder, *preload):
        self._file, self._folder, self._preload = folder / "scheduler.json", folder, preload
        self.workers = []
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")

    def add_worker(self, threads=1):
        options = (
            "--nthreads",
            str(threads),
            "--no-nanny",
            "--local-directory",
            self._folder,
            *self._preload,
        )
        self.workers.append(self._start("worker", *options))

    def wait(self):
        from distributed import Client

        deadline = time.monotonic() + 60
        while not _is_json(self._file):
            assert self._scheduler.poll() is None, "the scheduler did not start"
            assert time.monotonic() < deadline, "the scheduler took too long"
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text(encoding="utf-8"))["address"]
        with Client(self.address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=60)

    @property
    def pids(self):
        return {worker.pid for worker in self.workers}

    def _start(self, command, *options):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dask",
                command,
                "--scheduler-file",
                self._file,
                "--no-dashboard",
                *options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self):
        for process in [self._scheduler, *self.workers]:
            process.kill()
            process.wait()


def _is_json(file):
    with contextlib.suppress(OSError, ValueError):
        return "address" in json.loads(file.read_text(encoding="utf-8"))
    return False


@contextlib.contextmanager
def _started(folder, *preload, workers):
    dask = _Cluster(folder, *preload)
    try:
        for _ in range(workers):
            dask.add_worker()
        dask.wait()
        yield dask
    finally:
        dask.end()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A cluster of two workers with one thread each, for tests that leave it whole."""
    with _started(tmp_path_factory.mktemp("pair"), workers=2) as dask:
        yield dask


@pytest.fixture(scope="module")
def targets():
    return [nice_target(heads=1, tokens=2, dim=6, seed=1), parity_target(heads=2, dim=10, seed=2)]


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


def _wait_until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # one that has ended and was not waited for does not run
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return True


@pytest.mark.slow
@posix
def test_a_cluster_that_loses_a_worker_gives_the_same_table(tmp_path, targets, log):
    with _started(tmp_path, workers=2) as dask:
        lost, kept = dask.workers
        # no cell of the last ends before two have begun, so that each worker begins one
        learners = ["linear", "elimination", Logged(log=log, stays_on=lost.pid, meets=2)]
        here = compare(targets, learners, seeds=2, jobs=2)
        assert {parent for parent, _ in _begun(log)} == {os.getpid()}
        Path(log).unlink()

        def kill_it_in_a_cell():
            _wait_until(lambda: lost.pid in dict(_begun(log)), 300)
            lost.send_signal(signal.SIGKILL)

        killer = threading.Thread(target=kill_it_in_a_cell)
        killer.start()
        seen = []
        with cluster(dask.address):
            there = compare(targets, learners, seeds=2, store=tmp_path / "runs.sqlite", on_cell=seen.append)
        killer.join()
        assert lost.wait(timeout=60) == -signal.SIGKILL
    assert there.without_seconds() == here.without_seconds()
    assert len(seen) == len(here.cells) == 2 * 3 * 2
    # it had one cell, for an hour; that one and all others were done by the other worker
    assert sorted(parent for parent, _ in _begun(log)) == sorted([lost.pid] + [kept.pid] * 2 * 2)
    assert _wait_until(lambda: not _runs(dict(_begun(log))[lost.pid]))
    again = compare(targets, learners, seeds=2, store=tmp_path / "runs.sqlite")
    assert again.made["reused"] == len(here.cells)


@pytest.mark.slow
@posix
def test_a_cell_that_kills_its_workers_ends_the_comparison(tmp_path, targets, log, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with _started(tmp_path, workers=1) as dask, cluster(dask.address):
        results = compare(targets, Logged(log=log, kills=True), seeds=1)
        assert dask.workers[0].wait(timeout=60) == -signal.SIGKILL
    assert [cell.status for cell in results.cells] == ["failed"] * 2
    assert "What runs the cells broke down (KilledWorker" in results.cells[0].message
    assert {parent for parent, _ in _begun(log)} == dask.pids


@pytest.mark.slow
def test_both_workers_compute(pair, targets, log):
    with cluster(pair.address):
        # none ends before another has begun
        results = compare(targets, Logged(log=log, meets=2), seeds=2)
    assert [cell.status for cell in results.cells] == ["done"] * 4, results.cells
    assert {parent for parent, _ in _begun(log)} == pair.pids


def test_the_command_runs_on_a_cluster(pair, targets, tmp_path, capsys, monkeypatch):
    files = [str(tmp_path / f"{target.name}.safetensors") for target in targets]
    for file, target in zip(files, targets, strict=True):
        save_target(file, target)
    options = [*files, "--learners", "linear,known-part,elimination", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr("arena.calls.run_isolated", _not_here)
        assert run(["compare", *options, "-o", str(tmp_path / "there"), "--dask", pair.address]) == 0
        there = Results.from_json(capsys.readouterr().out)
    assert run(["compare", *options, "-o", str(tmp_path / "here"), "--jobs", "1"]) == 0
    here = Results.from_json(capsys.readouterr().out)
    assert {cell.status for cell in here.cells} == {"done", "not applicable"}
    assert there.without_seconds() == here.without_seconds()
    # one cluster or one machine: the cells are the same, and so are their keys
    assert run(["compare", *options, "-o", str(tmp_path / "there")]) == 0
    assert Results.from_json(capsys.readouterr().out).made["reused"] == len(here.cells)


def _not_here(*arguments, **options):
    raise AssertionError("a cell ran in the calling process")


@pytest.fixture
def nothing_runs_here(monkeypatch):
    monkeypatch.setattr("arena.calls.run_isolated", _not_here)


@pytest.mark.slow
def test_curves_of_queries_on_a_cluster_are_those_made_here(pair, tmp_path, capsys, nothing_runs_here):
    options = ["--dims", "6,8", "--bits", "1,2", "--tau", "0.3", "--no-learner-side", "--json"]
    assert run(["curves", "sq", *options, "-o", str(tmp_path), "--dask", pair.address]) == 0
    there = json.loads(capsys.readouterr().out)["points"]
    here = run_curves(curve_cells([6, 8], [1, 2], [0.3]), isolated=False)
    assert there == json.loads(json.dumps([point.row() for point in here]))


@pytest.mark.slow
def test_curves_of_rounding_on_a_cluster_are_those_made_here(pair, tmp_path, capsys, nothing_runs_here):
    options = ["--modulus", "4", "--levels", "2", "--dims", "4,6,8", "--samples", "400", "--json"]
    options += ["--attacks", "linearisation,least-squares", "--budget", "60", "-o", str(tmp_path)]
    assert run(["curves", "lwr", *options, "--dask", pair.address]) == 0
    there = json.loads(capsys.readouterr().out)["points"]
    given = ["linearisation", "least-squares"], [4, 6, 8], 4, [2]
    here = [point.row() for point in lwr_curve(*given, samples=400, seconds=60.0, isolated=False)]
    assert _without_seconds(there) == _without_seconds(json.loads(json.dumps(here)))
    assert [row["secret_dim"] for row in there] == [4, 6, 8, 4, 6]


def _without_seconds(rows):
    return [{name: value for name, value in row.items() if name != "took"} for row in rows]


def _drawn(*, rng, size):
    return {"drawn": rng.standard_normal(size).tolist(), "process": os.getppid()}


STUDY = Study(
    name="drawn",
    title="Drawn",
    question="?",
    expected="Numbers.",
    limits="All.",
    how="By drawing.",
    cells=lambda scale: [{"size": size} for size in range(1, 7)],
    measure=_drawn,
    found=lambda rows: "Numbers.",
    table=lambda rows: Table(("size",), ()),
    draw=lambda rows: None,
)


def test_a_study_on_a_cluster_measures_what_it_does_here(pair, tmp_path, nothing_runs_here):
    with CurveStore(tmp_path / "s.sqlite") as store:
        with cluster(pair.address):
            there = run_study(STUDY, seed=3, store=store)
        kept = run_study(STUDY, seed=3, store=store)
    here = run_study(STUDY, seed=3, isolated=False)
    assert {row["process"] for row in there.rows} <= pair.pids
    assert [row["drawn"] for row in there.rows] == [row["drawn"] for row in here.rows]
    assert kept.rows == there.rows
    assert there.failures == ()


@pytest.mark.slow
def test_runs_of_the_six_phases_on_a_cluster_are_those_made_here(pair, nothing_runs_here):
    with cluster(pair.address):
        there = queried_phases([8], [1.0, 1000.0], examples=5000)
    assert there == queried_phases([8], [1.0, 1000.0], examples=5000, isolated=False)


def test_curves_that_are_interrupted_leave_no_process_on_the_workers(pair, tmp_path):
    from distributed import Client

    quick, lasting = CurveCell("scan", 8, 2, 0.3), CurveCell("scan", 40, 3, 0.3, "honest", batch=50_000)

    def interrupt(point):
        with Client(pair.address, set_as_default=False) as client:
            assert _wait_until(lambda: sum(client.run(_processes).values()) == 2)
        raise KeyboardInterrupt

    with CurveStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(KeyboardInterrupt), cluster(pair.address):
            run_curves([quick, lasting], store=store, on_point=interrupt)
        assert len(store._database.execute("SELECT key FROM points").fetchall()) == 1
    with Client(pair.address, set_as_default=False) as client:
        assert _wait_until(lambda: sum(client.run(_processes).values()) == 0)


def _processes():
    return len(arena.isolation._ALIVE)


@pytest.mark.slow
def test_a_cell_on_a_cluster_can_time_out(pair, targets, log):
    with cluster(pair.address):
        results = compare(targets[:1], [Logged(log=log, seconds=3600), "linear"], timeout=1.0)
    assert [cell.status for cell in results.cells] == ["timed out", "done"]
    assert dict(_begun(log)).keys() <= pair.pids


@pytest.mark.slow
def test_a_worker_alone_computes_and_those_that_join_help(tmp_path, targets, log):
    from distributed import Client

    with _started(tmp_path, workers=1) as dask:
        with cluster(dask.address):
            results = compare(targets, Logged(log=log), seeds=1)
        assert [cell.status for cell in results.cells] == ["done"] * 2
        assert [parent for parent, _ in _begun(log)] == [dask.workers[0].pid] * 2

        # within one's own client too
        Path(log).unlink()
        with (
            Client(dask.address, set_as_default=False) as client,
            parallel_config(backend="dask", client=client),
        ):
            results = compare(targets, Logged(log=log), seeds=1, isolated=False)
        assert [cell.status for cell in results.cells] == ["done"] * 2
        assert _begun(log) == [(os.getpid(), dask.workers[0].pid)] * 2

        # none of the next ends before three have begun: one on this worker, two on one that joins in the middle
        Path(log).unlink()
        joining = threading.Thread(
            target=lambda: _wait_until(lambda: _begun(log)) and dask.add_worker(threads=2)
        )
        joining.start()
        with cluster(dask.address):
            results = compare(targets, Logged(log=log, meets=3), seeds=2)
        joining.join()
        assert [cell.status for cell in results.cells] == ["done"] * 4, results.cells
        assert {parent for parent, _ in _begun(log)} == dask.pids


@posix
def test_cells_that_wait_for_a_busy_cluster_do_not_begin_after_an_interruption(pair, targets, log, tmp_path):
    from distributed import Client

    with Client(pair.address, set_as_default=False) as client:
        others = [client.submit(_hold, str(tmp_path / "free"), number) for number in range(2)]

        def interrupt():
            _wait_until(lambda: client.run_on_scheduler(_tasks) > len(others))
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        with parallel_config(backend="dask", client=client):
            interrupting.start()
            # without processes of their own, nothing but dask keeps them from running
            results = compare(targets, Logged(log=log), seeds=1, isolated=False)
        interrupting.join()
        assert results.made["interrupted"] == "by hand"
        (tmp_path / "free").touch()
        assert client.gather(others) == [0, 1]
        assert _wait_until(lambda: client.run_on_scheduler(_tasks) == len(others))
    assert _begun(log) == []


def _hold(file, number):
    _wait_until(Path(file).exists)
    return number


def _tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def run_for_hours(address, log):
    """A comparison on a cluster that ends by being interrupted, in a process of its own."""
    print("started", flush=True)
    with cluster(address):
        results = compare([nice_target(heads=1, tokens=2, dim=4)], Logged(log=log, seconds=3600), seeds=4)
    print(results.made["interrupted"])


@pytest.mark.slow
@posix
@pytest.mark.parametrize(("name", "said"), [("SIGINT", "by hand\n"), ("SIGKILL", "")])
def test_an_end_by_a_signal_leaves_nothing_on_the_workers(pair, tmp_path, targets, log, name, said):
    # whoever is interrupted ends the cells himself: there, workers that look after them hardly ever are no help
    preload = tmp_path / "preload.py"
    preload.write_text("import arena.isolation\narena.isolation._LOOK_SECONDS = 3600.0\n", encoding="utf-8")
    interrupted = _started(tmp_path, "--preload", preload, workers=2)
    with interrupted if name == "SIGINT" else contextlib.nullcontext(pair) as dask:
        module, here = __name__.split(".")[-1], str(Path(__file__).parent)
        code = f"import sys; sys.path.insert(0, {here!r}); import {module} as tests; "
        code += f"tests.run_for_hours({dask.address!r}, {log!r})"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            assert _wait_until(lambda: len(_begun(log)) >= 2)
            process.send_signal(getattr(signal, name))
            assert process.communicate(timeout=120)[0] == "started\n" + said
        finally:
            process.kill()
            process.wait()
        begun = _begun(log)
        assert {parent for parent, _ in begun} == dask.pids
        assert _wait_until(lambda: not any(_runs(pid) for _, pid in begun))

        with cluster(dask.address):
            results = compare(targets, Logged(log=log), seeds=1)
        assert [cell.status for cell in results.cells] == ["done"] * 2
        assert len(_begun(log)) == 2 + 2
        assert dict(_begun(log)).keys() == dask.pids


@pytest.mark.parametrize("address", ["tcp://", "nonsense", "localhost"])
def test_what_is_no_address_is_refused_at_once(address, tmp_path, capsys):
    assert run(["compare", "--learners", "linear", "-o", str(tmp_path), "--dask", address]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "tcp://host:8786 is needed" in said.err


@pytest.mark.parametrize(
    "address", [pytest.param("tcp://127.0.0.1:9", marks=pytest.mark.slow), "nonsense://x"]
)
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


def _number(one):
    return one


def test_a_worker_with_other_packages_answers_with_a_failure_that_names_them(pair, monkeypatch):
    monkeypatch.setattr("arena.calls.made_with", lambda: {**made_with(), "numpy": "0.1"})
    with cluster(pair.address):
        (answer,) = run_calls([Call("one", _number, (1,))])
    assert answer.value is None
    assert answer.failure.startswith("The worker has numpy")
    assert "asks 0.1" in answer.failure
