"""The command line ``attention-bounds``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 wrong use."""
    try:
        from arena.cli.main import run  # an interruption while this loads is one line, too

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("attention-bounds: Interrupted.", file=sys.stderr)
        status = 1
    sys.exit(status)
