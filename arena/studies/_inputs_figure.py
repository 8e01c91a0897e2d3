"""The figure of the study of token laws: Newton's exact fits by size, the phases in both modes, and Adam."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._inputs_measures import LAWS
from arena.studies._inputs_rows import (
    CONFIDENCE,
    MEASURES,
    exact_fits,
    floors_of,
    median,
    of_learner,
    size_of,
)
from arena.studies.study import Row
from paper_checks import proportion_interval

__all__ = ["draw_inputs"]

_DASHES: Mapping[str, Any] = {"crude": (0, (1, 1.5)), "refined": (0, (5, 2)), "span": "-"}
_SIZES = 3  # of Newton, for which there is place


def draw_inputs(rows: Sequence[Row]) -> PaperFigure:
    """Newton above, a panel a size; below the phases, paper mode and Adam."""
    with canvas(8.6, 5.4) as figure:
        boxes = [(0.055 + 0.325 * place, 0.545, 0.265, 0.295) for place in range(_SIZES)]
        sizes = sorted({size_of(row) for row in of_learner(rows, "newton")})[:_SIZES]
        for box, size in zip(boxes, sizes, strict=False):
            _draw_newton(axes_in(figure, box), [row for row in rows if size_of(row) == size], size)
        lower = [(left, 0.085, width, 0.295) for left, _, width, _ in boxes]
        phases, paper, adam = (axes_in(figure, box) for box in lower)
        _draw_phases(phases, rows)
        _draw_paper(paper, rows)
        _draw_adam(adam, rows)
        _keys(phases)
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "Newton's exact fits by size, the phases' errors in both modes and Adam's error with Boolean, Gaussian, "
            "sphere and slice tokens",
        )


def _look(law: int, dashes: Any = "-") -> dict[str, Any]:
    """Colour and mark say the law; dashes say what is measured, or nothing."""
    return {**line_look(law), "linestyle": dashes}


def _keys(axes: Any) -> None:
    """What colours and dashes mean, once for all panels."""
    for number, words in enumerate(LAWS.values()):
        axes.plot([], [], **_look(number), label=words)
    for name, dashes in _DASHES.items():
        axes.plot(
            [], [], color="0.4", linestyle=dashes, linewidth=1.3, label=f"practical mode: {MEASURES[name]}"
        )


def _draw_newton(axes: Any, rows: Sequence[Row], size: tuple[int, int, int]) -> None:
    there = of_learner(rows, "newton")
    places = sorted({floors_of(row) for row in there})
    for number, law in enumerate(LAWS):
        points = []
        for floors in places:
            exact, total = exact_fits(
                [row for row in there if (row["inputs"], floors_of(row)) == (law, floors)]
            )
            if total:
                interval = proportion_interval(exact, total, confidence=CONFIDENCE)
                points.append((floors, interval.estimate, interval.low, interval.high))
        if points:
            at, share, low, high = np.array(points).T
            shifted = at * 1.025 ** (number - 1.5)  # side by side, so that the bars can be told apart
            axes.errorbar(shifted, share, [share - low, high - share], **_look(number), capsize=2)
    dimension_axis(axes, places or [1.0])
    axes.set_ylim(-0.04, 1.04)
    name_axes(axes, "examples / counting floor", "")
    draws = max((len(row["error"]) for row in there), default=0)
    title = f"Newton exact, m, k, d = {', '.join(map(str, size))}: {draws} layers"
    axes.set_title(title, fontsize=9, loc="right")


def _draw_phases(axes: Any, rows: Sequence[Row]) -> None:
    there = of_learner(rows, "phases")
    dim = max((row["dim"] for row in there), default=0)
    drawn: list[float] = []
    for number, law in enumerate(LAWS):
        for name, dashes in _DASHES.items():
            points = sorted(
                (row["examples"], median(row[name]))
                for row in there
                if (row["dim"], row["inputs"]) == (dim, law)
            )
            shown = [(at, error) for at, error in points if error is not None]
            if shown:
                axes.plot(*zip(*shown, strict=True), **_look(number, dashes))
                drawn += [error for _, error in shown]
    _scaled(axes, sorted({row["examples"] for row in there if row["dim"] == dim}) or [1], drawn)
    name_axes(axes, "examples", "")
    axes.set_title(f"practical mode, d = {dim}: relative error", fontsize=9, loc="right")


def _draw_paper(axes: Any, rows: Sequence[Row]) -> None:
    """Every layer of paper mode, its median as a line: crude sum, refined sum and span."""
    there = of_learner(rows, "paper")
    drawn: list[float] = []
    for row in there:
        number = list(LAWS).index(row["inputs"])
        look = _look(number, "none")
        for place, name in enumerate(_DASHES):
            errors = [error for error in row[name] if error is not None]
            if errors:
                at = place + 0.17 * (number - 1.5)
                axes.plot([at] * len(errors), errors, **{**look, "markersize": 3.5})
                axes.hlines(
                    float(np.median(errors)), at - 0.08, at + 0.08, color=look["color"], linewidth=1.3
                )
                drawn += errors
    axes.set_xlim(-0.6, len(_DASHES) - 0.4)
    axes.set_xticks(range(len(_DASHES)), list(_DASHES))
    _heights(axes, drawn)
    dim = max((row["dim"] for row in there), default=0)
    axes.set_title(f"paper mode, d = {dim}: relative error", fontsize=9, loc="right")


def _draw_adam(axes: Any, rows: Sequence[Row]) -> None:
    there = of_learner(rows, "adam")
    drawn: list[float] = []
    for number, law in enumerate(LAWS):
        points = sorted(
            (row["examples"], float(np.median(row["error"]))) for row in there if row["inputs"] == law
        )
        if points:
            axes.plot(*zip(*points, strict=True), **_look(number))
            drawn += [error for _, error in points]
    _scaled(axes, sorted({row["examples"] for row in there}) or [1], drawn)
    name_axes(axes, "fresh examples", "")
    dim = max((row["dim"] for row in there), default=0)
    axes.set_title(f"Adam, d = {dim}: relative error", fontsize=9, loc="right")


def _scaled(axes: Any, places: Sequence[int], values: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter

    dimension_axis(axes, places)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:.3g}k" if x >= 1000 else f"{x:g}"))
    _heights(axes, values)


def _heights(axes: Any, values: Sequence[float]) -> None:
    axes.set_yscale("log")
    low, high = decade_limits([value for value in values if value > 0] or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
