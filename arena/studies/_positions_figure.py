"""What the study of positions found, as a figure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks
from arena.studies._positions_words import CENTRED, NAMES, RAW, newton_rows, rows_of, tokens_in
from arena.studies.study import Row

__all__ = ["draw_positions"]

_LEAST = 1e-16  # shown in place of an error of zero


def draw_positions(rows: Sequence[Row]) -> PaperFigure:
    """Errors of phase 1, of the span, of the most tokens measured, and of Newton and Adam against the scale."""
    scales = sorted({float(row["scale"]) for row in rows})
    most = max(tokens_in(rows, "phases"), default=None)
    phases = rows_of(rows, "phases", most)
    named = "" if most is None else f", k = {most}"
    with canvas(9.0, 3.7) as figure:
        panels = [axes_in(figure, (left, 0.15, 0.255, 0.6)) for left in (0.06, 0.395, 0.73)]
        for axes, what, title in zip(
            panels[:2],
            ("crude", "span"),
            (f"error of phase 1{named}", f"error of the span{named}"),
            strict=True,
        ):
            for way, dashed in ((RAW, False), (CENTRED, True)):
                _lines(axes, phases, scales, _value(what, way), dashed=dashed)
            _finish(axes, scales, title)
        fewest = min(
            (*tokens_in(rows, "newton"), *tokens_in(rows, "adam")), default=None
        )  # Adam has only these
        for part, dashed in (("newton", False), ("adam", True)):
            here = newton_rows(rows, tokens=fewest) if part == "newton" else rows_of(rows, part, fewest)
            _lines(panels[2], here, scales, _value("error"), dashed=dashed)
        _finish(panels[2], scales, "Newton and Adam" + ("" if fewest is None else f", k = {fewest}"))
        _styles(panels[0])
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "Errors of phase 1, of the span and of Newton and Adam against the scale of the positions, by their kind",
        )


def _value(what: str, way: str = "") -> Callable[[Row], Any]:
    return lambda row: row[what][way] if way else row[what]


def _lines(
    axes: Any, rows: Sequence[Row], scales: Sequence[float], value: Callable[[Row], Any], *, dashed: bool
) -> None:
    style = (0, (3, 2)) if dashed else "-"
    for place, kind in enumerate(NAMES):
        look = {**line_look(place), "linestyle": style}
        points = []
        for scale in scales:
            here = [row for row in rows if row["scale"] == scale and row["kind"] in (kind, "none")]
            if not here or not any(row["kind"] == kind for row in rows):
                continue
            values = [1.0 if value(row) is None else max(float(value(row)), _LEAST) for row in here]
            points.append((scales.index(scale), float(np.median(values))))
            axes.vlines(points[-1][0], min(values), max(values), color=look["color"], linewidth=0.7, zorder=3)
        if points:
            axes.plot(*zip(*points, strict=True), **look, label="" if dashed else NAMES[kind])


def _styles(axes: Any) -> None:
    axes.plot([], [], color=FAINT, linewidth=1.3, linestyle="-", label="as it is; Newton")
    axes.plot([], [], color=FAINT, linewidth=1.3, linestyle=(0, (3, 2)), label="centred; Adam")


def _finish(axes: Any, scales: Sequence[float], title: str) -> None:
    axes.set_yscale("log")
    heights = [float(height) for line in axes.lines for height in line.get_ydata()]
    low, high = decade_limits(heights or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    axes.set_xticks(range(len(scales)), [f"{scale:g}" for scale in scales])
    axes.set_xlim(-0.3, max(len(scales), 1) - 0.7)
    axes.set_xlabel("scale of the positions", loc="left")
    axes.set_title(title, fontsize=9, loc="left")
