"""The main job: every student on every target, side by side."""

import math
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any

from joblib import Parallel, delayed

from arena.cells import run_cell
from arena.results import Cell, Results
from arena.students import Effort, Student, choose_effort, choose_students
from arena.targets import Target, preset_targets
from attention._arrays import count

__all__ = ["compare", "versions"]

_VERSIONED = ("attention-bounds", "numpy", "scipy", "torch", "joblib")


def compare(
    targets: Sequence[Target] | None = None,
    students: Sequence[Student] | None = None,
    *,
    preset: str = "quick",
    seeds: int | None = None,
    jobs: int = 1,
    command: str = "",
    on_cell: Callable[[Cell], None] | None = None,
) -> Results:
    """Run every student on every target with every seed.

    Parameters
    ----------
    targets : sequence of Target, optional
        The targets; by default those of `preset_targets`.
    students : sequence of Student, optional
        The learners; by default all of them.
    preset : {"quick", "full"}
        The effort.
    seeds : int, optional
        How many seeds a pair; by default the preset's. Seeds count from 0.
    jobs : int
        Processes. They change the seconds and nothing else.
    command : str
        The command line, for the record.
    on_cell : callable, optional
        Called with each cell as it is done.

    Raises
    ------
    ValueError
        If the preset is not known, a number is below 1, or two targets have the same name.

    Notes
    -----
    An interruption (Ctrl-C) ends the run and returns the cells done so far, with "interrupted" in `made`. When a
    worker process dies, the cells that were not done are recorded as failed.
    """
    effort, jobs = choose_effort(preset), count("jobs", jobs)
    seeds = effort.seeds if seeds is None else count("seeds", seeds)
    targets = preset_targets() if targets is None else list(targets)
    students = choose_students() if students is None else list(students)
    made: dict[str, Any] = {
        "command": command,
        "preset": preset,
        "versions": versions(),
        "seeds": seeds,
        "jobs": jobs,
    }
    learners = tuple(student.record(_set_up(student, targets, effort)) for student in students)
    records = tuple(target.record for target in targets)
    Results(made, records, learners, ())  # names that collide are found before the work

    began, cells = time.perf_counter(), {}
    work = sorted(product(targets, students, range(seeds)), key=lambda job: _cost(*job[:2]), reverse=True)
    try:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=2 * jobs)
        for cell in parallel(
            delayed(run_cell)(target, student, seed, effort) for target, student, seed in work
        ):
            cells[cell.target, cell.learner, cell.seed] = cell
            if on_cell is not None:
                on_cell(cell)
    except KeyboardInterrupt:
        made["interrupted"] = True
    except BrokenExecutor:
        # a worker was killed, for want of memory say: the cells it took along are recorded
        message = "a worker process was killed (out of memory?); run it again with fewer jobs"
        for target, student, seed in work:
            key = (target.name, student.name, seed)
            cells.setdefault(key, Cell(*key, "failed", message=message))
    made["seconds"] = round(time.perf_counter() - began, 3)
    order = [
        (target.name, student.name, seed)
        for target, student, seed in product(targets, students, range(seeds))
    ]
    return Results(made, records, learners, tuple(cells[key] for key in order if key in cells))


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on; a package that is absent is left out."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _set_up(student: Student, targets: Sequence[Target], effort: Effort) -> list:
    learners = []
    for target in targets:
        try:
            learners.append(student.build(target, effort))
        except ValueError:  # the cell says why
            continue
    return learners


def _cost(target: Target, student: Student) -> float:
    # what takes milliseconds first, so that an early interruption leaves something to see; then the longest, so that no
    # worker is left alone with a long one at the end
    long = {"adam": 4.0, "newton": 2.0}.get(student.name, math.inf)
    return long * (2.0 if target.record.hard else 1.0)
