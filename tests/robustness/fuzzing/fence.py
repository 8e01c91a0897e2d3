"""Limits of time and memory around one call."""

import resource
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attention.memory import memory_limited_to

__all__ = ["SECONDS", "TookTooLong", "fence"]

MEMORY = 256 << 20  # what the toolkit is told that there is, bytes
HEADROOM = 1 << 30  # what a case may take before NumPy itself gives up
SECONDS = 3.0  # of CPU a case may take
PATIENCE = 60.0  # of wall-clock time: a hang that computes nothing


class TookTooLong(BaseException):
    """Raised in the middle of a case by the watchdog; no `except Exception` catches it."""


@contextmanager
def fence(seconds: float) -> Iterator[None]:
    """Limits of time and memory around one call, warnings as errors."""
    main = threading.current_thread() is threading.main_thread()

    def bark(signum: int, frame: Any) -> None:
        raise TookTooLong

    old = {}
    if main:
        # of CPU time, which a busy machine does not use up, and of wall-clock time, for what sleeps
        for kind, timer, most in (
            (signal.SIGPROF, signal.ITIMER_PROF, seconds),
            (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE),
        ):
            old[kind] = signal.signal(kind, bark)
            # again and again: a C call that catches the first would go on
            signal.setitimer(timer, most, 1.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        most = used + HEADROOM if soft == resource.RLIM_INFINITY else min(soft, used + HEADROOM)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        with warnings.catch_warnings(), memory_limited_to(MEMORY):
            warnings.simplefilter("error")
            yield
    finally:
        if main:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for kind, handler in old.items():
                signal.signal(kind, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
