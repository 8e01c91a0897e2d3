"""Checks run with their results kept in a folder as they come, and the pages written from them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attention import FileFormatError
from attention.files import write_whole
from paper_checks.check import Check, Scale
from paper_checks.registry import all_checks
from paper_checks.reports import render_claims
from paper_checks.running import CheckResult, result_from_json, run_checks

__all__ = ["CheckSession", "ClaimsFolder", "run_session"]

_VERSION = 1


class ClaimsFolder:
    """The results of checks in a folder, and the pages that show them.

    A result replaces the one of the same check and scale, and one of the other scale with another verdict, so that no
    older success hides a newer failure. Those of checks that are not run stay, also those that another process adds.

    Parameters
    ----------
    path : Path
        The folder; it is made when something is written.

    Raises
    ------
    FileFormatError
        If there is a ``claims.json`` in it that this class did not write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results = _read(path / "claims.json")

    @property
    def page(self) -> Path:
        """The first page."""
        return self._path / "index.rst"

    def keep(self, result: CheckResult) -> None:
        """Keep one result; it is in the file before this returns.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        with _locked(self._path):
            self._results = _read(self._path / "claims.json")
            self._put(result)
            self._write()

    def _put(self, result: CheckResult) -> None:
        before = self._results.get((result.id, result.scale))
        if result.injected is None and before is not None:
            result = replace(result, injected=before.injected)  # seen once, seen
        (other,) = {*Scale} - {result.scale}
        beside = self._results.get((result.id, other))
        if beside is not None and beside.verdict is not result.verdict:
            del self._results[result.id, other]
        self._results[result.id, result.scale] = result

    def _write(self) -> None:
        ordered = [
            self._results[key] for key in sorted(self._results, key=lambda key: (key[0], key[1].value))
        ]
        data = {"version": _VERSION, "results": [one.to_json() for one in ordered]}
        write_whole(
            self._path / "claims.json", (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()
        )

    def shown(self, checks: Sequence[Check]) -> Mapping[str, CheckResult]:
        """For each check the result to show: of full scale if there is one."""
        found = {}
        for one in checks:
            for scale in (Scale.QUICK, Scale.FULL):
                result = self._results.get((one.id, scale))
                if result is not None:
                    found[one.id] = result
        return found

    def pages(self, checks: Sequence[Check]) -> Iterator[tuple[Path, str]]:
        """The files of the pages and what is to be in them."""
        for name, text in render_claims(checks, self.shown(checks)).items():
            yield self._path / name, text

    def write_pages(self, checks: Sequence[Check]) -> None:
        """Write the pages of these checks, all of the project's as a rule.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        for path, text in self.pages(checks):
            write_whole(path, text.encode())


@dataclass(frozen=True)
class CheckSession:
    """What came of a run: results in the order of the checks, whether Ctrl-C ended it, and the page written."""

    results: tuple[CheckResult, ...]
    interrupted: bool
    page: Path | None


def run_session(
    checks: Sequence[Check],
    *,
    folder: Path | None = None,
    on_result: Callable[[Check, CheckResult], None] | None = None,
    **options: Any,
) -> CheckSession:
    """Run checks, keep each result in a folder as it comes, and write the page of all the project's checks.

    Parameters
    ----------
    checks : sequence of Check
        What to run.
    folder : Path, optional
        Where the results and the pages are kept; nowhere if not given.
    on_result : callable, optional
        Called with each check and what came of it.
    **options
        As of `run_checks`.

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
        for result in run_checks(checks, **options):
            if kept is not None:
                kept.keep(result)
            results[result.id] = result
            if on_result is not None:
                on_result(by_id[result.id], result)
    except KeyboardInterrupt:
        interrupted = True
    if kept is not None:
        kept.write_pages(all_checks())
    ordered = tuple(results[name] for name in by_id if name in results)
    return CheckSession(ordered, interrupted, None if kept is None else kept.page)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has locks; where it has none, several could lose each other's results."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[tuple[str, Scale], CheckResult]:
    if not path.exists():
        return {}
    try:
        data: Any = json.loads(path.read_bytes()) if path.is_file() else None
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            raise ValueError(f"it is not of version {_VERSION}")
        results = [result_from_json(one) for one in data["results"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path} does not hold results of checks ({error}): take it away or give another folder."
        ) from None
    return {(one.id, one.scale): one for one in results}
