"""Figures of lines: one or several axes side by side, one legend."""

import math
from collections.abc import Mapping, Sequence
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
    name_axes,
)

__all__ = ["Panel", "curve_of", "decade_axis", "line_figure", "number_text", "title_axes"]

_LEAST = 1e-32  # squared rounding errors stay visible


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its curves.

    Attributes
    ----------
    x_label, y_label : str
        Names of the axes.
    curves : mapping of str to (sequence of float, sequence of float)
        The points of each curve, by its name in the legend. The same name looks the same in every panel.
    log_x, log_y : bool
        Whether the axis is logarithmic. Values below 1e-32 are then drawn at 1e-32.
    marks_only : bool
        Whether points are drawn without lines.
    verticals : sequence of float
        Where dotted vertical lines are drawn.
    """

    x_label: str
    y_label: str
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = True
    marks_only: bool = False
    verticals: Sequence[float] = field(default=())


def line_figure(panels: Sequence[Panel]) -> Any:
    """Draw panels side by side; a curve without a point is left out, and so is a panel without a curve.

    Parameters
    ----------
    panels : sequence of Panel
        From left to right.

    Returns
    -------
    matplotlib.figure.Figure
        6.2 inches wide for one panel, 4.6 inches more for each other one.

    Raises
    ------
    ValueError
        If a panel has curves and no finite point.
    """
    panels = [
        replace(panel, curves={label: curve for label, curve in panel.curves.items() if len(curve[0])})
        for panel in panels
    ]
    panels = [panel for panel in panels if panel.curves]
    labels = list(dict.fromkeys(label for panel in panels for label in panel.curves))
    width = 1.6 + 4.6 * len(panels)
    columns = max(1, int(72 * width / (38 + 5.2 * max(map(len, labels), default=0))))
    top = 0.86 - 0.055 * -(-len(labels) // columns)
    with canvas(width, 3.7) as figure:
        for place, panel in enumerate(panels):
            left = (place + 0.12) / len(panels)
            axes = axes_in(figure, (left, 0.13, 0.84 / len(panels), top - 0.13))
            _draw(axes, panel, labels)
        legend_above(figure, columns=columns)
        return figure


def curve_of(points: Mapping[float, float | None]) -> tuple[list[float], list[float]]:
    """The curve of a value by place, in the order of the places; places without a value are left out.

    Examples
    --------
    >>> curve_of({8.0: 0.1, 4.0: 0.3, 6.0: None})
    ([4.0, 8.0], [0.3, 0.1])
    """
    there = [(at, value) for at, value in sorted(points.items()) if value is not None]
    return [at for at, _ in there], [value for _, value in there]


def decade_axis(axis: Any, values: Sequence[float]) -> None:
    """Make an axis logarithmic around values, with ticks at powers of ten."""
    low, high = decade_limits(values)
    across = axis.axis_name == "x"
    (axis.axes.set_xscale if across else axis.axes.set_yscale)("log")
    (axis.axes.set_xlim if across else axis.axes.set_ylim)(low, high)
    decade_ticks(axis, low, high)


def title_axes(axes: Any, below: str, above: str) -> None:
    """Write the name of the horizontal axis below it, and that of the vertical axis above the axes."""
    name_axes(axes, below, "")
    axes.set_title(above, loc="left", fontsize=9.5)


def number_text(value: Any) -> str:
    """An entry of a table, numbers to three digits.

    Examples
    --------
    >>> [number_text(value) for value in (None, 1152, 0.25, 3.3786, 1e-13, 0.0, "Haar")]
    ['-', '1152', '0.25', '3.38', '1.0e-13', '0', 'Haar']
    """
    if value is None:
        return "-"
    if not isinstance(value, float) or value == 0:
        return "0" if isinstance(value, float) else str(value)
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"


def _draw(axes: Any, panel: Panel, labels: Sequence[str]) -> None:
    x = [value for xs, _ in panel.curves.values() for value in xs]
    y = [value for _, ys in panel.curves.values() for value in ys if math.isfinite(value)]
    if not y:
        raise ValueError(f"The panel of {panel.y_label} has no point to draw.")
    for label, (xs, ys) in panel.curves.items():
        look = line_look(labels.index(label))
        if panel.marks_only:
            look["linestyle"] = "none"
        axes.plot(xs, np.maximum(ys, _LEAST) if panel.log_y else ys, label=label, clip_on=False, **look)
    if panel.log_y:
        decade_axis(axes.yaxis, [max(value, _LEAST) for value in y])
    else:
        axes.set_ylim(min(0.0, min(y)), 1.06 * max(y) or 1.0)
    if panel.log_x:
        dimension_axis(axes, x)
    for where in panel.verticals:
        axes.axvline(where, color=FAINT, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
    title_axes(axes, panel.x_label, panel.y_label)
