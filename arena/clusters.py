"""A dask cluster as the place where cells run."""

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from joblib import parallel_config

from arena.isolation import end_processes

__all__ = ["cluster", "end_on_workers", "on_workers", "still_wanted"]

_ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+/?|[a-z]+://\S+")
_PATIENCE = 10.0  # seconds for the scheduler to answer, and then for its first worker
_FAREWELL = 5.0  # seconds for the workers to end what they are at
_LOOK_SECONDS = 1.0  # between looks for workers that have joined


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Within this context cells run on the workers of a dask scheduler; here if `address` is None.

    Parameters
    ----------
    address : str or None
        The scheduler's address, as ``tcp://host:8786``.

    Raises
    ------
    ImportError
        If dask is not installed.
    ValueError
        If `address` is none.
    OSError
        If no scheduler answers there, or it has no worker.

    Notes
    -----
    It is ``joblib.parallel_config(backend="dask")`` and a client; within one's own, `compare` runs on one's own
    cluster. The workers need this toolkit installed, in the same version. A worker that is lost costs nothing but the
    time: its cells run on another. One that joins is given cells, and a worker alone with one thread computes them
    too, not the caller.

    What an interrupted comparison was at ends on the workers too, and what one was at that is killed ends when the
    scheduler has noticed: at once where the connection breaks, as it does with the process; after the time-out of its
    connections if the caller's machine or network is gone without a word. Cells with ``isolated=False`` cannot be
    ended, and keep their workers until they are done.
    """
    if address is None:
        yield
        return
    if find_spec("distributed") is None:
        raise ImportError(
            "Running on a cluster needs dask: install it with pip install 'attention-bounds[distributed]'."
        )
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise ValueError(
            f"The scheduler's address is {address!r}: one as tcp://host:8786 is needed, as dask scheduler prints it."
        )
    from distributed import Client

    # its own words about a scheduler that is not there come beside the error, and late
    for name in ("distributed", "distributed.client"):  # dask gives the second a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(
            f"No dask scheduler answers at {address} ({_first_line(error)}): start one with dask scheduler."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise OSError(
                f"The dask scheduler at {address} has no worker: start one with dask worker {address}."
            ) from None
        with parallel_config(backend="dask", client=client):
            yield


def on_workers(backend: Any) -> Any:
    """The dask backend for `joblib.Parallel` that corresponds to a given one; None if that is not of dask.

    Notes
    -----
    It has the client and the options of the one given, and differs in four ways: a cluster with one thread in all is
    used (joblib would compute in the calling process), workers that join are given work at once (joblib would keep the
    number of tasks it began with), a task that the cluster gives up is an error (joblib would wait for it for ever),
    and tasks are cancelled at an early end (joblib would leave them to the cluster).
    """
    module = sys.modules.get("joblib._dask")  # not loaded: not used
    if module is None or not isinstance(backend, module.DaskDistributedBackend):
        return None
    from joblib._dask import DaskDistributedBackend

    class OnWorkers(DaskDistributedBackend):
        def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
            threads = super().configure(n_jobs, parallel, **options)
            if threads != 1:
                return threads
            # still one at once: a second would wait behind it, even when a worker joins
            parallel.pre_dispatch = 1
            return 2

        def start_call(self) -> None:
            super().start_call()
            self.client.loop.add_callback(self._serve_newcomers)

        async def _serve_newcomers(self) -> None:
            with suppress(Exception):  # a client that is closed
                while self._continue:
                    await asyncio.sleep(_LOOK_SECONDS)
                    threads = sum((await self.client.ncores()).values())
                    while self._continue and _dispatch_if_fewer(self.parallel, threads):
                        pass

        def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> Any:
            def tell(done: Any) -> None:
                if callback is not None and (error := done.exception()) is not None:
                    callback(error)

            future = super().submit(func, callback)
            future.add_done_callback(tell)
            return future

        def abort_everything(self, ensure_ready: bool = True) -> None:
            super().abort_everything(ensure_ready)
            with suppress(Exception):  # a cluster that is gone
                self.client.sync(self._cancel, callback_timeout=_FAREWELL)

        async def _cancel(self) -> None:
            await self.client.cancel(list(self._results))

    return OnWorkers(
        client=backend.client,
        wait_for_workers_timeout=backend.wait_for_workers_timeout,
        **backend.submit_kwargs,
    )


def end_on_workers(backend: Any, group: str) -> None:
    """Call `arena.isolation.end_processes` for a group on every worker of a backend's cluster that answers in time."""
    client = backend.client
    with suppress(Exception):  # a cluster that is gone
        client.sync(client.run, end_processes, group, on_error="ignore", callback_timeout=_FAREWELL)


def still_wanted() -> Callable[[], bool] | None:
    """For a task of dask, a function that says whether the scheduler still wants it; None elsewhere.

    Notes
    -----
    A scheduler forgets the tasks of a client that cancelled them or that it has lost. The worker marks those that run,
    but it cannot stop them.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        worker = get_worker()
        key = worker.get_current_task()
        tasks = worker.state.tasks
    except (ValueError, KeyError, AttributeError):  # no worker; not a thread of its; one without such a state
        return None

    def wanted() -> bool:
        task = tasks.get(key)
        return task is None or task.state != "cancelled"

    return wanted


def _dispatch_if_fewer(parallel: Any, number: int) -> bool:
    """Have joblib hand out one more task if it has fewer than a number of them under way, and any left."""
    with parallel._lock:
        under_way = parallel.n_dispatched_tasks - parallel.n_completed_tasks
        if parallel._original_iterator is None or under_way >= number:
            return False
        parallel.dispatch_next()
        return True


def _first_line(error: Exception) -> str:
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]
