"""The command line ``attention-bounds``."""

import os
import signal
import sys

__all__ = ["main"]


class WorkFailedError(Exception):
    """The command is correct but its work failed: one line, exit status 1."""


class WorkInterruptedError(WorkFailedError):
    """The work was interrupted: one line that says how far it got, exit status 130."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 wrong use, 130 interrupted."""
    for name in ("SIGTERM", "SIGHUP"):  # a request to end, or a lost terminal: the command keeps its results
        number = getattr(signal, name, None)
        # an ignored signal stays ignored, because nohup relies on it
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        _open_streams()
        from arena.cli.main import run  # an interruption during this import is also reported in one line

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("attention-bounds: Interrupted.", file=sys.stderr)
        status = 130
    sys.exit(status)


def _open_streams() -> None:
    """Redirect closed output to nothing: a file opened later could otherwise get its number, and with it the output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        # a letter that the terminal's encoding lacks must not lose the work
        getattr(sys, name).reconfigure(errors="backslashreplace")
