"""What the figures of the six phases share: axes, names, ticks and colours."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from arena._canvas import power_of_ten
from arena.palette import FAINT, learner_colours

__all__ = [
    "MAIN",
    "OTHER",
    "THIRD",
    "axes_in",
    "decade_limits",
    "decade_ticks",
    "legend_above",
    "name_axes",
    "widened",
]

MAIN, OTHER, THIRD = learner_colours()[0], learner_colours()[3], learner_colours()[4]
"""The newest, what came before, and a third thing, in colours that the page replaces in the dark."""


def axes_in(figure: Any, box: tuple[float, float, float, float], *, grid: bool = True) -> Any:
    """Axes of the house's style in a box of the figure, in fractions of it."""
    axes = figure.add_axes(box)
    axes.tick_params(which="both", length=0, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.set_axisbelow(True)
        axes.grid(visible=True, which="major", color=FAINT, alpha=0.22, linewidth=0.7)
    return axes


def name_axes(axes: Any, below: str, above: str) -> None:
    """The vertical axis is named above it: upright its name would need width that a phone lacks."""
    axes.set_xlabel(below, loc="left")
    if above:
        left = -axes.get_position().x0 / axes.get_position().width
        there = {
            "xy": (left, 1.0),
            "xytext": (3, 9),
            "xycoords": "axes fraction",
            "textcoords": "offset points",
        }
        axes.annotate(above, **there, ha="left", va="center")


def legend_above(figure: Any, *, columns: int = 1) -> None:
    """The legend of the first axes, above them."""
    (axes, *_) = figure.axes
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "upper left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    figure.legend(
        handles,
        labels,
        **place,
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=2.0,
        columnspacing=1.2,
        labelspacing=0.3,
    )


def widened(axes: Any, values: np.ndarray) -> tuple[float, float]:
    """Limits of the vertical axis around values, set and returned."""
    low, high = decade_limits([float(value) for value in values if math.isfinite(value)] or [1.0])
    axes.set_ylim(low, high)
    return low, high


def decade_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis around values, with a power of ten within."""
    low, high = math.log10(min(values)) - 0.25, math.log10(max(values)) + 0.25
    if math.floor(high) < math.ceil(low):
        low, high = math.floor(low) - 0.05, math.ceil(high) + 0.05
    return 10.0**low, 10.0**high


def decade_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks at powers of ten, seven at most."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // 7))
    axis.set_major_locator(FixedLocator([10.0**exponent for exponent in range(first, last + 1, step)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(round(math.log10(value)))))
    axis.set_minor_locator(NullLocator())
