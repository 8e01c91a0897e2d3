"""The overhead of the arena in a quick comparison (processes, store, page) over a bare loop of cells."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report import write_json

__all__ = ["TOO_MUCH", "overhead_complaint", "run_overhead"]

TOO_MUCH = 0.05
"""The upper limit of the time that the command adds outside the learners, as a share of the bare time."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# every cell of the quick comparison, one after the other, only with the measuring of its error;
# each program ends by printing the seconds of its learners
_BARE = """
from arena import PRESETS, choose_students, preset_targets, run_cell
cells = [
    run_cell(target, student, 0, PRESETS["quick"])
    for target in preset_targets()
    for student in choose_students()
]
print(sum(cell.seconds or 0 for cell in cells))
"""
_COMPARE = """
import sys
from arena import compare
print(sum(cell.seconds or 0 for cell in compare(jobs=1, store=sys.argv[1] or None).cells))
"""
_COMMAND = """
import sys
from arena import Results
from arena.cli import main
folder = sys.argv[1]
sys.argv[1:] = ["compare", "--jobs", "1", "-o", folder]
try:
    main()
finally:
    print(sum(cell.seconds or 0 for cell in Results.load(folder + "/results.json").cells))
"""
_KINDS = {
    "bare": "the bare cells, one after the other",
    "compare": "isolated processes",
    "store": "and the run store",
    "command": "and table, figures, page: the whole command",
}


def run_overhead(turns: int = 3, out: Path | None = None) -> dict[str, dict[str, float]]:
    """Time the quick comparison bare, through `compare`, with the store, and as a command; print the ratios.

    Each is a separate program from start to end, with one job and one thread. The programs run in turn. Medians are
    compared for the total seconds and for the seconds outside the learners. The learners do the same work in all
    programs, bit for bit, and take nearly all of the time. If the machine's speed drifts by a tenth, the total hides
    the overhead, and the seconds outside the learners still show it. Both are shares of the bare program's time.
    """
    seconds: dict[str, dict[str, list[float]]] = {kind: {"clock": [], "outside": []} for kind in _KINDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(turns):
            programs = {
                "bare": (_BARE,),
                "compare": (_COMPARE, ""),
                "store": (_COMPARE, f"{turn}.sqlite"),
                "command": (_COMMAND, f"results-{turn}"),
            }
            for kind, arguments in programs.items():
                clock, learners = _time(folder, *arguments)
                seconds[kind]["clock"].append(clock)
                seconds[kind]["outside"].append(clock - learners)
                print(
                    f"{turn + 1}. {kind:8} {clock:6.2f} s, {clock - learners:5.2f} s outside the learners",
                    flush=True,
                )
    medians = {
        kind: {how: statistics.median(times) for how, times in both.items()} for kind, both in seconds.items()
    }
    bare = medians["bare"]
    overhead: dict[str, dict[str, float]] = {}
    for kind, words in _KINDS.items():
        overhead[kind] = {how: (value - bare[how]) / bare["clock"] for how, value in medians[kind].items()}
        shares = overhead[kind]
        print(
            f"{words:45} {shares['outside']:+7.1%} outside the learners, {shares['clock']:+7.1%} on the clock"
        )
    write_json(out, {"seconds": seconds, "overhead": overhead})
    return overhead


def overhead_complaint(overhead: Mapping[str, Mapping[str, float]]) -> str:
    """A sentence on missed goals for the shares from `run_overhead`; empty if all goals are met."""
    share = overhead["command"]["outside"]
    if share < TOO_MUCH:
        return ""
    return f"The whole command adds {share:.1%} outside the learners: less than {TOO_MUCH:.0%} is wanted."


def _time(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds of a program from start to end, and the seconds of its learners."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        env=os.environ | _ONE_THREAD,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return time.perf_counter() - began, float(done.stdout.splitlines()[-1])
