"""The learner's side of the curves: the tolerance that six phases need, and the one that hides the parities."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena.curves import count_in_full
from arena.drawing import Drawing
from arena.plain import aligned
from attention.validation import PositiveInt, checked
from runs.figures import FAINT, INK, axes_in, canvas, legend_above, line_look, scales
from sq import SecretSet, visible_below
from upper.six_phase import QueryPlan, six_phase_queries

__all__ = ["LearnerSide", "draw_learner_side", "learner_side", "learner_side_table"]

_DIMS = (8, 16, 32, 64, 128, 256, 512, 1024)
_HEADS = (2, 4, 8, 16)
_CHECKED = 32  # up to this d the tolerances of the plan were checked


@dataclass(frozen=True)
class LearnerSide:
    """What six phases ask in d dimensions, beside one family of parities."""

    dim: int  #: d
    heads: int  #: m of the hard family
    bits: int  #: the 2m - 1 bits that they hide
    queries: int  #: Q: the scalar queries of phases 1 to 5 on a nice target of two heads and two tokens
    tolerance: float  #: the smallest tolerance among them
    targets: int  #: N = C(d - 1, 2m - 1)
    visible_below: float  #: from this tolerance on, Q queries of STAT cannot tell the N targets apart

    @property
    def invisible(self) -> bool:
        """Whether Q queries of the tolerance that the learner needs on nice targets cannot tell the parities apart."""
        return self.tolerance >= self.visible_below

    def row(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**asdict(self), "invisible": self.invisible}


@checked
def learner_side(
    dims: Sequence[PositiveInt] = _DIMS, heads: Sequence[PositiveInt] = _HEADS
) -> tuple[LearnerSide, ...]:
    """The curve of the six-phase learner: nothing is asked, its plan is counted.

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
    Exact: the count of queries, for the plan as it is. A rule of thumb, checked on nice targets of d up to 32: that the
    tolerances of the plan are what it needs. Proved: from `visible_below` on, no learner of so many queries tells
    the parities apart (labels two-valued on the gate, `sq.full_query_cap`). Not shown: that it does below; and the
    plan is that of two heads for every family: more heads agree on fewer rows and need smaller tolerances.

    Examples
    --------
    >>> [(one.dim, one.heads, one.invisible) for one in learner_side([64, 1024], [2, 16])]
    [(64, 2, False), (64, 16, False), (1024, 2, False), (1024, 16, True)]
    """
    found = []
    for dim in dims:
        counts = six_phase_queries(QueryPlan(m=2, k=2, d=dim))
        queries, tolerance = sum(one.count for one in counts), min(one.tolerance for one in counts)
        for m in heads:
            if (bits := 2 * m - 1) < dim - 1:
                targets = SecretSet(dim, bits).size
                edge = visible_below(targets, queries, full=True)
                found.append(LearnerSide(dim, m, bits, queries, tolerance, targets, edge))
    return tuple(found)


def learner_side_table(points: Sequence[LearnerSide]) -> str:
    """A row for each dimension: queries, tolerance, and from which tolerance on each family is hidden."""
    families = sorted({(one.heads, one.bits) for one in points})
    edges = {(one.dim, one.heads): f"{one.visible_below:.2g}{' *'[one.invisible]}" for one in points}
    rows = [("d", "queries Q", "tolerance", *(f"hides l={bits}, m={m}" for m, bits in families))]
    for dim, queries, tolerance in sorted({(one.dim, one.queries, one.tolerance) for one in points}):
        shown = (edges.get((dim, m), "-") for m, _ in families)
        rows.append((str(dim), count_in_full(queries), f"{tolerance:.2g}", *shown))
    return aligned(rows) + "\n* hidden from Q queries of the tolerance that six phases need on nice targets"


def draw_learner_side(points: Sequence[LearnerSide]) -> Drawing:
    """Queries and tolerances of the six phases against d, beside the hard families' sizes and edges.

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
