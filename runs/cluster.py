"""Compute cells on a dask cluster."""

import logging
import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from runs.cell import Status, versions
from runs.pool import pool

_ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+/?|[a-z]+://\S+")
_PATIENCE = 10.0  # seconds for the scheduler to answer, and then for its first worker


@contextmanager
def cluster(address: str) -> "Iterator[_Cluster]":
    """Within this context the workers of the scheduler at an address compute packed calls.

    Raises
    ------
    ImportError
        If dask is not installed.
    ValueError
        If `address` is not an address, or a worker has other package versions than this machine.
    OSError
        If no scheduler answers at the address, or it has no worker.

    Notes
    -----
    A lost worker costs only time: another worker computes its cells. After an interruption, running cells finish
    on their workers, and no other cell starts.
    """
    if find_spec("distributed") is None:
        raise ImportError("Running on a cluster needs dask: install it with pip install dask distributed.")
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise ValueError(
            f"The scheduler's address is {address!r}: one as tcp://host:8786 is needed, as dask scheduler prints it."
        )
    from distributed import Client

    # dask also logs a missing scheduler, later than the error
    for name in ("distributed", "distributed.client"):  # dask sets the level of the second separately
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        said = (str(error).strip().split("\n")[0] or type(error).__name__)[:200]
        raise OSError(
            f"No dask scheduler answers at {address} ({said}): start one with dask scheduler."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise OSError(
                f"The dask scheduler at {address} has no worker: start one with dask worker {address}."
            ) from None
        _require_same_versions(client)
        yield _Cluster(client)


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._executor = client.get_executor(pure=False)
        self._client = client

    @property
    def jobs(self) -> int:
        return max(sum(self._client.ncores().values()), 1)

    def submit(self, packed: bytes, timeout: float | None) -> "Future[tuple[Status, str]]":
        future: Future[tuple[Status, str]] = self._executor.submit(_call_apart, packed, timeout)
        return future


def _call_apart(packed: bytes, timeout: float | None) -> tuple[Status, str]:
    """Make a call in a process beside the worker, so that it can be stopped."""
    # dask marks its workers as daemons, which may not start processes
    multiprocessing.current_process()._config.pop("daemon", None)  # type: ignore[attr-defined]
    with pool(1, __name__) as here:
        return here.submit(packed, timeout).result()


def _require_same_versions(client: Any) -> None:
    here = versions()
    for worker, there in client.run(versions).items():
        if there != here:
            name = next(one for one in {**here, **there} if here.get(one) != there.get(one))
            raise ValueError(
                f"The worker {worker} has {name} {there.get(name, 'not installed')}, and here it is "
                f"{here.get(name, 'not installed')}: install the same on both."
            )
