"""Many cells of query-count curves: in parallel, each kept as it is done, none computed twice."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from arena._answers import answers_to, jobs_allowed
from arena.calls import Call
from arena.cells import single_thread
from arena.curve_store import CurveStore
from arena.identity import cell_key
from arena.made_with import versions
from attention.validation import require_instance
from sq import CurveCell, CurvePoint, measure_cell

__all__ = ["curve_key", "run_curves"]


def run_curves(
    cells: Sequence[CurveCell],
    *,
    jobs: int | None = None,
    store: CurveStore | None = None,
    fresh: bool = False,
    isolated: bool = True,
    on_point: Callable[[CurvePoint], None] | None = None,
) -> tuple[CurvePoint, ...]:
    """Measure every cell that is not in the store.

    Parameters
    ----------
    cells : sequence of CurveCell
        What `sq.curve_cells` gives.
    jobs : int, optional
        How many cells run at once; by default as `joblib` is configured, which is one. It changes no number.
    store : CurveStore, optional
        Where points are kept, and taken from if they are there.
    fresh : bool
        Whether every cell is measured again, also those in the store; what was there stays until its successor is done.
    isolated : bool
        Whether cells run in processes of their own, where a crash ends nothing else; otherwise one after another, here.
    on_point : callable, optional
        Called with each point as it is found in the store or done.

    Returns
    -------
    tuple of CurvePoint
        One a cell, in their order. A cell whose process broke down is "failed", and is not kept.

    Raises
    ------
    ValueError
        If `jobs` is below 1, or above 1 without processes of their own.
    StoreError
        If the store cannot be read or written.
    WorkersLostError
        If what runs the cells broke down.

    Notes
    -----
    An interruption ends the processes and is passed on: what was done by then is in the store. Within `arena.cluster`
    isolated cells run on the workers of a dask cluster.

    Examples
    --------
    >>> from sq import curve_cells
    >>> [point.queries for point in run_curves(curve_cells([10, 16], [2], [0.3]), isolated=False)]
    [35, 4, 5, 104, 10, 12]
    """
    jobs = jobs_allowed(jobs, isolated=isolated)
    for one in cells:
        require_instance("A cell", one, CurveCell, needed="a CurveCell, such as curve_cells gives,")
    keys = {cell: curve_key(cell) for cell in cells}
    tell = on_point or (lambda point: None)
    points = {}
    if store is not None and not fresh:
        there = store.find(keys.values())
        points = {cell: CurvePoint.from_row(there[key]) for cell, key in keys.items() if key in there}
        for point in points.values():
            tell(point)
    # the small ones first, so that an early interruption leaves something to go on from
    waiting = sorted((cell for cell in keys if cell not in points), key=lambda cell: cell.targets)
    calls = (Call(cell, _measured, (cell,)) for cell in waiting)
    with answers_to(calls, jobs=jobs, isolated=isolated) as answers:
        for answer in answers:
            cell: Any = answer.name
            point = CurvePoint(cell, "failed", answer.failure) if answer.failure else answer.value
            if store is not None and point.status != "failed":
                store.put(keys[point.cell], point.row())
            points[point.cell] = point
            tell(point)
    return tuple(points[cell] for cell in cells)


def curve_key(cell: CurveCell) -> str:
    """What a point depends on, as one hash: the cell, the versions of packages, and the code of this toolkit."""
    what = {name: value for name, value in asdict(cell).items() if name not in ("learner", "seed")}
    return cell_key({"curve": "parity queries", **what}, cell.learner, cell.seed, versions())


def _measured(cell: CurveCell) -> CurvePoint:
    # sums of gradients depend on how many threads add them up
    with single_thread():
        return measure_cell(cell)
