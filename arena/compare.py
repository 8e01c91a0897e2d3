"""The main job: every learner on every target, side by side."""

import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from arena.calls import WorkersLostError, workers
from arena.engines import asked_settings, on_engine, require_known_engine
from arena.execution import CellId, Job, run_jobs
from arena.made_targets import preset_targets
from arena.made_with import versions
from arena.memory import Memory
from arena.results import Cell, Results
from arena.store import RunStore, StoreError
from arena.students import Effort, Student, as_students, choose_effort, set_up_for
from arena.targets import Target, load_targets, require_path
from attention import Learner
from attention._arrays import shown
from attention.errors import FileFormatError
from attention.validation import count, non_negative, one_of, require_instance

__all__ = ["compare"]

_LONGEST_TIMEOUT = 1e8  # seconds; clocks take no more than a few times that
_MOST_CELLS = 100_000  # of a comparison: each is kept in memory and on the page
_PATIENCE = 0.2  # seconds between looks at what another process is doing


def compare(
    targets: Sequence[Target | str | os.PathLike[str]] | Target | str | os.PathLike[str] | None = None,
    learners: Sequence[Student | Learner | str] | Student | Learner | str | None = None,
    *,
    preset: str = "quick",
    seeds: int | None = None,
    engine: str | None = None,
    device: str | None = None,
    jobs: int | None = None,
    store: RunStore | str | os.PathLike[str] | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    timeout: float | None = None,
    isolated: bool = True,
    command: str = "",
    on_cell: Callable[[Cell], None] | None = None,
) -> Results:
    """Run every learner on every target with every seed.

    Parameters
    ----------
    targets : Target or path, or sequence of them, optional
        The targets, or files of targets; by default those of `preset_targets`.
    learners : str, Learner or Student, or sequence of them, optional
        Names of `STUDENTS`, learners set up by the caller, or students; by default those of `STUDENTS` that are
        `by_default`.
    preset : {"quick", "full"}
        The effort of the learners given by name.
    seeds : int, optional
        How many seeds a pair; by default the preset's. Seeds count from 0.
    engine : {"auto", "numpy", "torch"}, optional
        What the learners that have a choice compute with; by default as each is set up.
    device : str, optional
        Where those that have a choice compute: "cpu", "cuda", "cuda:1". That it is there, each cell finds out.
    jobs : int, optional
        How many cells run at once; by default as `joblib` is configured, which is one. It changes the seconds and
        nothing else.
    store : RunStore or path, optional
        Where cells are kept, and taken from if they are there; by default they are not kept.
    fresh : bool
        Compute every cell again, those that are in the store too.
    retry_failed : bool
        Compute those again that failed or timed out. (With more time allowed, those that timed out run in any case.)
    timeout : float, optional
        Seconds a cell may take before it is stopped; by default all it needs. What it stops depends on the machine.
    isolated : bool
        Whether cells run in processes of their own, where a crash or a time-out ends nothing else.
    command : str
        The command line, for the record.
    on_cell : callable, optional
        Called with each cell as it is done or found in the store.

    Returns
    -------
    Results
        The table. After an interruption it holds the cells done so far, and ``made["interrupted"]`` says why.

    Raises
    ------
    ValueError
        If the preset or a learner is not known, a number is out of range, two targets have the same name, the engine
        or the device is not known, or none of the learners has a choice of it.
    OSError
        If the store cannot be opened.

    Warns
    -----
    RuntimeWarning
        If the store cannot be written any more; what is done then is in the table, and what was written, there.

    Notes
    -----
    Cells run through `joblib.Parallel`: within ``joblib.parallel_config(backend="dask")`` they run on a cluster.
    Processes that share a store share the work: none computes a cell that another has done or is at.

    Examples
    --------
    >>> from arena import nice_target
    >>> print(compare([nice_target(heads=1, tokens=2, dim=4)], "known-part", isolated=False).cells[0].outcome)
    BEST_OF_CLASS
    """
    one_of("isolated", isolated, (True, False))
    one_of("fresh", fresh, (True, False))
    one_of("retry_failed", retry_failed, (True, False))
    effort = choose_effort(preset)
    seeds = effort.seeds if seeds is None else count("seeds", seeds)
    jobs = None if jobs is None else count("jobs", jobs)
    if timeout is not None:
        timeout = non_negative("timeout", timeout, strictly=True)
        if timeout > _LONGEST_TIMEOUT:
            raise ValueError(f"timeout is {timeout:g} seconds: leave it out to allow a cell all it needs.")
        if not isolated:
            raise ValueError("timeout needs isolated=True: only a process of its own can be stopped.")
    chosen = preset_targets() if targets is None else _told_apart(_as_targets(targets))
    require_known_engine(engine, device)
    students = on_engine(as_students(learners), engine=engine, device=device)
    asked = asked_settings(engine, device)
    made: dict[str, Any] = {"command": command, "preset": preset, "versions": versions(), "seeds": seeds}
    made |= {name: value for name, value in (("jobs", jobs), ("timeout", timeout)) if value is not None}
    made |= asked
    if fresh:
        made["fresh"] = True
    records = tuple(target.record for target in chosen)
    set_up = [set_up_for(student, chosen, effort) for student in students]
    for name in asked:
        if not any(hasattr(learner, name) for learners_of_one in set_up for learner in learners_of_one):
            raise ValueError(f"None of these learners has a choice of {name}: leave it out.")
    total = len(chosen) * len(students) * seeds
    if total > _MOST_CELLS:
        raise ValueError(
            f"seeds is {shown(seeds)}: with {len(chosen)} targets and {len(students)} learners at most "
            f"{_MOST_CELLS // (len(chosen) * len(students))} are allowed, {_MOST_CELLS} cells in all."
        )
    jobs = None if jobs is None else min(jobs, total)
    described = tuple(student.record(ready) for student, ready in zip(students, set_up, strict=True))
    Results(made, records, described, ())  # names that collide are found before the work

    began = time.perf_counter()
    work = [Job(*one) for one in product(chosen, students, range(seeds))]
    with ExitStack() as stack:
        if store is not None and not isinstance(store, RunStore):
            store = stack.enter_context(RunStore(store))
        stack.enter_context(workers(jobs, isolated=isolated))
        memory = Memory(store, work, effort, made["versions"], timeout)
        stack.callback(memory.give_back)
        memory.disregard(everything=fresh, failed=retry_failed)
        cells = memory.recall()
        if store is not None:
            made |= {"store": Path(store.path).name, "reused": len(cells)}
        tell = on_cell or (lambda cell: None)
        try:
            for cell in list(cells.values()):
                tell(cell)
            _run(work, cells, memory, effort, timeout, isolated, tell)
        except KeyboardInterrupt:
            made["interrupted"] = "by hand"
        except (StoreError, FileFormatError) as error:
            made["interrupted"] = str(error)
            warnings.warn(f"{error} The comparison ended with what it had.", RuntimeWarning, stacklevel=2)
        except WorkersLostError as error:
            message = (
                f"What runs the cells broke down ({error}); run it again, with fewer jobs if memory is short."
            )
            for job in work:
                cells.setdefault(job.id, Cell(*job.id, "failed", message=message))
    made["seconds"] = round(time.perf_counter() - began, 3)
    return Results(made, records, described, tuple(cells[job.id] for job in work if job.id in cells))


