"""Compare the memory that a request needs with the free memory before any work; refuse it with both numbers."""

import contextlib
import math
import sys
from pathlib import Path

__all__ = ["available_memory", "memory_text", "require_memory"]

_SMALL = 64 << 20  # never refuse less than this: asking the system takes longer than small work
_SHARE = 0.9  # the share of the free memory that one request may take; other arrays need the rest


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
    >>> require_memory("The table", 2**80, advice="take fewer rows")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attention.memory.NotEnoughMemoryError: The table needs 1.049e+06 EiB of memory, and ... are free: take fewer rows.
    """
    if needed <= _SMALL:
        return
    free = available_memory()
    if needed > _SHARE * free:
        raise NotEnoughMemoryError(
            f"{what} needs {memory_text(needed)} of memory, and {memory_text(free)} are free: {advice}."
        )


def available_memory() -> int:
    """The bytes that the system and the memory limit of this container leave free."""
    free = [sys.maxsize]
    with contextlib.suppress(OSError, ValueError, IndexError):  # a system that does not say
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        free.append(1024 * int(text.split("MemAvailable:")[1].split()[0]))
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max" for no limit
        limit, used = (
            int(Path("/sys/fs/cgroup", f"memory.{name}").read_text()) for name in ("max", "current")
        )
        free.append(limit - used)
    return max(0, min(free))


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
