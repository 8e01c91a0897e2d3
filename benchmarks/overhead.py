"""What the arena adds to a quick comparison: its processes, its store, its page, against the bare cells in a loop."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# every cell of the quick comparison, one after the other, with nothing around it but the measuring of its error
_BARE = """
from arena import PRESETS, STUDENTS, preset_targets, run_cell
for target in preset_targets():
    for student in STUDENTS.values():
        run_cell(target, student, 0, PRESETS["quick"])
"""
_COMPARE = """
import sys
from arena import compare
compare(jobs=1, store=sys.argv[1] or None)
"""
_KINDS = {
    "bare": "the bare cells, one after the other",
    "compare": "isolated processes",
    "store": "and the run store",
    "command": "and table, figures, page: the whole command",
}


def run_overhead(turns: int = 3, out: Path | None = None) -> dict[str, dict[str, float]]:
    """Time the quick comparison bare, through `compare`, with the store, and as a command; print the ratios.

    Each is a program of its own from start to end, with one job and one thread; they run in turn, and medians are
    compared, of the seconds on the clock and of those on the processor, which other work on the machine changes less.
    """
    seconds: dict[str, dict[str, list[float]]] = {kind: {"clock": [], "processor": []} for kind in _KINDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(turns):
            programs = {
                "bare": (_BARE,),
                "compare": (_COMPARE, ""),
                "store": (_COMPARE, f"{turn}.sqlite"),
                "command": (
                    "from arena.cli import main; main()",
                    *("compare", "--jobs", "1", "-o", f"results-{turn}"),
                ),
            }
            for kind, arguments in programs.items():
                clock, processor = _time(folder, *arguments)
                seconds[kind]["clock"].append(clock)
                seconds[kind]["processor"].append(processor)
                print(f"{turn + 1}. {kind:8} {clock:6.2f} s, {processor:6.2f} s of processor", flush=True)
    medians = {
        kind: {how: statistics.median(times) for how, times in both.items()} for kind, both in seconds.items()
    }
    overhead: dict[str, dict[str, float]] = {}
    for kind, words in _KINDS.items():
        ratios = {how: medians[kind][how] / medians["bare"][how] - 1 for how in ("clock", "processor")}
        overhead[kind] = ratios
        print(
            f"{words:45} {ratios['clock']:+7.1%} on the clock, {ratios['processor']:+7.1%} on the processor"
        )
    if out is not None:
        out.write_text(json.dumps({"seconds": seconds, "overhead": overhead}, indent=1), encoding="utf-8")
    return overhead


def _time(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds on the clock, and on the processor for a program and all that it started."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        env=os.environ | _ONE_THREAD,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
