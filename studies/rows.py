"""Rows of a study: those with given values, groups of them, counts, medians and tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from studies.intervals import proportion_interval
from studies.study import Row, Table


def chosen(rows: Iterable[Row], /, **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows grouped by their values of these names, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """What was measured under a name; None is left out."""
    return [row[name] for row in rows if row.get(name) is not None]


def median(rows: Iterable[Row], name: str) -> float | None:
    """The median of what was measured under a name; None if nothing was."""
    measured = values(rows, name)
    return float(np.median(measured)) if measured else None


def curve(rows: Iterable[Row], x: str, y: str) -> list[tuple[Any, float]]:
    """The medians of y by x, in the order of x, for a figure; places without a value are left out.

    Examples
    --------
    >>> curve([{"d": 8, "error": 0.5}, {"d": 4, "error": 0.1}, {"d": 4, "error": 0.3}], "d", "error")
    [(4, 0.2), (8, 0.5)]
    """
    medians = {at: median(group, y) for (at,), group in sorted(grouped(rows, x).items())}
    return [(at, y) for at, y in medians.items() if y is not None]


def table(
    rows: Iterable[Row],
    by: Mapping[str, str],
    columns: Mapping[str, str | Callable[[Sequence[Row]], Any]],
) -> Table:
    """A table with one line for each group of rows.

    Parameters
    ----------
    rows : iterable of Row
        The rows.
    by : mapping of str to str
        The names of the values that make a group, by the title of their column. If empty, each row is a group.
    columns : mapping of str to str or callable
        By title: a function of the rows of a group, or the name of a value: its median, if the rows differ.

    Examples
    --------
    >>> rows = [{"d": 4, "error": 0.1}, {"d": 4, "error": 0.3}, {"d": 8, "error": 0.5}]
    >>> table(rows, {"d": "d"}, {"error": "error", "draws": len})
    [{'d': 4, 'error': 0.2, 'draws': 2}, {'d': 8, 'error': 0.5, 'draws': 1}]
    """
    return [
        dict(zip(by, key, strict=True)) | {title: _entry(group, column) for title, column in columns.items()}
        for key, group in (grouped(rows, *by.values()).items() if by else (((), [row]) for row in rows))
    ]


def _entry(group: Sequence[Row], column: str | Callable[[Sequence[Row]], Any]) -> Any:
    if not isinstance(column, str):
        return column(group)
    measured = values(group, column)
    return median(group, column) if len(set(measured)) > 1 else measured[0] if measured else None


def of_all(hits: Iterable[bool]) -> str:
    """The number of true values and the number of all values, as text.

    Examples
    --------
    >>> of_all([True, False, True])
    '2 of 3'
    """
    hits = list(hits)
    return f"{sum(hits)} of {len(hits)}"


def with_interval(hits: Iterable[bool]) -> str:
    """The number of true values and of all values, with the 95 % interval of the share, as text.

    Examples
    --------
    >>> with_interval([True, False, True])
    '2 of 3 (0.09 to 0.99)'
    """
    hits = list(hits)
    interval = proportion_interval(sum(hits), len(hits), confidence=0.95)
    return f"{of_all(hits)} ({interval.low:.2f} to {interval.high:.2f})"


def number_text(value: Any) -> str:
    """An entry of a table: whole numbers below a million with all digits, others to three digits or less.

    Examples
    --------
    >>> [number_text(value) for value in (None, 1152, 18278, 10**40, 0.25, 3.3786, 1e-13, 0.0, "Haar")]
    ['-', '1152', '18,278', '1.0e+40', '0.25', '3.38', '1.0e-13', '0', 'Haar']
    """
    if value is None:
        return "-"
    if isinstance(value, int) and abs(value) >= 10**4:
        return f"{value:,}" if abs(value) < 10**6 else f"{Decimal(value):.1e}"
    if not isinstance(value, float) or value == 0:
        return "0" if isinstance(value, float) else str(value)
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"
