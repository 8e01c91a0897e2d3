"""What is asked for is held against the memory there is before any work is done, and refused with the numbers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from attention.errors import NotEnoughMemoryError

__all__ = ["available_memory", "memory_limited_to", "memory_text", "require_memory"]

# what is asked for below this is not looked at: to ask the system takes longer than small work does
_SMALL = 64 << 20
# of what is free, the share that one request may take: the rest is for what grows beside it
_SHARE = 0.9
# assumed where a system does not say
_UNKNOWN = 1 << 40

_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


def require_memory(what: str, needed: int | float, *, advice: str = "ask for less") -> None:
    """Refuse what does not fit into memory, before any work.

    Parameters
    ----------
    what : str
        What takes the memory, as the beginning of a sentence.
    needed : int or float
        Bytes; an estimate of the most that is held at one time.
    advice : str
        What to do instead: the end of the sentence.

    Raises
    ------
    NotEnoughMemoryError
        If it is more than nine tenths of `available_memory`, with both numbers.

    Notes
    -----
    Up to 64 MiB nothing is asked of the system. Derived here.

    Examples
    --------
    >>> with memory_limited_to(2**30):
    ...     require_memory("The table", 2**40, advice="take fewer rows")
    Traceback (most recent call last):
        ...
    attention.errors.NotEnoughMemoryError: The table needs 1 TiB of memory, and 1 GiB are free: take fewer rows.
    """
    limit = _LIMIT.get()
    if limit is None and needed <= _SMALL:
        return
    free = available_memory()
    if needed > _SHARE * free:
        raise NotEnoughMemoryError(
            f"{what} needs {memory_text(needed)} of memory, and {memory_text(free)} are free: {advice}."
        )


def available_memory() -> int:
    """The bytes of memory that this process could still take without swapping.

    Notes
    -----
    The least of what Linux calls available (elsewhere: of all memory there is), what is left of the limits of the
    process's control groups, and what is left of a limit on its address space; 1 TiB where nothing is known.
    """
    limit = _LIMIT.get()
    if limit is not None:
        return limit
    known = [
        one for one in (_free_in_system(), _free_in_groups(), _free_in_address_space()) if one is not None
    ]
    return max(0, min(known, default=_UNKNOWN))


@contextmanager
def memory_limited_to(limit: int) -> Iterator[None]:
    """Within this context there are `limit` bytes, whatever the machine has: for tests and for polite guests."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def memory_text(size: int | float) -> str:
    """A number of bytes in words, however large.

    Examples
    --------
    >>> memory_text(3 * 2**29), memory_text(8 * 10**400)
    ('1.5 GiB', 'about 10^400 bytes')
    """
    if size >= 2**90:
        exponent = int((int(size).bit_length() - 1) * 0.30103)
        return f"about 10^{exponent} bytes"
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024 or unit == "EiB":
            return f"{value:.4g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def _free_in_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _free_in_groups() -> int | None:
    """What is left of the memory limits of control groups, of either version, up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    free = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup/memory") if controllers else Path("/sys/fs/cgroup")
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else ("memory.max", "memory.current")
        )
        folder = root / path.lstrip("/")
        # within a container the path is that of the host, and the limits are at the root
        for place in {folder, *(one for one in folder.parents if one.is_relative_to(root)), root}:
            limit, used = (_number(place / name) for name in names)
            if limit is not None and used is not None:
                free.append(limit - used)
    return min(free, default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max" stands for no limit
        return None


def _free_in_address_space() -> int | None:
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return limit - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None
