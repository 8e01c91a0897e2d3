"""The store of a curve: points by their keys in one SQLite file, each there whole or not at all."""

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

from arena._write_ahead import write_ahead
from arena.store import StoreError
from attention.errors import FileFormatError
from attention.validation import as_path

__all__ = ["CurveStore"]

_APPLICATION = 0x61747463  # "attc", at the place in the file that SQLite keeps for this
_VERSION = 1
_FAILURES = (sqlite3.Error, UnicodeDecodeError)


class CurveStore:
    """One SQLite file of JSON values by key; a context manager.

    Parameters
    ----------
    path : path
        The file; made, with its folder, where there is none.

    Raises
    ------
    FileFormatError
        If the file is no such store.
    StoreError
        If it cannot be opened or written.

    Notes
    -----
    One transaction a value, with a write-ahead log: what is there stays when the process is killed. Processes may share
    the file; two of them may compute the same value, and the last to come stays.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, CurveStore(Path(folder) / "curves.sqlite") as store:
    ...     store.put("a key", {"queries": 93})
    ...     store.find(["a key", "another"])
    {'a key': {'queries': 93}}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        if os.path.isdir(self.path):  # of a name that is too long pathlib would raise
            raise FileFormatError(f"{self.path} is a folder: give the path of a file.")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        except (*_FAILURES, OSError) as error:
            raise StoreError(f"The store {self.path} cannot be made ({error}).") from None
        try:
            self._set_up()
        except BaseException as error:
            self._database.close()
            if isinstance(error, _FAILURES):
                raise self._explained(error) from None
            raise

    def __enter__(self) -> "CurveStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def find(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values that are there, by key."""
        found = {}
        try:
            for key in keys:
                row = self._database.execute("SELECT value FROM points WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = json.loads(row[0])
        except (*_FAILURES, ValueError, TypeError) as error:
            raise self._explained(error) from None
        return found

    def put(self, key: str, value: Any) -> None:
        """Keep a value; one of the same key is replaced.

        Raises
        ------
        StoreError
            If the file cannot be written.
        """
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            self._database.execute("INSERT OR REPLACE INTO points VALUES (?, ?)", (key, text))
        except _FAILURES as error:
            raise self._explained(error) from None

    def _set_up(self) -> None:
        database = self._database
        if not self._is_empty():
            self._require_ours()  # before anything is written: it may be another program's
        write_ahead(database)
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN IMMEDIATE")
        try:
            if self._is_empty():
                database.execute("CREATE TABLE points (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
                database.execute(f"PRAGMA application_id = {_APPLICATION}")
                database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
        except BaseException:
            with suppress(*_FAILURES):
                database.execute("ROLLBACK")
            raise
        self._require_ours()

    def _is_empty(self) -> bool:
        return self._database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None

    def _require_ours(self) -> None:
        if self._database.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise FileFormatError(
                f"{self.path}: the file is no store of measured points; give one that curves or study made."
            )
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION:
            raise FileFormatError(
                f"{self.path}: the store has format {version}; this version reads {_VERSION}."
            )

    def _explained(self, error: Exception) -> Exception:
        said = " ".join(str(error).split())[:200]
        if isinstance(error, sqlite3.OperationalError):
            return StoreError(
                f"The store {self.path} cannot be used ({said}): free some space, or choose another place."
            )
        return FileFormatError(
            f"{self.path}: the file is no store of measured points, or is damaged ({said})."
        )
