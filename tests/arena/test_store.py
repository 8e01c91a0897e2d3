"""The run store: what was put is there, whatever happened since, and no two processes do the same work."""

import collections
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena import Cell, LearnerRecord, RunStore, StoreError, TargetRecord, TracePoint
from arena import store as module
from arena._write_ahead import write_ahead
from attention.errors import FileFormatError
from lower import Hardness

posix = pytest.mark.skipif(os.name != "posix", reason="signals and permissions of POSIX")
TARGET = TargetRecord(
    "toy", "A toy", "nice", 1, 2, 4, {"kind": "boolean"}, "Drawn at random.", certificate=("a", "b")
)
LEARNER = LearnerRecord("newton", "Newton", "None proved.", {"m": 1})
VERSIONS = {"python": "3", "numpy": "2"}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
real = st.none() | st.floats(0, allow_nan=False, allow_infinity=False)
numbers = st.floats(allow_nan=False, allow_infinity=False)
# fields, and not records: what checks a record's kinds at run time draws lots, which Hypothesis forbids itself
points = st.fixed_dictionaries(
    {
        "name": text,
        "examples": st.integers(0),
        "seconds": real,
        "measures": st.dictionaries(text, st.none() | numbers, max_size=3),
    }
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
cells = st.fixed_dictionaries(
    {
        **dict.fromkeys(("target", "learner", "message", "outcome", "outcome_text", "engine", "alone"), text),
        "seed": st.integers(-(2**63), 2**63 - 1),
        "status": st.sampled_from(["done", "not applicable", "failed", "timed out"]),
        "succeeded": st.booleans(),
        **dict.fromkeys(("relative_error", "unknown_part_error", "theta_error", "w_error", "seconds"), real),
        "examples_used": st.none() | st.integers(0),
        "trace": st.lists(points, max_size=3),
    }
)
targets = st.fixed_dictionaries(
    {
        **dict.fromkeys(("name", "title", "how", "known"), text),
        "kind": st.sampled_from(["nice", "parity", "lwr", "file"]),
        **dict.fromkeys(("heads", "tokens", "dim"), st.integers(1)),
        "inputs": st.dictionaries(text, json_values, max_size=3),
        "seed": st.none() | st.integers(),
        "certificate": st.lists(text, max_size=3).map(tuple),
        "hardness": st.none() | st.sampled_from(Hardness),
    }
)
learners = st.fixed_dictionaries(
    {
        **dict.fromkeys(("name", "title", "guarantee"), text),
        "parameters": st.dictionaries(text, json_values, max_size=3),
    }
)


def _cell(seed=0, status="done", target="toy", learner="newton", **fields):
    return Cell(target, learner, seed, status, **fields)


def _put(store, key, cell=None, **given):
    given = {"target": TARGET, "learner": LEARNER, "versions": VERSIONS} | given
    store.put(key, _cell() if cell is None else cell, **given)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def store(path):
    with RunStore(path) as opened:
        yield opened


def _script(body, *arguments, **options):
    """A process of its own that has what this file has at hand."""
    start = f"""
        import os, signal, sys, time
        from pathlib import Path
        from arena import Cell, LearnerRecord, RunStore, StoreError, TargetRecord
        target, learner, versions = {TARGET!r}, {LEARNER!r}, {VERSIONS!r}
        given = dict(target=target, learner=learner, versions=versions)
        path = Path(sys.argv[1])
        """
    code = textwrap.dedent(start) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


def _said(script):
    out = script.communicate(timeout=60)[0]
    assert script.returncode == 0
    return out.splitlines()


# cells


@given(
    cell=cells,
    target=targets,
    learner=learners,
    timeout=real,
    versions=st.dictionaries(text, text, max_size=2),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cell_comes_back_bit_for_bit(store, cell, target, learner, timeout, versions):
    cell = Cell(**{**cell, "trace": tuple(TracePoint(**point) for point in cell["trace"])})
    target, learner = TargetRecord(**target), LearnerRecord(**learner)
    store.forget(["key"])
    _put(store, "key", cell, target=target, learner=learner, timeout=timeout, versions=versions)
    found = store.find(["key", "another"])
    assert set(found) == {"key"}
    kept = found["key"]
    assert repr((kept.cell, kept.target, kept.learner)) == repr((cell, target, learner))  # -0.0 is not 0.0
    assert (kept.cell, kept.target, kept.learner) == (cell, target, learner)
    assert (kept.key, kept.versions, kept.timeout) == ("key", versions, timeout)


def test_cells_are_there_when_the_file_is_opened_again(path):
    with RunStore(path) as store:
        for seed in range(5):
            _put(store, str(seed), _cell(seed))
    with RunStore(path) as store:
        assert [stored.cell.seed for stored in store.cells()] == list(range(5))
        _put(store, "3", _cell(3, "failed", message="now"))
        store.forget(["1", "nowhere"])
        assert {key: one.cell.status for key, one in store.find("0123").items()} == {
            "0": "done",
            "2": "done",
            "3": "failed",
        }


def test_a_cell_says_when_it_was_done(store):
    from datetime import UTC, datetime, timedelta

    _put(store, "key")
    finished = datetime.fromisoformat(store.cells()[0].finished)
    assert timedelta(0) <= datetime.now(UTC) - finished + timedelta(milliseconds=1) < timedelta(minutes=1)
    assert finished.utcoffset() == timedelta(0)


FILTERS = [
    ({}, 12),
    ({"target": "a"}, 4),
    ({"target": "a*"}, 8),
    ({"target": "?"}, 4),
    ({"target": "A"}, 0),
    ({"target": "b[1]"}, 4),
    ({"target": "'; DROP TABLE cells; --"}, 0),
    ({"learner": "new*"}, 6),
    ({"seed": 1}, 6),
    ({"seed": 2}, 0),
    ({"status": "failed"}, 6),
    ({"target": "ab", "learner": "adam", "seed": 0, "status": "failed"}, 1),
    ({"target": "ab", "learner": "adam", "seed": 1, "status": "failed"}, 0),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    with RunStore(tmp_path_factory.mktemp("many") / "runs.sqlite") as store:
        for target in ("a", "ab", "b[1]"):
            for learner in ("newton", "adam"):
                for seed in (0, 1):
                    status = "failed" if seed == 0 else "timed out"
                    _put(store, f"{target}{learner}{seed}", _cell(seed, status, target, learner))
        yield store


@pytest.mark.parametrize(("wanted", "number"), FILTERS, ids=str)
def test_cells_that_fit(many, wanted, number):
    assert len(many.cells(**wanted)) == number


def test_a_status_that_does_not_exist_is_said(store):
    with pytest.raises(ValueError, match="'finished': done, not applicable, failed, timed out are"):
        store.cells(status="finished")


@pytest.mark.parametrize("name", ["a b", "ü%41?x=1#y", "semi;colon&", "-dash"])
def test_the_name_of_the_file_may_be_anything(tmp_path, name):
    with RunStore(tmp_path / "new" / name) as store:
        _put(store, "key")
    assert (tmp_path / "new" / name).is_file()
    with RunStore(tmp_path / "new" / name, read_only=True) as store:
        assert list(store.find(["key"])) == ["key"]


def test_a_seed_that_does_not_fit_is_a_sentence(store):
    for use in (lambda: _put(store, "key", _cell(2**63)), lambda: store.cells(seed=-(2**63) - 1)):
        with pytest.raises(ValueError, match="seed is too large"):
            use()
    _put(store, "key")


def test_a_store_that_is_closed_says_so(path):
    store = RunStore(path)
    store.close()
    store.close()
    for use in (store.cells, lambda: store.claim("key"), lambda: _put(store, "key")):
        with pytest.raises(StoreError, match=r"^The run store .* is closed\.$"):
            use()


# claims


@pytest.fixture
def second(store, path):
    with RunStore(path) as opened:
        yield opened


def _claims(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return {
            key: rest
            for key, *rest in database.execute("SELECT key, owner, host, process, renewed FROM claims")
        }


def _edit(path, change, *values):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        assert database.execute(f"UPDATE claims SET {change}", values).rowcount == 1


def test_two_stores_never_claim_one_key(store, second):
    assert store.claim("key")
    assert not second.claim("key")
    assert second.claim("another")
    assert not store.claim("another")


def test_a_cell_that_is_there_cannot_be_claimed(store, second):
    assert store.claim("key")
    _put(store, "key")
    assert not store.claim("key")
    assert not second.claim("key")
    store.forget(["key"])
    assert second.claim("key")


def test_put_gives_the_claim_back(store, path):
    store.claim("key")
    store.claim("other")
    _put(store, "key")
    assert set(_claims(path)) == {"other"}


def test_giving_back_is_for_ones_own_claims(store, second):
    store.claim("key")
    second.give_back(["key", "nowhere"])
    assert not second.claim("key")
    store.give_back(["key"])
    assert second.claim("key")


def test_closing_gives_the_claims_back(path):
    first, second = RunStore(path), RunStore(path)
    first.claim("a")
    second.claim("b")
    first.close()
    assert set(_claims(path)) == {"b"}
    assert second.claim("a")
    second.close()


@posix
def test_the_claim_of_a_killed_process_is_free_at_once(store, path):
    script = _script("store = RunStore(path); print(store.claim('key'), flush=True); time.sleep(3600)", path)
    assert script.stdout.readline() == "True\n"
    assert not store.claim("key")
    script.kill()
    script.communicate()
    assert store.claim("key")


def test_the_claim_of_another_machine_is_kept_until_it_expires(store, second, path):
    store.claim("key")
    _edit(path, "host = 'elsewhere', process = 1, renewed = ?", time.time() - module._EXPIRE + 5)
    assert not second.claim("key")
    _edit(path, "renewed = ?", time.time() - module._EXPIRE - 5)
    assert second.claim("key")
    assert not store.claim("key")


def test_claims_are_renewed_in_the_background(monkeypatch, path):
    monkeypatch.setattr(module, "_RENEW", 0.02)
    with RunStore(path) as store, RunStore(path) as second:
        store.claim("key")
        _edit(path, "host = 'elsewhere', renewed = 0")
        deadline = time.monotonic() + 10
        while not time.time() - _claims(path)["key"][-1] < 5:
            assert time.monotonic() < deadline, "the claim was not renewed"
            time.sleep(0.01)
        assert not second.claim("key")
        thread = store._renewing
        assert thread.is_alive()
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_store_of_a_process_that_only_looks_has_no_thread(store):
    before = threading.active_count()
    _put(store, "key")
    store.find(["key"])
    assert threading.active_count() == before


WORKER = """
    import random
    keys = [str(number) for number in range(50)]
    random.Random(sys.argv[2]).shuffle(keys)
    sys.stdin.readline()  # all begin at once, with a file that is not there yet
    with RunStore(path) as store:
        while waiting := [key for key in keys if key not in store.find(keys)]:
            for key in waiting:
                if store.claim(key):
                    print(key)
                    store.put(key, Cell("toy", "newton", int(key), "done"), **given)
    """


def test_four_processes_compute_every_cell_once_in_all(path):
    workers = [_script(WORKER, path, number, stdin=subprocess.PIPE) for number in range(4)]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    computed = collections.Counter(key for worker in workers for key in _said(worker))
    assert computed == {str(number): 1 for number in range(50)}
    with RunStore(path, read_only=True) as store:
        assert sorted(stored.cell.seed for stored in store.cells()) == list(range(50))
    assert not _claims(path)


def test_threads_may_share_a_store(store):
    claimed = collections.Counter()

    def work():
        for number in range(20):
            if store.claim(str(number)):
                _put(store, str(number), _cell(number))
                claimed[number] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.cells()) == 20
    assert set(claimed) == set(range(20))


# kills


@posix
def test_what_was_acknowledged_survives_kill_9(path):
    endless = """
        store = RunStore(path)
        for number in range(int(sys.argv[2]), 10**9):
            key = str(number)
            assert store.claim(key)
            store.put(key, Cell("toy", "newton", number, "done", message="x" * 5000), **given)
            print(key, flush=True)
        """
    acknowledged = set()
    for start, lines in ((0, 3), (10**6, 37), (2 * 10**6, 80)):
        script = _script(endless, path, start)
        acknowledged |= {script.stdout.readline().strip() for _ in range(lines)}
        script.kill()
        acknowledged |= set(script.communicate()[0].split())
        assert script.returncode == -signal.SIGKILL
        with RunStore(path) as store:
            found = store.find(acknowledged)
            assert set(found) == acknowledged
            assert all(one.cell.message == "x" * 5000 for one in found.values())
            assert len(store.cells()) - len(acknowledged) <= 3  # done, and killed before it could say so
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# disks and permissions


def _is_full(error):
    return str(error.value).endswith("cannot be used (the disk is full: free some space).")


def test_a_full_disk_loses_nothing(store, second):
    _put(store, "old", _cell(1))
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError) as error:
        _put(store, "new", _cell(2, message="x" * 100_000))
    assert _is_full(error)
    assert list(store.find(["old", "new"])) == ["old"]
    assert second.claim("new")  # the failure left no lock behind
    second.give_back(["new"])
    store._database.execute("PRAGMA max_page_count = 100000")
    _put(store, "new", _cell(2, message="x" * 100_000))
    assert len(second.cells()) == 2


def _put_many(store, number):
    for one in range(number):
        _put(store, f"new {one}", _cell(one, message="x" * 5000))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True
        ).returncode
    ):
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_really_full_loses_nothing(small_disk):
    path, ballast = small_disk / "runs.sqlite", small_disk / "ballast"
    with RunStore(path) as store:
        _put(store, "old", _cell(1))
        store.claim("new")
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 1024):
                pass
        with pytest.raises(StoreError) as error:
            _put_many(store, 200)
        assert _is_full(error)
        before = set(store.find(["old", *(f"new {n}" for n in range(200))]))
        assert "old" in before
        with pytest.raises(StoreError) as error:
            RunStore(small_disk / "another.sqlite")
        assert _is_full(error)
        ballast.unlink()
        _put(store, "new", _cell(3, message="x" * 5000))
        assert len(store.cells()) == len(before) + 1
    with RunStore(path) as store:
        assert len(store.cells()) == len(before) + 1


