"""Local processes that compute cells, each in one thread; one that crashes or is stopped ends nothing else."""

import copy
import errno
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any

import cloudpickle

from runs.cell import Status, attempt
from runs.fingerprint import is_installed

_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_Base: Any = multiprocessing.get_context(_METHOD)
_starting = threading.Lock()


@contextmanager
def pool(jobs: int, module: str) -> "Iterator[_Pool]":
    """Within this context `jobs` processes compute packed calls; leaving it ends them.

    Parameters
    ----------
    jobs : int
        The number of processes.
    module : str
        A module that each process imports first, with the modules in its tuple `PRELOADED` if it has one, so that these
        imports do not count in the time of a call.
    """
    from pebble import ProcessPool

    _require_files(jobs)
    modules = (module, *getattr(sys.modules.get(module), "PRELOADED", ()))
    if _METHOD == "forkserver" and module != "__main__" and is_installed(module):  # others may change
        _Base.set_forkserver_preload(["runs.pool", *modules])
    context, processes = copy.copy(_Base), []

    def process(*given: Any, **named: Any) -> _Process:
        processes.append(_Process(*given, **named))
        return processes[-1]

    context.Process = process
    with _apart():
        if os.name == "posix":
            resource_tracker.ensure_running()
        workers = ProcessPool(
            max_workers=jobs, context=context, initializer=_begin, initargs=(modules, sys.path)
        )
    try:
        yield _Pool(workers)
    finally:
        workers.stop()
        for each in processes:  # pebble takes locks from processes that are starting, before it ends them
            if each.is_alive():
                each.kill()
        workers.join()


class _Pool:
    def __init__(self, workers: Any) -> None:
        self._workers = workers

    def submit(self, packed: bytes, timeout: float | None) -> "Future[tuple[Status, str]]":
        _ = self._workers.active  # starts the processes
        with _uninterrupted():
            running = self._workers.submit(call, None, packed)
        if timeout is None:
            return running
        limited: Future[tuple[Status, str]] = Future()
        threading.Thread(target=_limit, args=(running, limited, timeout), daemon=True).start()
        return limited


def _limit(running: "Future[Any]", limited: "Future[Any]", seconds: float) -> None:
    """Pass on what a call returns, or a TimeoutError; pebble's own limit follows the clock on the wall."""
    while not (running.running() or running.done()):
        time.sleep(0.02)
    if not limited.set_running_or_notify_cancel():
        return
    try:
        limited.set_result(running.result(seconds))
    except TimeoutError as error:
        running.cancel()  # ends the process
        limited.set_exception(error)
    except BaseException as error:
        limited.set_exception(error)


def _require_files(jobs: int) -> None:
    """Allow as many open files as so many processes need; an OSError if the system does not."""
    if sys.platform == "win32":
        return
    import resource

    needed = 24 + 4 * jobs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < needed:
        raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)} for {jobs} processes, which need {needed}")
    if resource.RLIM_INFINITY != soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def call(packed: bytes) -> tuple[Status, str]:
    """Call what `cloudpickle` packed, a function with arguments by name."""
    return attempt(_call, {"packed": packed})


def _call(packed: bytes) -> Any:
    function, arguments = cloudpickle.loads(packed)
    return function(**arguments)


def _begin(modules: Sequence[str], path: list[str]) -> None:
    os.dup2(2, 1)  # the output of a cell must not mix with the output of the command
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # for later imports
        os.environ[name] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[:] = path
    for module in modules:
        if module != "__main__":
            importlib.import_module(module)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _apart() -> Iterator[None]:
    """Processes that start within this context run neither the main program again nor code of the current folder."""
    with _starting:
        main, path = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
        sys.modules["__main__"], os.environ["PYTHONSAFEPATH"] = ModuleType("__main__"), "1"
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            os.environ.pop("PYTHONSAFEPATH")
            if path is not None:
                os.environ["PYTHONSAFEPATH"] = path


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Within this context an interruption waits: halfway through a queue it would leave a thread waiting for ever."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    came: list[int] = []
    raising: list[int] = []
    if threading.current_thread() is threading.main_thread():
        raising = [number for number in numbers if signal.getsignal(number) is signal.default_int_handler]
    for number in raising:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number in raising:
            signal.signal(number, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt


class _Process(_Base.Process):
    """A process that starts apart; functions of a script are sent as code."""

    def start(self) -> None:
        with _apart():
            super().start()


def pack(function: Any, arguments: dict[str, Any]) -> bytes:
    """A function and its arguments as bytes that `call` takes."""
    with _starting:
        return bytes(cloudpickle.dumps((function, arguments)))
