"""The figure of the path from nice to hard: maps by learner, what moves alone, what averages see, other sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena._canvas import canvas
from arena.palette import CARD, FAINT, ON_STRONG, ON_WEAK, heat_colours, heat_level, is_strong
from arena.paper_figure import PaperFigure, line_look, paper_figure
from arena.phase_axes import axes_in
from arena.studies._path_rows import (
    LEARNED,
    Place,
    by_place,
    main_family,
    median_error,
    mostly_learned,
    shown_error,
)
from arena.studies._path_to_parity import STEEPEST
from arena.studies.study import Row
from paper_checks import proportion_interval

__all__ = ["draw_path_figure"]

_LEFT, _WIDE, _STEP = 0.062, 0.255, 0.325


def draw_path_figure(rows: Sequence[Row], learners: Mapping[str, str]) -> PaperFigure:
    """Maps of the median error with its number in each cell, framed where half of the draws are learned.

    Parameters
    ----------
    rows : sequence of Row
        The rows of the study.
    learners : mapping of str to str
        The title of every learner, in order.
    """
    places, family = by_place(rows), main_family(rows)
    dim, bits = family
    with canvas(8.4, 6.2) as figure:
        for number, (name, title) in enumerate(learners.items()):
            axes = axes_in(figure, _box(number), grid=False)
            own = {
                (place.shape, place.slope): errors
                for place, errors in places.items()
                if place.learner == name and (place.dim, place.bits) == family and place.on_path
            }
            _map(axes, own, above=[f"{STEEPEST**slope:.2g}" for slope in sorted({key[1] for key in own})])
            axes.set_title(title, fontsize=9, loc="right", pad=3)
            _name(axes, "shape t" if number >= 3 else "", "slopes ×" if number % 3 == 0 else "")
        axes = axes_in(figure, _box(6), grid=False)
        apart = {
            (place.shape, place.projections): errors
            for place, errors in places.items()
            if place.learner == "newton"
            and (place.dim, place.bits, place.ends, place.slope) == (*family, "generic", 0.0)
        }
        values = [shape for shape, projections in apart if shape != projections]
        kept = {0.0, 1.0, *values}
        _map(axes, {key: errors for key, errors in apart.items() if set(key) <= kept})
        axes.set_title("Newton", fontsize=9, loc="right", pad=3)
        _name(axes, "a, attention's share", "b, projections' share")
        _visible(axes_in(figure, _box(7)), rows, family)
        _others(axes_in(figure, _box(8)), places)
        figure.text(
            0.008,
            0.985,
            f"Median error on the secret's part, d = {dim}, l = {bits} (1: nothing of it learned; "
            f"framed: half of the draws below {LEARNED})",
            ha="left",
            va="top",
            fontsize=9,
        )
        return paper_figure(
            figure,
            f"Maps of the error of {len(learners)} learners between a nice layer and a hidden parity, by shape and "
            "slope; Newton with attention and projections moved apart; the share that single coordinates show; and "
            "Newton's share of successes at other sizes",
        )


def _box(number: int) -> tuple[float, float, float, float]:
    column, row = number % 3, number // 3
    bottom, height = ((0.725, 0.165), (0.44, 0.165), (0.085, 0.22))[row]
    return _LEFT + column * _STEP, bottom, _WIDE, height


def _map(
    axes: Any, cells: Mapping[tuple[float, float], Sequence[float]], above: Sequence[str] | None = None
) -> None:
    from matplotlib.patches import Rectangle

    across, up = (sorted({key[place] for key in cells}) for place in (0, 1))
    for (right, high), errors in cells.items():
        error = median_error(errors)
        level = heat_level(error)
        corner = (across.index(right) - 0.5, up.index(high) - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=heat_colours()[level], edgecolor=CARD, linewidth=1))
        if mostly_learned(errors):
            inner = (corner[0] + 0.06, corner[1] + 0.08)
            axes.add_patch(
                Rectangle(inner, 0.88, 0.84, facecolor="none", edgecolor=FAINT, linewidth=1.0, zorder=3)
            )
        ink = ON_STRONG if is_strong(level) else ON_WEAK
        middle = (corner[0] + 0.5, corner[1] + 0.47)
        axes.text(*middle, shown_error(error), ha="center", va="center", fontsize=6.5, color=ink, zorder=4)
    axes.set_xlim(-0.5, max(len(across), 1) - 0.5)
    axes.set_ylim(-0.5, max(len(up), 1) - 0.5)
    axes.set_xticks(range(len(across)), [f"{one:g}" for one in across], fontsize=8)
    axes.set_yticks(range(len(up)), above or [f"{one:g}" for one in up], fontsize=8)
    axes.spines[["left", "bottom"]].set_visible(False)


def _visible(axes: Any, rows: Sequence[Row], family: tuple[int, int]) -> None:
    """What averages over one coordinate of the secret see."""
    seen: dict[float, dict[float, list[float]]] = {}
    for row in rows:
        on_path = row["shape"] == row["projections"] and (row["dim"], row["bits"]) == family
        if on_path and row["visible_share"] is not None:
            seen.setdefault(row["slope"], {}).setdefault(row["shape"], []).append(row["visible_share"])
    for place, (slope, shares) in enumerate(sorted(seen.items())):
        look = line_look(place)
        points = sorted(shares)
        axes.plot(
            points,
            [median_error(shares[t]) for t in points],
            **look,
            label=f"slopes × {STEEPEST**slope:.2g}",
        )
    _unit_axes(axes, "shape t", "share seen coordinate by coordinate")


def _others(axes: Any, places: Mapping[Place, Sequence[float]]) -> None:
    """Newton's share of successes for every size."""
    lines: dict[tuple[int, int], dict[float, Sequence[float]]] = {}
    for place, errors in places.items():
        if place.learner == "newton" and place.on_path and place.slope == 0:
            lines.setdefault((place.bits, place.dim), {})[place.shape] = errors
    across = sorted({t for points in lines.values() for t in points})
    for number, ((bits, dim), points) in enumerate(sorted(lines.items())):
        # side by side at values that are evenly apart: most of them lie near 1
        look, shift = line_look(number), 0.12 * (number - (len(lines) - 1) / 2)
        shares = [_share(points[t]) for t in sorted(points)]
        at = [across.index(t) + shift for t in sorted(points)]
        axes.plot(at, [one.estimate for one in shares], **look, label=f"l {bits}, d {dim}")
        axes.vlines(
            at, [one.low for one in shares], [one.high for one in shares], color=look["color"], alpha=0.3
        )
    _unit_axes(axes, "shape t", "Newton: share of draws learned")
    axes.set_xlim(-0.5, max(len(across), 1) - 0.5)
    axes.set_xticks(range(len(across)), [f"{t:g}" for t in across])


def _share(errors: Sequence[float]) -> Any:
    return proportion_interval(sum(error < LEARNED for error in errors), len(errors), confidence=0.95)


def _unit_axes(axes: Any, below: str, above: str) -> None:
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.tick_params(labelsize=8)
    _name(axes, below, above)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.1, 0.0),
            frameon=False,
            fontsize=7,
            handlelength=1.8,
            labelspacing=0.2,
        )


def _name(axes: Any, below: str, above: str) -> None:
    """Both axes by name, the upright one above its left end: panels stand beside one another."""
    axes.set_xlabel(below, loc="left", fontsize=9)
    there = {"xy": (0.0, 1.0), "xytext": (-16, 4), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(above, **there, ha="left", va="bottom", fontsize=9)
