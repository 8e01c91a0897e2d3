"""A store: JSON values by key in one SQLite file; each value is stored completely or not at all."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

_APPLICATION = 0x61747472  # "attr", in the header field that SQLite reserves for applications
_VERSION = 2  # 1 had no digests
_PATIENCE = 30.0  # seconds to wait for another program


class StoreError(OSError):
    """A store cannot be read or written; the message says why and what to do."""


class Store:
    """One SQLite file of JSON values by key.

    Parameters
    ----------
    path : path
        The file; it is made, with its folder, if it is missing.
    read_only : bool
        Whether the file must exist and is only read.

    Raises
    ------
    StoreError
        If the file cannot be opened, or belongs to another program.

    Notes
    -----
    Each value is its own transaction: stored values survive when the process is killed. Processes may share the file;
    if two values have the same key, the last one stays.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(f"{folder}/runs.sqlite")
    ...     store.put("a key", {"queries": 93})
    ...     store.find(["a key", "another"])
    {'a key': {'queries': 93}}
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        try:
            there = self.path.is_file()
            if self.path.is_dir():
                raise StoreError(f"{self.path} is a folder: give the path of a file.")
            if read_only and not there:
                raise StoreError(f"{self.path} is not there: give the path of a store.")
            if not there:
                self.path.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"The store {self.path} cannot be made ({error}).") from None
        with self._open() as database:
            self._set_up(database)

    def find(self, keys: Iterable[str]) -> dict[str, Any]:
        """The stored values, by key; a damaged value counts as missing."""
        rows = []
        with self._open() as database:
            for key in keys:
                rows += database.execute("SELECT * FROM results WHERE key = ?", (key,)).fetchall()
        return {row[0]: json.loads(row[1]) for row in rows if _is_whole(*row)}

    def values(self) -> list[Any]:
        """All values, in the order in which they were stored; a StoreError if one is damaged."""
        with self._open() as database:
            rows = database.execute("SELECT * FROM results ORDER BY rowid").fetchall()
        if damaged := sum(not _is_whole(*row) for row in rows):
            raise StoreError(
                f"{self.path}: the store is damaged in {damaged} of {len(rows)} values: repeat the command that made "
                "it, which computes them again."
            )
        return [json.loads(row[1]) for row in rows]

    def put(self, key: str, value: Any) -> None:
        """Store a value; it replaces a value with the same key."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (key, text, _digest(key, text))
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # a new connection for each use, so that any thread can use the store and no connection stays open
        mode = "?mode=ro" if self._read_only else ""
        try:
            address = f"{self.path.absolute().as_uri()}{mode}"
            with closing(
                sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
            ) as database:
                yield database
        except sqlite3.OperationalError as error:
            # the low byte is the kind of the error
            advice = _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "choose another place")
            raise StoreError(f"The store {self.path} cannot be used ({error}): {advice}.") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path}: the file is no store, or is damaged ({error}).") from None

    def _set_up(self, database: sqlite3.Connection) -> None:
        if not self._read_only:
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                database.execute(
                    "CREATE TABLE results (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT)"
                )
                database.execute(f"PRAGMA application_id = {_APPLICATION}")
                database.execute(f"PRAGMA user_version = {_VERSION}")
            elif _header(database) == (_APPLICATION, 1):
                database.execute("ALTER TABLE results ADD COLUMN digest TEXT")
                database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
        application, version = _header(database)
        if application != _APPLICATION:
            raise StoreError(f"{self.path}: the file is no store; give one that was made here.")
        if version not in (1, _VERSION):
            raise StoreError(
                f"{self.path}: the store has format {version}; this version reads 1 and {_VERSION}: give another path."
            )


def _header(database: sqlite3.Connection) -> tuple[int, int]:
    return tuple(
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )


def _is_whole(key: Any, text: Any, digest: Any = None) -> bool:
    """Whether a value is as it was stored; values of format 1 have no digest, and must be JSON objects."""
    if digest is not None:
        return bool(_digest(key, text) == digest)
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError, RecursionError):
        return False


def _digest(key: Any, text: Any) -> str:
    """SHA-256 of a key and its value, so that a value changed on disk is not taken for a result."""
    return hashlib.sha256(f"{key}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


_ADVICE = {
    sqlite3.SQLITE_BUSY: "another program uses it; end that one, or wait",
    sqlite3.SQLITE_LOCKED: "another program uses it; end that one, or wait",
    sqlite3.SQLITE_FULL: "free some space, or choose another place",
    sqlite3.SQLITE_IOERR: "free some space, or choose another place",
    sqlite3.SQLITE_READONLY: "change the rights of the file and its folder, or choose another place",
    sqlite3.SQLITE_CANTOPEN: "change the rights of the file and its folder, or allow more open files",
}
