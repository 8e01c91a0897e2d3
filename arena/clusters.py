"""A dask cluster as the place where cells run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from joblib import parallel_config

__all__ = ["cluster"]

_PATIENCE = 10.0  # seconds for the scheduler to answer, and then for its first worker


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
    OSError
        If no scheduler answers there, or it has no worker.

    Notes
    -----
    It is ``joblib.parallel_config(backend="dask")`` and a client; within one's own, `compare` runs on one's own
    cluster. The workers need this toolkit installed, in the same version. A worker that is lost costs nothing but the
    time: its cells run on another.
    """
    if address is None:
        yield
        return
    if find_spec("distributed") is None:
        raise ImportError(
            "Running on a cluster needs dask: install it with pip install 'attention-bounds[distributed]'."
        )
    from distributed import Client

    # its own words about a scheduler that is not there come beside the error, and late
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
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


def _first_line(error: Exception) -> str:
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]
