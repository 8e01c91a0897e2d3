"""What is asked for is compared with the free memory before any work is done, and refused with the numbers."""

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

__all__ = ["available_memory", "memory_limited_to", "memory_text", "require_memory"]

_SMALL = 64 << 20  # less than this is never refused: to ask the system takes longer than small work does
_SHARE = 0.9  # of what is free, the share that one request may take: the rest is for what grows beside it
_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


class NotEnoughMemoryError(ValueError):
    """What was asked for does not fit into the memory there is; nothing was begun."""


def require_memory(what: str, needed: int | float, *, advice: str = "ask for less") -> None:
    """Refuse what does not fit into memory, before any work.

    Parameters
    ----------
    what : str
        What takes the memory, as the beginning of a sentence.
    needed : int or float
        Bytes; an estimate of the most that is held at one time. Nine tenths of `available_memory` are allowed.
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
    """The bytes this process can still take: what the system and the control groups of the process leave."""
    limit = _LIMIT.get()
    if limit is not None:
        return limit
    import psutil  # here, as most processes never ask

    return max(0, min([psutil.virtual_memory().available, *_free_in_groups()]))


@contextlib.contextmanager
def memory_limited_to(limit: int) -> Iterator[None]:
    """Within this context there are `limit` bytes, whatever the machine has."""
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


def _free_in_groups() -> list[int]:
    """What the memory limits of this process's control groups leave, of either version, up to the root."""
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
        # within a container the path is that of the host, and the limits are at the root
        for place in (folder, *folder.parents, root):
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max" for no limit
                limit, taken = ((place / f"memory.{name}").read_text() for name in (most, used))
                free.append(int(limit) - int(taken))
    return free
