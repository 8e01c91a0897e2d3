"""The figures of query-count curves, as SVG for the screen and PDF for a paper."""

from collections.abc import Callable, Sequence
from typing import Any

from arena._canvas import canvas
from arena._fields import listed_of
from arena._phrases import plural
from arena.learner_side import LearnerSide
from arena.palette import CARD, FAINT, INK
from arena.paper_figure import MOST_DRAWN, PaperFigure, legend_above, line_look, paper_figure, scales
from arena.phase_axes import axes_in
from arena.queried_phases import QueriedPhases
from sq import CURVE_LEARNERS, CurvePoint

__all__ = [
    "BOUNDED_ORACLES",
    "LEARNER_TITLES",
    "ORACLE_TITLES",
    "draw_curves",
    "draw_learner_side",
]

LEARNER_TITLES = {
    "scan": "scan",
    "group": "group learner",
    "signed-group": "signed-group learner",
    "low-degree": "low-degree learner",
    "descent": "gradient descent",
}
"""What a learner is called in figures and tables."""
ORACLE_TITLES = {
    "reference": "the reference adversary",
    "most-preserving": "the most-preserving adversary",
    "exact": "the exact oracle",
    "honest": "an honest oracle",
}
"""What an oracle is called in sentences."""

BOUNDED_ORACLES = ("reference", "exact")
"""Those against which the group learner's bound is proved."""

_CHECKED = 32  # up to this d the tolerances of the plan were checked
_NOTE = 9.5  # points a line of words takes
_BOUND = {"color": FAINT, "alpha": 0.45, "linewidth": 5.0, "solid_capstyle": "round", "zorder": 1}
_SIZE = {"color": INK, "linestyle": (0, (0.5, 0.7)), "linewidth": 4.5, "alpha": 0.4, "zorder": 1}
_UPPER = {"color": INK, "linestyle": (0, (6, 2)), "linewidth": 0.9, "zorder": 2}