def _run(
    work: Sequence[Job],
    cells: dict[CellId, Cell],
    memory: Memory,
    effort: Effort,
    timeout: float | None,
    isolated: bool,
    tell: Callable[[Cell], None],
) -> None:
    """Fill `cells` until every job has one, here or in another process that shares the store."""
    work = sorted(work, key=_cost, reverse=True)
    while waiting := [job for job in work if job.id not in cells]:
        before = len(cells)
        with closing(
            run_jobs(memory.claimed(waiting), effort, timeout=timeout, isolated=isolated)
        ) as arriving:
            for cell in arriving:
                cells[cell.target, cell.learner, cell.seed] = cell
                memory.keep(cell)
                tell(cell)
        if memory.failure is not None:
            raise memory.failure
        if len(cells) < len(work):
            for which, cell in memory.recall().items():
                if which not in cells:
                    cells[which] = cell
                    tell(cell)
        if len(cells) == before:
            time.sleep(_PATIENCE)


def _as_targets(
    targets: Sequence[Target | str | os.PathLike[str]] | Target | str | os.PathLike[str],
) -> list[Target]:
    require_instance(
        "targets", targets, Target | str | os.PathLike | Iterable, needed="a target or a list of them"
    )
    targets = [targets] if isinstance(targets, Target | str | os.PathLike) else list(targets)
    if not targets:
        raise ValueError("No target is given: give some, or none at all for those of preset_targets.")
    loaded = iter(load_targets([require_path(one) for one in targets if not isinstance(one, Target)]))
    return [target if isinstance(target, Target) else next(loaded) for target in targets]


def _told_apart(targets: Sequence[Target]) -> list[Target]:
    """The same targets; those that share a title carry their names in it, as tables and figures show no more."""
    times = Counter(target.record.title for target in targets)
    return [
        target
        if times[target.record.title] == 1
        else replace(target, record=replace(target.record, title=f"{target.name}: {target.record.title}"))
        for target in targets
    ]


def _cost(job: Job) -> float:
    # what takes milliseconds first, so that an early interruption leaves something to see; then the longest, so that no
    # worker is left alone with a long one at the end
    long = {"tuned-adam": 8.0, "l-bfgs": 6.0, "adam": 4.0, "sgd": 3.0, "newton": 2.0}.get(
        job.student.name, math.inf
    )
    return long * (2.0 if job.target.record.has_secret else 1.0)
