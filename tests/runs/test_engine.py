"""The engine: the same values however cells are computed, failures as results, nothing lost, nothing computed twice."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs import Cell, Result, Store, StoreError, run
from runs.pool import _Pool


def square(number):
    return number**2


def draws(seed):
    a = np.random.default_rng(seed).standard_normal((60, 60))
    return (a @ a @ a).ravel()[:5].tolist()


def threads():
    from threadpoolctl import threadpool_info

    np.ones((4, 4)) @ np.ones((4, 4))
    return max(one["num_threads"] for one in threadpool_info())


def log(file, number):
    with open(file, "a") as out:
        out.write(f"{number}\n")
    return number


def later(file):
    while not os.path.exists(file):
        time.sleep(0.01)
    return "later"


def fail(how):
    errors = {"raise": ValueError("no such thing"), "time-out of its own": TimeoutError("of its own")}
    errors |= {"GeneratorExit": GeneratorExit(), "KeyboardInterrupt": KeyboardInterrupt()}
    if how in errors:
        raise errors[how]
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while how == "hang":
        time.sleep(0.05)
    return {"half a character": "\ud800", "not JSON": {1, 2}, "NaN": float("nan")}[how]


def values(cells, **options):
    return {result.cell.key: (result.status, result.value) for result in run(cells, **options)}


def test_two_processes_and_none_give_the_same_bits_in_one_thread():
    cells = [*(Cell(draws, {"seed": seed}) for seed in range(6)), Cell(threads)]
    here = values(cells, isolated=False)
    assert values(cells, jobs=2) == here
    assert len(here) == 7
    assert here[cells[-1].key] == ("done", 1)


ENDS = {
    "raise": "ValueError: no such thing",
    "time-out of its own": "of its own",
    "exit": "process ended",
    "kill": "process ended",
    "GeneratorExit": "GeneratorExit",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "half a character": "surrogates not allowed",
    "not JSON": "not JSON serializable",
    "NaN": "not JSON compliant",
    "hang": "more than 2 seconds",
}


def test_a_failure_is_a_result_and_loses_no_other_whatever_the_clock_on_the_wall_says(monkeypatch):
    began, clock = time.time(), time.monotonic
    monkeypatch.setattr(time, "time", lambda: began + 1e4 * clock())
    cells = [Cell(square, {"number": 1}), *(Cell(fail, {"how": how}) for how in ENDS)]
    cells.append(Cell(square, {"number": 2}))
    found = {result.cell: result for result in run(cells, jobs=2, timeout=2.0)}
    assert [found[cells[place]].value for place in (0, -1)] == [1, 4]
    for cell, (how, words) in zip(cells[1:], ENDS.items(), strict=False):
        assert found[cell].status == ("timed out" if how == "hang" else "failed"), how
        assert words in found[cell].message


def test_without_processes_only_an_interruption_ends_the_run():
    hows = ("GeneratorExit", "half a character", "raise")
    cells = [Cell(fail, {"how": how}) for how in hows]
    assert [result.status for result in run(cells, isolated=False)] == ["failed"] * 3
    with pytest.raises(KeyboardInterrupt):
        list(run([Cell(fail, {"how": "KeyboardInterrupt"})], isolated=False))


def test_what_ends_before_an_early_end_is_stored(tmp_path):
    store, file = Store(tmp_path / "runs.sqlite"), tmp_path / "log"
    results = run([Cell(square, {"number": 1}), Cell(later, {"file": str(file)})], jobs=2, store=store)
    assert next(results).value == 1
    file.touch()
    time.sleep(1.5)
    results.close()
    assert [stored["value"] for stored in store.values()] == [1, "later"]


def test_functions_and_objects_that_have_no_name_travel():
    cells = [Cell(lambda number, add: add(number), {"number": 1}, {"add": lambda one: one + 41})]
    assert [result.value for result in run(cells)] == [42]
    held = [Cell(square, {"number": 1}, {"lock": threading.Lock()})]
    assert "cannot be sent" in next(run(held)).message


def test_what_is_in_the_store_is_not_computed_again(tmp_path):
    file, store = tmp_path / "log", Store(tmp_path / "runs.sqlite")
    cells = [Cell(log, {"file": str(file), "number": number}) for number in range(4)]
    first = [result for result, _ in zip(run(cells, store=store, isolated=False), range(2), strict=False)]
    assert not any(result.reused for result in first)
    second = list(run(cells, store=store, jobs=2))
    assert sum(result.reused for result in second) >= 2
    assert sorted(result.value for result in second) == [0, 1, 2, 3]
    assert sorted(file.read_text().split()) == ["0", "1", "2", "3"]
    assert not any(result.reused for result in run(cells, store=store, fresh=True, isolated=False))


def test_a_failure_is_kept_until_it_is_wanted_again(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    cells = [Cell(square, {"number": number}) for number in (1, 2)]
    before = Result(cells[0], "failed", message="no such thing"), Result(cells[1], "timed out", timeout=0.5)
    for options, kept in (
        ({"timeout": 0.5}, ["failed", "timed out"]),
        ({"timeout": 10.0}, ["failed"]),  # more time is allowed now
        ({"isolated": False}, ["failed"]),
        ({"isolated": False, "retry_failed": True}, []),
    ):
        for result in before:
            store.put(result.cell.key, result.to_json())
        results = list(run(cells, store=store, **options))
        assert sorted(result.status for result in results if result.reused) == kept
        assert [result.status for result in results if not result.reused] == ["done"] * (2 - len(kept))


def test_cells_of_one_key_are_computed_once(tmp_path):
    file = tmp_path / "log"
    cells = [Cell(log, {"file": str(file), "number": 7}) for _ in range(3)]
    assert [result.cell for result in run(cells, isolated=False)] == cells
    assert file.read_text() == "7\n"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_keys_are_equal_for_equal_arguments_only(one, other):
    import json

    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (Cell(square, {"number": one}).key == Cell(square, {"number": other}).key) == same
    assert Cell(square, {"number": one}).key != Cell(fail, {"number": one}).key


@given(_JSON)
def test_a_value_comes_back_from_the_store_as_it_was(value):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        store = Store(f"{folder}/s.sqlite")
        try:
            store.put("key", value)
        except UnicodeEncodeError:  # surrogates are no text
            return
        assert Store(f"{folder}/s.sqlite", read_only=True).find(["key", "other"]) == {"key": value}
        assert store.values() == [value]


_SCRIPT = """
import sys, time
from runs import Cell, Store, run