def draw_curves(points: Sequence[CurvePoint]) -> PaperFigure:
    """Queries against d, logarithmic both ways: a panel for each number of bits (down) and each tolerance (across).

    Parameters
    ----------
    points : sequence of CurvePoint
        What `arena.run_curves` gives, all against one oracle.

    Raises
    ------
    ValueError
        If there are none, or of several oracles.

    Notes
    -----
    Every panel has the lower bound, the number N of targets and, if it ran, the group learner's bound as lines. A cell
    without the right target is no point: the panel says in words which it is.
    """
    points = listed_of("points", points, CurvePoint)
    oracles = {point.cell.oracle for point in points}
    if len(oracles) != 1:
        raise ValueError(f"The points are of {len(oracles)} oracles: those of one are drawn together.")
    rows = sorted({point.cell.bits for point in points})
    columns = sorted({point.cell.tolerance for point in points}, reverse=True)
    learners = [name for name in CURVE_LEARNERS if any(point.cell.learner == name for point in points)]
    width, gap, left, tall, below, top = (
        (2.35 if len(columns) > 1 else 4.4),
        0.3,
        0.55,
        1.85,
        0.6,
        0.3 + 0.2 * -(-(len(learners) + 3) // 3),
    )
    wide = max(left + len(columns) * (width + gap), 5.4)
    oracle, lucky = points[0].cell.oracle, points[0].cell.oracle in ("exact", "honest")
    high = top + len(rows) * (tall + 0.62) + 0.28 + 0.15 * lucky
    values = [value for point in points for value in _drawn_values(point)]
    panels = [
        [point for point in points if (point.cell.bits, point.cell.tolerance) == (bits, tolerance)]
        for bits in rows
        for tolerance in columns
    ]
    notes = max(len(_missing(panel, learners)) for panel in panels)
    with canvas(wide, high) as figure:
        for down, bits in enumerate(rows):
            for across, tolerance in enumerate(columns):
                corner = (
                    left + across * (width + gap),
                    high - top - (down + 1) * (tall + 0.62) + below - 0.05,
                )
                box = (corner[0] / wide, corner[1] / high, width / wide, tall / high)
                axes = axes_in(figure, box)
                those = panels[down * len(columns) + across]
                _panel(axes, those, learners, values, min(_NOTE * notes / (72 * tall), 0.6))
                axes.set_title(f"l = {bits}, τ = {tolerance:g}", loc="left", fontsize=9.5, pad=4)
                if across:
                    axes.tick_params(labelleft=False)
                if down == len(rows) - 1:
                    axes.set_xlabel("d", labelpad=1)
                if not across:
                    axes.set_ylabel("queries", labelpad=1)
        legend_above(figure)
        ran = any(point.queries for point in points)
        note = f"Learners: measured against {ORACLE_TITLES[oracle]}. " if ran else "No learner was run. "
        note += "One scalar query counts one."
        if lucky:
            note += "\nOne target a size: a lucky learner asks fewer than the bound for the worst."
        figure.text(0.1 / wide, 0.1 / high, note, color=FAINT, fontsize=8.5, ha="left", va="bottom")
        words = (
            f"Queries against d, {plural(len(rows), 'number')} of bits by {plural(len(columns), 'tolerance')}: "
            f"{', '.join(LEARNER_TITLES[name] for name in learners)}, with the lower bound and the number of targets"
        )
        return paper_figure(figure, words)


def draw_learner_side(points: Sequence[LearnerSide], measured: Sequence[QueriedPhases] = ()) -> PaperFigure:
    """Queries and tolerances of the six phases against d, beside the hard families' sizes and edges.

    Parameters
    ----------
    points : sequence of LearnerSide
        What `arena.learner_side` gives.
    measured : sequence of QueriedPhases
        What `arena.queried_phases` gives: a mark each, by whether the span was found.

    Raises
    ------
    ValueError
        If there are none.
    """
    points = listed_of("points", points, LearnerSide)
    measured = listed_of("measured", measured, QueriedPhases)
    if not points:
        raise ValueError("There is no point to draw: give dimensions of at least 3.")
    heads = sorted({point.heads for point in points})
    plan = {point.dim: point for point in points}
    with canvas(6.6, 3.7) as figure:
        panels = (
            ("queries, targets", lambda one: one.queries, lambda one: one.targets),
            ("tolerance", lambda one: one.tolerance, lambda one: one.visible_below),
        )
        for place, (title, of_learner, of_family) in enumerate(panels):
            axes = axes_in(figure, (0.085 + 0.5 * place, 0.245, 0.4, 0.5))
            values = []
            for look, m in enumerate(heads, 1):
                xs = [point.dim for point in points if point.heads == m]
                ys = [of_family(point) for point in points if point.heads == m]
                bits = next(point.bits for point in points if point.heads == m)
                axes.plot(
                    xs,
                    ys,
                    **line_look(look),
                    clip_on=False,
                    label=f"parities of {bits} bits, {plural(m, 'head')}",
                )
                values += ys
            xs, ys = list(plan), [of_learner(point) for point in plan.values()]
            checked = sum(x <= _CHECKED for x in xs) if title == "tolerance" else len(xs)
            axes.plot(
                xs[max(checked - 1, 0) :],
                ys[max(checked - 1, 0) :],
                color=INK,
                linewidth=2.0,
                linestyle=(0, (3, 1.5)),
            )
            xs, ys, beyond = xs[:checked], ys[:checked], ys[checked:]
            axes.plot(
                xs,
                ys,
                color=INK,
                linewidth=2.4,
                label="six phases, nice targets of 2 heads: their plan",
                zorder=5,
            )
            if title == "tolerance":
                values += _marks(axes, measured)
            scales(axes, list(plan), [float(value) for value in values + ys + beyond])
            axes.set_title(title, loc="left", fontsize=9.5, pad=4)
            axes.set_xlabel("d", labelpad=1)
        legend_above(figure, columns=2)
        note = (
            "Left: scalar queries Q of the six phases, and sizes N of the families. Right: the tolerance they plan\n"
            "with, a rule of thumb checked up to d = 32 (dashed beyond), and for each family the one from which\n"
            "on Q queries cannot tell its targets apart; for 2 heads 1/2, which says nothing."
        )
        figure.text(0.015, 0.015, note, color=FAINT, fontsize=8, ha="left", va="bottom", linespacing=1.3)
        return paper_figure(figure, "What six phases need on nice targets as d grows")


def _marks(axes: Any, measured: Sequence[QueriedPhases]) -> list[float]:
    """Runs by queries: full where the span was found, open where it was not; their heights."""
    heights = []
    for good, label in ((True, "measured: the span is found"), (False, "measured: it is not")):
        those = [one for one in measured if one.good == good]
        ys = [one.slack * one.planned for one in those]
        if those:
            look = {"linestyle": "none", "marker": "o", "markersize": 5, "color": INK, "zorder": 6}
            face = {} if good else {"markerfacecolor": CARD}
            axes.plot([one.dim for one in those], ys, label=label, **look, **face)
        heights += ys
    return heights


def _panel(
    axes: Any, points: Sequence[CurvePoint], learners: Sequence[str], values: Sequence[float], spared: float
) -> None:
    """One panel; `spared` is the share of its height left to words."""
    by_dim = {point.cell.dim: point.cell for point in points}
    lines: list[tuple[str, Callable[[Any], int], dict[str, Any]]] = [
        ("lower bound (proved)", lambda cell: cell.lower_bound, _BOUND),
        ("number N of targets", lambda cell: cell.targets, _SIZE),
    ]
    if "group" in learners and points[0].cell.oracle in BOUNDED_ORACLES:
        lines.append(("group learner's bound", lambda cell: cell.group_bound, _UPPER))
    for label, of_cell, style in lines:
        pairs = [(dim, of_cell(cell)) for dim, cell in by_dim.items() if 0 < of_cell(cell) < MOST_DRAWN]
        lone = {"marker": "_", "markersize": 14} if len(pairs) == 1 else {}
        axes.plot([x for x, _ in pairs], [y for _, y in pairs], label=label, **style, **lone)
    for learner in learners:
        pairs = [(one.cell.dim, one.queries) for one in points if one.cell.learner == learner and one.queries]
        look = line_look(CURVE_LEARNERS.index(learner))
        axes.plot([x for x, _ in pairs], [y for _, y in pairs], label=LEARNER_TITLES[learner], **look)
    for line, text in enumerate(_missing(points, learners)):
        where = {"xycoords": "axes fraction", "xytext": (0, -1 - _NOTE * line), "textcoords": "offset points"}
        axes.annotate(text, (0.99, 1.0), **where, ha="right", va="top", fontsize=7.5, color=INK)
    low, high = scales(axes, list(by_dim), values)
    axes.set_ylim(low, low * (high / low) ** (1 / (1 - spared)))


def _missing(points: Sequence[CurvePoint], learners: Sequence[str]) -> list[str]:
    """Which cells of a panel are no points, in a few words."""
    missing = []
    for learner in learners:
        those = [point for point in points if point.cell.learner == learner]
        for status in ("refused", "wrong", "not run", "failed"):
            dims = [point.cell.dim for point in those if point.status == status]
            if dims:
                at = "" if len(dims) == len(those) else f", d = {', '.join(map(str, dims))}"
                missing.append(f"{LEARNER_TITLES[learner]}: {status}{at}")
    return missing


def _drawn_values(point: CurvePoint) -> list[float]:
    every = (point.cell.lower_bound, point.cell.targets, point.cell.group_bound, point.queries or 0)
    return [float(value) for value in every if 0 < value < MOST_DRAWN]
