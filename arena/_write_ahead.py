"""SQLite's write-ahead log switched on, by many processes at once."""

import sqlite3
import time

__all__ = ["write_ahead"]

_SECONDS = 30.0


def write_ahead(database: sqlite3.Connection) -> None:
    """Switch the write-ahead log on; where another process is at it, wait.

    Raises
    ------
    sqlite3.Error
        If it cannot be switched on, or another process keeps the lock for half a minute.
    """
    until = time.monotonic() + _SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # for this lock alone SQLite does not wait by itself
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
