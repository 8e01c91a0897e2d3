"""Query-count curves of learners of hard families, and of the six phases beside the bounds that hide parities."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from arena.drawing import Drawing
from arena.formats import aligned, folded
from arena.learner_table import learner_looks
from attention.validation import PositiveInt, checked
from runs import Cell, run
from runs.figures import FAINT, INK, MOST_DRAWN, axes_in, canvas, legend_above, line_look, scales
from sq import CurveCell, SecretSet
from sq.curves import CURVE_LEARNERS, CurvePoint, curve_row, visible_below
from upper.six_phase import six_phase_queries

__all__ = [
    "LearnerSide",
    "curve_table",
    "draw_curves",
    "draw_learner_side",
    "learner_side",
    "learner_side_table",
    "run_curves",
]

_BOUNDED_ORACLES = ("reference", "exact")  # the oracles for which the group learner's bound is proved
_BOUND = {"color": FAINT, "alpha": 0.45, "linewidth": 5.0, "solid_capstyle": "round", "zorder": 1}
_SIZE = {"color": INK, "linestyle": (0, (0.5, 0.7)), "linewidth": 4.5, "alpha": 0.4, "zorder": 1}
_CHECKED = 32  # the largest d at which the tolerances of the six phases' plan were checked
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
        Called with each point when it is found in the store or done.
    **options
        As of `runs.run`: jobs, timeout, store, fresh, isolated, cluster.

    Returns
    -------
    tuple of CurvePoint
        One per cell, in the order of the cells. A cell that crashed or took too long is "failed".

    Examples
    --------
    >>> from sq import curve_cells
    >>> [point.queries for point in run_curves(curve_cells([10, 16], [2], [0.3]), isolated=False)]
    [35, 4, 5, 104, 10, 12]
    """
    work = {
        Cell(curve_row, asdict(cell), label=f"{cell.learner} at d = {cell.dim}"): cell
        for cell in sorted(cells, key=lambda cell: cell.targets)
    }
    points = {}
    for result in run(work, retry_failed=True, **options):
        cell, done = work[result.cell], result.status == "done"
        points[cell] = (
            CurvePoint.from_row(result.value) if done else CurvePoint(cell, "failed", result.message)
        )
        if on_point is not None:
            on_point(points[cell])
    return tuple(points[cell] for cell in cells)


def curve_table(points: Sequence[CurvePoint]) -> str:
    """A row for each number of bits, tolerance and dimension; below, the reason for each kind of missing number."""
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
        upper = [_in_full(cell.group_bound)] * bounded
        sizes = _in_full(cell.targets), _in_full(cell.lower_bound)
        rows.append((str(bits), f"{-minus_tau:g}", str(dim), *sizes, *shown, *upper))
    return "\n".join([aligned(rows), *folded(list(reasons.values()))])


def _in_full(number: int) -> str:
    """A whole number in full up to twelve digits, then by its order of magnitude."""
    return str(number) if number < 10**12 else f"{Decimal(number):.1e}"


def draw_curves(points: Sequence[CurvePoint]) -> Drawing:
    """Queries against d, logarithmic both ways: a panel for each number of bits (down) and each tolerance (across).

    Raises
    ------
    ValueError
        If there are no points, or the points are of several oracles.

    Notes
    -----
    Every panel shows as lines the lower bound, the number N of targets and, if it ran, the group learner's bound.
    A cell that did not find the right target has no point; the panel names it.
    """
    oracles = {point.cell.oracle for point in points}
    if len(oracles) != 1:
        raise ValueError(f"The points are of {len(oracles)} oracles: those of one are drawn together.")
    rows = sorted({point.cell.bits for point in points})
    columns = sorted({point.cell.tolerance for point in points}, reverse=True)
    learners, lines = _learners(points), _bounds(points)
    looks = learner_looks(CURVE_LEARNERS)
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
                _plot(axes, sorted(asked.items()), name, looks[name])
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
    """Whether the group learner ran against an oracle for which its bound is proved."""
    return points[0].cell.oracle in _BOUNDED_ORACLES and "group" in _learners(points)


def _bounds(points: Sequence[CurvePoint]) -> list[tuple[str, Callable[[CurveCell], int], dict[str, Any]]]:
    """The lines of a panel that belong to no learner: name, value of a cell, look."""
    lines: list[tuple[str, Callable[[CurveCell], int], dict[str, Any]]] = [
        ("lower bound (proved)", lambda cell: cell.lower_bound, _BOUND),
        ("number N of targets", lambda cell: cell.targets, _SIZE),
        ("group's bound (proved)", lambda cell: cell.group_bound, _UPPER),
    ]
    return lines if _is_bounded(points) else lines[:2]


def _missing(points: Sequence[CurvePoint]) -> Iterator[str]:
    """Which cells of a panel have no point."""
    dims: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point.queries is None:
            dims.setdefault((point.cell.learner, point.status), []).append(str(point.cell.dim))
    for (learner, status), where in dims.items():
        yield f"{learner}: {status}, d = {', '.join(where)}"


def _shown(point: CurvePoint | None) -> str:
    if point is None:
        return "-"
    return point.status if point.queries is None else _in_full(point.queries)


