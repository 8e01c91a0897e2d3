"""Kill a comparison with SIGKILL at random moments, resume it, and compare the table with an uninterrupted run."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena import Results, nice_target, parity_target, save_target
from benchmarks.report import write_json
from runs import Store, StoreError

__all__ = ["Kill", "run_kills"]

_PROGRAM = (sys.executable, "-c", "from arena.cli import main; main()")


@dataclass(frozen=True)
class Kill:
    """One kill: its time, the content of the store at that time, and the result of the resumed comparison."""

    after: float
    kept: int
    total: int
    equal: bool
    twice: int
    orphans: int

    @property
    def good(self) -> bool:
        """Whether the table is the same, nothing was computed twice, and no process is left."""
        return self.equal and self.twice == 0 and self.orphans == 0


def run_kills(times: int = 20, *, seed: int = 0, seeds: int = 6, out: Path | None = None) -> list[Kill]:
    """Kill a `compare` of two jobs `times` times, each at a uniformly random moment of its work; print the count."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_target(folder / "nice.safetensors", nice_target(heads=2, tokens=2, dim=16, seed=1))
        save_target(folder / "parity.safetensors", parity_target(heads=2, dim=12, seed=2))
        whole = _finish(_start(folder, "whole", seeds))
        length = whole.made["seconds"]
        print(f"Uninterrupted: {len(whole.cells)} cells in {length:.1f} s of work.", flush=True)
        kills = []
        for turn in range(times):
            kills.append(_kill(folder, f"killed-{turn}", rng.uniform(0, length), whole, seeds))
            one = kills[-1]
            print(
                f"{turn + 1:3}. killed after {one.after:5.2f} s with {one.kept:2} of {one.total} cells kept: "
                f"{'the same table' if one.equal else 'ANOTHER TABLE'}, {one.twice} cells computed twice, "
                f"{one.orphans} processes left.",
                flush=True,
            )
    print(f"{sum(one.good for one in kills)} of {times} resumed to the uninterrupted table.")
    write_json(out, [vars(one) for one in kills])
    return kills


def _kill(folder: Path, name: str, after: float, whole: Results, seeds: int) -> Kill:
    process = _start(folder, name, seeds)
    store = folder / name / "runs.sqlite"
    while not store.exists() and process.poll() is None:
        time.sleep(0.005)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=after)
    children = _descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 5  # starting processes exit when they see that they are alone
    while (orphans := sum(map(_is_ours, children))) and time.monotonic() < deadline:
        time.sleep(0.1)
    before = _finished(store)
    resumed = _finish(_start(folder, name, seeds))
    later = _finished(store)
    twice = sum(later.get(key) != when for key, when in before.items())
    # a run killed before its first write reuses nothing; a run killed after its end reuses everything
    assert resumed.made["reused"] == len(before)
    equal = resumed.without_seconds() == whole.without_seconds()
    return Kill(round(after, 3), len(before), len(whole.cells), equal, twice, orphans)


def _start(folder: Path, name: str, seeds: int) -> "subprocess.Popen[bytes]":
    arguments = ["compare", "nice.safetensors", "parity.safetensors", "--seeds", str(seeds), "--jobs", "2"]
    learners = ["--learners", "newton,linear,known-part,elimination"]
    return subprocess.Popen(
        [*_PROGRAM, *arguments, *learners, "--json", "-o", name], cwd=folder, stdout=subprocess.PIPE
    )


def _finish(process: "subprocess.Popen[bytes]") -> Results:
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"The comparison ended with status {process.returncode}.")
    return Results.from_json(text.decode())


def _finished(store: Path) -> dict[str, str]:
    if not store.exists():
        return {}
    try:
        kept = Store(store, read_only=True)
    except StoreError:  # the run was killed while it made the file
        return {}
    return {json.dumps(one["arguments"], sort_keys=True): one["finished"] for one in kept.values()}


def _descendants(parent: int) -> list[int]:
    """The child processes of a process, on Linux; none on other systems."""
    found = []
    for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = [int(text) for text in tasks.read_text().split()]
        except OSError:
            continue
        found += children
        for child in children:
            found += _descendants(child)
    return found


def _is_ours(process: int) -> bool:
    try:
        return b"arena" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # the process has ended
        return False
