"""A cell as a run store keeps it, and how it is read from a row of the file."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from arena._reading import read_cell, read_learner, read_target
from arena.records import Cell, LearnerRecord, TargetRecord
from attention.errors import FileFormatError

__all__ = ["StoredCell", "read_row"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class StoredCell:
    """A cell as it was kept.

    Attributes
    ----------
    key : str
        The hash of target, learner, seed and versions.
    cell : Cell
        What became of the learner on the target.
    target, learner : TargetRecord, LearnerRecord
        What is remembered of the two.
    versions : dict of str to str
        Versions of what the numbers depend on.
    finished : str
        When, in UTC, as ISO 8601.
    timeout : float or None
        The seconds it was allowed.
    """

    key: str
    cell: Cell
    target: TargetRecord
    learner: LearnerRecord
    versions: dict[str, str]
    finished: str
    timeout: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def read_row(row: sqlite3.Row, path: Path) -> StoredCell:
    """The cell that a row of the store at `path` holds.

    Raises
    ------
    FileFormatError
        If a column is damaged.
    """
    columns = dict(row)

    def held(read: Callable[[Any], _T], name: str) -> _T:
        try:
            return read(json.loads(columns[name]))
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            first = " ".join(str(error).split())[:200]
            raise FileFormatError(
                f"{path}: the run store is damaged: a cell's {name.replace('_', ' ')} ({first})."
            ) from None

    kinds = {"key": str, "finished": str, "timeout": float | None}
    if wrong := [name for name, kind in kinds.items() if not isinstance(columns.get(name), kind)]:
        raise FileFormatError(f"{path}: the run store is damaged: a cell's {wrong[0]} is of another kind.")
    return StoredCell(
        key=columns["key"],
        cell=held(read_cell, "cell"),
        target=held(read_target, "target_record"),
        learner=held(read_learner, "learner_record"),
        versions=held(dict, "versions"),
        finished=columns["finished"],
        timeout=columns.get("timeout"),
    )
