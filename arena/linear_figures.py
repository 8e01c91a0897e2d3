"""The plots of experiments as figures of the house's style."""

import math

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT, INK
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from paper_checks.linear_attention import Plot

__all__ = ["draw_plot"]

_LEAST = 1e-32  # squares of rounding errors are to be seen
_COLUMNS = 4


def draw_plot(plot: Plot) -> PaperFigure:
    """A plot as SVG and PDF, the same for the same numbers.

    Parameters
    ----------
    plot : Plot
        Curves and their axes; on a logarithmic axis values below 1e-32, zero among them, are drawn at 1e-32.

    Returns
    -------
    PaperFigure
        To be saved or shown.

    Raises
    ------
    ValueError
        If there is no curve, or no finite point.
    """
    values = [y for curve in plot.curves for y in curve.y if math.isfinite(y)]
    places = [x for curve in plot.curves for x in curve.x if math.isfinite(x)]
    if not values or not places:
        raise ValueError(f"The plot {plot.name} has no point to draw.")
    with canvas(6.2, 3.7) as figure:
        rows = -(-len(plot.curves) // _COLUMNS)
        axes = axes_in(figure, (0.1, 0.13, 0.87, 0.76 - 0.055 * rows))
        for place, curve in enumerate(plot.curves):
            look = line_look(place)
            if curve.marks_only:
                look["linestyle"] = "none"
            y = np.asarray(curve.y)
            if plot.log_y:
                y = np.maximum(y, _LEAST)
            axes.plot(curve.x, y, label=curve.label, clip_on=False, **look)
        if plot.log_y:
            low, high = decade_limits([max(value, _LEAST) for value in values])
            axes.set_yscale("log")
            axes.set_ylim(low, high)
            decade_ticks(axes.yaxis, low, high)
        else:
            axes.set_ylim(min(0.0, min(values)), 1.06 * max(values) or 1.0)
        _horizontal(axes, plot, places)
        for name, where in plot.verticals.items():
            axes.axvline(where, color=FAINT, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate(
                name,
                (where, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -3),
                textcoords="offset points",
                color=INK,
                fontsize=8.5,
                va="top",
            )
        name_axes(axes, plot.x_label, plot.y_label)
        legend_above(figure, columns=_COLUMNS)
        return paper_figure(figure, plot.words)


def _horizontal(axes: object, plot: Plot, places: list[float]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    low, high = min(places), max(places)
    axis = axes.xaxis  # type: ignore[attr-defined]
    if not plot.log_x:
        room = 0.03 * (high - low) or 0.5
        axes.set_xlim(low - room, high + room)  # type: ignore[attr-defined]
        whole = all(place == int(place) for place in places)
        axis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=whole, min_n_ticks=1))
        return
    axes.set_xscale("log")  # type: ignore[attr-defined]
    room = (high / low) ** 0.04 if high > low else 1.5
    axes.set_xlim(low / room, high * room)  # type: ignore[attr-defined]
    if high / low >= 100:
        decade_ticks(axis, low / room, high * room)
    else:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_major_locator(_whole_places(sorted(set(places))))


def _whole_places(places: list[float]) -> object:
    """Ticks at the places that have room for their numbers."""
    from matplotlib.ticker import FixedLocator

    span = math.log(places[-1] / places[0]) or 1.0
    kept = [places[0]]
    for place in places[1:]:
        if math.log(place / kept[-1]) > 0.09 * span:
            kept.append(place)
    return FixedLocator(kept)
