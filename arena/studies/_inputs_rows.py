"""Sums over the rows of the study of token laws: pairs on one layer, the step of Newton, ratios of errors."""

from collections.abc import Iterator, Sequence

import numpy as np

from arena.studies._inputs_measures import EXACT
from arena.studies.study import Row
from paper_checks import Interval, mean_interval, proportion_interval
from upper.floor import counting_floor

__all__ = [
    "CONFIDENCE",
    "MEASURES",
    "Size",
    "apart",
    "error_ratios",
    "exact_fits",
    "exact_more_often",
    "floors_of",
    "median",
    "newton_steps",
    "of_learner",
    "ratio_interval",
    "size_of",
]

CONFIDENCE = 0.95
"""Of every interval."""
MEASURES = {"crude": "crude sum", "sampling": "its sampling error", "refined": "refined sum", "span": "span"}
"""What is measured of the phases, and what it is called."""
Size = tuple[int, int, int]
"""The numbers m, k and d."""
_FEWEST = 3  # layers, for an interval that says something


def of_learner(rows: Sequence[Row], learner: str, law: str | None = None) -> list[Row]:
    """The rows of a learner, and of a law of tokens if one is given."""
    return [row for row in rows if row["learner"] == learner and law in (None, row["inputs"])]


def size_of(row: Row) -> Size:
    """The numbers m, k and d of a row."""
    return row["heads"], row["tokens"], row["dim"]


def floors_of(row: Row) -> float:
    """Examples in units of the floor, in quarters."""
    m, k, d = size_of(row)
    return round(4 * row["examples"] / counting_floor(heads=m, tokens=k, dim=d)) / 4


def exact_fits(rows: Sequence[Row]) -> tuple[int, int]:
    """How many fits are exact, and of how many."""
    errors = [error for row in rows for error in row["error"]]
    return sum(error < EXACT for error in errors), len(errors)


def median(values: Sequence[float | None]) -> float | None:
    """The median of the values that are there; None if there is none."""
    there = [value for value in values if value is not None]
    return float(np.median(there)) if there else None


def _beside_boolean(rows: Sequence[Row], law: str, learner: str) -> Iterator[tuple[Row, Row]]:
    """Rows with Boolean tokens and with this law, of the same layers with as many examples."""
    plain = {(size_of(row), row["examples"]): row for row in of_learner(rows, learner, "boolean")}
    for row in of_learner(rows, learner, law):
        other = plain.get((size_of(row), row["examples"]))
        if other is not None:
            yield other, row


def apart(rows: Sequence[Row], law: str) -> tuple[int, int, dict[tuple[Size, int], tuple[int, int]]]:
    """How Newton's fits with Boolean tokens and with this law part on the same layer and number of examples.

    Returns
    -------
    tuple
        The pairs; those of them in cells where both laws were always exact or both never; and for each layer, by size
        and place, the pairs that were exact with Boolean tokens only and those with this law only.
    """
    total = alike = 0
    layers: dict[tuple[Size, int], tuple[int, int]] = {}
    for other, row in _beside_boolean(rows, law, "newton"):
        pairs = [(one < EXACT, two < EXACT) for one, two in zip(other["error"], row["error"], strict=False)]
        total += len(pairs)
        alike += len(pairs) if len({end for pair in pairs for end in pair}) == 1 else 0
        for place, (one, two) in enumerate(pairs):
            plain, this = layers.get((size_of(row), place), (0, 0))
            layers[size_of(row), place] = (plain + (one and not two), this + (two and not one))
    return total, alike, layers


def exact_more_often(rows: Sequence[Row], law: str) -> str | None:
    """The law, "boolean" or this one, with which more layers are exact more often than chance explains, or None.

    Notes
    -----
    A layer counts once, at however many numbers of examples it was fitted.
    """
    _, _, layers = apart(rows, law)
    plain = sum(one > two for one, two in layers.values())
    this = sum(two > one for one, two in layers.values())
    if not plain + this:
        return None
    interval = proportion_interval(plain, plain + this, confidence=CONFIDENCE)
    if interval.low > 0.5:
        return "boolean"
    return law if interval.high < 0.5 else None


def newton_steps(
    rows: Sequence[Row], laws: Sequence[str]
) -> dict[Size, dict[str, tuple[Row | None, Row | None]]]:
    """The rows between which Newton goes from exact on less than half of the layers to half or more, by size and law.

    Notes
    -----
    The first of the two is None where the fewest examples were enough, the second where the most were not.
    """
    steps: dict[Size, dict[str, tuple[Row | None, Row | None]]] = {}
    for law in laws:
        for size in sorted({size_of(row) for row in of_learner(rows, "newton", law)}):
            there = sorted(
                (row for row in of_learner(rows, "newton", law) if size_of(row) == size),
                key=lambda row: int(row["examples"]),
            )
            enough = [2 * exact_fits([row])[0] >= exact_fits([row])[1] for row in there]
            first = enough.index(True) if any(enough) else len(there)
            ends = (there[first - 1] if first else None, there[first] if first < len(there) else None)
            steps.setdefault(size, {})[law] = ends
    return steps


def error_ratios(
    rows: Sequence[Row], law: str, learner: str, name: str
) -> dict[tuple[Size, int], list[float]]:
    """The error over that with Boolean tokens, by size and examples: one a layer."""
    return {
        (size_of(row), row["examples"]): [
            two / one for one, two in zip(other[name], row[name], strict=False) if one and two
        ]
        for other, row in _beside_boolean(rows, law, learner)
    }


def ratio_interval(ratios: Sequence[float]) -> Interval | None:
    """The geometric mean of a ratio on several layers with its interval; None of too few layers."""
    if len(ratios) < _FEWEST:
        return None
    logs = mean_interval(np.log(ratios), confidence=CONFIDENCE)
    low, middle, high = (float(np.exp(one)) for one in (logs.low, logs.estimate, logs.high))
    return Interval(low, middle, high, CONFIDENCE, logs.method)
