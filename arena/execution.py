"""Cells computed in parallel, on this machine or on a cluster, each in a process that nothing else depends on."""

import secrets
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

from arena._phrases import sentence
from arena.cells import run_cell
from arena.clusters import end_on_workers, on_workers, still_wanted
from arena.isolation import EndedError, IsolationError, end_processes, pack, run_isolated
from arena.results import Cell
from arena.students import Effort, Student
from arena.targets import Target

__all__ = ["CellId", "Job", "WorkersLostError", "run_jobs", "workers"]

CellId = tuple[str, str, int]
"""The names of the target and of the learner, and the seed."""


class WorkersLostError(RuntimeError):
    """What runs the cells broke down, apart from the cells themselves; the message says how."""


@dataclass(frozen=True, eq=False)
class Job:
    """One learner on one target with one seed, to be run."""

    target: Target
    student: Student
    seed: int

    @property
    def id(self) -> CellId:
        """The names of the two and the seed."""
        return self.target.name, self.student.name, self.seed


def run_jobs(
    jobs: Iterable[Job], effort: Effort, *, timeout: float | None = None, isolated: bool = True
) -> Generator[Cell, None, None]:
    """Run jobs as `joblib` is configured, and give each cell as it is done.

    Parameters
    ----------
    jobs : iterable of Job
        They are taken one by one, as workers are free to begin them; other threads may do the taking.
    effort : Effort
        How hard the students try.
    timeout : float, optional
        Seconds a cell may take.
    isolated : bool
        Whether each worker runs its cells in a process beside it, as `arena.isolation` does. Otherwise nothing
        bounds a cell in time, and one that ends its process ends the whole.

    Raises
    ------
    WorkersLostError
        If what runs the cells broke down: a cluster that is gone, a worker that was killed.

    Notes
    -----
    `joblib.Parallel` is called bare: ``joblib.parallel_config(n_jobs=..., backend=...)`` around the call, or
    `workers`, decides how many cells run at once, and where. Only the backend of dask is replaced, by the same one
    held to its workers: see `arena.clusters.on_workers`.
    """
    backend, _ = get_active_backend()
    cluster = on_workers(backend)
    where = {} if cluster is None else {"backend": cluster}
    parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs", **where)
    group = secrets.token_hex(8)
    cells = None
    try:
        cells = parallel(_call(job, effort, timeout, isolated, group) for job in jobs)
        while True:
            try:
                cell = next(cells)
            except StopIteration:
                return
            except Exception as error:
                raise WorkersLostError(_first_line(error)) from error
            yield cell
    finally:
        end_processes(group)  # first, or whoever waits for a cell would keep the workers from ending
        if cells is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib's, that not all cells were waited for
                cells.close()
        if cluster is not None:
            end_on_workers(cluster, group)


@contextmanager
def workers(jobs: int | None, *, isolated: bool = True) -> Iterator[None]:
    """Within this context `joblib` runs `jobs` cells at once, where it is configured to; None leaves the number to it.

    Notes
    -----
    On this machine threads do: where cells are isolated, a worker only waits for the process beside it.
    """
    backend, configured = get_active_backend()
    options: dict[str, Any] = {} if jobs is None else {"n_jobs": jobs}
    if isolated and isinstance(backend, BACKENDS[DEFAULT_BACKEND]):
        options = {"n_jobs": configured, **options, "backend": "threading"}
    with parallel_config(**options):
        yield


def _call(job: Job, effort: Effort, timeout: float | None, isolated: bool, group: str) -> object:
    if not isolated:
        return delayed(run_cell)(job.target, job.student, job.seed, effort)
    # packed here once: workers pass the bytes on, and clusters do not spread them as data that could be lost
    try:
        packed = pack(run_cell, job.target, job.student, job.seed, effort)
    except IsolationError as error:
        return delayed(_failed)(job.id, f"{error}; isolated=False runs it in this process.")
    return delayed(_run_apart)(job.id, packed, timeout, group)


def _run_apart(which: CellId, packed: bytes, timeout: float | None, group: str) -> Cell:
    try:
        return run_isolated(packed, timeout=timeout, group=group, wanted=still_wanted())
    except TimeoutError as error:
        return Cell(*which, "timed out", message=sentence(str(error)))
    except EndedError:
        raise
    except IsolationError as error:
        return _failed(which, f"{error}.")


def _failed(which: CellId, message: str) -> Cell:
    return Cell(*which, "failed", message=sentence(message))


def _first_line(error: Exception) -> str:
    said = str(error).strip().split("\n")[0][:300]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
