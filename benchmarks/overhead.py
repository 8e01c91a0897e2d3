"""What the arena adds to a quick comparison: its processes, its store, its page, against the bare cells in a loop."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# every cell of the quick comparison, one after the other, with nothing around it but the measuring of its error
_BARE = """
import time
from arena import PRESETS, STUDENTS, preset_targets, run_cell
cells = [(target, student) for target in preset_targets() for student in STUDENTS.values()]
began = time.perf_counter()
for target, student in cells:
    run_cell(target, student, 0, PRESETS["quick"])
print(time.perf_counter() - began)
"""
# the same through `compare`, with isolated processes, without and with a store
_COMPARE = """
import sys, time
from arena import compare
began = time.perf_counter()
compare(jobs=1, store=sys.argv[1] or None)
print(time.perf_counter() - began)
"""


def run_overhead(turns: int = 3, out: Path | None = None) -> dict[str, float]:
    """Time the quick comparison bare, through `compare`, with the store, and as a command; print the ratios.

    One job, one thread, the kinds in turn, medians over `turns`.
    """
    seconds: dict[str, list[float]] = {"bare": [], "compare": [], "store": [], "command": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(turns):
            seconds["bare"].append(float(_python(folder, "-c", _BARE)))
            seconds["compare"].append(float(_python(folder, "-c", _COMPARE, "")))
            seconds["store"].append(float(_python(folder, "-c", _COMPARE, f"{turn}.sqlite")))
            began = time.perf_counter()
            main = "from arena.cli import main; main()"
            _python(folder, "-c", main, "compare", "--jobs", "1", "-o", f"results-{turn}")
            seconds["command"].append(time.perf_counter() - began)
            print(", ".join(f"{kind} {times[-1]:.2f} s" for kind, times in seconds.items()), flush=True)
    medians = {kind: statistics.median(times) for kind, times in seconds.items()}
    overhead = {kind: median / medians["bare"] - 1 for kind, median in medians.items() if kind != "bare"}
    words = {
        "compare": "isolated processes",
        "store": "and the run store",
        "command": "and loading, table, page: the whole command",
    }
    for kind, share in overhead.items():
        print(f"{words[kind]:45} {100 * share:+.1f} % of the bare cells' {medians['bare']:.1f} s")
    if out is not None:
        out.write_text(json.dumps({"seconds": seconds, "overhead": overhead}, indent=1), encoding="utf-8")
    return overhead


def _python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | _ONE_THREAD,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout
