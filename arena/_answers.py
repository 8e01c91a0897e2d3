"""Answers to the calls of a curve: made in processes of their own, or one after another in this one."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager

from arena.calls import Answer, Call, run_calls, workers
from attention.validation import count

__all__ = ["answers_to", "jobs_allowed"]


def jobs_allowed(jobs: int | None, *, isolated: bool) -> int | None:
    """How many calls are to be made at once, None as `joblib` is configured, if that can be.

    Raises
    ------
    ValueError
        If it is below 1, or above 1 without processes of their own.
    """
    jobs = None if jobs is None else count("jobs", jobs)
    if jobs is not None and jobs > 1 and not isolated:
        raise ValueError(f"jobs is {jobs}: only isolated cells run at once; leave one of the two out.")
    return jobs


@contextmanager
def answers_to(
    calls: Iterable[Call], *, jobs: int | None = None, timeout: float | None = None, isolated: bool = True
) -> Iterator[Generator[Answer, None, None]]:
    """Within this context the answers come, as they are there; leaving it ends what is still going on.

    Parameters
    ----------
    calls : iterable of Call
        They are taken one by one; other threads may do the taking.
    jobs : int, optional
        As of `arena.calls.workers`.
    timeout : float, optional
        Seconds that an isolated call may take.
    isolated : bool
        Whether each is made in a process of its own, within `arena.cluster` on its workers. Otherwise they are made
        here, one after another, and one that raises does so here.

    Raises
    ------
    WorkersLostError
        If what makes isolated calls broke down.
    """
    if not isolated:
        yield _made_here(calls)
        return
    with workers(jobs), closing(run_calls(calls, timeout=timeout)) as answers:
        yield answers


def _made_here(calls: Iterable[Call]) -> Generator[Answer, None, None]:
    for call in calls:
        yield Answer(call.name, call.function(*call.arguments))
