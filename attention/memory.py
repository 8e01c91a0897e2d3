"""Compare the memory that a request needs with the free memory before any work; refuse it with both numbers."""

import contextlib
import math
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

__all__ = ["available_memory", "memory_limited_to", "memory_text", "require_memory"]

_SMALL = 64 << 20  # never refuse less than this: asking the system takes longer than small work
_SHARE = 0.9  # the share of the free memory that one request may take; other arrays need the rest
_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


class NotEnoughMemoryError(ValueError):
    """A request does not fit into the free memory; no work was started."""


def require_memory(what: str, needed: int | float, *, advice: str = "ask for less") -> None:
    """Refuse a request that does not fit into memory, before any work.

    Parameters
    ----------
    what : str
        What takes the memory, as the beginning of a sentence.
    needed : int or float
        An estimate of the peak, in bytes. Nine tenths of `available_memory` are allowed.
    advice : str
        What to do instead: the end of the sentence.

    Examples
    --------
    >>> with memory_limited_to(2**30):
    ...     require_memory("The table", 2**40, advice="take fewer rows")
    Traceback (most recent call last):
        ...
    attention.memory.NotEnoughMemoryError: The table needs 1 TiB of memory, and 1 GiB are free: take fewer rows.
    """
    if _LIMIT.get() is None and needed <= _SMALL:
        return
    free = available_memory()
    if needed > _SHARE * free:
        raise NotEnoughMemoryError(
            f"{what} needs {memory_text(needed)} of memory, and {memory_text(free)} are free: {advice}."
        )


def available_memory() -> int:
    """The bytes that the system and the memory limit of this container (control groups 1 or 2) leave free."""
    if (limit := _LIMIT.get()) is not None:
        return limit
    free = [sys.maxsize]
    with contextlib.suppress(OSError, ValueError, IndexError):  # a system that does not say
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        free.append(1024 * int(text.split("MemAvailable:")[1].split()[0]))
    for most, used in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):
        folder = Path("/sys/fs/cgroup", "" if most == "max" else "memory")
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max" for no limit
            limit, taken = (int((folder / f"memory.{name}").read_text()) for name in (most, used))
            free.append(limit - taken)
    return max(0, min(free))


@contextlib.contextmanager
def memory_limited_to(limit: int) -> Iterator[None]:
    """Within this context, `available_memory` is `limit` bytes, whatever the machine has."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def memory_text(size: int | float) -> str:
    """A number of bytes with a unit, however large.

    Examples
    --------
    >>> memory_text(3 * 2**29), memory_text(8 * 10**400)
    ('1.5 GiB', 'about 10^400 bytes')
    """
    if size >= 2**90:
        return f"about 10^{int(math.log10(size))} bytes"
    power = min(max(int(size).bit_length() - 1, 0) // 10, 6)
    return f"{size / 1024**power:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"
