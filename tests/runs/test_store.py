"""A store tells a result from what happened to its file, and says which file it is and what to do."""

import contextlib
import sqlite3

import pytest

from runs import Cell, Store, StoreError, run, store


def computed(path, **options):
    results = run(
        [Cell(pow, {"base": n, "exp": 2}) for n in range(3)], store=Store(path), isolated=False, **options
    )
    return sorted((result.value, result.reused) for result in results)


def change(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


@pytest.mark.parametrize("text", ['{"a":1}', "[]", "no JSON", b"\xff", '{"status":"done"}'])
def test_a_damaged_value_is_computed_again_and_not_shown(tmp_path, text):
    path = tmp_path / "s.sqlite"
    assert computed(path) == [(0, False), (1, False), (4, False)]
    change(path, "UPDATE results SET value = ? WHERE rowid = 2", text)
    with pytest.raises(StoreError, match=r"s.sqlite: the store is damaged in 1 of 3 values"):
        Store(path).values()
    assert computed(path) == [(0, True), (1, False), (4, True)]
    assert computed(path) == [(0, True), (1, True), (4, True)]
    assert len(Store(path).values()) == 3


def test_a_store_of_format_1_is_read_and_written(tmp_path):
    path = tmp_path / "s.sqlite"
    before = computed(path)
    change(path, "ALTER TABLE results DROP COLUMN digest")
    change(path, "PRAGMA user_version = 1")
    assert len(Store(path, read_only=True).values()) == 3
    assert computed(path) == [(value, True) for value, _ in before]
    assert computed(path, fresh=True) == before
    assert len(Store(path).values()) == 3


def test_a_locked_store_is_named_with_the_cause(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    Store(path)
    monkeypatch.setattr(store, "_PATIENCE", 0.1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"s.sqlite cannot be used .*locked.*: another program uses it"):
            Store(path)


def test_a_full_disk_is_named_with_the_cause(tmp_path, monkeypatch):
    path, connect = tmp_path / "s.sqlite", sqlite3.connect
    full = Store(path)

    def without_room(*given, **named):
        database = connect(*given, **named)
        database.execute("PRAGMA max_page_count = 3")
        return database

    monkeypatch.setattr(sqlite3, "connect", without_room)
    with pytest.raises(StoreError, match=r"s.sqlite cannot be used .*full.*: free some space"):
        full.put("key", "x" * 100_000)
