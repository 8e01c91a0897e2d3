"""Cells computed as calls: one learner on one target with one seed each."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import cast

from arena.calls import Answer, Call, run_calls
from arena.cells import run_cell
from arena.results import Cell
from arena.students import Effort, Student
from arena.targets import Target

__all__ = ["CellId", "Job", "run_jobs"]

CellId = tuple[str, str, int]
"""The names of the target and of the learner, and the seed."""


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
    """Run jobs as `joblib` is configured, and give each cell as it is done; `arena.calls.run_calls` says how.

    Parameters
    ----------
    jobs : iterable of Job
        They are taken one by one, as workers are free to begin them; other threads may do the taking.
    effort : Effort
        How hard the students try.
    timeout, isolated
        As there; a cell takes the place of a call.

    Raises
    ------
    WorkersLostError
        If what runs the cells broke down.
    """
    calls = (Call(job.id, run_cell, (job.target, job.student, job.seed, effort)) for job in jobs)
    answers = run_calls(calls, timeout=timeout, isolated=isolated)
    try:
        for answer in answers:
            yield _cell(answer)
    finally:
        answers.close()


def _cell(answer: Answer) -> Cell:
    if not answer.failure:
        cell: Cell = answer.value
        return cell
    target, learner, seed = cast(CellId, answer.name)
    return Cell(target, learner, seed, "timed out" if answer.timed_out else "failed", message=answer.failure)
