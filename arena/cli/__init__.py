"""The command line ``attention-bounds``."""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 wrong use, 130 interrupted."""
    try:
        _open_streams()
        from arena.cli.main import run  # an interruption while this loads is one line, too

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("attention-bounds: Interrupted.", file=sys.stderr)
        status = 130
    sys.exit(status)


def _open_streams() -> None:
    """Lead output that was closed nowhere: a file opened later would take its number, and the output with it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
