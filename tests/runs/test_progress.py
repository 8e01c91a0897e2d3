"""Progress: what it says of a run, how it estimates the rest, and how it is shown."""

import io
import os
import pty
import re
import subprocess
import sys
import time

import runs.progress
from runs import Cell, Store, run, showing
from runs.progress import Progress


def test_says_what_is_done_what_runs_and_what_is_left(monkeypatch):
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    cells = [Cell(pow, {"base": i}, label=f"learner {i}", cost=1.0 + (i == 3)) for i in range(4)]
    state = Progress(dict.fromkeys(cells, 2), jobs=2)
    assert str(state) == "0 of 8"
    state.start(cells[0])
    state.start(cells[1])
    clock += 60.0
    state.finish(cells[0])
    state.start(cells[2])
    clock += 35.0
    # 60 s a cell of cost 1: cell 1 should have ended, cell 2 has 25 s left, cell 3 takes 120 s; two at once
    assert state.seconds_left() == (25.0 + 120.0) / 2
    assert str(state) == "2 of 8, running: learner 1 (95 s), learner 2 (35 s), about 70 seconds left"
    state.start(cells[3])
    assert state.seconds_left() == 120.0  # never less than the longest cell needs
    assert "learner 2 (35 s), 1 more" in str(state)
    for cell in cells[1:]:
        state.finish(cell)
    assert str(state) == "8 of 8"


def test_a_cell_that_takes_longer_than_expected_leaves_no_estimate(monkeypatch):
    clock = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    cells = [Cell(pow, {"base": i}, label=f"learner {i}") for i in range(2)]
    state = Progress(dict.fromkeys(cells, 1), jobs=1)
    state.start(cells[0])
    clock += 20.0
    state.finish(cells[0])
    state.start(cells[1])
    assert str(state).endswith("about 20 seconds left")
    clock += 60.0
    assert str(state) == "1 of 2, running: learner 1 (60 s)"


def test_counts_equal_cells_and_those_of_the_store(tmp_path, monkeypatch, capsys):
    for name in ("_FIRST", "_INTERVAL"):
        monkeypatch.setattr(runs.progress, name, 0.02)
    store = Store(tmp_path / "runs.sqlite")
    list(run([Cell(round, {"number": 1.5})], store=store, isolated=False))
    cells = [Cell(round, {"number": number}) for number in (1.5, 2.5, 2.5)]
    for _ in run(cells, store=store, isolated=False, progress=True):
        time.sleep(0.1)
    lines = re.findall(r"^(\d) of 3", capsys.readouterr().err, re.M)
    assert lines == sorted(lines)
    assert {"1", "3"} <= set(lines)


def test_is_silent_unless_asked(capfd, monkeypatch):
    for name in ("_FIRST", "_INTERVAL"):
        monkeypatch.setattr(runs.progress, name, 0.01)
    for _ in run([Cell(round, {"number": 1.5}), Cell(round, {"number": 2.5})], isolated=False):
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def test_ends_with_the_run_and_outlives_a_closed_output(monkeypatch):
    for name in ("_FIRST", "_INTERVAL"):
        monkeypatch.setattr(runs.progress, name, 0.01)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with showing("working"):
        time.sleep(0.1)
    lines = out.getvalue()
    time.sleep(0.05)
    assert out.getvalue() == lines
    assert set(lines.splitlines()) == {"working"}
    out.close()
    with showing("working"):
        time.sleep(0.05)


def test_on_a_terminal_it_is_one_line_in_place_and_leaves_standard_output_alone(tmp_path):
    main, terminal = pty.openpty()
    code = "import time\nfrom runs import showing\nwith showing('3 of 4'):\n    print('a result')\n    time.sleep(.7)\n"
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run([sys.executable, "-c", code], stdout=out, stderr=terminal, check=False)
    shown = os.read(main, 100_000).decode()
    assert done.returncode == 0
    assert "3 of 4" in shown
    assert "\x1b[2K" in shown  # the line is taken away
    assert (tmp_path / "out").read_text() == "a result\n"
