"""Calls made in parallel, on this machine or on a cluster, each in a process that nothing else depends on."""

import inspect
import secrets
import sys
import warnings
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
from joblib import Parallel, delayed, parallel_config
from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

from arena._phrases import sentence
from arena.clusters import end_on_workers, on_workers, still_wanted
from arena.isolation import EndedError, IsolationError, end_processes, is_unpacking, pack, run_isolated
from arena.made_with import difference, made_with

__all__ = ["Answer", "Call", "WorkersLostError", "run_calls", "workers"]


_MOST_AT_ONCE = 256  # each is a process; joblib breaks down where the system refuses it a thread


class WorkersLostError(RuntimeError):
    """What makes the calls broke down, apart from the calls themselves; the message says how."""


@dataclass(frozen=True, eq=False)
class Call:
    """A function and its arguments, to be called somewhere.

    Attributes
    ----------
    name : hashable
        What the answer is known by.
    function : callable
        Called with the arguments. A lambda, or a function of a script or a notebook, is taken along.
    arguments : tuple
        They too travel to the process that makes the call.
    """

    name: Hashable
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of a call.

    Attributes
    ----------
    name : hashable
        The call's.
    value : object
        What the function returned; None if it did not.
    failure : str
        Why not, as a sentence; empty if it did.
    timed_out : bool
        Whether it was stopped because it took too long.
    """

    name: Hashable
    value: Any = None
    failure: str = ""
    timed_out: bool = False


def run_calls(
    calls: Iterable[Call], *, timeout: float | None = None, isolated: bool = True
) -> Generator[Answer, None, None]:
    """Make calls as `joblib` is configured, and give each answer as it is there.

    Parameters
    ----------
    calls : iterable of Call
        They are taken one by one, as workers are free to begin them; other threads may do the taking.
    timeout : float, optional
        Seconds a call may take.
    isolated : bool
        Whether each worker makes its calls in a process beside it, as `arena.isolation` does. Otherwise nothing
        bounds a call in time, and one that ends its process ends the whole.

    Raises
    ------
    WorkersLostError
        If what makes the calls broke down: a cluster that is gone, a worker that was killed.

    Notes
    -----
    `joblib.Parallel` is called bare: ``joblib.parallel_config(n_jobs=..., backend=...)`` around the call, or
    `workers`, decides how many calls are made at once, and where. Only the backend of dask is replaced, by the same one
    held to its workers: see `arena.clusters.on_workers`. A worker of a cluster whose packages or whose toolkit are
    other than those here answers with a failure that says so.

    Examples
    --------
    >>> sorted(answer.value for answer in run_calls(Call(n, pow, (n, 2)) for n in range(4)))
    [0, 1, 4, 9]
    """
    backend, _ = get_active_backend()
    cluster = on_workers(backend)
    where = {} if cluster is None else {"backend": cluster}
    parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs", **where)
    group = secrets.token_hex(8)
    answers = None
    try:
        # elsewhere other versions may be installed: what they answer would be kept as made with those of here
        here = None if cluster is None else made_with()
        answers = parallel(_delayed(call, timeout, isolated, group, here) for call in calls)
        while True:
            try:
                answer = next(answers)
            except StopIteration:
                return
            except Exception as error:
                raise WorkersLostError(_first_line(error)) from error
            yield answer
    finally:
        end_processes(group)  # first, or whoever waits for a call would keep the workers from ending
        if answers is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib's, that not all calls were waited for
                answers.close()
        if cluster is not None:
            end_on_workers(cluster, group)


@contextmanager
def workers(jobs: int | None, *, isolated: bool = True) -> Iterator[None]:
    """Within this context `joblib` makes `jobs` calls at once, where it is configured to; None leaves the number to it.

    Raises
    ------
    RuntimeError
        If a process that makes calls for another program gets here by importing a module.

    Notes
    -----
    On this machine threads do, at most 256: where calls are isolated, a worker only waits for the process beside it.
    A module may ask for calls at its top, while it is imported.
    """
    if is_unpacking():
        raise RuntimeError(
            "A module that a learner needs starts calls of its own when it is imported: "
            'put them under `if __name__ == "__main__":`.'
        )
    _send_as_code_what_is_being_imported()
    jobs = None if jobs is None else min(jobs, _MOST_AT_ONCE)
    backend, configured = get_active_backend()
    options: dict[str, Any] = {} if jobs is None else {"n_jobs": jobs}
    if isolated and isinstance(backend, BACKENDS[DEFAULT_BACKEND]):
        options = {"n_jobs": configured, **options, "backend": "threading"}
    with parallel_config(**options):
        yield


def _send_as_code_what_is_being_imported() -> None:
    """Keep the processes from importing a module whose top has led here: each would start the same calls again."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            module = sys.modules.get(frame.f_globals.get("__name__", ""))
            # the main program is sent as code in any case; a copy of a module's names, as of doctest, is no module
            if module is not None and module.__name__ != "__main__" and vars(module) is frame.f_globals:
                cloudpickle.register_pickle_by_value(module)
        frame = frame.f_back


def _delayed(
    call: Call, timeout: float | None, isolated: bool, group: str, expected: Mapping[str, str] | None
) -> object:
    if not isolated:
        return delayed(_here)(call.name, call.function, call.arguments, expected)
    # packed here once: workers pass the bytes on, and clusters do not spread them as data that could be lost
    try:
        packed = pack(call.function, *call.arguments)
    except IsolationError as error:
        return delayed(Answer)(
            call.name, failure=sentence(f"{error}; isolated=False runs it in this process.")
        )
    return delayed(_apart)(call.name, packed, timeout, group, expected)


def _here(
    name: Hashable,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    expected: Mapping[str, str] | None,
) -> Answer:
    if expected and (other := difference(expected)):
        return Answer(name, failure=other)
    try:
        return Answer(name, function(*arguments))
    except Exception as error:  # as in a process of its own
        return Answer(name, failure=sentence(f"{type(error).__name__}: {error}"))


def _apart(
    name: Hashable, packed: bytes, timeout: float | None, group: str, expected: Mapping[str, str] | None
) -> Answer:
    if expected and (other := difference(expected)):
        return Answer(name, failure=other)
    try:
        return Answer(name, run_isolated(packed, timeout=timeout, group=group, wanted=still_wanted()))
    except TimeoutError as error:
        return Answer(name, failure=sentence(str(error)), timed_out=True)
    except EndedError:
        raise
    except IsolationError as error:
        return Answer(name, failure=sentence(f"{error}."))


def _first_line(error: Exception) -> str:
    said = str(error).strip().split("\n")[0][:300]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
