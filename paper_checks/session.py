"""Checks run with their results kept in a folder: what both command lines do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paper_checks.check import Check, Scale
from paper_checks.claims_folder import ClaimsFolder
from paper_checks.registry import all_checks
from paper_checks.running import CheckResult, run_checks

__all__ = ["CheckSession", "run_session"]


@dataclass(frozen=True)
class CheckSession:
    """What came of a run.

    Attributes
    ----------
    results : tuple of CheckResult
        The results, in the order of the checks.
    interrupted : bool
        Whether it was stopped before all were run.
    page : Path or None
        The page that was written.
    """

    results: tuple[CheckResult, ...]
    interrupted: bool
    page: Path | None


def run_session(
    checks: Sequence[Check],
    *,
    scale: Scale = Scale.QUICK,
    seed: int = 0,
    jobs: int = 1,
    inject: bool = False,
    folder: Path | None = None,
    on_result: Callable[[Check, CheckResult], None] | None = None,
) -> CheckSession:
    """Run checks, keep each result in a folder as it comes, and write the page of all the project's checks.

    Parameters
    ----------
    checks : sequence of Check
        What to run.
    scale, seed, jobs, inject
        As of `run_checks`.
    folder : Path, optional
        Where the results and the pages are kept; nowhere if not given.
    on_result : callable, optional
        Called with each check and what came of it.

    Returns
    -------
    CheckSession
        Ctrl-C ends the run, and not this function: what is done is kept, and the page is written.

    Raises
    ------
    ValueError
        If jobs is below 1 or the folder holds another program's file.
    OSError
        If the folder cannot be written.
    """
    kept = None if folder is None else ClaimsFolder(folder)
    by_id = {one.id: one for one in checks}
    results: dict[str, CheckResult] = {}
    interrupted = False
    try:
        for result in run_checks(checks, scale=scale, seed=seed, jobs=jobs, inject=inject):
            if kept is not None:
                kept.keep(result)
            results[result.id] = result
            if on_result is not None:
                on_result(by_id[result.id], result)
    except KeyboardInterrupt:
        interrupted = True
    if kept is not None:
        kept.write_pages(all_checks())
    ordered = tuple(results[one.id] for one in checks if one.id in results)
    return CheckSession(ordered, interrupted, None if kept is None else kept.page)