def slow(number):
    time.sleep(0.2)
    return number

for result in run([Cell(slow, {"number": n}) for n in range(12)], jobs=2, store=Store(sys.argv[1])):
    print(result.value, result.reused, flush=True)
"""


def test_a_killed_run_resumes_and_leaves_no_process(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT)
    command = [sys.executable, "script.py", "runs.sqlite"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    for _ in range(4):
        process.stdout.readline()
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted(int(value) for value, _ in lines) == list(range(12))
    assert sum(reused == "True" for _, reused in lines) >= 4
    assert len(workers) >= 2
    assert not psutil.wait_procs(workers, timeout=5)[1]


def test_an_early_end_stops_what_runs():
    results = run([Cell(square, {"number": 2}), Cell(fail, {"how": "hang"})], jobs=2)
    assert next(results).value == 4
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 5


_FEW_FILES = """
import resource
from runs import Cell, run

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 1000))
print(sorted(result.value for result in run([Cell(pow, {"base": n, "exp": 2}) for n in range(8)], jobs=8)))
"""


def test_processes_may_open_the_files_that_they_need(tmp_path):
    pytest.importorskip("resource")
    (tmp_path / "script.py").write_text(_FEW_FILES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, tmp_path / "script.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[0, 1, 4, 9, 16, 25, 36, 49]", done.stderr


def test_another_file_is_no_store_and_left_alone(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert Store(tmp_path / "empty").values() == []
    (tmp_path / "text").write_bytes(b"not a database at all, whatever it says")
    with pytest.raises(StoreError, match="no store"):
        Store(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE things (a)")
    other.close()
    before = (tmp_path / "other").read_bytes()
    with pytest.raises(StoreError, match="no store"):
        Store(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == before
    for path in (tmp_path, tmp_path / "other" / "inside", tmp_path / "none"):
        with pytest.raises(StoreError):
            Store(path, read_only=True)


def test_wrong_options_are_refused_before_anything_runs():
    here = {"isolated": False}
    for options in (
        {"jobs": 0},
        {"timeout": 0},
        {"timeout": 1e9},
        here | {"jobs": 2},
        here | {"timeout": 1.0},
    ):
        with pytest.raises(ValueError, match=r"jobs|timeout"):
            run([], **options)


def test_an_interruption_while_a_call_is_handed_over_waits_until_it_is():
    handed = []

    def submit(*given):
        signal.raise_signal(signal.SIGINT)
        handed.append(given)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a package may have one of its own
    try:
        with pytest.raises(KeyboardInterrupt):
            _Pool(SimpleNamespace(active=True, submit=submit)).submit(b"", None)
        assert handed
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
