"""What the study of tokens found, as a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._tokens_words import SUMS, Point, judged, mean_of, median_of, points_of, refused
from arena.studies.study import Row

__all__ = ["draw_tokens"]

_STYLES: Mapping[str, Any] = {"exact": (0, (1.5, 1.5)), "crude": "-"}
_LEAST = 1e-5  # where no false certificate is shown, named 0, as a logarithm has no place for it
_BESIDE: Mapping[str, Any] = {
    "xytext": (-4, 0),
    "textcoords": "offset points",
    "ha": "right",
    "va": "center",
    "fontsize": 9,
}


def draw_tokens(rows: Sequence[Row]) -> PaperFigure:
    certificates, ends = points_of(rows, "certificates"), points_of(rows, "ends")
    dims = sorted({dim for dim, _ in (*certificates, *ends)}) or [rows[0]["dim"]]
    with canvas(8.4, 3.5) as figure:
        own, fair, end = (axes_in(figure, (left, 0.15, 0.255, 0.55)) for left in (0.06, 0.4, 0.73))
        _draw_own(own, certificates, dims)
        _draw_fair(fair, certificates, dims)
        _draw_ends(end, ends, dims)
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "The share of accepted rows that is false against k, the false rate at nine tenths of true certificates "
            "against k/d, and the end errors of the six phases and of Newton against k",
        )


def _draw_own(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    for which, style in _STYLES.items():
        for place, dim in enumerate(dims):
            line = [
                (k, share)
                for (d, k), members in sorted(points.items())
                if d == dim and (share := mean_of(members, judged(which, "accepted_false"))) is not None
            ]
            if line:
                look = {**line_look(place), "linestyle": style}
                axes.plot(*zip(*line, strict=True), **look, label=f"d = {dim}, {SUMS[which]}")
    dimension_axis(axes, [2, 4, 8, 16])
    axes.set_ylim(-0.04, 1.04)
    _named(axes, "tokens k", "accepted rows that are false")


def _draw_fair(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    shown = [1.0, 0.01]
    for which, style in _STYLES.items():
        for place, dim in enumerate(dims):
            line = [
                (k / d, max(rate, _LEAST))
                for (d, k), members in sorted(points.items())
                if d == dim and (rate := mean_of(members, judged(which, "false_rate"))) is not None
            ]
            if line:
                axes.plot(*zip(*line, strict=True), **{**line_look(place), "linestyle": style})
                shown += [rate for _, rate in line]
    axes.set_yscale("log")
    low, high = decade_limits(shown)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    if min(shown) == _LEAST:
        axes.set_yticks([tick for tick in axes.get_yticks() if tick > 1.1 * _LEAST])
        axes.annotate("0", (0, _LEAST), xycoords=("axes fraction", "data"), **_BESIDE)
    axes.set_xlim(0, 1.03)
    _named(axes, "k / d", "false rate at 9 of 10 true")


def _draw_ends(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    lines = {
        "before_newton": "six phases before Newton",
        "error": "after Newton's iterates",
        "newton_error": "Newton alone",
    }
    styles = {"before_newton": (0, (1.5, 1.5)), "error": "-", "newton_error": (0, (6, 2, 1.5, 2))}
    shown = [1.0, 1e-14]
    for name in lines:
        for place, dim in enumerate(dims):
            line = [
                (k, max(value, 1e-16))
                for (d, k), members in sorted(points.items())
                if d == dim
                # what is refused has no error
                and (name == "newton_error" or not refused(members))
                and (value := median_of(members, name)) is not None
            ]
            if line:
                axes.plot(*zip(*line, strict=True), **{**line_look(place), "linestyle": styles[name]})
                shown += [value for _, value in line]
    for name, label in lines.items():
        axes.plot([], [], color="#5d6875", linestyle=styles[name], label=label)
    axes.set_yscale("log")
    low, high = decade_limits(shown)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    dimension_axis(axes, [2, 4, 8, 16, 24])
    _named(axes, "tokens k", "relative error at the end")


def _named(axes: Any, below: str, above: str) -> None:
    name_axes(axes, below, "")
    axes.set_title(above, fontsize=9.5, loc="left")
