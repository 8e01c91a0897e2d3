"""Functions run in processes of their own, so that a crash, a kill or a time-out ends nothing else."""

import atexit
import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import cloudpickle

__all__ = ["EndedError", "IsolationError", "end_processes", "is_unpacking", "pack", "run_isolated"]


class IsolationError(RuntimeError):
    """A job could not be sent to its process, or the process ended before it answered; the message says how."""


class EndedError(IsolationError):
    """The process was ended on purpose: nobody waits for its answer."""


def pack(function: Callable[..., Any], *arguments: Any) -> bytes:
    """A call as bytes, for `run_isolated`; lambdas and classes of a script or a notebook are taken along.

    Raises
    ------
    IsolationError
        If an argument holds what cannot leave its process: an open file, a lock, a running generator.
    """
    try:
        return cloudpickle.dumps((function, arguments))
    except Exception as error:  # an object's own way of being pickled may raise anything
        raise IsolationError(f"it cannot be sent to a process of its own: {error}") from None


def run_isolated(
    job: bytes, *, timeout: float | None = None, group: str = "", wanted: Callable[[], bool] | None = None
) -> Any:
    """Make the call that `pack` packed in a process of its own and return what it returns.

    Parameters
    ----------
    job : bytes
        The call.
    timeout : float, optional
        Seconds after which the process is killed, whatever it does; never if None.
    group : str
        What the call belongs to. Calls of two groups never share a process, and `end_processes` ends one group.
    wanted : callable, optional
        Asked every second, in another thread, whether anybody waits for the answer; the process is killed if nobody
        does.

    Raises
    ------
    TimeoutError
        If the call took longer.
    EndedError
        If `end_processes` ended it, or its group before it began, or it was not `wanted` any more.
    IsolationError
        If the process died otherwise, the call raised, or its answer cannot be sent back.

    Notes
    -----
    A process is kept for the next call and ends after a minute without one; it costs about a second to start and
    some milliseconds a call. It works on one thread of every numerical library, writes to standard error what the
    call prints, and ends with the process that started it, even when that one is killed.
    """
    process = _Process.take(group)
    try:
        answered, value = process.ask(job, timeout, wanted)
    except BaseException:
        process.kill()
        raise
    process.give_back()
    if not answered:
        raise IsolationError(value)
    return value


def end_processes(group: str | None = None) -> None:
    """End the processes of `run_isolated`, busy ones too: their callers get an `EndedError`.

    Parameters
    ----------
    group : str, optional
        Only this group, and for good: a call of it that begins later is an `EndedError` too.
    """
    with _LOCK:
        if group is not None:
            _ENDED.add(group)
        processes = [process for process in _ALIVE if group in (None, process.group)]
    for process in processes:
        process.ended = True
        process.kill()


def is_unpacking() -> bool:
    """Whether this is a process of `run_isolated` that is importing what its next call needs."""
    return _UNPACKING.is_set()


_UNPACKING = threading.Event()
_LOCK = threading.Lock()
_ALIVE: set["_Process"] = set()
_IDLE: list["_Process"] = []
_ENDED: set[str] = set()
_IDLE_SECONDS = 60.0
_LOOK_SECONDS = 1.0  # between questions whether a call is wanted
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_LENGTH = struct.Struct("<Q")

atexit.register(end_processes)


def _disown_processes() -> None:
    """After a fork: the copy must neither speak to the processes, nor end them, nor keep them alive."""
    global _LOCK
    _LOCK = threading.Lock()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for process in _ALIVE:
        for pipe in (process._popen.stdin, process._popen.stdout):
            with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
                os.dup2(nowhere, pipe.fileno(), inheritable=False)  # type: ignore[union-attr]
        process.cut_lifeline()
        process._popen.returncode = 0
    os.close(nowhere)
    _ALIVE.clear()
    _IDLE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_processes)


