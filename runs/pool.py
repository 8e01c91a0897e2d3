"""Local processes that compute cells; a process that crashes or is stopped ends nothing else."""

import copy
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any

import cloudpickle
from pebble import ProcessPool

from runs.threads import single_thread

__all__ = ["pool"]

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
        A module that each process imports first, so that the import does not count in the time of a call.
    """
    if _METHOD == "forkserver" and module != "__main__":
        _Base.set_forkserver_preload(["runs.pool", module])
    workers = ProcessPool(max_workers=jobs, context=_context, initializer=_begin, initargs=(module, sys.path))
    try:
        yield _Pool(workers)
    finally:
        workers.stop()
        workers.join()


class _Pool:
    def __init__(self, workers: ProcessPool) -> None:
        self._workers = workers

    def submit(self, packed: bytes, timeout: float | None) -> "Future[Any]":
        return self._workers.schedule(call, args=(packed,), timeout=timeout)


def call(packed: bytes) -> Any:
    """Call what `cloudpickle` packed, a function with arguments by name, under one thread of linear algebra."""
    function, arguments = cloudpickle.loads(packed)
    try:
        with single_thread():
            return function(**arguments)
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error}") from None


def _begin(module: str, path: list[str]) -> None:
    os.dup2(2, 1)  # the output of a cell must not mix with the output of the command
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # for later imports
        os.environ[name] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[:] = path
    if module != "__main__":
        importlib.import_module(module)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class _Process(_Base.Process):
    """A process that does not run the main program again; functions of a script are sent as code."""

    def start(self) -> None:
        with _starting:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = main


_context = copy.copy(_Base)
_context.Process = _Process


def pack(function: Any, arguments: dict[str, Any]) -> bytes:
    """A function and its arguments as bytes that `call` takes."""
    with _starting:
        return bytes(cloudpickle.dumps((function, arguments)))
