"""Figures of lines: one or several axes side by side, one legend."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from runs.figures import (
    FAINT,
    axes_in,
    canvas,
    decade_limits,
    decade_ticks,
    dimension_axis,
    legend_above,
    line_look,
)

_LEAST = 1e-32  # squared rounding errors stay visible
_BOUND = {"color": FAINT, "linewidth": 4.0, "alpha": 0.4, "marker": "_", "zorder": 2}
_DASHES = ((1, 0), (1, 1.5), (6, 2))  # of bounds
_ROW, _BELOW, _ABOVE = 3.3, 0.5, 0.5  # inches: a row of panels, and the room for titles in it


Curve = Iterable[tuple[float, float | None]]
"""Places, each with its value; places without a value are left out."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its curves.

    Attributes
    ----------
    x_label, y_label : str
        Names of the axes.
    curves : mapping of str to (iterable of pairs of float)
        The points of each curve, by its name in the legend. The same name looks the same in every panel.
    log_x, log_y : bool
        Whether the axis is logarithmic. Values below 1e-32 are then drawn at 1e-32.
    bounds : mapping of str to (iterable of pairs of float)
        Curves that are no measurements: grey lines without marks.
    verticals, horizontals : sequence of float
        Where dotted lines are drawn.
    ticks : mapping of int to str
        The texts at places of the horizontal axis, instead of numbers.
    """

    x_label: str
    y_label: str
    curves: Mapping[str, Curve]
    log_x: bool = False
    log_y: bool = True
    bounds: Mapping[str, Curve] = field(default_factory=dict)
    verticals: Sequence[float] = ()
    horizontals: Sequence[float] = ()
    ticks: Mapping[int, str] = field(default_factory=dict)


def line_figure(panels: Sequence[Panel], *, columns: int | None = None) -> Any:
    """Draw panels side by side; a curve without a point is left out, and so is a panel without a curve.

    Parameters
    ----------
    panels : sequence of Panel
        From left to right, row by row.
    columns : int, optional
        How many stand in a row; by default all do.

    Returns
    -------
    matplotlib.figure.Figure
        6.2 inches wide for one column, 4.6 inches more for each other one.

    Raises
    ------
    ValueError
        If a panel has curves and no finite point.
    """
    panels = [
        replace(panel, curves=_with_points(panel.curves), bounds=_with_points(panel.bounds))
        for panel in panels
    ]
    panels = [panel for panel in panels if panel.curves]
    names = list(dict.fromkeys(label for panel in panels for label in panel.curves))
    looks = {label: line_look(place) for place, label in enumerate(names)}
    bounds = dict.fromkeys(label for panel in panels for label in panel.bounds)
    looks |= {label: _BOUND | {"dashes": _DASHES[place % 3]} for place, label in enumerate(bounds)}
    columns = min(columns or len(panels), len(panels)) or 1
    rows, width = -(-len(panels) // columns), 1.6 + 4.6 * columns
    named = max(1, int(72 * width / (38 + 5.2 * max(map(len, looks), default=0))))
    height = 0.2 * -(-len(looks) // named) + _ROW * max(1, rows)
    with canvas(width, height) as figure:
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            below = (_ROW * (rows - row - 1) + _BELOW) / height
            box = ((column + 0.12) / columns, below, 0.84 / columns, (_ROW - _BELOW - _ABOVE) / height)
            _draw(axes_in(figure, box), panel, looks)
        legend_above(figure, columns=named)
        return figure


def _with_points(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """The places and the values, in the order of the places, of the curves that have some."""
    points = {
        label: sorted(point for point in curve if point[1] is not None) for label, curve in curves.items()
    }
    return {label: np.array(those, dtype=float).T for label, those in points.items() if those}


def _draw(axes: Any, panel: Panel, looks: Mapping[str, Mapping[str, Any]]) -> None:
    curves: dict[str, Any] = {**panel.bounds, **panel.curves}
    heights = [y for _, ys in curves.values() for y in ys if math.isfinite(y)]
    if not heights:
        raise ValueError(f"The panel of {panel.y_label} has no point to draw.")
    for label, (xs, ys) in curves.items():
        shown = np.maximum(ys, _LEAST) if panel.log_y else ys
        axes.plot(xs, shown, label=label, clip_on=False, **looks[label])
    if panel.log_y:
        low, high = decade_limits([max(y, _LEAST) for y in heights])
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        decade_ticks(axes.yaxis, low, high)
    else:
        axes.set_ylim(min(0.0, min(heights)), 1.06 * max(heights) or 1.0)
    if panel.ticks:
        axes.set_xticks(list(panel.ticks), list(panel.ticks.values()))
    elif panel.log_x:
        dimension_axis(axes, [x for xs, _ in curves.values() for x in xs])
    dotted = {"color": FAINT, "linewidth": 1.0, "linestyle": (0, (2, 2)), "zorder": 1}
    for x in panel.verticals:
        axes.axvline(x, **dotted)
    for y in panel.horizontals:
        axes.axhline(y, **dotted)
    axes.set_xlabel(panel.x_label, loc="left")
    axes.set_title(panel.y_label, loc="left", fontsize=9.5)  # above: a vertical name needs width
