"""What the study of agreement found, as a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._agreement_words import (
    FRACTIONS,
    Points,
    half_widths,
    lattice_law,
    mean_ratio,
    points_of,
    spacing,
)
from arena.studies.study import Row

__all__ = ["draw_agreement"]

_MARKERS: Mapping[str, Any] = {"lattice": {"fillstyle": "none", "markeredgewidth": 1.2}, "signs": {}}
_LEAST = 1e-3  # shown in place of no agreement at all, which a logarithm cannot show


def draw_agreement(rows: Sequence[Row]) -> PaperFigure:
    points = points_of(rows)
    dims = sorted({dim for *_, dim in points})
    with canvas(8.4, 3.4) as figure:
        generic, deficit, lattice = (axes_in(figure, (left, 0.15, 0.25, 0.53)) for left in (0.06, 0.4, 0.74))
        _draw_generic(generic, points, dims)
        _draw_deficit(deficit, points, dims)
        _draw_lattice(lattice, points, dims)
        legend_above(figure, columns=5)
        return paper_figure(
            figure,
            "How much more often generic heads agree than by a normal law, against the tolerance and at the largest "
            "tolerance against d, and the ratio of agreement to the law against the tolerance for heads on a lattice, "
            "with that of the points of the lattice",
        )


def _draw_generic(axes: Any, points: Points, dims: Sequence[int]) -> None:
    """With bars of the interval, and d side by side."""
    for (heads, inputs, dim), those in points.items():
        if (heads, inputs) != ("generic", "boolean"):
            continue
        place = dims.index(dim)
        aside = np.array(FRACTIONS) * 1.22 ** (place - (len(dims) - 1) / 2)
        off, bar = 100 * (mean_ratio(those) - 1), 100 * half_widths(those)
        look = {**line_look(place), "linestyle": "", "linewidth": 0.0, "markersize": 4.0}
        axes.errorbar(aside, off, yerr=bar, **look, elinewidth=0.9, ecolor=look["color"], label=f"d = {dim}")
    axes.set_xscale("log")
    axes.set_xlim(min(FRACTIONS) / 2, 2 * max(FRACTIONS))
    decade_ticks(axes.xaxis, min(FRACTIONS), max(FRACTIONS))
    axes.axhline(0, color=FAINT, linewidth=0.9)
    _named(axes, "tolerance, in units of 1/√d", "generic: agreement off the law, %")


def _draw_deficit(axes: Any, points: Points, dims: Sequence[int]) -> None:
    for place, (inputs, words) in enumerate(
        (("boolean", "generic, Boolean tokens"), ("gaussian", "Gaussian (a check)"))
    ):
        own = {
            dim: those for (heads, one, dim), those in points.items() if (heads, one) == ("generic", inputs)
        }
        if own:
            off = [100 * (mean_ratio(those)[0] - 1) for those in own.values()]
            bar = [100 * half_widths(those)[0] for those in own.values()]
            aside = [dim * (1.06 if place else 0.94) for dim in own]
            look = {
                "color": FAINT if place else "#5d6875",
                "marker": "s" if place else "o",
                "markersize": 4.0,
            }
            axes.errorbar(aside, off, yerr=bar, linestyle="", elinewidth=0.9, **look, label=words)
    dimension_axis(axes, dims)
    axes.set_xlim(dims[0] / 1.3, dims[-1] * 1.3)
    axes.axhline(0, color=FAINT, linewidth=0.9)
    _named(axes, "d", "the same at 1/√d, %")


def _draw_lattice(axes: Any, points: Points, dims: Sequence[int]) -> None:
    shown, across = [1.0], [1.0]
    for (heads, inputs, dim), those in points.items():
        between = spacing(heads, dim)
        if inputs != "boolean" or between is None:
            continue
        within = np.array(FRACTIONS) / np.sqrt(dim) / between
        ratio = np.maximum(mean_ratio(those), _LEAST)
        look = line_look(dims.index(dim))
        edge = {"markeredgecolor": look["color"]} if heads == "lattice" else {}
        axes.plot(within, ratio, **{**look, "linestyle": "", **_MARKERS[heads], **edge})
        shown += ratio.tolist()
        across += within.tolist()
    fine = np.geomspace(min(across) / 1.3, 1.3 * max(across), 800)
    axes.plot(
        fine, [lattice_law(one) for one in fine], color="#5d6875", linewidth=0.9, label="lattice points"
    )
    axes.plot([], [], color="#5d6875", linestyle="", marker="o", label="signs")
    axes.plot(
        [], [], color="#5d6875", linestyle="", marker="o", **_MARKERS["lattice"], label="quarter lattice"
    )
    for way, values in (("x", across), ("y", shown)):
        low, high = decade_limits(values)
        getattr(axes, f"set_{way}scale")("log")
        getattr(axes, f"set_{way}lim")(low, high)
        decade_ticks(getattr(axes, f"{way}axis"), low, high)
    _named(axes, "tolerance / spacing of the gaps", "lattices: agreement / law")


def _named(axes: Any, below: str, above: str) -> None:
    name_axes(axes, below, "")
    axes.set_title(above, fontsize=9, loc="left")
