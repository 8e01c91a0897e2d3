"""A cell, a function with its arguments, and the result of computing it."""

import enum
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from runs.fingerprint import fingerprint

Status = Literal["done", "failed", "timed out"]
"""Whether the function returned, failed (raised or crashed), or was stopped."""

_VERSIONED = ("attention-bounds", "numpy", "scipy", "torch", "fpylll")


class Scale(enum.Enum):
    """How much work an experiment does."""

    QUICK = "quick"
    """Seconds to a minute."""
    FULL = "full"
    """The sizes of the quoted figures."""


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on; missing packages are left out."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True, eq=False)
class Cell:
    """A function and its arguments, to be computed somewhere.

    Attributes
    ----------
    function : callable
        Called with the arguments by name; it returns JSON values.
    arguments : mapping
        JSON values.
    objects : mapping
        Further arguments that are not JSON. They are not part of the key, so `arguments` must distinguish them, as a
        `fingerprint` does.
    label : str
        A few words for the report of progress.
    cost : float
        How long it takes beside the other cells; progress estimates the time left by it.

    Examples
    --------
    >>> Cell(round, {"number": 2.5}).key == Cell(round, {"number": 2.5}).key
    True
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    cost: float = 1.0

    @property
    def name(self) -> str:
        """The function's module and name."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @cached_property
    def key(self) -> str:
        """SHA-256 of this package's version, the function (see `fingerprint`) and the arguments."""
        content = [version("attention-bounds"), fingerprint(self.function), dict(self.arguments)]
        text = json.dumps(content, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Result:
    """The result of a cell.

    Attributes
    ----------
    cell : Cell
        The cell.
    status : Status
        Whether it was computed.
    value : JSON value
        What the function returned; None unless it is done.
    message : str
        Why the cell is not done; empty otherwise.
    timeout : float or None
        Seconds that the cell was allowed.
    finished : str
        The time of the result, in UTC, as ISO 8601.
    versions : mapping of str to str
        Versions of the packages that the value depends on.
    reused : bool
        Whether the result came from the store.
    """

    cell: Cell
    status: Status
    value: Any = None
    message: str = ""
    timeout: float | None = None
    finished: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    versions: Mapping[str, str] = field(default_factory=versions)
    reused: bool = False

    def to_json(self) -> dict[str, Any]:
        """The JSON value that a store keeps."""
        return {
            "function": self.cell.name,
            "arguments": dict(self.cell.arguments),
            "status": self.status,
            "value": self.value,
            "message": self.message,
            "timeout": self.timeout,
            "finished": self.finished,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, cell: Cell, data: Mapping[str, Any]) -> "Result":
        """The result of a cell from the value in a store."""
        names = ("status", "value", "message", "timeout", "finished", "versions")
        return cls(cell, **{name: data[name] for name in names}, reused=True)
