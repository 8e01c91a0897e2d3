"""Statistical queries against the dimension, beside what is proved: of three learners, and of the six phases."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from attention.validation import NonNegativeInt, PositiveInt, checked
from runs.figures import MOST_DRAWN
from sq import CurveCell, SecretSet, curve_cells, measure_cell
from sq.curves import CURVE_LEARNERS, visible_below
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped, table
from studies.study import Row, Study, Table
from upper.six_phase import six_phase_queries

_BOUNDED_ORACLES = ("reference", "exact")  # the oracles for which the group learner's bound is proved
_CHECKED = 32  # the largest d at which the tolerances of the six phases' plan were checked


def query_curves(
    *,
    dims: Sequence[int] = (10, 16, 20, 30, 40),
    bits: Sequence[int] = (2, 3),
    tau: Sequence[float] = (0.3, 0.1),
    family: str = "sq-parity",
    oracle: str = "reference",
    learners: Sequence[str] = CURVE_LEARNERS,
    batch: PositiveInt | None = None,
    noise: float = 0.0,
    seed: NonNegativeInt = 0,
) -> Study:
    """Count the statistical queries that each learner needs to find a secret; draw them and the lower bound against d.

    Parameters
    ----------
    dims : sequence of int
        Dimensions d.
    bits : sequence of int
        Numbers l of secret bits, below every d.
    tau : sequence of float
        Tolerances above 0 and below 1.
    family : str
        The family of the targets, such as sq-bump or sq-periodic: two tokens.
    oracle : str
        Reference or most-preserving (adversaries), exact or honest.
    learners : sequence of str
        Among exhaustive, group and signed-group.
    batch : int, optional
        Examples per query of the honest oracle; by default 4 ln(200 Q)/tau^2 for Q queries.
    noise : float
        Rate below 1/2 at which labels are flipped; for the honest oracle.
    seed : int
        Draws targets, examples and the random choices of learners.

    Notes
    -----
    A run that does not find the right target has no number of queries; the column `explanation` says why.

    Examples
    --------
    >>> from studies import run_study
    >>> result = run_study(query_curves(dims=[10, 16], bits=[2], tau=[0.3]), isolated=False)
    >>> [row["queries"] for row in result.rows]
    [35, 4, 5, 104, 10, 12]
    """
    cells = curve_cells(
        dims, bits, tau, learners=learners, oracle=oracle, batch=batch, seed=seed, family=family, noise=noise
    )
    return Study(
        name="sq",
        title="Statistical queries against the dimension",
        question="How many statistical queries do learners need to find a secret, and how many does any learner?",
        cells=lambda scale: [asdict(cell) for cell in sorted(cells, key=lambda cell: cell.targets)],
        measure=_asked,
        numbers=_missing,
        tables=_asked_table,
        figure=_asked_figure,
    )


def _asked(*, rng: Any, **cell: Any) -> dict[str, Any]:
    return measure_cell(CurveCell(**cell)).row()


def _missing(rows: Sequence[Row]) -> dict[str, str]:
    """Why numbers are missing, with the first place of each kind."""
    return {
        f"{learner}, {status}, such as at l = {row['bits']}, tau = {row['tolerance']:g}, d = {row['dim']}": row[
            "explanation"
        ]
        for (learner, status), (row, *_) in grouped(rows, "learner", "status").items()
        if status != "found"
    }


def _bounds(rows: Sequence[Row]) -> dict[str, str]:
    """The columns that belong to no learner, by their titles; the group learner's bound where it is proved."""
    bounded = any(row["learner"] == "group" and row["oracle"] in _BOUNDED_ORACLES for row in rows)
    bounds = {"number N of targets": "targets", "lower bound (proved)": "lower_bound"}
    return bounds | ({"group's bound (proved)": "group_bound"} if bounded else {})


def _asked_table(rows: Sequence[Row]) -> dict[str, Table]:
    def asked(learner: str) -> Callable[[Sequence[Row]], Any]:
        return lambda own: {row["learner"]: row["queries"] or row["status"] for row in own}.get(learner)

    columns: dict[str, Any] = {"targets N": "targets", "at least": "lower_bound"}
    columns |= {name: asked(name) for name in CURVE_LEARNERS if chosen(rows, learner=name)}
    columns |= {"group's bound": "group_bound"} if len(_bounds(rows)) > 2 else {}
    ordered = sorted(rows, key=lambda row: (row["bits"], -row["tolerance"], row["dim"]))
    return {"queries": table(ordered, {"l": "bits", "tau": "tolerance", "d": "dim"}, columns)}


