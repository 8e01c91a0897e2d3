"""How far work is: what is done, what runs and since when, and about how long the rest takes."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from runs.cell import Cell

# Seconds before the first line, after a second or two of imports, and between two lines.
_FIRST, _INTERVAL = 3.0, 5.0
_MOST_NAMES = 2


@dataclass
class Progress:
    """How far a run is; as text, "41 of 60, running: adam on rounding (35 s), about 3 minutes left".

    Attributes
    ----------
    waiting : dict of Cell to int
        The cells that do not run yet, and how many equal ones each stands for.
    jobs : int
        How many cells run at once.
    done : int
        How many cells are done or were in the store.
    running : dict of Cell to float
        The cells that run, and when each began.
    """

    waiting: dict[Cell, int]
    jobs: int
    done: int = 0
    running: dict[Cell, float] = field(default_factory=dict)
    _total: int = field(init=False)
    _seconds: float = field(default=0.0, init=False)
    _cost: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._total = sum(self.waiting.values())
        self._equal = dict(self.waiting)

    def start(self, cell: Cell) -> None:
        """A cell begins to run."""
        self.waiting.pop(cell)
        self.running[cell] = time.monotonic()

    def finish(self, cell: Cell) -> None:
        """A cell has ended, or was in the store."""
        self.waiting.pop(cell, None)
        self.done += self._equal[cell]
        if (began := self.running.pop(cell, None)) is not None:
            self._seconds += time.monotonic() - began
            self._cost += cell.cost

    def seconds_left(self) -> float | None:
        """An estimate, from the seconds and the costs of the cells that ended.

        None before the first of them, and where cells that take longer than their costs say leave nothing to estimate.
        """
        if not self._cost:
            return None
        rate, now = self._seconds / self._cost, time.monotonic()
        running = [(rate * cell.cost, now - began) for cell, began in list(self.running.items())]
        begun = [max(expected - taken, 0.0) for expected, taken in running]
        rest = rate * sum(cell.cost for cell in list(self.waiting))
        left = max((sum(begun) + rest) / self.jobs, *begun, 0.0)
        late = max((taken - expected for expected, taken in running), default=0.0)
        return left if left > late else None

    def __str__(self) -> str:
        text = f"{self.done} of {self._total}"
        if running := sorted(dict(self.running).items(), key=lambda item: item[1]):
            now = time.monotonic()
            names = [
                f"{cell.label or 'a cell'} ({now - began:.0f} s)" for cell, began in running[:_MOST_NAMES]
            ]
            if more := len(running) - len(names):
                names.append(f"{more} more")
            text += f", running: {', '.join(names)}"
        left = self.seconds_left()
        return text if left is None else f"{text}, {duration_text(left)} left"


def duration_text(seconds: float) -> str:
    """An estimated time in words.

    Examples
    --------
    >>> [duration_text(seconds) for seconds in (3, 34, 100, 190, 9000)]
    ['less than 10 seconds', 'about 30 seconds', 'about 2 minutes', 'about 3 minutes', 'about 2.5 hours']
    """
    if seconds < 10:
        return "less than 10 seconds"
    if seconds < 95:
        return f"about {10 * round(seconds / 10)} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


@contextmanager
def showing(state: object) -> Iterator[None]:
    """Within this context `str(state)` is shown on standard error: on a terminal in place, else in lines, every 5 s."""
    if sys.stderr is None or sys.stderr.closed:
        yield
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(
            get_renderable=lambda: Text(str(state), no_wrap=True, overflow="ellipsis"),
            console=Console(stderr=True),
            refresh_per_second=2,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        ):
            yield
        return
    ended = threading.Event()

    def write() -> None:
        with suppress(OSError, ValueError):  # nobody reads any more
            interval = _FIRST
            while not ended.wait(interval):
                print(state, file=sys.stderr, flush=True)
                interval = _INTERVAL

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
