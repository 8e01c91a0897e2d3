"""What a page shows as spreadsheets: the table of every pair, and the curves point by point, as CSV text."""

from collections.abc import Sequence
from typing import Any

from arena._csv import csv_text
from arena.results import Cell, Results
from arena.words import family, in_order

__all__ = ["curves_csv", "table_csv"]


def table_csv(results: Results) -> str:
    """The table as CSV: one line per target and learner, summed up over seeds, with all digits.

    Parameters
    ----------
    results : Results
        The comparison.

    Returns
    -------
    str
        A header and one line per pair, targets in the order they are shown. Errors, examples and seconds are
        medians over the ``done`` seeds; an error that is not finite is "inf", and a field without a value is empty.
    """
    rows = []
    for target in in_order(results):
        for learner in results.learners:
            summary = results.summary(target.name, learner.name)
            errors = (summary.error, summary.error_min, summary.error_max)
            rows.append(
                (
                    *(
                        target.name,
                        target.title,
                        family(target),
                        learner.name,
                        learner.title,
                        summary.verdict,
                    ),
                    *(("inf" if error is None else error) if summary.done else None for error in errors),
                    *(summary.examples, summary.seconds, summary.outcome, summary.done, summary.seeds),
                    summary.message,
                )
            )
    return csv_text(_TABLE, rows)


_TABLE = (
    *("target", "target_title", "family", "learner", "learner_title", "verdict"),
    *("unknown_part_error", "error_min", "error_max", "examples", "seconds", "outcome", "done", "seeds"),
    "message",
)


def curves_csv(results: Results, target: str | None = None) -> str:
    """The points of the curves as CSV: what every step had cost, and its error.

    Parameters
    ----------
    results : Results
        The comparison.
    target : str, optional
        The name of a target; by default the points of all.

    Returns
    -------
    str
        A header and one line per step of every fit, in order, and a last line, "end", for the fit as it came back;
        an error that is not finite, and any value that was not measured, is an empty field.

    Raises
    ------
    ValueError
        If there is no such target.
    """
    chosen = in_order(results) if target is None else [results.target(target)]
    rows: list[Sequence[Any]] = []
    for one in chosen:
        for learner in results.learners:
            for cell in results.cell(one.name, learner.name):
                rows += _points(cell)
    return csv_text(_CURVES, rows)


_CURVES = ("target", "learner", "seed", "step", "phase", "examples", "seconds", "unknown_part_error")


def _points(cell: Cell) -> list[Sequence[Any]]:
    if cell.status != "done" or cell.outcome == "NOT_APPLICABLE":
        return []
    end = ("end", cell.examples_used, cell.seconds, cell.unknown_part_error)
    steps = [
        (point.name, point.examples, point.seconds, point.measures.get("unknown_part_error"))
        for point in cell.trace
    ]
    return [
        (cell.target, cell.learner, cell.seed, place, *values)
        for place, values in enumerate([*steps, end], start=1)
    ]