def _asked_figure(rows: Sequence[Row]) -> Any:
    """A panel for each number of bits (down) and each tolerance (across)."""
    taus = sorted({row["tolerance"] for row in rows}, reverse=True)
    panels = []
    for bits in sorted({row["bits"] for row in rows}):
        for tau in taus:
            those = chosen(rows, bits=bits, tolerance=tau)
            learners = {name: _drawn(chosen(those, learner=name), "queries") for name in CURVE_LEARNERS}
            bounds = {title: _drawn(those, name) for title, name in _bounds(rows).items()}
            title = f"queries, l = {bits}, τ = {tau:g}, {rows[0]['oracle']} oracle"
            panels.append(Panel("d", title, learners, log_x=True, bounds=bounds))
    return line_figure(panels, columns=len(taus))


def _drawn(rows: Sequence[Row], name: str) -> list[tuple[float, float | None]]:
    """A column against d, without what a logarithmic axis cannot show."""
    drawn = {row["dim"]: row[name] for row in rows if row[name] and 1e-30 < row[name] < MOST_DRAWN}
    return list(drawn.items())


@checked
def six_phase_curves(
    *,
    dims: Sequence[PositiveInt] = (8, 16, 32, 64, 128, 256, 512, 1024),
    heads: Sequence[PositiveInt] = (2, 4, 8, 16),
) -> Study:
    """Count the queries of the six phases on nice targets, beside the tolerance at which as many fail on parities.

    Parameters
    ----------
    dims : sequence of int
        Dimensions d.
    heads : sequence of int
        Heads m of the hard families.

    Notes
    -----
    Exact: the count of queries of the plan; none is asked. A rule of thumb, checked on nice targets of d up to 32: the
    learner needs the tolerances of the plan. Proved: at tolerances from `visible_below` on, no learner with this many
    queries tells the parities apart (labels two-valued on the gate, `lower.eliminated_per_query`). Not shown: that it
    does so at smaller tolerances. The plan is that of two heads for every family, although more heads agree on fewer
    rows and need smaller tolerances.

    Examples
    --------
    >>> from studies import run_study
    >>> rows = run_study(six_phase_curves(dims=[64, 1024], heads=[2, 16]), isolated=False).rows
    >>> [(row["dim"], row["heads"], row["invisible"]) for row in rows]
    [(64, 2, False), (64, 16, False), (1024, 2, False), (1024, 16, True)]
    """
    cells = [{"dim": dim, "heads": m} for dim in dims for m in heads if 2 * m < dim]
    if not cells:
        raise ValueError(
            f"dims is {list(dims)}: no family of these heads has two targets there; take larger ones."
        )
    return Study(
        name="learner-side",
        title="What six phases need on nice targets as d grows",
        question="How many queries of which tolerance do the six phases ask on nice targets, and at which tolerance do "
        "as many fail on parities (*: at that of the six phases)?",
        cells=lambda scale: cells,
        measure=_planned,
        numbers=lambda rows: {},
        tables=_planned_table,
        figure=_planned_figure,
    )


def _planned(*, rng: Any, dim: int, heads: int) -> dict[str, Any]:
    counts = six_phase_queries(tokens=2, dim=dim)
    queries, tolerance = sum(one.count for one in counts), min(one.tolerance for one in counts)
    targets = SecretSet(dim, 2 * heads - 1).size
    edge = visible_below(targets, queries, full=True)
    return {
        "bits": 2 * heads - 1,
        "queries": queries,  # of phases 1 to 5 on a nice target of two heads and two tokens
        "tolerance": tolerance,  # the smallest among them
        "targets": targets,
        "visible_below": edge,  # from this tolerance up, so many queries of STAT cannot tell the targets apart
        "invisible": tolerance >= edge,
    }


def _planned_table(rows: Sequence[Row]) -> dict[str, Table]:
    titles = {f"hides l={row['bits']}, m={row['heads']}": row["heads"] for row in rows}
    lines = []
    for (dim, queries, tolerance), those in grouped(rows, "dim", "queries", "tolerance").items():
        edges = {row["heads"]: f"{row['visible_below']:.2g}{'*' * row['invisible']}" for row in those}
        line = {"d": dim, "queries Q": queries, "tolerance": tolerance}
        lines.append(line | {title: edges.get(m) for title, m in titles.items()})
    return {"tolerances": lines}


def _planned_figure(rows: Sequence[Row]) -> Any:
    families = {f"parities of {row['bits']} bits, m = {row['heads']}": row["heads"] for row in rows}
    panels = []
    for label, of_family, of_plan in (
        ("targets, queries", "targets", "queries"),
        (f"tolerance (of the plan: checked up to d = {_CHECKED})", "visible_below", "tolerance"),
    ):
        curves = {title: _drawn(chosen(rows, heads=m), of_family) for title, m in families.items()}
        plan = {"six phases on nice targets: their plan": _drawn(rows, of_plan)}
        panels.append(Panel("d", label, curves, log_x=True, bounds=plan))
    return line_figure(panels)
