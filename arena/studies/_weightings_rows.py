"""Sums over the rows of the study of weightings: what was measured of which, shares, slopes, medians."""

from collections.abc import Callable, Sequence

import numpy as np

from arena.studies.study import Row

__all__ = [
    "EQUATIONS",
    "EXACT_ERROR",
    "NAMES",
    "PASSES",
    "SPARSE",
    "TOLERANCES",
    "by_weighting",
    "chosen",
    "equations_a_row",
    "exact_share",
    "largest_shape",
    "median_of",
    "shape_words",
    "shapes_of",
    "shares_of",
    "slope_of",
    "slopes",
    "useful_shares",
]

PASSES = 600
"""The evaluations a descent is given."""
TOLERANCES = (0.01, 0.02, 0.04, 0.08)
"""Up to what heads agree, in a weight of a pattern."""
EXACT_ERROR = 1e-4
"""A descent that ends below it is exact."""
NAMES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "shifted power": "(4+z)₊⁴",
    "positive square": "z₊²",
    "square": "z²",
    "sigmoid": "sigmoid",
}
"""How weightings are written."""

SPARSE = ("sparsemax", "positive square")
"""Weightings with one-hot patterns of positive probability."""
EQUATIONS = {
    "softmax": "affine",
    "sparsemax": "affine, on the support",
    "shifted power": "affine",
    "positive square": "homogeneous",
    "square": "none: signs",
    "sigmoid": "none: a curve",
}
"""What a pattern tells of the logits."""


def chosen(rows: Sequence[Row], part: str, **wanted: object) -> list[Row]:
    """The rows of a part with these parameters."""
    return [
        row
        for row in rows
        if row["part"] == part and all(row.get(name) == value for name, value in wanted.items())
    ]


def largest_shape(rows: Sequence[Row], part: str, *, tokens: int | None = None) -> dict[str, int]:
    """The shape of that part measured with most weightings, of those the one of most tokens and dimensions."""
    seen: dict[tuple[int, int, int], set[str]] = {}
    for row in chosen(rows, part):
        if tokens is None or row["tokens"] == tokens:
            shape = (-row["heads"], row["tokens"], row["dim"])
            seen.setdefault(shape, set()).add(row["weighting"])
    if not seen:
        return {}
    heads, k, d = max(seen, key=lambda shape: (len(seen[shape]), shape))
    return {"heads": -heads, "tokens": k, "dim": d}


def slope_of(rows: Sequence[Row]) -> float | None:
    """The slope of ln(count) over ln(tolerance), each weighted by its count; None if fewer than two have any."""
    counts = np.sum([row["useful"] for row in rows], axis=0) if rows else np.zeros(len(TOLERANCES))
    seen = counts > 0
    if seen.sum() < 2:
        return None
    x, y = np.log(np.array(TOLERANCES)[seen]), np.log(counts[seen])
    return float(np.polyfit(x, y, 1, w=np.sqrt(counts[seen]))[0])


def exact_share(rows: Sequence[Row]) -> tuple[int, int]:
    """How many descents were exact, of how many."""
    return sum(row["error"] <= EXACT_ERROR for row in rows), len(rows)


def shapes_of(rows: Sequence[Row], part: str) -> list[dict[str, int]]:
    """The shapes of a part, by heads, tokens and dimension."""
    there = sorted({(row["heads"], row["tokens"], row["dim"]) for row in chosen(rows, part)})
    return [dict(zip(("heads", "tokens", "dim"), shape, strict=True)) for shape in there]


def slopes(rows: Sequence[Row], shape: dict[str, int]) -> dict[str, float]:
    """The slopes of useful agreement at a shape, by weighting."""
    found = {name: slope_of(chosen(rows, "agreement", weighting=name, **shape)) for name in NAMES}
    return {name: slope for name, slope in found.items() if slope is not None}


def useful_shares(rows: Sequence[Row], shape: dict[str, int]) -> dict[str, np.ndarray]:
    """The share of rows that agree usefully up to each tolerance."""
    groups = {name: chosen(rows, "agreement", weighting=name, **shape) for name in NAMES if shape}
    return {name: shares_of(group) for name, group in groups.items() if group}


def shares_of(group: Sequence[Row]) -> np.ndarray:
    """The share of their rows that agree usefully up to each tolerance."""
    counts = np.sum([row["useful"] for row in group], axis=0)
    return np.asarray(counts / sum(row["rows"] for row in group))


def by_weighting(rows: Sequence[Row], told: Callable[[list[Row]], str | None]) -> dict[str, str]:
    """What is told of the rows of each weighting, where anything is."""
    groups = {name: [row for row in rows if row["weighting"] == name] for name in NAMES}
    return {name: text for name, group in groups.items() if group and (text := told(group)) is not None}


def equations_a_row(rows: Sequence[Row]) -> float | None:
    """Equations of a row that agrees usefully up to the largest tolerance, if the weighting has any."""
    if EQUATIONS[rows[0]["weighting"]].startswith("none"):
        return None
    count = sum(row["useful"][-1] for row in rows)
    return float(sum(row["equations"][-1] for row in rows) / count) if count else None


def median_of(rows: Sequence[Row], name: str) -> float:
    """The median of a measurement."""
    return float(np.median([row[name] for row in rows]))


def shape_words(row: Row | dict[str, int]) -> str:
    """A shape as it is written."""
    return f"({row['heads']},{row['tokens']},{row['dim']})"
