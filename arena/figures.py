"""The figures of a comparison as SVG text: a heat map of errors, and error against what it cost."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

from arena._canvas import canvas, power_of_ten, svg_text
from arena.palette import (
    CARD,
    FAINT,
    INK,
    LEAST_EXPONENT,
    ON_STRONG,
    ON_WEAK,
    heat_colours,
    heat_level,
    is_strong,
    learner_look,
)
from arena.results import Cell, Results
from arena.summary import Summary
from arena.words import family, in_order, printable, seeds_note, seeds_wanted, short_count, short_error

__all__ = ["LEAST_ERROR", "heat_map", "learning_curve"]

LEAST_ERROR = 1e-17
"""Errors below this, zero among them, are drawn here: a logarithm needs a place for them."""


def heat_map(results: Results) -> str:
    """Targets down, learners across, log10 of the median error on the unknown part, as SVG.

    Parameters
    ----------
    results : Results
        The comparison.

    Returns
    -------
    str
        The SVG, the same for the same results. Pairs that do not apply, failed, timed out or are missing bear no
        colour: each has its own hatch and says what it is.
    """
    targets, learners = in_order(results), results.learners
    secrets_from = sum(not target.has_secret for target in targets)
    gap, wanted = 0.22 if 0 < secrets_from < len(targets) else 0.0, seeds_wanted(results)
    rows, columns = max(len(targets), 1), max(len(learners), 4)
    with canvas(1.12 * (1.56 + columns), 1.35 + 0.62 * rows) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-1.5, columns + 0.06)
        axes.set_ylim(rows + gap + 1.32, -0.82)
        for place, learner in enumerate(learners):
            _text(axes, place + 0.5, -0.12, _fold(learner.title, 13), va="bottom", weight="bold")
        for row, target in enumerate(targets):
            top = row + (gap if row >= secrets_from else 0)
            title = _fold(target.title, 18, lines=2)
            _text(axes, -0.1, top + 0.4, title, ha="right")
            below = top + 0.55 + 0.14 * (1 + title.count("\n"))
            style = {"color": INK, "weight": "bold"} if target.has_secret else {"color": FAINT}
            _text(axes, -0.1, below, family(target), ha="right", fontsize=8.5, **style)
            for place, learner in enumerate(learners):
                _paint(axes, place, top, results.summary(target.name, learner.name), wanted)
        _scale(axes, columns, rows + gap + 0.42)
        return svg_text(figure)


def learning_curve(results: Results, target: str, against: Literal["examples", "seconds"]) -> str:
    """Error on the unknown part against what it cost, for every learner that ran on a target, as SVG.

    Parameters
    ----------
    results : Results
        The comparison.
    target : str
        The target's name.
    against : {"examples", "seconds"}
        What is on the horizontal axis.

    Raises
    ------
    ValueError
        If there is no such target or axis.
    """
    if against not in ("examples", "seconds"):
        raise ValueError(f"against is {against!r}: 'examples' and 'seconds' can be drawn.")
    results.target(target)
    lines = [
        (place, points)
        for place, learner in enumerate(results.learners)
        for cell in results.cell(target, learner.name)
        if (points := _points(cell, against))
    ]
    points = [point for _, points in lines for point in points]
    shown = sorted({place for place, _ in lines})
    # as many lines for notes as the figure beside it needs: the axes of the two are level
    below = max(len(_notes(results, target, axis)) for axis in ("examples", "seconds"))
    top = 0.1 + 0.2 * -(-len(shown) // _LEGEND_COLUMNS) + 0.3
    bottom = 0.42 + 0.16 * max(below - 1, 0)
    width, height = 3.9, top + 2.1 + bottom
    with canvas(width, height) as figure:
        axes = figure.add_axes((0.125, bottom / height, 0.845, 2.1 / height))
        _frame(axes, results, against, points)
        for place, those in lines:
            look, (xs, ys) = learner_look(place), zip(*_drawable(those, axes.get_xlim()[0]), strict=True)
            axes.plot(xs, ys, color=look["color"], linestyle=look["linestyle"], linewidth=1.7)
            axes.plot(
                xs[-1:], ys[-1:], **_final(look), linestyle="none", clip_on=False, zorder=9 - place / 99
            )
        _legend(figure, results, shown)
        for line, note in enumerate(_notes(results, target, against)):
            down = (-0.285 - 0.16 * line) / 2.1
            axes.annotate(note, (1.0, down), xycoords="axes fraction", color=FAINT, ha="right", va="center")
        return svg_text(figure)


def _paint(axes: Any, column: int, top: float | int, summary: Summary, wanted: int) -> None:
    """One cell of the heat map."""
    from matplotlib.patches import Rectangle

    box = ((column + 0.03, top + 0.04), 0.94, 0.92)
    if summary.status != "done":
        hatch = {"failed": "xxxx", "timed out": "....", "not applicable": "////"}.get(summary.status)
        axes.add_patch(
            Rectangle(*box, facecolor=CARD, edgecolor=FAINT, hatch=hatch, linewidth=0.8, alpha=0.55)
        )
        label = _fold(summary.verdict, 9)
        plate = {"facecolor": CARD, "edgecolor": "none", "pad": 2.0}
        _text(axes, column + 0.5, top + 0.5, label, fontsize=8.5, bbox=plate)
        return
    error = math.inf if summary.error is None else summary.error
    level = heat_level(error)
    text = ON_STRONG if is_strong(level) else ON_WEAK
    axes.add_patch(Rectangle(*box, facecolor=heat_colours()[level], edgecolor="none"))
    number, note = short_error(summary.error), seeds_note(summary, wanted)
    heights = (0.29, 0.57, 0.8) if note else (0.39, 0.72, 0.0)
    _text(axes, column + 0.5, top + heights[0], number, fontsize=11, weight="bold", color=text)
    _text(axes, column + 0.5, top + heights[1], summary.verdict, fontsize=8.5, color=text)
    if note:
        _text(axes, column + 0.5, top + heights[2], note, fontsize=8.5, style="italic", color=text)


def _scale(axes: Any, columns: int, top: float) -> None:
    """The colour scale below the heat map."""
    from matplotlib.patches import Rectangle

    left, width, colours = 0.03, columns - 0.06, heat_colours()
    for place, colour in enumerate(reversed(colours)):
        corner = (left + width * place / len(colours), top)
        axes.add_patch(Rectangle(corner, width / len(colours), 0.16, facecolor=colour, edgecolor=colour))
    for exponent in range(LEAST_EXPONENT, 1, 4):
        side = "left" if exponent == LEAST_EXPONENT else "right" if exponent == 0 else "center"
        there = left + width * (1 - exponent / LEAST_EXPONENT)
        _text(axes, there, top + 0.3, power_of_ten(exponent), ha=side, fontsize=8.5)
    _text(axes, -0.1, top + 0.08, "error on the\nunknown part", ha="right", fontsize=8.5)
    remark = "1 = nothing learned beyond what is known in advance"
    _text(axes, left + width, top + 0.6, remark, ha="right", fontsize=8.5, color=FAINT)


def _text(
    axes: Any, x: float, y: float, text: str, *, va: str = "center", fontsize: float | int = 9, **look: Any
) -> None:
    """Text as it stands: a dollar in a name starts no formula, and every line keeps its own anchor."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        above = len(lines) - 1 - place - (0 if va == "bottom" else (len(lines) - 1) / 2)
        axes.annotate(
            line,
            (x, y),
            xytext=(0, 1.2 * fontsize * above),
            textcoords="offset points",
            **{"ha": "center", "va": va, "fontsize": fontsize, **look},
            annotation_clip=False,
            parse_math=False,
        )


