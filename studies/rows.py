"""Rows of a study: those with given values, groups of them, and how many of them succeed."""

from collections.abc import Iterable, Sequence
from typing import Any

from studies.intervals import proportion_interval
from studies.study import Row

__all__ = ["chosen", "grouped", "of_all", "with_interval"]


def chosen(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows grouped by their values of these names, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


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