class _Process:
    """One child with a pipe each way; `subprocess` and not `multiprocessing`, whose daemons may have no children."""

    def __init__(self, group: str) -> None:
        # it carries nothing: that it breaks is the news
        lifeline, self._lifeline = os.pipe()
        passed = (lifeline,) if os.name == "posix" else ()
        code = f"import sys; sys.path[:] = {sys.path!r}; from arena.isolation import _serve; _serve{passed!r}"
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | _ONE_THREAD,
                pass_fds=passed,
                # Ctrl-C is for the parent alone; and what it starts can be killed with it
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except BaseException:
            self.cut_lifeline()
            raise
        finally:
            os.close(lifeline)
        self._timer: threading.Timer | None = None
        self._ready = False
        self.ended = False
        self.group = group
        with _LOCK:
            _ALIVE.add(self)

    @classmethod
    def take(cls, group: str) -> "_Process":
        while True:
            with _LOCK:
                process = next((one for one in _IDLE if one.group == group), None)
                if process is not None:
                    _IDLE.remove(process)
            if process is None:
                process = cls(group)
            elif process._timer is not None:
                process._timer.cancel()
            with _LOCK:
                ended = group in _ENDED
            if ended:
                process.kill()
                raise EndedError("its group was ended")
            if process._popen.poll() is None:
                return process
            process.kill()  # it died while nobody looked

    def ask(
        self, job: bytes, timeout: float | None, wanted: Callable[[], bool] | None = None
    ) -> tuple[bool, Any]:
        if wanted is not None:
            with self._ended_when_not(wanted):
                return self.ask(job, timeout)
        if not self._ready:  # its start is no part of the time allowed
            self._ready = _read(self._popen.stdout) is not None  # type: ignore[arg-type]
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.kill()

        timer = None if timeout is None else threading.Timer(timeout, stop)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            with contextlib.suppress(OSError, ValueError):  # a child that is gone has said nothing: see below
                _write(self._popen.stdin, job)  # type: ignore[arg-type]
            answer = _read(self._popen.stdout)  # type: ignore[arg-type]
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()  # one that rings in the last moment must not end the next call
        if answer is None:
            if self.ended:
                raise EndedError("its process was ended")
            if late.is_set():
                raise TimeoutError(f"stopped after {timeout:g} seconds, the time allowed for a cell")
            # what it started goes first; and itself, should it live on without a word (a signal changes no end before)
            _kill_group(self._popen)
            raise IsolationError(f"its process {_end(self._popen.wait())}")
        try:
            return pickle.loads(answer)
        except Exception as error:
            raise IsolationError(f"its answer cannot be read here: {type(error).__name__}: {error}") from None

    @contextlib.contextmanager
    def _ended_when_not(self, wanted: Callable[[], bool]) -> Iterator[None]:
        answered = threading.Event()

        def watch() -> None:
            while not answered.wait(_LOOK_SECONDS):
                if not wanted():
                    self.ended = True
                    self.kill()
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            answered.set()
            thread.join()  # a kill in the last moment must not end the next call

    def give_back(self) -> None:
        self._timer = threading.Timer(_IDLE_SECONDS, self._retire)
        self._timer.daemon = True
        with _LOCK:
            _IDLE.append(self)
        self._timer.start()

    def _retire(self) -> None:
        with _LOCK:
            if self not in _IDLE:  # taken in the last moment
                return
            _IDLE.remove(self)
        self.kill()

    def kill(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with _LOCK:
            _ALIVE.discard(self)
            if self in _IDLE:
                _IDLE.remove(self)
        _kill_group(self._popen)
        self._popen.wait()
        self.cut_lifeline()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def cut_lifeline(self) -> None:
        with _LOCK:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def _serve(lifeline: int | None = None) -> None:
    """What the child does: one call after another until the parent is gone."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)  # a call, and what it starts, must not read the calls that follow
    os.dup2(2, 1)  # what a call prints must not get between the answers
    sys.stdout = sys.stderr
    if hasattr(os, "register_at_fork"):  # what a call leaves behind must not keep the pipes open
        pipes = (calls.fileno(), answers.fileno())
        os.register_at_fork(
            after_in_child=lambda: [os.dup2(nowhere, pipe, inheritable=False) for pipe in pipes]
        )
    if lifeline is not None:
        _end_when_cut(lifeline)
    jobs: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        while (job := _read(calls)) is not None:
            jobs.put(job)
        _end_with_parent()

    def say(answer: bytes) -> None:
        try:
            _write(answers, answer)
        except OSError:
            _end_with_parent()

    threading.Thread(target=listen, daemon=True).start()
    say(b"ready")
    while True:
        job = jobs.get()
        try:
            _UNPACKING.set()
            try:
                function, arguments = cloudpickle.loads(job)
            finally:
                _UNPACKING.clear()
            answer = cloudpickle.dumps((True, function(*arguments)))
        except BaseException as error:  # sys.exit() in a call is a failure of that call
            answer = pickle.dumps((False, f"{type(error).__name__}: {error}"))
        say(answer)


def _end_when_cut(lifeline: int) -> None:
    """Have the system end this process and its descendants with the parent, also while no thread can run Python."""
    with contextlib.suppress(
        ImportError, OSError, AttributeError
    ):  # where there is no such thing, threads watch alone
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)  # to end
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _end_with_parent() -> None:
    """End at once, in the middle of a call too, and take along what the call started."""
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _write(pipe: BinaryIO, data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _read(pipe: BinaryIO) -> bytes | None:
    """The next message; None at the end of the pipe."""
    try:
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        data = pipe.read(_LENGTH.unpack(head)[0])
    except (OSError, ValueError):
        return None
    return data if len(data) == _LENGTH.unpack(head)[0] else None


def _kill_group(popen: "subprocess.Popen[bytes]") -> None:
    if popen.returncode is not None:  # waited for: its number may be another's by now
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)
            return
    popen.kill()


def _end(status: int) -> str:
    if status >= 0:
        return f"ended with status {status} before it answered"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
