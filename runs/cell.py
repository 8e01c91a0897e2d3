"""A cell, a function with its arguments; computing it under one thread; and the result."""

import enum
import hashlib
import json
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Literal

from threadpoolctl import threadpool_limits

from runs.fingerprint import fingerprint

Status = Literal["done", "failed", "timed out"]
"""Whether the function returned, failed (raised or crashed), or was stopped."""

_LONGEST_MESSAGE = 2000
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


@contextmanager
def single_thread(*, torch: bool = False) -> Iterator[None]:
    """Within this context BLAS and OpenMP use one thread; so does torch if it is loaded, or requested and installed.

    A different order of summation changes the last digits.
    """
    with ExitStack() as limits:
        if "torch" in sys.modules or (torch and find_spec("torch") is not None):
            import torch as pytorch

            limits.callback(pytorch.set_num_threads, pytorch.get_num_threads())
            pytorch.set_num_threads(1)
        limits.enter_context(threadpool_limits(limits=1))
        yield


def attempt(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Status, str]:
    """Call a function under one thread of linear algebra: "done" and its value as JSON, or "failed" and why."""
    try:
        with single_thread():
            text = json.dumps(function(**arguments), allow_nan=False, ensure_ascii=False)
            text.encode()  # half a character cannot be stored
        return "done", text
    except BaseException as error:  # one cell's failure must not lose the others
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise  # by the user
        return "failed", describe_error(error)


def describe_error(error: BaseException) -> str:
    """The type and the message of an error, shortened."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # an exception may fail when it is printed
        text = f"{type(error).__name__}, which cannot be printed"
    return text.encode("utf-8", "replace").decode()[:_LONGEST_MESSAGE]