@dataclass(frozen=True)
class LearnerSide:
    """The queries of the six phases in d dimensions, beside one family of parities."""

    dim: int  #: d
    heads: int  #: m of the hard family
    bits: int  #: the 2m - 1 bits that the family hides
    queries: int  #: Q: the scalar queries of phases 1 to 5 on a nice target of two heads and two tokens
    tolerance: float  #: the smallest tolerance among them
    targets: int  #: N = C(d - 1, 2m - 1)
    visible_below: float  #: from this tolerance up, Q queries of STAT cannot tell the N targets apart

    @property
    def invisible(self) -> bool:
        """Whether Q queries cannot tell the parities apart, at the tolerance that the learner needs on nice targets."""
        return self.tolerance >= self.visible_below

    def row(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**asdict(self), "invisible": self.invisible}


@checked
def learner_side(
    dims: Sequence[PositiveInt] = (8, 16, 32, 64, 128, 256, 512, 1024),
    heads: Sequence[PositiveInt] = (2, 4, 8, 16),
) -> tuple[LearnerSide, ...]:
    """The curve of the six-phase learner: count the queries of its plan, without asking any.

    Parameters
    ----------
    dims : sequence of int
        d, at least 3; pairs with fewer than two targets are left out.
    heads : sequence of int
        m of the hard families.

    Returns
    -------
    tuple of LearnerSide
        By dimension, then heads.

    Notes
    -----
    Exact: the count of queries of the plan. A rule of thumb, checked on nice targets of d up to 32: the learner needs
    the tolerances of the plan. Proved: at tolerances from `visible_below` on, no learner with this many queries tells
    the parities apart (labels two-valued on the gate, `lower.eliminated_per_query`). Not shown: that it does so at
    smaller tolerances. The plan is that of two heads for every family, although more heads agree on fewer rows and need
    smaller tolerances.

    Examples
    --------
    >>> [(one.dim, one.heads, one.invisible) for one in learner_side([64, 1024], [2, 16])]
    [(64, 2, False), (64, 16, False), (1024, 2, False), (1024, 16, True)]
    """
    found = []
    for dim in dims:
        counts = six_phase_queries(tokens=2, dim=dim)
        queries, tolerance = sum(one.count for one in counts), min(one.tolerance for one in counts)
        for m in heads:
            if (bits := 2 * m - 1) < dim - 1:
                targets = SecretSet(dim, bits).size
                edge = visible_below(targets, queries, full=True)
                found.append(LearnerSide(dim, m, bits, queries, tolerance, targets, edge))
    return tuple(found)


def learner_side_table(points: Sequence[LearnerSide]) -> str:
    """A row for each dimension: queries, tolerance, and the tolerance from which each family is hidden."""
    families = sorted({(one.heads, one.bits) for one in points})
    edges = {(one.dim, one.heads): f"{one.visible_below:.2g}{' *'[one.invisible]}" for one in points}
    rows = [("d", "queries Q", "tolerance", *(f"hides l={bits}, m={m}" for m, bits in families))]
    for dim, queries, tolerance in sorted({(one.dim, one.queries, one.tolerance) for one in points}):
        shown = (edges.get((dim, m), "-") for m, _ in families)
        rows.append((str(dim), _in_full(queries), f"{tolerance:.2g}", *shown))
    return aligned(rows) + "\n* hidden from Q queries of the tolerance that six phases need on nice targets"


def draw_learner_side(points: Sequence[LearnerSide]) -> Drawing:
    """Queries and tolerances of the six phases against d, beside the hard families' sizes and threshold tolerances.

    Raises
    ------
    ValueError
        If there are no points.
    """
    if not points:
        raise ValueError("There is no point to draw: give dimensions of at least 3.")
    plan = {point.dim: point for point in points}
    panels = (("queries, targets", "queries", "targets"), ("tolerance", "tolerance", "visible_below"))
    with canvas(6.6, 3.5) as figure:
        for place, (title, of_learner, of_family) in enumerate(panels):
            axes = axes_in(figure, (0.085 + 0.5 * place, 0.21, 0.4, 0.53))
            for look, m in enumerate(sorted({point.heads for point in points}), 1):
                those = [point for point in points if point.heads == m]
                xs, ys = [one.dim for one in those], [float(getattr(one, of_family)) for one in those]
                label = f"parities of {2 * m - 1} bits, m = {m}"
                axes.plot(xs, ys, **line_look(look), clip_on=False, label=label)
            line = {
                "color": INK,
                "linewidth": 2.2,
                "zorder": 5,
                "label": "six phases on nice targets: their plan",
            }
            asked = {dim: float(getattr(one, of_learner)) for dim, one in plan.items()}
            sure = [dim for dim in asked if dim <= _CHECKED or title != "tolerance"]
            axes.plot(sure, [asked[dim] for dim in sure], **line)
            axes.plot(list(asked), list(asked.values()), **(line | {"label": "", "linestyle": (0, (3, 1.5))}))
            every = [float(getattr(one, name)) for one in points for name in (of_learner, of_family)]
            scales(axes, list(plan), every)
            axes.set_title(title, loc="left", fontsize=9.5, pad=4)
            axes.set_xlabel("d", labelpad=1)
        legend_above(figure, columns=2)
        note = (
            "Coloured, right: from this tolerance on, as many queries as the six phases ask cannot tell the parities\n"
            f"apart. Black: exact queries; tolerances checked up to d = {_CHECKED} (dashed beyond)."
        )
        figure.text(0.015, 0.015, note, color=FAINT, fontsize=8, ha="left", va="bottom", linespacing=1.3)
        return Drawing(figure, "What six phases need on nice targets as d grows")
