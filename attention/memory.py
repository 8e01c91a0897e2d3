"""Compare the memory that a request needs with the free memory before any work; refuse it with both numbers."""

import contextlib
import math
import os
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
    """The bytes that this process can still allocate: the least that the system and its control groups leave."""
    limit = _LIMIT.get()
    if limit is not None:
        return limit
    return max(0, min([*_free_in_system(), *_free_in_process(), *_free_in_groups()], default=sys.maxsize))


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


def _free_in_system() -> list[int]:
    """The bytes that are free or can be freed; empty on a system that does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        return [1024 * int(text.split("MemAvailable:")[1].split()[0])]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return []


def _free_in_process() -> list[int]:
    """The bytes of addresses left under this process's own limit (``ulimit -v``), if it has one."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
            return [limit - pages * resource.getpagesize()]
    return []


def _free_in_groups() -> list[int]:
    """The bytes left under each memory limit of this process's control groups (versions 1 and 2), up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    free = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        most, used = ("limit_in_bytes", "usage_in_bytes") if controllers else ("max", "current")
        folder = root / path.lstrip("/")
        # in a container, the path is the host's, and the limits are at the root
        for place in (folder, *folder.parents, root):
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max" for no limit
                limit, taken = ((place / f"memory.{name}").read_text() for name in (most, used))
                free.append(int(limit) - int(taken))
    return free
