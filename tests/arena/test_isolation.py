"""Calls in processes of their own: whatever a call does, its caller gets an answer, and nothing is left behind."""

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from arena import isolation
from arena.isolation import EndedError, IsolationError, end_processes, pack, run_isolated

cloudpickle.register_pickle_by_value(sys.modules[__name__])
posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups are POSIX's")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module", autouse=True)
def light(tmp_path_factory):
    """Processes import this module without the rest of the package, or starting them would take most of the time."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "arena").mkdir()
    (folder / "arena" / "__init__.py").write_text(f"__path__ = [{str(Path(isolation.__file__).parent)!r}]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        mine = list(isolation._ALIVE)
        gc.collect()
    assert not [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)]
    for process in mine:
        assert process in isolation._IDLE, "a process is busy with nobody waiting"


@pytest.fixture(scope="module", autouse=True)
def _end_them_all():
    before = _zombies()
    yield
    end_processes()
    assert not isolation._ALIVE
    assert not isolation._IDLE
    assert _zombies() == before


def _stat(pid):
    """State and parent of a process, where there is one."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return state, int(parent)


def _is_there(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def _zombies():
    """Children that ended and that nobody waited for."""
    return {one.name for one in Path("/proc").glob("[0-9]*") if _stat(one.name) == ("Z", os.getpid())}


def _ends(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while _is_there(pid):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.01)
    return True


def _wait_for(file, seconds=30.0):
    """The words a call wrote into a file, once it has."""
    deadline = time.monotonic() + seconds
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{file} was not written"
        time.sleep(0.01)
    return file.read_text().split()


def _call(function, *arguments, **options):
    return run_isolated(pack(function, *arguments), **options)


# what a call can do


def _add(*numbers):
    return sum(numbers)


def _raise():
    raise LookupError("it is\nnot there")


def _signal_itself(name):
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(60)


def _loop():
    while True:
        pass


def _hold_the_interpreter():
    return 3 ** (10**10)  # one instruction: no thread of the process runs until it is done


def _close_every_file():
    os.closerange(3, 256)
    time.sleep(3600)


@pytest.mark.parametrize(
    "value", [None, 0, "ü\0", b"\0\xff", [1, {"a": (2.5, None)}], float("inf")], ids=repr
)
def test_what_the_call_returns_comes_back(value):
    assert _call(lambda one: one, value) == value


def test_arrays_come_back_bit_for_bit():
    array = np.random.default_rng(0).normal(size=(3, 4))
    array[0, 0] = np.nan
    assert _call(lambda one: one, array).tobytes() == array.tobytes()


def test_tens_of_megabytes_both_ways():
    block = np.random.default_rng(0).bytes(40_000_000)
    assert _call(lambda one: one[::-1], block) == block[::-1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (_raise, "^LookupError: it is\nnot there$"),
        (lambda: sys.exit(3), "^SystemExit: 3$"),
        (lambda: os._exit(3), "^its process ended with status 3 before it answered$"),
        (lambda: threading.Lock(), "cannot pickle"),
        pytest.param(lambda: _signal_itself("SIGSEGV"), "was ended by SIGSEGV$", marks=posix),
        pytest.param(
            lambda: _signal_itself("SIGKILL"), r"was ended by SIGKILL \(out of memory\?\)$", marks=posix
        ),
    ],
    ids=["raises", "sys.exit", "os._exit", "unpicklable answer", "SIGSEGV", "SIGKILL"],
)
def test_a_call_that_fails_says_how_and_the_next_one_works(call, said):
    with pytest.raises(IsolationError, match=said):
        _call(call)
    assert _call(_add, 1, 2) == 3


@pytest.mark.parametrize("call", [_loop, _hold_the_interpreter, pytest.param(_close_every_file, marks=posix)])
def test_a_call_that_never_ends_is_stopped(call):
    _call(_add)  # so that what is timed is the call, not the start of its process
    began = time.monotonic()
    error = IsolationError if call is _close_every_file else TimeoutError
    with pytest.raises(error, match=r"" if error is IsolationError else r"^stopped after 0\.3 seconds"):
        _call(call, timeout=0.3)
    assert time.monotonic() - began < 5


def test_the_start_of_a_process_is_no_part_of_the_time_allowed(monkeypatch, light):
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(light)])
    assert _call(_add, 2, timeout=0.3, group="new") == 2  # importing alone takes longer
    end_processes("new")


def test_time_that_runs_out_with_the_answer_ends_no_other_call(monkeypatch):
    """The clock strikes while the answer is read: the call is done, and the next one must not pay for it."""
    began, ringing = threading.Event(), []

    class Late(threading.Timer):
        def cancel(self):  # the last moment: it rings in spite of this
            ringing.append(self)
            began.set()

        def run(self):
            began.wait()
            time.sleep(0.1)
            self.function()

    _call(_add)
    monkeypatch.setattr(isolation.threading, "Timer", Late)
    job = pack(_add, 1)
    process = isolation._Process.take("late")
    assert process.ask(job, 10.0) == (True, 1)
    assert not ringing[0].is_alive()
    monkeypatch.undo()
    process.kill()


