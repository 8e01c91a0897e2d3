"""Results of checks, stored in a folder as soon as they exist, and the pages written from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attention import FileFormatError
from attention.files import write_whole
from paper_checks.check import Check
from paper_checks.reports import render_claims
from paper_checks.running import CheckResult, result_from_json
from runs import Scale

__all__ = ["ClaimsFolder"]

_VERSION = 1
_Results = dict[tuple[str, Scale], CheckResult]


class ClaimsFolder:
    """The results of checks in a folder, and the pages that show them.

    A result replaces the one of the same check and scale. It also replaces one of the other scale with a different
    verdict, so that no older success hides a newer failure. Results of checks that are not run stay, also those that
    another process adds.

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
        self._results = self._read()

    @property
    def page(self) -> Path:
        """The first page."""
        return self._path / "index.rst"

    def keep(self, result: CheckResult) -> None:
        """Store one result; it is in the file before this returns.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        results = self._read()
        before = results.get((result.id, result.scale))
        if result.injected is None and before is not None:
            result = replace(result, injected=before.injected)  # seen once, it stays recorded
        (other,) = {*Scale} - {result.scale}
        beside = results.get((result.id, other))
        if beside is not None and beside.verdict is not result.verdict:
            del results[result.id, other]
        results[result.id, result.scale] = result
        ordered = sorted(results.values(), key=lambda one: (one.id, one.scale.value))
        lines = [json.dumps(one.to_json(), ensure_ascii=False) for one in ordered]  # one a line, for git
        self._path.mkdir(parents=True, exist_ok=True)
        text = f'{{"version": {_VERSION}, "results": [\n' + ",\n".join(lines) + "\n]}\n"
        write_whole(self._path / "claims.json", text.encode())
        self._results = results

    def shown(self, checks: Sequence[Check]) -> Mapping[str, CheckResult]:
        """The result to show for each check: that of full scale if there is one."""
        scales = (Scale.QUICK, Scale.FULL)
        return {
            one.id: self._results[one.id, scale]
            for one in checks
            for scale in scales
            if (one.id, scale) in self._results
        }

    def write_pages(self, checks: Sequence[Check]) -> None:
        """Write the pages of these checks, usually all checks of the project.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        for name, text in render_claims(checks, self.shown(checks)).items():
            write_whole(self._path / name, text.encode())

    def _read(self) -> _Results:
        path = self._path / "claims.json"
        if not path.exists():
            return {}
        try:
            data = json.loads(path.read_bytes()) if path.is_file() else {}
            if data["version"] != _VERSION:
                raise ValueError(f"its version is {data['version']!r}, not {_VERSION}")
            results = [result_from_json(one) for one in data["results"]]
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{path} does not hold results of checks ({error}): take it away or give another folder."
            ) from None
        return {(one.id, one.scale): one for one in results}
