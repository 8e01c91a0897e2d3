"""The figure of the study of noisy labels: errors against added noise, and against examples with classes for labels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._noise_rows import PHASES, floors_of, middle, of_kind, size_of
from arena.studies.study import Row

__all__ = ["draw_noise"]

_LAW = {"color": "0.5", "linestyle": (0, (4, 2)), "linewidth": 1.0, "zorder": 3}
_SHOWN_FLOORS = (4, 16, 64)
_DOTTED = (0, (1, 1.5))


def draw_noise(rows: Sequence[Row]) -> PaperFigure:
    """Two panels: added noise, and classes."""
    with canvas(8.1, 3.9) as figure:
        left = axes_in(figure, (0.07, 0.13, 0.41, 0.59))
        right = axes_in(figure, (0.56, 0.13, 0.41, 0.59))
        _added(left, rows)
        _classes(right, rows)
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "The error of learners against noise added to the labels, and against examples with classes for labels",
        )


def _added(axes: Any, rows: Sequence[Row]) -> None:
    levels = sorted({row["level"] for row in rows if row["kind"] != "sampled" and row["level"] > 0}) or [0.1]
    drawn: list[float] = []

    sizes: set[tuple[int, int, int]] = set()

    def line(place: int, label: str, chosen: Sequence[Row], name: str) -> None:
        points = sorted((row["level"], middle(row[name])) for row in chosen if row["level"] > 0)
        shown = [(level, error) for level, error in points if error is not None]
        if shown:
            axes.plot(*zip(*shown, strict=True), **line_look(place), label=label)
            drawn.extend(error for _, error in shown)
            sizes.update(map(size_of, chosen))

    def law(chosen: Sequence[Row], label: str | None) -> None:
        there = sorted((row["level"], _simple_law(row)) for row in chosen if row["level"] > 0)
        axes.plot(*zip(*there, strict=True), **_LAW, label=label)

    for place, members in enumerate(_newton_lines(rows)):
        line(place, f"Newton, {members[0]['examples']} examples", members, "error")
        law(members, "simple law, Cramer-Rao bound" if place == 0 else None)
    for place, (name, words) in enumerate(PHASES.items(), start=2):
        line(place, f"phases: {words}", of_kind(rows, "phases"), name)
    for place, kind, words in ((5, "adam", "Adam"), (6, "linear", "linear")):
        there = of_kind(rows, kind)
        if there:
            line(place, f"{words}, {there[0]['examples']} examples", there, "error")
    if of_kind(rows, "adam"):
        law(of_kind(rows, "adam"), None)
    _scaled(axes, levels, drawn)
    decade_ticks(axes.xaxis, levels[0], levels[-1])
    name_axes(axes, "noise s, in units of the labels", "relative error")
    axes.set_title(_titled("added noise", sizes), fontsize=9, loc="right")


def _simple_law(row: Row) -> float:
    m, k, d = size_of(row)
    return float(row["level"] * np.sqrt(2 * m * d / (row["examples"] * k)))


def _titled(words: str, sizes: Iterable[tuple[int, int, int]]) -> str:
    """The words with the numbers m, k and d, where they are the same for all that is shown."""
    there = set(sizes)
    return f"{words}, m, k, d = {', '.join(map(str, *there))}" if len(there) == 1 else words


def _newton_lines(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of the size with most levels of noise, the largest of those, by floors: two at most."""
    by_size: dict[tuple[int, int, int], list[Row]] = {}
    for row in sorted(of_kind(rows, "newton"), key=lambda row: float(row["level"])):
        by_size.setdefault(size_of(row), []).append(row)
    if not by_size:
        return []
    most = max(by_size, key=lambda size: (len({row["level"] for row in by_size[size]}), size[2]))
    shown = sorted({floors_of(row) for row in by_size[most]} & set(_SHOWN_FLOORS))[:2]
    return [[row for row in by_size[most] if floors_of(row) == floors] for floors in shown]


def _classes(axes: Any, rows: Sequence[Row]) -> None:
    there = of_kind(rows, "sampled")
    there = [row for row in there if row["dim"] == min(one["dim"] for one in there)]
    gains = sorted({row["level"] for row in there})
    gains = sorted({min(gains, key=lambda gain: abs(gain - 1.0)), gains[-1]}) if gains else []
    drawn: list[float] = []
    for place, gain in enumerate(gains, start=7):
        chosen = sorted((row for row in there if row["level"] == gain), key=lambda row: int(row["examples"]))
        places = [row["examples"] for row in chosen]
        for name, words in (("squared", "squared loss"), ("likelihood", "likelihood")):
            errors = np.array([np.median(row[name]) for row in chosen])
            below = errors - [min(row[name]) for row in chosen]
            above = np.array([max(row[name]) for row in chosen]) - errors
            look = {**line_look(place), "linestyle": "-" if name == "likelihood" else _DOTTED}
            axes.errorbar(places, errors, [below, above], **look, capsize=2, label=f"{words}, gain {gain:g}")
            drawn += errors.tolist()
        axes.plot(places, [np.median(row["likelihood_law"]) for row in chosen], **_LAW)
    _scaled(axes, sorted({row["examples"] for row in there}) or [1], drawn)
    name_axes(axes, "examples", "")
    axes.set_title(_titled("classes drawn by softmax", map(size_of, there)), fontsize=9, loc="right")


def _scaled(axes: Any, places: Sequence[Any], values: Sequence[float]) -> None:
    dimension_axis(axes, places)
    axes.set_yscale("log")
    low, high = decade_limits([value for value in values if value > 0] or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