def test_prints_go_to_standard_error_and_spoil_no_answer(capfd, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def talk():
        print("from Python")
        os.write(1, b"from below\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
        return "answer"

    end_processes()
    assert _call(talk) == "answer"
    assert _call(_add, 1) == 1
    out, err = capfd.readouterr()
    assert out == ""
    for words in ("from Python", "from below", "from a child"):
        assert words in err


def test_a_call_cannot_read_the_calls_that_follow():
    def read():
        mine = subprocess.run(
            [sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"], capture_output=True
        )
        return mine.stdout, os.read(0, 100)

    assert _call(read, timeout=20.0) == (b"0\n" if os.name == "posix" else b"0\r\n", b"")


def test_what_cannot_leave_its_process_is_said():
    class Rude:
        def __reduce__(self):
            raise RuntimeError("not me")

    for thing, said in [
        (threading.Lock(), "cannot pickle"),
        ((n for n in "ab"), "generator"),
        (Rude(), "not me"),
    ]:
        with pytest.raises(IsolationError, match=rf"^it cannot be sent to a process of its own: .*{said}"):
            pack(len, thing)


def test_an_answer_that_cannot_be_read_here_is_said():
    class Trap:
        def __reduce__(self):
            return (int, ("no number",))

    with pytest.raises(IsolationError, match=r"^its answer cannot be read here: ValueError: invalid literal"):
        _call(Trap)
    assert _call(_add, 1) == 1


def test_numerical_libraries_have_one_thread():
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        assert _call(os.getenv, name) == "1"


def test_blas_has_one_thread():
    def threads():
        from threadpoolctl import threadpool_info

        np.ones((64, 64)) @ np.ones((64, 64))
        return {pool["num_threads"] for pool in threadpool_info()}

    assert _call(threads) <= {1}


@posix
def test_a_process_is_alone_in_its_session():
    mine, session, group, leader = _call(lambda: (os.getpid(), os.getsid(0), os.getpgrp(), os.getppid()))
    assert mine == session == group != os.getpid() == leader


# processes are kept, and end


def test_a_process_is_used_again():
    assert _call(os.getpid) == _call(os.getpid)


def test_groups_share_no_process():
    first, second = (_call(os.getpid, group=group) for group in ("one", "two"))
    assert first != second
    assert _call(os.getpid, group="one") == first
    end_processes("one")
    assert not _is_there(first)
    assert _is_there(second)
    with pytest.raises(EndedError):
        _call(os.getpid, group="one")
    assert _call(os.getpid, group="two") == second
    end_processes("two")


@linux
def test_an_idle_process_retires(monkeypatch):
    end_processes()
    monkeypatch.setattr(isolation, "_IDLE_SECONDS", 0.1)
    pid = _call(os.getpid)
    assert _ends(pid)
    deadline = time.monotonic() + 5
    while isolation._ALIVE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not isolation._ALIVE
    assert not isolation._IDLE
    monkeypatch.undo()
    assert _call(os.getpid) != pid


@linux
def test_a_process_in_use_does_not_retire(monkeypatch):
    monkeypatch.setattr(isolation, "_IDLE_SECONDS", 0.2)
    _call(_add)
    monkeypatch.undo()
    assert _call(lambda: time.sleep(0.6)) is None


@linux
def test_an_idle_process_that_died_is_replaced():
    pid = _call(os.getpid)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert _call(os.getpid) != pid


def test_calls_of_several_threads_do_not_mix():
    answers = {}

    def ask(number):
        answers[number] = [_call(_add, number, step) for step in range(30)]

    threads = [threading.Thread(target=ask, args=(100 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {100 * n: [100 * n + step for step in range(30)] for n in range(3)}


@pytest.mark.parametrize("moment", ["in the middle", "at the start"])
def test_end_processes_wakes_the_callers(tmp_path, moment):
    end_processes()
    caught = []

    def ask():
        try:
            _call(_tell_and_sleep, tmp_path / "pid")
        except BaseException as error:
            caught.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    if moment == "in the middle":
        _wait_for(tmp_path / "pid")
    else:
        while not isolation._ALIVE:
            time.sleep(0.001)
    end_processes()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert caught == [EndedError]


def _tell_and_sleep(file):
    if hasattr(signal, "SIGIO"):
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # what is to be ended cannot be asked to
    file.with_suffix(".part").write_text(f"{os.getpid()}\n")
    file.with_suffix(".part").rename(file)
    time.sleep(3600)


def test_a_job_to_a_process_that_is_gone_is_an_error_of_its_own():
    process = isolation._Process.take("gone")
    process._ready = isolation._read(process._popen.stdout) is not None
    process.kill()  # the pipes are closed by now
    process.ended = True
    with pytest.raises(EndedError):
        process.ask(pack(_add), None)


@linux
@pytest.mark.parametrize("how", ["crash", "time-out", "end"])
def test_what_a_call_started_ends_with_it(tmp_path, how):
    """Also where it was forked, holds the pipes of the call, and would keep its caller waiting for ever."""
    file = tmp_path / "pid"

    def call():
        child = multiprocessing.get_context("fork").Process(target=_tell_and_sleep, args=(file,))
        child.start()
        while not file.exists():
            time.sleep(0.01)
        if how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        child.join()

    if how == "end":
        threading.Thread(target=lambda: (_wait_for(file), end_processes())).start()
    with pytest.raises((IsolationError, TimeoutError)):
        _call(call, timeout=1.5 if how == "time-out" else None)
    assert _ends(int(_wait_for(file)[0]))


# the parent


def _script(body, tmp_path, **options):
    file = tmp_path / "script.py"
    file.write_text("import os, sys, time, signal\nfrom pathlib import Path\n" + textwrap.dedent(body))
    return subprocess.Popen([sys.executable, "-W", "error", str(file), str(tmp_path)], text=True, **options)


ENDLESS = {
    "idle": "run_isolated(pack(tell)); time.sleep(3600)",
    "sleeping": "run_isolated(pack(lambda: (tell(), time.sleep(3600))))",
    "looping": "run_isolated(pack(lambda: (tell(), [None for _ in iter(int, 1)])))",
    "holding the interpreter": "run_isolated(pack(lambda: (tell(), 3 ** 10**10)))",
}


@linux
@pytest.mark.parametrize("what", ENDLESS)
def test_a_process_ends_when_its_parent_is_killed(tmp_path, what):
    """And so does what it started."""
    body = f"""
        from arena.isolation import pack, run_isolated
        folder = Path(sys.argv[1])

        def tell():
            import subprocess
            child = subprocess.Popen(["sleep", "3600"])
            (folder / "part").write_text(f"{{os.getpid()}} {{child.pid}}\\n")
            (folder / "part").rename(folder / "pids")

        {ENDLESS[what]}
        """
    parent = _script(body, tmp_path)
    pids = [int(pid) for pid in _wait_for(tmp_path / "pids")]
    time.sleep(0.1)
    assert all(_is_there(pid) for pid in pids)
    parent.kill()
    parent.wait()
    assert [_ends(pid) for pid in pids] == [True, True]


def test_classes_of_a_script_go_along_and_nothing_is_left_at_the_end(tmp_path):
    body = """
        from dataclasses import dataclass
        from arena.isolation import pack, run_isolated

        @dataclass(frozen=True)
        class Point:
            x: float
            def twice(self):
                return Point(2 * self.x)

        answer = run_isolated(pack(Point.twice, Point(1.5)))
        assert answer == Point(3.0), answer
        print(run_isolated(pack(os.getpid)))
        """
    script = _script(body, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = script.communicate(timeout=60)
    assert (script.returncode, err) == (0, "")
    if sys.platform.startswith("linux"):
        assert not _is_there(int(out))


def _in_a_daemon(results):
    with contextlib.suppress(BaseException):
        results.put((run_isolated(pack(_add, 20, 22)), run_isolated(pack(os.getppid)) == os.getpid()))


@linux
@pytest.mark.parametrize("idle", [True, False])
def test_daemonic_processes_and_forks_have_processes_of_their_own(idle):
    """A fork must not speak to the processes of the one it was forked from, nor end them."""
    end_processes()
    before = _call(os.getpid) if idle else None
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        daemon = fork.Process(target=_in_a_daemon, args=(results,), daemon=True)
        daemon.start()
    assert results.get(timeout=60) == (42, True)
    daemon.join(timeout=30)
    assert daemon.exitcode == 0
    results.close()
    if idle:
        assert _call(os.getpid) == before


@linux
def test_a_fork_that_exits_ends_nothing_of_its_parent(tmp_path):
    body = """
        from arena.isolation import pack, run_isolated
        before = run_isolated(pack(os.getpid))
        if os.fork() == 0:
            sys.exit()
        assert os.wait()[1] == 0
        assert run_isolated(pack(os.getpid)) == before
        """
    script = _script(body, tmp_path, stderr=subprocess.PIPE)
    assert script.communicate(timeout=60)[1] == ""
    assert script.returncode == 0


def test_an_interpreter_that_cannot_start_is_an_error(monkeypatch, capfd):
    end_processes()
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(IsolationError, match="ended with status 1 before it answered"):
        _call(_add)
    capfd.readouterr()
