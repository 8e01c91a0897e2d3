"""The run store: every cell that was ever computed, in one SQLite file that several processes may share."""

import json
import os
import platform
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from arena._stored import StoredCell, read_row
from arena._write_ahead import write_ahead
from arena.records import STATUSES, Cell, LearnerRecord, TargetRecord
from attention.errors import FileFormatError
from attention.validation import as_path

__all__ = ["RunStore", "StoreError", "StoredCell"]

_APPLICATION = 0x61747462  # "attb", at the place in the file that SQLite keeps for this
_VERSION = 1
_SCHEMA = """
CREATE TABLE cells (
    key TEXT PRIMARY KEY, target TEXT NOT NULL, learner TEXT NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL,
    timeout REAL, finished TEXT NOT NULL, versions TEXT NOT NULL, cell TEXT NOT NULL,
    target_record TEXT NOT NULL, learner_record TEXT NOT NULL
);
CREATE INDEX by_name ON cells (target, learner, seed);
CREATE TABLE claims (
    key TEXT PRIMARY KEY, owner TEXT NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, renewed REAL NOT NULL
);
"""
_RENEW, _EXPIRE = 10.0, 60.0  # seconds
# a damaged file makes Python's module stumble over names that are no text; a seed may be past what SQLite holds
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)


class StoreError(OSError):
    """A run store cannot be read or written; what it held before is still there."""