@pytest.fixture
def open_folder():
    """A folder that another user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def _as_another_user(body, path):
    """Run as nobody where this is root, who may write anywhere."""
    drop = """
        import encodings.idna, traceback
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        """
    return "\n".join(_said(_script(textwrap.dedent(drop) + textwrap.dedent(body), path)))


TRY = """
try:
    with RunStore(path) as store:
        store.put("new", Cell("toy", "newton", 1, "done"), **given)
    print("written")
except StoreError as error:
    print(error)
"""
LOOK = "print(sorted(one.key for one in RunStore(path, read_only=True).cells()))"


@pytest.mark.slow
@posix
def test_a_read_only_folder_or_file_is_a_sentence(open_folder):
    path = open_folder / "runs.sqlite"
    os.chmod(open_folder, 0o555)
    said = _as_another_user(f"{TRY}\npath = path.parent / 'new' / 'runs.sqlite'\n{TRY}", path).splitlines()
    assert said == [
        f"The run store {path} cannot be used (its folder is not there or cannot be written: choose another place).",
        f"The run store {path.parent / 'new' / path.name} cannot be made (Permission denied).",
    ]
    os.chmod(open_folder, 0o755)
    with RunStore(path) as store:
        _put(store, "old")
    os.chmod(path, 0o444)
    os.chmod(open_folder, 0o555)
    wrong, found = _as_another_user(f"{TRY}\n{LOOK}", path).splitlines()
    assert wrong.startswith(f"The run store {path} cannot be used (")
    assert found == "['old']"
    os.chmod(open_folder, 0o777)
    wrong, found = _as_another_user(f"{TRY}\n{LOOK}", path).splitlines()
    assert wrong == f"The run store {path} cannot be used (it is read-only: choose another place)."
    assert found == "['old']"


@pytest.mark.slow
@posix
def test_the_log_of_a_killed_process_is_read_in_a_read_only_folder(open_folder):
    path = open_folder / "runs.sqlite"
    script = _script(
        "store = RunStore(path); store.put('a', Cell('toy', 'newton', 1, 'done'), **given); os.kill(os.getpid(), 9)",
        path,
    )
    script.communicate()
    assert Path(f"{path}-wal").stat().st_size > 0
    os.chmod(open_folder, 0o555)
    for file in open_folder.iterdir():
        os.chmod(file, 0o444)
    assert _as_another_user(LOOK, path) == "['a']"


def test_one_may_look_while_another_writes(path):
    with RunStore(path) as writer, RunStore(path, read_only=True) as reader:
        assert reader.cells() == []
        for seed in range(5):
            _put(writer, str(seed), _cell(seed))
            assert len(reader.cells()) == seed + 1
        writer._database.execute("BEGIN IMMEDIATE")
        assert len(reader.cells()) == 5  # nobody waits for whoever writes
        writer._database.execute("ROLLBACK")
        with pytest.raises(StoreError, match="it is read-only: choose another place"):
            _put(reader, "new")
        with pytest.raises(StoreError, match="it is read-only: choose another place"):
            reader.claim("new")


def test_a_lock_that_stays_is_a_sentence(store, second):
    second._database.execute("PRAGMA busy_timeout = 50")
    store._database.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process keeps it locked"):
        _put(second, "key")
    store._database.execute("ROLLBACK")
    _put(second, "key")


def test_a_file_where_a_folder_should_be_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        RunStore(tmp_path / "file" / "runs.sqlite")


# files that are none


@pytest.mark.parametrize("read_only", [True, False])
class TestOtherFiles:
    def test_no_sqlite(self, path, read_only):
        path.write_text("key,target\n" * 1000)
        with pytest.raises(FileFormatError, match="no run store"):
            RunStore(path, read_only=read_only)
        assert path.read_text() == "key,target\n" * 1000

    def test_another_programs_sqlite_is_not_touched(self, path, read_only):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE cells (key)")
        before = path.read_bytes()
        with pytest.raises(FileFormatError, match="the file is no run store; give one that compare made"):
            RunStore(path, read_only=read_only)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_a_newer_format(self, path, read_only):
        with RunStore(path) as store:
            store._database.execute("PRAGMA user_version = 2")
        with pytest.raises(FileFormatError, match="has format 2; this version reads 1"):
            RunStore(path, read_only=read_only)

    def test_a_folder(self, path, read_only):
        path.mkdir()
        with pytest.raises(FileFormatError, match="is a folder"):
            RunStore(path, read_only=read_only)

    def test_an_empty_file_is_a_new_store(self, path, read_only):
        path.touch()
        if read_only:
            with pytest.raises(FileFormatError, match="no run store"):
                RunStore(path, read_only=True)
            assert path.stat().st_size == 0
        else:
            with RunStore(path) as store:
                _put(store, "key")
                assert len(store.cells()) == 1


def test_looking_makes_no_file(path):
    with pytest.raises(FileFormatError, match="there is no such file; compare makes one"):
        RunStore(path, read_only=True)
    assert not path.exists()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "runs.sqlite"
    with RunStore(path) as store:
        for seed in range(20):
            trace = tuple(TracePoint(f"step {n}", n, 0.1, {"error": 1 / (n + 1)}) for n in range(5))
            _put(store, f"key {seed}", _cell(seed, message="m" * 50, trace=trace))
        store.claim("claimed")
        store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, path.with_name("copy.sqlite"))
    return path.with_name("copy.sqlite").read_bytes()


def _use(path):
    """Everything one does with a store; how it ended, or nothing if it was as with a sound one."""
    try:
        with RunStore(path, read_only=True) as store:
            store.cells()
        with RunStore(path) as store:
            store.cells(target="t*", status="done")
            store.find(["key 3", "key 7"])
            for key in ("key 1", "claimed", "new"):
                store.claim(key)
            _put(store, "new")
            return [] if len(store.cells()) == 21 else ["cells are missing"]
    except (FileFormatError, StoreError) as error:
        said = str(error)
        assert str(path) in said
        assert "\n" not in said
        assert len(said) < 600
        return [type(error).__name__]


def test_a_sound_store_can_be_used(sound, path):
    path.write_bytes(sound)
    assert _use(path) == []


def test_damage_is_an_error_of_its_own(sound, tmp_path):
    """Bytes changed at random: an error that names the file, or cells; never another exception."""
    rng = np.random.default_rng(0)
    endings = collections.Counter()
    for number in range(80):
        path = tmp_path / f"{number}.sqlite"
        damaged = bytearray(sound)
        for place in rng.integers(len(sound), size=rng.integers(1, 30)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        endings.update(_use(path) or ["fine"])
    assert endings["FileFormatError"] > 8
    assert endings["fine"] > 2


def test_a_truncated_store_is_an_error_of_its_own(sound, tmp_path):
    rng = np.random.default_rng(1)
    for number, length in enumerate([1, 99, 100, 512, 4095, 4096, *rng.integers(1, len(sound), size=20)]):
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(sound[:length])
        assert _use(path) in (["FileFormatError"], ["StoreError"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cell", "{"),
        ("cell", "[]"),
        ("cell", '{"trace": 3}'),
        ("cell", '{"trace": [], "target": "a", "learner": "b", "seed": 0, "status": "lost"}'),
        ("cell", "[" * 100_000),
        ("cell", "9" * 5000),
        ("cell", b"\xff\xfe"),
        ("target_record", "{}"),
        ("target_record", "null"),
        ("learner_record", '{"name": 3}'),
        ("versions", "1"),
        ("finished", b"3"),
        ("timeout", "long"),
    ],
)
def test_a_damaged_cell_is_named(path, column, value):
    with RunStore(path) as store:
        _put(store, "key")
        store._database.execute(
            f"UPDATE cells SET {column} = CAST(? AS BLOB)"
            if isinstance(value, bytes)
            else f"UPDATE cells SET {column} = ?",
            (value,),
        )
        name = column.replace("_", " ")
        with pytest.raises(FileFormatError, match=f"the run store is damaged: a cell's {name}") as error:
            store.cells()
        assert len(str(error.value)) < 600


def test_what_is_stored_goes_into_json(store):
    _put(store, "key", _cell(message="ü"))
    (stored,) = store.cells()
    assert json.loads(json.dumps(stored.to_json()))["cell"]["message"] == "ü"
    assert stored.to_json()["key"] == "key"
    with pytest.raises(dataclasses.FrozenInstanceError):
        stored.key = "other"


def test_switching_the_log_on_waits_for_another_process(tmp_path):
    """SQLite refuses that lock at once, whatever its timeout."""
    path = tmp_path / "waits.sqlite"
    settings = {"isolation_level": None, "check_same_thread": False, "timeout": 0}
    with (
        contextlib.closing(sqlite3.connect(path, **settings)) as first,
        contextlib.closing(sqlite3.connect(path, **settings)) as second,
    ):
        first.execute("CREATE TABLE one (a)")
        first.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.execute("PRAGMA journal_mode = WAL")
        release = threading.Timer(0.2, first.execute, ["COMMIT"])
        release.start()
        write_ahead(second)
        release.join()
        assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)
