"""The command line ``attention-bounds``: generate, inspect, learn, compare."""

from arena.cli.main import main

__all__ = ["main"]