class RunStore:
    """One SQLite file of cells by their keys; a context manager.

    Parameters
    ----------
    path : path
        The file; made, with its folder, where there is none.
    read_only : bool
        For looking only: the file must be there, and may lie where nothing can be written.

    Raises
    ------
    FileFormatError
        If the file is no run store.
    StoreError
        If it cannot be opened or written: a full disk, a folder that is read-only.

    Notes
    -----
    A cell is there whole or not at all, and stays when the process is killed (write-ahead log, one transaction a
    cell). Processes that share the file claim cells before they compute them; a claim ends with its process.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, RunStore(Path(folder) / "runs.sqlite") as store:
    ...     store.cells()
    []
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = as_path(path)
        self._lock = threading.RLock()
        self._owner = secrets.token_hex(8)
        self._held: set[str] = (
            set()
        )  # claims; what the file says of this owner may be more, after a full disk
        self._renewing: threading.Thread | None = None
        self._closing = threading.Event()
        if os.path.isdir(self.path):  # of a name that is too long pathlib would raise
            raise FileFormatError(f"{self.path} is a folder: give the path of a run store, which is a file.")
        if read_only and not os.path.isfile(self.path):
            raise FileFormatError(f"{self.path}: there is no such file; compare makes one.")
        try:
            self._database = self._open_read_only() if read_only else self._open()
        except _FAILURES as error:
            raise self._explained(error) from None
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"The run store {self.path} cannot be made ({error.strerror}).") from None

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the claims back and close the file."""
        self._closing.set()
        with self._lock:
            with suppress(*_FAILURES):  # read-only, or full: claims end by themselves
                self._database.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
            self._database.close()

    def find(self, keys: Iterable[str]) -> dict[str, StoredCell]:
        """The cells that are there, by key."""
        rows = []
        with self._reading():
            for key in keys:
                rows += self._database.execute("SELECT * FROM cells WHERE key = ?", (key,)).fetchall()
        return {row["key"]: read_row(row, self.path) for row in rows}

    def cells(
        self,
        *,
        target: str | None = None,
        learner: str | None = None,
        seed: int | None = None,
        status: str | None = None,
    ) -> list[StoredCell]:
        """Every cell that fits, the oldest first.

        Parameters
        ----------
        target, learner : str, optional
            Names; ``*`` stands for any letters, ``?`` for one.
        seed : int, optional
            The seed.
        status : str, optional
            "done", "not applicable", "failed" or "timed out".

        Raises
        ------
        ValueError
            If the status is another word.
        """
        if status is not None and status not in STATUSES:
            raise ValueError(f"The status is {status!r}: {', '.join(STATUSES)} are the ones there are.")
        wanted = {"target": target, "learner": learner, "seed": seed, "status": status}
        conditions = {
            "target": "(target = :target OR target GLOB :target)",  # a name may have signs that GLOB takes otherwise
            "learner": "(learner = :learner OR learner GLOB :learner)",
            "seed": "seed = :seed",
            "status": "status = :status",
        }
        where = " AND ".join(
            ["1", *(conditions[name] for name, value in wanted.items() if value is not None)]
        )
        with self._reading():
            rows = self._database.execute(
                f"SELECT * FROM cells WHERE {where} ORDER BY finished, key", wanted
            ).fetchall()
        return [read_row(row, self.path) for row in rows]

    def put(
        self,
        key: str,
        cell: Cell,
        *,
        target: TargetRecord,
        learner: LearnerRecord,
        versions: Mapping[str, str],
        timeout: float | None = None,
    ) -> None:
        """Keep a cell, and give its claim back; a cell of the same key is replaced, but one that is done by a time-out.

        Raises
        ------
        StoreError
            If the file cannot be written.
        """
        row = (
            key,
            cell.target,
            cell.learner,
            cell.seed,
            cell.status,
            timeout,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            *(_json(one) for one in (dict(versions), asdict(cell), asdict(target), asdict(learner))),
        )
        with self._writing():
            done = self._database.execute("SELECT 1 FROM cells WHERE key = ? AND status = 'done'", (key,))
            if cell.status != "timed out" or not done.fetchone():
                self._database.execute(f"INSERT OR REPLACE INTO cells VALUES ({', '.join('?' * 11)})", row)
            self._database.execute("DELETE FROM claims WHERE key = ?", (key,))
        self._held.discard(key)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove cells, to compute them again."""
        with self._writing():
            self._database.executemany("DELETE FROM cells WHERE key = ?", [(key,) for key in keys])

    def claim(self, key: str, *, instead_of: StoredCell | None = None) -> bool:
        """Claim a cell; False when it is claimed already, here or by another live process, or is there by now.

        Parameters
        ----------
        key : str
            The cell's key.
        instead_of : StoredCell, optional
            A cell that is to be computed again: as long as it is the one that is there, the cell is free.

        Notes
        -----
        A claim is renewed in the background. It ends with `put`, with `close`, and with its process: at once where
        the process was on this machine, after a minute otherwise.
        """
        # whoever waits for another process asks often: it must not lock the file to hear no
        with self._reading():
            if not self._is_free(key, instead_of):
                return False
        with self._writing():
            if not self._is_free(key, instead_of):
                return False
            row = (key, self._owner, platform.node(), os.getpid(), time.time())
            self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)", row)
        self._held.add(key)
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, daemon=True)
            self._renewing.start()
        return True

    def _is_free(self, key: str, instead_of: StoredCell | None) -> bool:
        there = self._database.execute("SELECT finished FROM cells WHERE key = ?", (key,)).fetchone()
        if there is not None and (instead_of is None or there["finished"] != instead_of.finished):
            return False
        held = self._database.execute("SELECT * FROM claims WHERE key = ?", (key,)).fetchone()
        if held is not None and held["owner"] == self._owner:
            return key not in self._held
        return held is None or not _is_alive(held)

    def give_back(self, keys: Iterable[str]) -> None:
        """End claims of this process; where that cannot be written they are renewed no more, and end by themselves."""
        keys = list(keys)
        self._held.difference_update(keys)
        with self._writing():
            self._database.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self._owner) for key in keys]
            )

    def _renew(self) -> None:
        while not self._closing.wait(_RENEW):
            with self._lock, suppress(*_FAILURES):
                if not self._closing.is_set():
                    self._database.executemany(
                        "UPDATE claims SET renewed = ? WHERE key = ? AND owner = ?",
                        [(time.time(), key, self._owner) for key in self._held],
                    )

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = _connect(f"{self.path.resolve().as_uri()}?mode=rwc")
        try:
            if not _is_empty(database):
                self._require_store(database)  # before anything is written: it may be another program's
            # the default of SQLite waits for the disk at every commit; so does this, log or not
            write_ahead(database)
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            if _is_empty(database):
                for statement in _SCHEMA.split(";")[:-1]:
                    database.execute(statement)
                database.execute(f"PRAGMA application_id = {_APPLICATION}")
                database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
            self._require_store(database)
        except BaseException:
            database.close()
            raise
        return database

    def _open_read_only(self) -> sqlite3.Connection:
        address = self.path.resolve().as_uri()
        try:
            return self._required(_connect(f"{address}?mode=ro"))
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
        # in a folder where nothing can be written the log cannot be shared: the file is read as it stands, if it is all
        log = Path(f"{self.path}-wal")
        if log.is_file() and log.stat().st_size > 0:
            raise StoreError(
                f"{self.path} has its last cells in {log.name}, which is of use only where files can be written: copy "
                "both to such a folder."
            )
        return self._required(_connect(f"{address}?mode=ro&immutable=1"))

    def _required(self, database: sqlite3.Connection) -> sqlite3.Connection:
        try:
            self._require_store(database)
        except BaseException:
            database.close()
            raise
        return database

    def _require_store(self, database: sqlite3.Connection) -> None:
        application = database.execute("PRAGMA application_id").fetchone()[0]
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION:
            raise FileFormatError(f"{self.path}: the file is no run store; give one that compare made.")
        if version != _VERSION:
            raise FileFormatError(
                f"{self.path}: the run store has format {version}; this version reads {_VERSION}."
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except _FAILURES as error:
                raise self._explained(error) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as error:
                with suppress(*_FAILURES):
                    self._database.execute("ROLLBACK")
                if isinstance(error, _FAILURES):
                    raise self._explained(error) from None
                raise

    def _explained(self, error: Exception) -> Exception:
        said = " ".join(str(error).split())[:200]
        if isinstance(error, OverflowError):
            return ValueError("The seed is too large for a run store: at most 63 bits are needed.")
        if isinstance(error, sqlite3.ProgrammingError):
            return StoreError(f"The run store {self.path} is closed.")
        if isinstance(error, sqlite3.OperationalError):
            reasons = {
                "full": "the disk is full: free some space",
                "readonly": "it is read-only: choose another place",
                "unable to open": "its folder is not there or cannot be written: choose another place",
                "locked": "another process keeps it locked: end that one, or choose another place",
            }
            reason = next((words for part, words in reasons.items() if part in said), said)
            return StoreError(f"The run store {self.path} cannot be used ({reason}).")
        return FileFormatError(f"{self.path}: the file is no run store, or is damaged ({said}).")


def _connect(address: str) -> sqlite3.Connection:
    database = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    return database


def _is_empty(database: sqlite3.Connection) -> bool:
    tables: Sequence[Any] = database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    return not tables


def _is_alive(claim: sqlite3.Row) -> bool:
    try:
        if time.time() - claim["renewed"] > _EXPIRE:
            return False
        if claim["host"] == platform.node() and os.name == "posix":
            os.kill(claim["process"], 0)
    except (ProcessLookupError, TypeError, OverflowError):  # the last two: it is damaged
        return False
    except OSError:  # it is there, and another user's
        return True
    return True


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
