"""The figure of the study of weightings: bias, span error, and what a descent reaches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure, scales
from arena.phase_axes import axes_in, decade_limits, decade_ticks
from arena.studies._weightings_rows import NAMES, chosen, exact_share, largest_shape
from arena.studies.study import Row
from paper_checks import proportion_interval

__all__ = ["draw_weightings"]


def draw_weightings(rows: Sequence[Row]) -> PaperFigure:
    """Three panels side by side, the ones without rows left empty."""
    with canvas(9.0, 3.5) as figure:
        _bias(axes_in(figure, (0.055, 0.15, 0.24, 0.62)), rows)
        _span(axes_in(figure, (0.375, 0.15, 0.24, 0.62)), rows)
        _success(axes_in(figure, (0.735, 0.15, 0.235, 0.62)), rows)
        legend_above(figure, columns=6)
        return paper_figure(
            figure,
            "Bias of phase 1 against d, error of the span against the share of rows accepted, and the share of exact "
            "descents, by weighting",
        )


def _bias(axes: Any, rows: Sequence[Row]) -> None:
    here = chosen(rows, "bias", tokens=2, heads=2)
    # a bias within its noise has no place on a logarithm
    medians = {
        (name, dim): max(
            float(np.median([row["bias"] for row in chosen(here, "bias", weighting=name, dim=dim)])), 1e-3
        )
        for name in NAMES
        for dim in sorted({row["dim"] for row in here if row["weighting"] == name})
    }
    for place, name in enumerate(NAMES):
        dims = [dim for one, dim in medians if one == name]
        if dims:
            axes.plot(dims, [medians[name, dim] for dim in dims], **line_look(place), label=NAMES[name])
    if medians:
        scales(axes, [dim for _, dim in medians], list(medians.values()))
    _named(axes, "d", "bias of phase 1, m = k = 2")


def _span(axes: Any, rows: Sequence[Row]) -> None:
    here = chosen(rows, "hull", heads=2, tokens=2, dim=16) or chosen(
        rows, "hull", **largest_shape(rows, "hull")
    )
    values, shares = [], sorted({row["accept"] for row in here})
    for place, name in enumerate(NAMES):
        points = []
        for accept in shares:
            errors = [row["span"] for row in chosen(here, "hull", weighting=name, accept=accept)]
            if errors:
                points.append((accept, float(np.median(errors))))
                axes.vlines(accept, min(errors), max(errors), color=line_look(place)["color"], linewidth=0.8)
                values += errors
        if points:
            axes.plot(*zip(*points, strict=True), **line_look(place), label=NAMES[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = decade_limits(values or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    if shares:
        _percent_axis(axes, shares)
    shape = f" ({here[0]['heads']},{here[0]['tokens']},{here[0]['dim']})" if here else ""
    _named(axes, "share of rows accepted", f"error of the span{shape}")


def _percent_axis(axes: Any, shares: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xlim(min(shares) / 1.3, max(shares) * 1.3)
    axes.xaxis.set_major_locator(FixedLocator(list(shares)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.xaxis.set_minor_locator(NullLocator())


def _success(axes: Any, rows: Sequence[Row]) -> None:
    shape = largest_shape(rows, "descent")
    here = chosen(rows, "descent", **shape)
    names = [name for name in NAMES if any(row["weighting"] == name for row in here)]
    floors = sorted({row["floors"] for row in here})
    for place, name in enumerate(NAMES):
        if name not in names:
            continue
        for turn, floor in enumerate(floors):
            hits, trials = exact_share(chosen(here, "descent", weighting=name, floors=floor))
            if trials == 0:
                continue
            interval = proportion_interval(hits, trials, confidence=0.95)
            height = -names.index(name) - 0.3 * (turn - (len(floors) - 1) / 2)
            look = line_look(place)
            axes.hlines(height, interval.low, interval.high, color=look["color"], linewidth=1.0, zorder=3)
            axes.plot([interval.estimate], [height], **{**look, "linestyle": "none"})
            axes.annotate(
                str(floor),
                (1.0, height),
                xytext=(6, 0),
                textcoords="offset points",
                fontsize=7,
                va="center",
                color=FAINT,
                annotation_clip=False,
            )
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-max(len(names), 1) + 0.4, 0.6)
    axes.set_yticks([-number for number in range(len(names))], [NAMES[name] for name in names])
    at = f" ({shape['heads']},{shape['tokens']},{shape['dim']})" if shape else ""
    _named(axes, "share of exact descents", f"by the examples, in floors{at}")


def _named(axes: Any, below: str, above: str) -> None:
    axes.set_xlabel(below, loc="left")
    axes.set_title(above, fontsize=9, loc="left")
