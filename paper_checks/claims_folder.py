"""A folder with the results of claims, stored as soon as they exist."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from attention import FileFormatError
from attention.files import write_whole
from paper_checks.running import ClaimResult
from runs import Scale

_VERSION = 2  # version 1 has a kind beside each comparison, which is skipped


class _File(msgspec.Struct):
    version: int
    results: list[ClaimResult]


def read_results(folder: Path) -> Mapping[str, ClaimResult]:
    """The results in a folder, by identifier.

    Raises
    ------
    FileFormatError
        If its ``claims.json`` does not hold results of claims.
    """
    path = folder / "claims.json"
    if not path.exists():
        return {}
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_File)
        if stored.version not in (1, _VERSION):
            raise ValueError(f"its version is {stored.version}, not {_VERSION}")
    except (ValueError, OSError) as error:
        raise FileFormatError(
            f"{path} does not hold results of claims ({error}): take it away or give another folder."
        ) from None
    return {one.id: one for one in stored.results}


def keep_result(folder: Path, result: ClaimResult) -> None:
    """Store one result; it is in the file before this returns.

    It replaces the result of the same claim, unless that has the full scale and the same verdict. Results of other
    claims stay, also those that another process adds.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    results = dict(read_results(folder))
    before = results.get(result.id)
    if before is not None:
        injected = result.injected or before.injected  # seen once, it stays recorded
        if (before.scale, before.verdict, result.scale) == (Scale.FULL, result.verdict, Scale.QUICK):
            result = before
        result = msgspec.structs.replace(result, injected=injected)
    results[result.id] = result
    lines = [msgspec.json.encode(results[name]) for name in sorted(results)]  # one a line, for git
    folder.mkdir(parents=True, exist_ok=True)
    text = b'{"version":%d,"results":[\n%s\n]}\n' % (_VERSION, b",\n".join(lines))
    write_whole(folder / "claims.json", text)