_MOST_ERROR = 1e2


_Point = tuple[float, float]


def _points(cell: Cell, against: str) -> list[_Point]:
    """What a cell shows in a curve: its trace and its final error, as far as they are finite."""
    if cell.status != "done" or cell.outcome == "NOT_APPLICABLE":
        return []
    pairs = [(getattr(point, against), point.measures.get("unknown_part_error")) for point in cell.trace]
    pairs.append((cell.examples_used if against == "examples" else cell.seconds, cell.unknown_part_error))
    return [(float(x), y) for x, y in pairs if x is not None and y is not None]


def _drawable(points: Sequence[_Point], least: float) -> list[_Point]:
    """The points moved onto axes that have no zero."""
    return [(max(x, least), min(max(y, LEAST_ERROR), _MOST_ERROR)) for x, y in points]


def _frame(axes: Any, results: Results, against: str, points: Sequence[_Point]) -> None:
    """Axes, grid and the line of those who know only what is known in advance."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    # one range of errors for every target: a curve that falls and one that does not are told apart at sight
    errors = [y for cell in results.cells for _, y in _points(cell, "examples")] or [1.0]
    low = min(max(min(errors), LEAST_ERROR), 1e-4)
    axes.set(xscale="log", yscale="log", ylim=(low / 6, max(8.0, min(3 * max(errors), _MOST_ERROR))))
    axes.set_xlim(*_span(points, against))
    axes.axhline(1.0, color=FAINT, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    decades = range(math.floor(math.log10(low)), 3)
    step = 4 if low < 1e-9 else 2 if low < 1e-5 else 1
    axes.yaxis.set_major_locator(
        FixedLocator(
            [10.0**power for power in decades if power % step == 0 and 10.0**power <= axes.get_ylim()[1]]
        )
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: power_of_ten(round(math.log10(y)))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: _time(x) if against == "seconds" else short_count(x).replace(".0", ""))
    )
    axes.xaxis.set_minor_locator(
        NullLocator()
    )  # ticks have no length here: looking for minor ones is lost time
    axes.tick_params(which="both", length=0)
    axes.tick_params(axis="both", labelsize=9.5)
    axes.grid(visible=True, which="major", color=FAINT, alpha=0.22, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("examples drawn" if against == "examples" else "time", loc="left")
    # above the axis and not along it: upright it would need the width that a narrow window lacks
    above = {
        "xy": (-0.142, 1.0),
        "xytext": (0, 8),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
    }
    axes.annotate("error on the unknown part", **above, ha="left", va="center")


def _span(points: Sequence[_Point], against: str) -> _Point:
    """Limits of the logarithmic axis of costs: around the values, two powers of ten within."""
    least = 1e-3 if against == "seconds" else 1.0
    values = [max(x, least) for x, _ in points if x > 0] or [least, 10 * least]
    low, high = min(values) / 1.6, max(values) * 1.6
    if math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 1:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    return low, high


def _time(seconds: float) -> str:
    if seconds < 0.099:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 9999 else f"{power_of_ten(round(math.log10(seconds)))} s"


def _final(look: dict[str, Any]) -> dict[str, Any]:
    """How the last point of a curve is marked."""
    return {
        "marker": look["marker"],
        "markersize": 7,
        "markerfacecolor": look["color"],
        "markeredgecolor": CARD,
        "markeredgewidth": 1.0,
    }


def _legend(figure: Any, results: Results, places: Sequence[int]) -> None:
    from matplotlib.lines import Line2D

    # matplotlib fills columns, a reader reads rows
    places = [place for column in range(_LEGEND_COLUMNS) for place in places[column::_LEGEND_COLUMNS]]
    looks = [learner_look(place) for place in places]
    handles = [
        Line2D([], [], color=look["color"], linestyle=look["linestyle"], linewidth=1.7, **_final(look))
        for look in looks
    ]
    labels = [_fold(results.learners[place].title, 18, lines=1) for place in places]
    if handles:
        legend = figure.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=_LEGEND_COLUMNS,
            frameon=False,
            fontsize=9.5,
            handlelength=2.6,
            columnspacing=1.4,
            labelspacing=0.35,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


_LEGEND_COLUMNS = 2


def _notes(results: Results, target: str, against: str) -> list[str]:
    """What is to be said of points that are moved to be drawn."""
    points = [
        point
        for learner in results.learners
        for cell in results.cell(target, learner.name)
        for point in _points(cell, against)
    ]
    notes = []
    if any(x < _span(points, against)[0] for x, _ in points):
        notes.append("no examples: left edge" if against == "examples" else "shorter times: left edge")
    if any(y < LEAST_ERROR for _, y in points):
        notes.append("0 is drawn at 10⁻¹⁷")
    if any(y > _MOST_ERROR for _, y in points):
        notes.append("errors above 100: top edge")
    return notes


def _fold(text: str, width: int, *, lines: int = 3) -> str:
    """`text` on a few lines, its end left out where it does not fit."""
    folded = textwrap.wrap(printable(text), width) or [" "]
    if len(folded) > lines:
        folded = [*folded[: lines - 1], folded[lines - 1][: width - 1] + "…"]
    return "\n".join(folded)
