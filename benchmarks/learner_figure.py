"""Errors of learners against seconds and against examples, one panel per case, as SVG."""

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.report import drawing
from runs.figures import decade_ticks, learner_look

__all__ = ["draw_learners"]

_LEAST = 1e-16


def draw_learners(found: Mapping[str, Any], path: Path) -> None:
    """A row of panels per case, against seconds and against examples; the first target of each.

    For a learner with several settings, the figure shows the setting that is best at 1e-6. If no setting reaches 1e-6,
    it shows the best one at the coarser error.
    """
    cases = list(dict.fromkeys((row["m"], row["k"], row["d"]) for row in found["rows"]))
    names = list(dict.fromkeys(run["row"] for run in found["runs"]))
    with drawing(path, (8.4, 2.6 * len(cases) + 0.8)) as figure:
        panels = figure.subplots(len(cases), 2, sharex="col", sharey=True, squeeze=False)
        for line, case in enumerate(cases):
            for column, what in enumerate(("seconds", "examples")):
                panel = panels[line][column]
                for run in _shown(found, case):
                    steps = [(at[1 if what == "seconds" else 0], max(at[2], _LEAST)) for at in run["trace"]]
                    groups = [list(group) for _, group in groupby(steps, key=itemgetter(0))]
                    points = [step for group in groups for step in (group[0], *group[1:][-1:])]
                    look = learner_look(names.index(run["row"])) | {"markersize": 4, "markevery": [-1]}
                    panel.plot(
                        *zip(*points, strict=True), **look, linewidth=1.4, clip_on=False, label=run["row"]
                    )
                panel.set_xscale("log")
                panel.set_yscale("log")
                panel.set_title("m, k, d = " + ", ".join(map(str, case)), fontsize="medium")
                for error in {row["error"] for row in found["rows"]}:
                    panel.axhline(error, color="0.85", linewidth=0.8, zorder=0)
                for axis, limits in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
                    decade_ticks(axis, *limits)
            panels[line][0].set_ylabel("relative error")
        panels[-1][0].set_xlabel("seconds")
        panels[-1][1].set_xlabel("examples drawn")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)


def _shown(found: Mapping[str, Any], case: tuple[int, int, int]) -> list[Mapping[str, Any]]:
    """The runs of a case to draw: those with the best setting of each learner."""
    here = [run for run in found["runs"] if (run["m"], run["k"], run["d"], run["target"]) == (*case, 0)]
    rows = [row for row in found["rows"] if (row["m"], row["k"], row["d"]) == case]
    at_six, at_two = rows[min(1, len(rows) - 1)], rows[0]
    shown = []
    for name in dict.fromkeys(run["row"] for run in here):
        row = at_six if at_six["learners"][name]["reached"] else at_two
        shown += [
            run for run in here if run["row"] == name and run["setting"] == row["learners"][name]["setting"]
        ]
    return shown
