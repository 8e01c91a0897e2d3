"""What the study of violations found, as a figure: every phase's error over the usual one, and who succeeds."""

import math
from collections.abc import Sequence
from typing import Any

from arena._canvas import canvas
from arena.palette import FAINT, INK, ON_STRONG, heat_colours, is_strong
from arena.paper_figure import PaperFigure, paper_figure
from arena.studies._violations import NICE
from arena.studies._violations_runs import (
    PHASES,
    ends_by,
    exact_runs,
    newton_budgets,
    newton_exact,
    phase_ratio,
    setting_rows,
)
from arena.studies.study import Row

__all__ = ["draw_violations"]

_STRONGEST = 1000.0  # times the baseline's error, the last colour


def draw_violations(rows: Sequence[Row]) -> PaperFigure:
    """A line a setting: the error of every phase over that on nice layers, and the share of runs that succeed."""
    every, rows = rows, setting_rows(rows) or list(rows)
    budgets = sorted({floors for row in rows for floors in newton_budgets(every, row)})
    columns = [(mode, phase) for mode, phases in PHASES.items() for phase in phases]
    height, above, left = 0.2, 1.05, 2.35
    across = left + 6.25 + 0.5 * len(budgets)
    tall = above + 0.1 + height * len(rows)
    with canvas(across, tall) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, across)
        axes.set_ylim(tall, 0)
        wide = 0.43
        places = [
            left + wide * place + 0.15 * (mode == "practical") for place, (mode, _) in enumerate(columns)
        ]
        ends = [places[-1] + wide + 0.15 + 0.5 * place for place in range(2 + len(budgets))]
        small = {"fontsize": 7.5, "va": "center", "ha": "center"}
        for place, (mode, phase) in zip(places, columns, strict=True):
            axes.text(place + wide / 2, above - 0.12, str(phase), **small, color=INK)
            if phase == 1:
                words = f"{mode} mode, phase"
                axes.text(place, above - 0.34, words, fontsize=8.5, va="center", color=INK)
        for place, words in zip(ends, ("paper", "practical", *(f"Newton {n}" for n in budgets)), strict=True):
            axes.text(place + 0.25, above - 0.12, words, **{**small, "fontsize": 6}, color=INK)
        axes.text(ends[0], above - 0.34, "succeed (Newton: at floors)", fontsize=8.5, va="center", color=INK)
        _key(axes)
        for line, row in enumerate(rows):
            top = above + height * line
            first = line == 0 or rows[line - 1]["violation"] != row["violation"]
            if first:
                axes.plot([0.05, ends[-1] + 0.5], [top, top], color=FAINT, linewidth=0.5, zorder=5)
            _row_label(axes, row, top + height / 2, left, first=first)
            for place, (mode, phase) in zip(places, columns, strict=True):
                words, level = _cell(rows, row, mode, phase)
                _box(axes, (place, top, wide, height), words, level)
            for place, (share, of) in zip(ends, _ended(every, row, budgets), strict=True):
                if of:
                    _box(axes, (place, top, 0.5, height), f"{share}/{of}", round(64 * (1 - share / of)))
        return paper_figure(
            figure,
            "Error of every phase over that on nice layers, by the condition violated, and how many runs succeed",
        )


def _key(axes: Any) -> None:
    axes.text(
        0.05, 0.14, "Error of a phase over the baseline's median (median of runs):", fontsize=8.5, va="center"
    )
    for place, ratio in enumerate((1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)):
        _box(axes, (3.95 + 0.43 * place, 0.04, 0.43, 0.2), f"{ratio:g}", _level(ratio))
    words = "end: by here most runs have ended with a failure; empty: less than half of the runs get so far"
    axes.text(0.05, 0.42, words, fontsize=8.5, va="center", color=FAINT)


def _row_label(axes: Any, row: Row, middle: float, left: float, *, first: bool) -> None:
    name = row["violation"] if row["violation"] != NICE else f"nothing, {row['heads']} heads"
    if first or row["violation"] == NICE:
        axes.text(0.08, middle, name, fontsize=8, va="center", color=INK)
    if row["violation"] != NICE:
        axes.text(left - 0.12, middle, f"{row['step']:g}", fontsize=8, va="center", ha="right", color=INK)


def _level(ratio: float) -> int:
    return round(64 * min(max(math.log(max(ratio, 1e-300)) / math.log(_STRONGEST), 0.0), 1.0))


def _cell(rows: Sequence[Row], row: Row, mode: str, phase: int) -> tuple[str, int]:
    """What a phase did in the runs of a cell, as text and as a colour; nothing once most runs have ended."""
    if mode not in row["modes"] or ends_by(row, mode, phase - 1):
        return "", 0
    if ends_by(row, mode, phase):
        return "end", 64
    ratio = phase_ratio(rows, row, mode, phase)
    if ratio is None:
        return "", 0
    return (f"{ratio:.2g}" if ratio < 10 else f"{min(ratio, 1e4):.0f}"), _level(ratio)


def _ended(rows: Sequence[Row], row: Row, budgets: Sequence[int]) -> list[tuple[int, int]]:
    paper, newton = row.get("paper", []), newton_budgets(rows, row)
    return [
        (sum(run["failed"] is None for run in paper), len(paper)),
        (exact_runs(row), len(row["practical"])) if "practical" in row["modes"] else (0, 0),
        *(newton_exact(newton[floors]) if floors in newton else (0, 0) for floors in budgets),
    ]


def _box(axes: Any, box: tuple[float, float, float, float], words: str, level: int) -> None:
    from matplotlib.patches import Rectangle

    left, top, wide, high = box
    colour = heat_colours()[level] if words else "none"
    axes.add_patch(Rectangle((left, top), wide - 0.015, high - 0.015, facecolor=colour, linewidth=0))
    ink = ON_STRONG if is_strong(level) else INK
    axes.text(left + wide / 2, top + high / 2, words, fontsize=7.5, ha="center", va="center", color=ink)
