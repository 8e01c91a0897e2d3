"""Query-count curves: many cells measured, as a table and as a figure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from arena.drawing import Drawing
from arena.looks import look_places
from arena.plain import aligned, folded
from runs import Cell, run
from runs.figures import FAINT, INK, MOST_DRAWN, axes_in, canvas, legend_above, line_look, scales
from sq import CurveCell, CurvePoint, measure_cell
from sq.curves import CURVE_LEARNERS

__all__ = ["count_in_full", "curve_table", "draw_curves", "run_curves"]

_BOUNDED_ORACLES = ("reference", "exact")  # for which the group learner's bound is proved
_BOUND = {"color": FAINT, "alpha": 0.45, "linewidth": 5.0, "solid_capstyle": "round", "zorder": 1}
_SIZE = {"color": INK, "linestyle": (0, (0.5, 0.7)), "linewidth": 4.5, "alpha": 0.4, "zorder": 1}
_UPPER = {"color": INK, "linestyle": (0, (6, 2)), "linewidth": 0.9, "zorder": 2}


def run_curves(
    cells: Sequence[CurveCell], *, on_point: Callable[[CurvePoint], None] | None = None, **options: Any
) -> tuple[CurvePoint, ...]:
    """Measure cells, the smallest first.

    Parameters
    ----------
    cells : sequence of CurveCell
        What `sq.curve_cells` gives.
    on_point : callable, optional
        Called with each point as it is found in the store or done.
    **options
        As of `runs.run`: jobs, timeout, store, fresh, isolated, cluster.

    Returns
    -------
    tuple of CurvePoint
        One a cell, in their order. A cell that broke down or took too long is "failed".

    Examples
    --------
    >>> from sq import curve_cells
    >>> [point.queries for point in run_curves(curve_cells([10, 16], [2], [0.3]), isolated=False)]
    [35, 4, 5, 104, 10, 12]
    """
    work = {Cell(_measured, asdict(cell)): cell for cell in sorted(cells, key=lambda cell: cell.targets)}
    points = {}
    for result in run(work, retry_failed=True, **options):
        cell, done = work[result.cell], result.status == "done"
        points[cell] = (
            CurvePoint.from_row(result.value) if done else CurvePoint(cell, "failed", result.message)
        )
        if on_point is not None:
            on_point(points[cell])
    return tuple(points[cell] for cell in cells)


def _measured(**cell: Any) -> dict[str, Any]:
    return measure_cell(CurveCell(**cell)).row()


def curve_table(points: Sequence[CurvePoint]) -> str:
    """A row for each number of bits, tolerance and dimension; below, for each way to have no number, a reason."""
    learners, bounded = _learners(points), _is_bounded(points)
    rows = [("l", "tau", "d", "targets N", "at least", *learners, *["group's bound"] * bounded)]
    grid: dict[tuple[int, float, int], dict[str, CurvePoint]] = {}
    reasons: dict[str, str] = {}
    for point in points:
        cell = point.cell
        grid.setdefault((cell.bits, -cell.tolerance, cell.dim), {})[cell.learner] = point
        if point.queries is None:
            where = f"l = {cell.bits}, tau = {cell.tolerance:g}, d = {cell.dim}"
            what = f"{cell.learner}, {point.status}"
            reasons.setdefault(what, f"{what}, such as at {where}: {point.explanation}")
    for (bits, minus_tau, dim), those in sorted(grid.items()):
        cell = next(iter(those.values())).cell
        shown = [_shown(those.get(name)) for name in learners]
        upper = [count_in_full(cell.group_bound)] * bounded
        sizes = count_in_full(cell.targets), count_in_full(cell.lower_bound)
        rows.append((str(bits), f"{-minus_tau:g}", str(dim), *sizes, *shown, *upper))
    return "\n".join([aligned(rows), *folded(list(reasons.values()))])


def count_in_full(number: int) -> str:
    """A whole number; past twelve digits by its size.

    Examples
    --------
    >>> count_in_full(9139), count_in_full(10**400)
    ('9139', '1.0e+400')
    """
    return str(number) if number < 10**12 else f"{Decimal(number):.1e}"


def draw_curves(points: Sequence[CurvePoint]) -> Drawing:
    """Queries against d, logarithmic both ways: a panel for each number of bits (down) and each tolerance (across).

    Raises
    ------
    ValueError
        If there are no points, or of several oracles.

    Notes
    -----
    Every panel has the lower bound, the number N of targets and, if it ran, the group learner's bound as lines. A cell
    without the right target is no point; the panel names it.
    """
    oracles = {point.cell.oracle for point in points}
    if len(oracles) != 1:
        raise ValueError(f"The points are of {len(oracles)} oracles: those of one are drawn together.")
    rows = sorted({point.cell.bits for point in points})
    columns = sorted({point.cell.tolerance for point in points}, reverse=True)
    learners, lines = _learners(points), _bounds(points)
    panels = {
        (down, across): [one for one in points if (one.cell.bits, one.cell.tolerance) == (bits, tolerance)]
        for down, bits in enumerate(rows)
        for across, tolerance in enumerate(columns)
    }
    room = 1 + 0.11 * max(len(list(_missing(panel))) for panel in panels.values())
    every = [of(one.cell) for one in points for _, of, _ in lines] + [one.queries or 0 for one in points]
    top = 0.3 + 0.2 * -(-(len(learners) + len(lines)) // 3)
    wide, high = max(0.7 + 2.65 * len(columns), 5.4), top + 2.47 * len(rows) + 0.4
    with canvas(wide, high) as figure:
        grid = figure.add_gridspec(
            len(rows),
            len(columns),
            left=0.55 / wide,
            right=1 - 0.15 / wide,
            bottom=0.75 / high,
            top=1 - (top + 0.1) / high,
            wspace=0.12,
            hspace=0.33,
        )
        for (down, across), those in panels.items():
            axes = axes_in(figure, grid[down, across].get_position(figure).bounds)
            dims = {point.cell.dim: point.cell for point in sorted(those, key=lambda one: one.cell.dim)}
            for label, of, style in lines:
                _plot(axes, [(dim, of(cell)) for dim, cell in dims.items()], label, style)
            for name in learners:
                asked = {one.cell.dim: one.queries or 0 for one in those if one.cell.learner == name}
                _plot(axes, sorted(asked.items()), name, line_look(look_places(CURVE_LEARNERS)[name]))
            low, upper = scales(axes, list(dims), every)
            axes.set_ylim(low, low * (upper / low) ** room)
            corner = {"transform": axes.transAxes, "ha": "right", "va": "top", "fontsize": 7.5}
            axes.text(0.99, 0.99, "\n".join(_missing(those)), **corner)
            axes.set_title(f"l = {rows[down]}, τ = {columns[across]:g}", loc="left", fontsize=9.5, pad=4)
            axes.tick_params(labelleft=across == 0)
            axes.set_xlabel("d" if down == len(rows) - 1 else "", labelpad=1)
            axes.set_ylabel("queries" if across == 0 else "", labelpad=1)
        legend_above(figure)
        note = f"Oracle: {oracles.pop()}. One scalar query counts one."
        figure.text(0.1 / wide, 0.1 / high, note, color=FAINT, fontsize=8.5, ha="left", va="bottom")
        return Drawing(figure, f"Queries of {', '.join(learners)} against d, with what is proved")


def _plot(axes: Any, pairs: Sequence[tuple[int, int]], label: str, style: dict[str, Any]) -> None:
    drawn = [(dim, float(value)) for dim, value in pairs if 0 < value < MOST_DRAWN]
    lone = {"marker": "_", "markersize": 14} if len(drawn) == 1 and "marker" not in style else {}
    axes.plot([x for x, _ in drawn], [y for _, y in drawn], label=label, **style, **lone)


def _learners(points: Sequence[CurvePoint]) -> list[str]:
    ran = {point.cell.learner for point in points}
    return [name for name in CURVE_LEARNERS if name in ran]


def _is_bounded(points: Sequence[CurvePoint]) -> bool:
    """Whether the group learner ran, against an oracle for which its bound is proved."""
    return points[0].cell.oracle in _BOUNDED_ORACLES and "group" in _learners(points)


def _bounds(points: Sequence[CurvePoint]) -> list[tuple[str, Callable[[CurveCell], int], dict[str, Any]]]:
    """The lines of a panel that are no learner's: name, value of a cell, look."""
    lines: list[tuple[str, Callable[[CurveCell], int], dict[str, Any]]] = [
        ("lower bound (proved)", lambda cell: cell.lower_bound, _BOUND),
        ("number N of targets", lambda cell: cell.targets, _SIZE),
        ("group's bound (proved)", lambda cell: cell.group_bound, _UPPER),
    ]
    return lines if _is_bounded(points) else lines[:2]


def _missing(points: Sequence[CurvePoint]) -> Iterator[str]:
    """Which cells of a panel are no points."""
    dims: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point.queries is None:
            dims.setdefault((point.cell.learner, point.status), []).append(str(point.cell.dim))
    for (learner, status), where in dims.items():
        yield f"{learner}: {status}, d = {', '.join(where)}"


def _shown(point: CurvePoint | None) -> str:
    if point is None:
        return "-"
    return point.status if point.queries is None else count_in_full(point.queries)
