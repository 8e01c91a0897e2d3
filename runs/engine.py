"""Compute cells in parallel, and store each as soon as it is done."""

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from typing import Any

from runs.cell import Cell, Result, Status, attempt, describe_error
from runs.cluster import cluster as on_cluster
from runs.pool import pack, pool
from runs.progress import Progress, showing
from runs.store import Store

_LONGEST_TIMEOUT = 1e8  # seconds; clocks fail at a few times this value
_MOST_JOBS = 256


def run(
    cells: Iterable[Cell],
    *,
    jobs: int = 1,
    timeout: float | None = None,
    store: Store | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    isolated: bool = True,
    cluster: str | None = None,
    progress: bool = False,
) -> Generator[Result, None, None]:
    """Compute cells and yield each result as soon as it is done; results in the store come first.

    Parameters
    ----------
    cells : iterable of Cell
        They start in this order. Cells with the same key are computed once.
    jobs : int
        How many are computed at once, at most 256. On a cluster the number is that of its workers' threads. It does
        not change any value.
    timeout : float, optional
        Seconds that a cell may take; by default there is no limit.
    store : Store, optional
        Results are stored here before they are yielded; results already here are not computed again.
    fresh : bool
        Compute all cells, also those in the store.
    retry_failed : bool
        Compute cells again that failed or timed out according to the store. Without it, a cell that timed out is
        computed again only if more time is allowed now.
    isolated : bool
        Compute in other processes, so that a crash or a time-out ends nothing else. Otherwise compute in this process,
        one cell after another; a function that raises KeyboardInterrupt then ends the run, as Ctrl-C does.
    cluster : str, optional
        The address of a dask scheduler; its workers compute the cells.
    progress : bool
        Show on standard error how many cells are done, what runs, and about how long the rest takes: on a terminal in
        place, else a line every five seconds.

    Yields
    ------
    Result
        One per cell. If a cell raises, crashes or takes too long, its result says so.

    Raises
    ------
    ValueError
        If a number is out of its range, or options exclude each other.
    StoreError
        If the store cannot be read or written.
    ImportError, OSError
        If the cluster cannot be used.

    Notes
    -----
    Closing the iterator, or an interruption, ends the processes. Finished results are in the store.

    Examples
    --------
    >>> from runs import Cell, run
    >>> [result.value for result in run([Cell(pow, {"base": 3, "exp": 2})], isolated=False)]
    [9]
    """
    if not 1 <= jobs <= _MOST_JOBS:
        raise ValueError(f"jobs is {jobs}: a number from 1 to {_MOST_JOBS} is needed.")
    if timeout is not None and not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError(f"timeout is {timeout} seconds: a positive number is needed, or none.")
    if not isolated and (timeout is not None or jobs > 1 or cluster is not None):
        raise ValueError(
            "isolated=False computes here, one cell after another: leave out timeout, jobs and cluster."
        )
    alike: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        alike[cell.key].append(cell)
    state = Progress({several[0]: len(several) for several in alike.values()}, jobs)
    stored = {} if store is None or fresh else store.find(alike)
    found = [Result.from_json(alike[key][0], data) for key, data in stored.items()]
    reused = [result for result in found if not _is_wanted_again(result, retry_failed, timeout)]
    computed = _apart(state, timeout, cluster, store) if isolated else _here(state, store)
    results = _results(alike, chain(reused, computed), state)
    return _shown(results, state) if progress else results


def _shown(results: Iterator[Result], state: Progress) -> Generator[Result, None, None]:
    with showing(state):
        yield from results


def _results(
    alike: dict[str, list[Cell]], results: Iterable[Result], state: Progress
) -> Generator[Result, None, None]:
    for result in results:
        state.finish(result.cell)
        yield from (replace(result, cell=cell) for cell in alike[result.cell.key])


def _is_wanted_again(result: Result, retry_failed: bool, timeout: float | None) -> bool:
    if result.status == "timed out" and result.timeout is not None:
        return retry_failed or timeout is None or timeout > result.timeout
    return retry_failed and result.status != "done"


def _here(state: Progress, store: Store | None) -> Iterator[Result]:
    for cell in list(state.waiting):
        state.start(cell)
        result = _attempted(cell, attempt(cell.function, {**cell.arguments, **cell.objects}), None)
        _put(store, result)
        yield result


def _apart(
    state: Progress, timeout: float | None, cluster: str | None, store: Store | None
) -> Iterator[Result]:
    cells = list(state.waiting)
    if not cells:
        return
    here = pool(min(state.jobs, len(cells)), cells[0].function.__module__)
    place: AbstractContextManager[Any] = here if cluster is None else on_cluster(cluster)
    waiting = iter(cells)
    with place as workers:
        running: dict[Future[tuple[Status, str]], Cell] = {}
        try:
            while True:
                state.jobs = getattr(workers, "jobs", state.jobs)
                while len(running) < state.jobs and (cell := next(waiting, None)) is not None:
                    try:
                        packed = pack(cell.function, {**cell.arguments, **cell.objects})
                    except Exception as error:
                        said = f"It cannot be sent to another process ({describe_error(error)})"
                        result = Result(cell, "failed", message=f"{said}; isolated=False computes it here.")
                        _put(store, result)
                        yield result
                        continue
                    running[workers.submit(packed, timeout)] = cell
                    state.start(cell)
                if not running:
                    return
                for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                    result = _result(running[future], future, timeout)
                    _put(store, result)
                    del running[future]
                    yield result
        finally:
            for future in running:
                future.cancel()
            for future, cell in running.items():  # what ended meanwhile is not lost
                if future.done() and not future.cancelled():
                    result = _result(cell, future, timeout)
                    if result.status == "done":  # an interruption may end processes too
                        _put(store, result)


def _put(store: Store | None, result: Result) -> None:
    if store is not None:
        store.put(result.cell.key, result.to_json())


def _result(cell: Cell, future: "Future[tuple[Status, str]]", timeout: float | None) -> Result:
    from pebble import ProcessExpired

    try:
        return _attempted(cell, future.result(), timeout)
    except TimeoutError as error:
        if timeout is None:
            return Result(cell, "failed", message=describe_error(error), timeout=timeout)
        return Result(cell, "timed out", message=f"It took more than {timeout:g} seconds.", timeout=timeout)
    except ProcessExpired as error:
        said = f"Its process ended ({error}); it may need more memory than there is."
        return Result(cell, "failed", message=said, timeout=timeout)
    except Exception as error:
        return Result(cell, "failed", message=describe_error(error), timeout=timeout)


def _attempted(cell: Cell, ended: tuple[Status, str], timeout: float | None) -> Result:
    status, text = ended
    if status == "done":  # the value after a round trip through JSON equals the value from a store
        return Result(cell, status, json.loads(text), timeout=timeout)
    return Result(cell, status, message=text, timeout=timeout)
