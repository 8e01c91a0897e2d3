"""Sums over the rows of the study of noisy labels: ratios to a law, where phases break, exponents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena.studies.study import Row
from upper.floor import counting_floor

__all__ = [
    "PHASES",
    "SMALL",
    "breaking_levels",
    "excess_ratios",
    "floors_of",
    "likelihood_slopes",
    "middle",
    "most_examples",
    "of_kind",
    "size_of",
]

PHASES = {"crude": "crude sum", "refined": "refined sum", "span": "span"}
"""What is measured of the phases, and what it is called."""
SMALL = 0.1
"""The noise, in units of the labels, up to which a law to first order is held against what is found."""
_BROKEN = 2.0  # times the error without noise
_SETTLED = 0.2  # errors below which a law to first order is taken to hold


def of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    """The rows of one kind of cell."""
    return [row for row in rows if row["kind"] == kind]


def size_of(row: Row) -> tuple[int, int, int]:
    """The numbers m, k and d of a row."""
    return row["heads"], row["tokens"], row["dim"]


def floors_of(row: Row) -> int:
    """The examples of a row in units of the counting floor, to the nearest whole number."""
    m, k, d = size_of(row)
    return round(row["examples"] / counting_floor(heads=m, tokens=k, dim=d))


def middle(values: Sequence[float | None]) -> float | None:
    """The median of the values that are there; None if there is none."""
    there = [value for value in values if value is not None]
    return float(np.median(there)) if there else None


def excess_ratios(
    rows: Sequence[Row],
) -> dict[tuple[tuple[int, int, int], int], tuple[list[float], float | None]]:
    """Newton's excess over the law, by size and floors, for small noise; and what the covariance says."""
    groups: dict[tuple[tuple[int, int, int], int], list[Row]] = {}
    for row in of_kind(rows, "newton"):
        if row["level"] <= SMALL:
            groups.setdefault((size_of(row), floors_of(row)), []).append(row)
    return {
        key: (
            [ratio for row in members for ratio in row["ratio"]],
            middle([law for row in members for law in row["law"]]),
        )
        for key, members in sorted(groups.items())
    }


def breaking_levels(rows: Sequence[Row]) -> dict[str, float | None]:
    """The least noise at which a phase's error is twice that without noise; None if none of those measured."""
    there = {row["level"]: row for row in of_kind(rows, "phases")}
    if 0.0 not in there or len(there) < 2:
        return {}
    found: dict[str, float | None] = {}
    for name in PHASES:
        clean = middle(there[0.0][name])
        if clean is None:
            continue
        worse = [
            level
            for level, row in sorted(there.items())
            if (error := middle(row[name])) is None or error > _BROKEN * clean
        ]
        found[name] = worse[0] if worse else None
    return found


def likelihood_slopes(rows: Sequence[Row]) -> list[float]:
    """Exponents of the examples in the error of maximum likelihood: one a size, a gain and a draw."""
    groups: dict[Any, list[Row]] = {}
    for row in of_kind(rows, "sampled"):
        groups.setdefault((size_of(row), row["level"]), []).append(row)
    slopes = []
    for members in groups.values():
        settled = [row for row in members if (middle(row["likelihood_law"]) or 1.0) < _SETTLED]
        if len(settled) > 1:
            places = np.log([row["examples"] for row in settled])
            for errors in zip(*(row["likelihood"] for row in settled), strict=False):
                slopes.append(float(np.polyfit(places, np.log(errors), 1)[0]))
    return slopes


def most_examples(rows: Sequence[Row]) -> list[Row]:
    """The sampled rows of the smallest size with the most examples, one a gain."""
    there = of_kind(rows, "sampled")
    there = [row for row in there if size_of(row) == min(map(size_of, there), key=lambda size: size[2])]
    return [row for row in there if row["examples"] == max(one["examples"] for one in there)]
