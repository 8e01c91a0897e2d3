"""Query-count curves in words: their tables, and what of them is proved and what measured."""

import math
from collections.abc import Sequence

from arena.curve_figures import BOUNDED_ORACLES, LEARNER_TITLES, ORACLE_TITLES
from arena.learner_side import LearnerSide
from arena.plain import aligned, folded
from arena.queried_phases import QueriedPhases
from sq import CURVE_LEARNERS, CurvePoint

__all__ = ["curves_text", "learner_side_text", "said_of_curves", "said_of_learner_side"]

_COUNTED = "One scalar query counts one: a vector of d of them, such as a gradient, counts d."


def curves_text(points: Sequence[CurvePoint]) -> str:
    """The table of a curve, a row for each tolerance, number of bits and dimension, and what is to be said of it."""
    learners = [name for name in CURVE_LEARNERS if any(point.cell.learner == name for point in points)]
    rows = [
        (
            "l",
            "tau",
            "d",
            "targets N",
            "at least",
            *learners,
            *(["group's bound"] if _bounded(points) else []),
        )
    ]
    by_row: dict[tuple[int, float, int], dict[str, CurvePoint]] = {}
    for point in points:
        cell = point.cell
        by_row.setdefault((cell.bits, cell.tolerance, cell.dim), {})[cell.learner] = point
    for (bits, tolerance, dim), those in by_row.items():
        cell = next(iter(those.values())).cell
        shown = [_shown(those[name]) for name in learners]
        upper = [_whole(cell.group_bound)] if _bounded(points) else []
        rows.append(
            (
                str(bits),
                f"{tolerance:g}",
                str(dim),
                _whole(cell.targets),
                _whole(cell.lower_bound),
                *shown,
                *upper,
            )
        )
    return "\n".join([aligned(rows), "", *folded(said_of_curves(points)), *folded(_reasons(points))])


def said_of_curves(points: Sequence[CurvePoint]) -> list[str]:
    """The convention of counting, what is proved, and what was measured: sentences."""
    oracle = points[0].cell.oracle
    said = [
        _COUNTED,
        "Proved: at least ceil((N-1)/M*) queries, M* = ceil(1/tau^2) - 1, for a deterministic learner of correlational "
        "queries that is right about every target whatever valid replies it gets.",
        "Measured: what each learner asked until it named the right target, against "
        + ORACLE_TITLES[oracle]
        + ".",
    ]
    if _bounded(points):
        said.insert(
            2, "Proved: at most ceil((N-1)/M*) + ceil(log2 M*) for the group learner, against this oracle."
        )
    if oracle in ("exact", "honest"):
        said.append(
            "One target was drawn for each d and l: a learner in luck asks fewer than the lower bound, which is about "
            "the worst."
        )
    if oracle == "honest":
        batches = sorted({point.cell.batch for point in points if point.cell.batch})
        each = _whole(batches[0]) + ("" if len(batches) == 1 else f" to {_whole(batches[-1])}")
        said.append(
            f"Replies are means over {each} fresh examples each, within tau with a probability only; "
            "'wrong' is a learner that such a reply misled."
        )
    return said


def learner_side_text(points: Sequence[LearnerSide], measured: Sequence[QueriedPhases] = ()) -> str:
    """The table of the learner's side, a row for each dimension, and what is to be said of it."""
    heads = sorted({point.heads for point in points})
    bits = {point.heads: point.bits for point in points}
    rows = [("d", "queries Q", "tolerance", *(f"l={bits[m]}, m={m}" for m in heads))]
    for dim in sorted({point.dim for point in points}):
        those = {point.heads: point for point in points if point.dim == dim}
        one = next(iter(those.values()))
        edges = [
            "-" if m not in those else f"{those[m].visible_below:.2g}" + ("*" if those[m].invisible else " ")
            for m in heads
        ]
        rows.append((str(dim), _whole(one.queries), f"{one.tolerance:.2g}", *edges))
    title = (
        "What the six-phase learner needs on nice targets of 2 heads and 2 tokens, and the tolerance from which on as "
        "many queries cannot tell the parities of l bits apart (m heads; * = that hides them from it):"
    )
    return "\n".join([*folded([title]), "", aligned(rows), "", *folded(said_of_learner_side(measured))])


def said_of_learner_side(measured: Sequence[QueriedPhases] = ()) -> list[str]:
    """What is exact, proved, measured and a rule of thumb in the learner's side: sentences."""
    runs = [
        f"d = {one.dim}, {_whole(one.queries)} queries, replies off by up to {one.slack:g} times the tolerance each "
        f"declares: {one.explanation}"
        for one in measured
    ]
    return [
        _COUNTED,
        "Exact: the learner's number Q of queries, by its plan. By its plan, in part rules of thumb checked on nice "
        "targets of d up to 32: the tolerance it needs.",
        "Proved: from 1/(2 sqrt(ceil((N-1)/Q))) on, Q queries of any statistics of two-valued labels cannot tell the "
        "N = C(d-1, l) parities apart, as each rules out at most ceil(1/(4 tau^2)) - 1 of them; about sqrt(Q/N)/2.",
        "Below that tolerance this bound says nothing: not that the six phases find a parity. Two heads hide fewer "
        "parities than the learner has queries, so there it hides them from 0.5 on only, where a query rules out none. "
        "The plan is the one for two heads in every column; more heads need smaller tolerances.",
        *(
            ["Measured, phases 1 to 5 through an oracle of statistical queries: " + runs[0], *runs[1:]]
            if runs
            else []
        ),
    ]


def _bounded(points: Sequence[CurvePoint]) -> bool:
    """Whether the group learner ran, against an oracle for which its bound is proved."""
    return points[0].cell.oracle in BOUNDED_ORACLES and any(point.cell.learner == "group" for point in points)


def _shown(point: CurvePoint) -> str:
    return point.status if point.queries is None else _whole(point.queries)


def _whole(number: int) -> str:
    """A whole number; past twelve digits by its size."""
    if number < 10**12:
        return str(number)
    exponent = math.log10(number)
    return f"{10 ** (exponent % 1):.1f}e{int(exponent)}"


def _reasons(points: Sequence[CurvePoint]) -> list[str]:
    """Why cells have no number, each reason once for all the dimensions it is true of."""
    reasons: dict[tuple[str, str, str], list[CurvePoint]] = {}
    for point in points:
        if point.queries is None:
            at = f"l = {point.cell.bits}, tau = {point.cell.tolerance:g}"
            reasons.setdefault((point.cell.learner, point.status, at), []).append(point)
    said = []
    for (learner, status, at), those in reasons.items():
        dims = ", ".join(str(point.cell.dim) for point in those)
        more = "; in the first's words" if len(those) > 1 else ""
        said.append(f"{LEARNER_TITLES[learner]}, {status} at {at}, d = {dims}{more}: {those[0].explanation}")
    return said
