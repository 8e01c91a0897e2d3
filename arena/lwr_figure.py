"""The figure and the words of how far attacks reach: the largest n broken against q/p."""

import itertools
import math
from collections.abc import Sequence

from arena._canvas import canvas
from arena._fields import listed_of
from arena.attacks import ATTACKS
from arena.lwr_reach import BROKEN_FROM, LWRCell, LWRPoint, largest_broken
from arena.palette import FAINT
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in
from arena.plain import aligned, folded

__all__ = ["draw_lwr_curve", "lwr_curve_text", "said_of_lwr_curve"]

_COLUMNS = 4


def draw_lwr_curve(points: Sequence[LWRPoint]) -> PaperFigure:
    """The largest n that each attack and learner breaks, against q/p.

    Parameters
    ----------
    points : sequence of LWRPoint
        What `arena.lwr_curve` gives.

    Raises
    ------
    ValueError
        If there are none.

    Notes
    -----
    Attacks that break no size are named below the figure. A mark at the top edge is the largest size that was tried.
    Shaded are the sizes at which a table of the samples would do. Marks stand beside one another at each q/p, so that
    attacks of the same reach are all seen.
    """
    points = listed_of("points", points, LWRPoint)
    if not points:
        raise ValueError("There is no point to draw: give sizes, levels and attacks.")
    reached = largest_broken(points)
    attacks = list(dict.fromkeys(point.cell.attack for point in points))
    modulus = points[0].cell.modulus
    tried = sorted({point.cell.secret_dim for point in points})
    ratios = sorted({modulus / point.cell.levels for point in points})
    breaking = [name for name in attacks if any(size for (own, _), size in reached.items() if own == name)]
    with canvas(6.2, 4.3) as figure:
        rows = -(-len(breaking) // _COLUMNS)
        axes = axes_in(figure, (0.09, 0.265, 0.88, 0.665 - 0.045 * rows))
        aside = _aside(ratios, len(breaking))
        for name, factor in zip(breaking, aside, strict=True):
            # a gap where none was broken
            pairs = sorted(
                (factor * modulus / levels, size or math.nan)
                for (own, levels), size in reached.items()
                if own == name
            )
            look = line_look(list(ATTACKS).index(name))
            axes.plot(
                [x for x, _ in pairs], [y for _, y in pairs], label=ATTACKS[name].title, clip_on=False, **look
            )
        dimension_axis(axes, ratios)
        axes.set_yscale("log")
        low, high = tried[0] / 1.15, tried[-1] * 1.15
        axes.set_ylim(low, high)
        axes.axhspan(
            low, max(low, _rows_known(points[0].cell)), color=FAINT, alpha=0.1, linewidth=0, zorder=0
        )
        _whole_ticks(axes, tried)
        axes.set_xlabel("q / p", labelpad=1)
        axes.set_title("largest n broken", loc="left", fontsize=9.5, pad=4)
        legend_above(figure, columns=_COLUMNS)
        figure.text(
            0.015,
            0.015,
            "\n".join(_note(points, attacks, breaking)),
            color=FAINT,
            fontsize=8,
            va="bottom",
            linespacing=1.3,
        )
        return paper_figure(figure, "How far attacks on learning with rounding reach")


def lwr_curve_text(
    points: Sequence[LWRPoint], *, attacks: Sequence[str] = (), dims: Sequence[int] = ()
) -> str:
    """The table, a row for each attack and a column for each p, and what is to be said of it.

    Parameters
    ----------
    points : sequence of LWRPoint
        What `arena.lwr_curve` gives, or of an interrupted run what was there by then.
    attacks : sequence of str, optional
        Those asked for, with rows of their own also where no point is there.
    dims : sequence of int, optional
        The sizes asked for: a series that ended before the largest of them, or two failures, has a question mark.
    """
    points = listed_of("points", points, LWRPoint, least=0 if dims else 1)
    levels = sorted({point.cell.levels for point in points})
    largest = max((*dims, *(point.cell.secret_dim for point in points)))
    rows = [("largest n broken", *(f"p = {one}" for one in levels))]
    for name in dict.fromkeys((*attacks, *(point.cell.attack for point in points))):
        series = (
            [point for point in points if (point.cell.attack, point.cell.levels) == (name, one)]
            for one in levels
        )
        rows.append((ATTACKS[name].title, *(_reach_words(one, largest) for one in series)))
    return "\n".join([aligned(rows, left=1), "", *folded(said_of_lwr_curve(points))])


def _reach_words(series: Sequence[LWRPoint], largest: int) -> str:
    """The largest size broken: + if it is the largest of all, ? if the series did not come to its end."""
    broken = [point.cell.secret_dim for point in series if point.broken]
    if broken and max(broken) == largest:
        return f"{largest}+"
    missed_twice = len(series) > 1 and not any(point.broken for point in series[-2:])
    ended = missed_twice or (len(series) > 0 and series[-1].cell.secret_dim == largest)
    size = f"{max(broken)}" if broken else "-" * ended
    return size if ended else f"{size}?"


def said_of_lwr_curve(points: Sequence[LWRPoint]) -> list[str]:
    """What was measured, and what it does not say: sentences."""
    cell = points[0].cell
    sizes = ", ".join(map(str, sorted({point.cell.secret_dim for point in points})))
    said = [
        f"Measured: q = {cell.modulus}, a {cell.matrix} public matrix, a secret whose law is {cell.secret}, "
        f"{cell.samples} samples, {cell.seconds:g} seconds an attack, one secret a size; n = {sizes} in turn until two "
        "are not broken, + where the largest of them was, ? where the run was interrupted.",
        f"Broken is: {BROKEN_FROM:.0%} of the labels held out are predicted. That the others are not broken within "
        "seconds, untuned, is no claim of security.",
        *_memory_words(cell),
    ]
    absent = sorted({point.cell.attack for point in points if point.outcome == "MISSING"})
    if absent:
        said.append(f"Not run, for want of a package: {', '.join(ATTACKS[name].title for name in absent)}.")
    return said


def _aside(ratios: Sequence[float], count: int) -> list[float]:
    """By what to multiply q/p for each attack: a third of the least distance, shared among them."""
    logs = [math.log(one) for one in ratios]
    nearest = min((b - a for a, b in itertools.pairwise(logs)), default=0.5)
    middle = (count - 1) / 2
    return [math.exp(0.33 * nearest * (place - middle) / max(count - 1, 1)) for place in range(count)]


def _rows_known(cell: LWRCell) -> float:
    """The n up to which there are no more rows than samples."""
    bits = {"binary": 1.0, "ternary": 1.5}.get(cell.matrix, math.log2(cell.modulus))
    return math.log2(cell.samples) / bits


def _memory_words(cell: LWRCell) -> list[str]:
    known = math.floor(_rows_known(cell))
    if known < 1:
        return []
    return [f"Up to n = {known} the samples hold most rows there are: a table of them predicts as well."]


def _note(points: Sequence[LWRPoint], attacks: Sequence[str], breaking: Sequence[str]) -> list[str]:
    cell, largest = points[0].cell, max(point.cell.secret_dim for point in points)
    lines = [
        f"q = {cell.modulus}, {cell.matrix} public matrix, {cell.secret} secret, {cell.samples} samples, "
        f"{cell.seconds:g} s an attack."
    ]
    lines += _memory_words(cell)
    if any(point.broken and point.cell.secret_dim == largest for point in points):
        lines.append(
            f"A mark at n = {largest} is the largest size tried. Marks at one q/p stand side by side."
        )
    silent = [ATTACKS[name].title for name in attacks if name not in breaking]
    if silent:
        lines.append(f"No size broken by {', '.join(silent)}.")
    return lines


def _whole_ticks(axes: object, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.yaxis  # type: ignore[attr-defined]
    axis.set_major_locator(FixedLocator(list(sizes)))
    axis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f}"))
    axis.set_minor_locator(NullLocator())
