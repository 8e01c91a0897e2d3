"""What the study of weightings found, in words and as a table."""

from collections.abc import Callable, Sequence

import numpy as np

from arena.studies.study import Row, Table
from paper_checks import proportion_interval

__all__ = [
    "EXACT_ERROR",
    "NAMES",
    "TOLERANCES",
    "chosen",
    "exact_share",
    "found_in_words",
    "largest_shape",
    "slope_of",
    "weightings_table",
]

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

_SPARSE = ("sparsemax", "positive square")
_EQUATIONS = {
    "softmax": "affine",
    "sparsemax": "affine, on the support",
    "shifted power": "affine",
    "positive square": "homogeneous",
    "square": "none: signs",
    "sigmoid": "none: a curve",
}


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


def found_in_words(rows: Sequence[Row]) -> str:
    """One sentence, made of whatever was measured."""
    parts = [
        part for part in (_bias(rows), _agreement(rows), _span(rows), _success(rows), _newton(rows)) if part
    ]
    return "; ".join(parts)[:1].upper() + "; ".join(parts)[1:] + "." if parts else "Nothing was measured."


def _each(values: dict[str, str]) -> str:
    return ", ".join(f"{NAMES[name]} {value}" for name, value in values.items())


def _by_weighting(rows: Sequence[Row], told: Callable[[list[Row]], str | None]) -> dict[str, str]:
    groups = {name: [row for row in rows if row["weighting"] == name] for name in NAMES}
    return {name: text for name, group in groups.items() if group and (text := told(group)) is not None}


def _bias(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "bias", tokens=2)
    medians = {
        name: float(np.median([row["bias"] for row in group]))
        for name in NAMES
        if (group := chosen(rows, "bias", weighting=name, **shape))
    }
    if not medians:
        return ""
    low, high = min(medians, key=lambda n: medians[n]), max(medians, key=lambda n: medians[n])
    at = f"phase 1 is biased at {_shape(shape)} by"
    if low == high:
        return f"{at} {medians[low]:.2g} with {NAMES[low]}"
    return f"{at} {medians[low]:.2g} ({NAMES[low]}) to {medians[high]:.2g} ({NAMES[high]})"


def _agreement(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "agreement", tokens=3) or largest_shape(rows, "agreement")
    here = chosen(rows, "agreement", **shape)
    shares = _by_weighting([row for row in here if row["weighting"] in _SPARSE], _share_in_words)
    slopes = _by_weighting(
        [row for row in here if row["weighting"] in ("softmax", *_SPARSE)], _slope_in_words
    )
    told = []
    if shares:
        told.append(
            f"heads' patterns are exactly equal in a share {_each(shares)} of rows at {_shape(shape)}"
        )
    if slopes:
        told.append(f"near agreement there falls with the power {_each(slopes)} of the tolerance")
    return " and ".join(told)


def _span(rows: Sequence[Row]) -> str:
    here = [row for row in chosen(rows, "hull") if (row["heads"], row["tokens"], row["dim"]) == (2, 2, 16)]
    if not here:
        return ""
    least = min(row["accept"] for row in here)
    best = [row for row in here if row["accept"] == least]
    errors = _by_weighting(best, lambda group: f"{_median(group, 'span'):.1g}")
    return f"the best {100 * least:g} % of rows at {_shape(here[0])} give the span to {_each(errors)}"


def _success(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "descent")
    here = chosen(rows, "descent", **shape)
    if not here:
        return ""
    floors = max(row["floors"] for row in here)
    most = [row for row in here if row["floors"] == floors]
    shares = _by_weighting(most, lambda group: "{}/{}".format(*exact_share(group)))
    return f"L-BFGS is exact at {_shape(shape)} from {floors} floors {_each(shares)}"


def _newton(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "newton")
    errors = [
        _median(group, "error")
        for name in NAMES
        if name != "softmax" and (group := chosen(rows, "newton", weighting=name, **shape))
    ]
    if not errors:
        return ""
    return f"Newton's softmax leaves {min(errors):.2g} to {max(errors):.2g} of the others' labels"


def _median(rows: Sequence[Row], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


def _share_in_words(rows: list[Row]) -> str:
    share = sum(row["exact"] for row in rows) / sum(row["rows"] for row in rows)
    return "0" if share == 0 else (f"{share:.1e}" if share < 1e-3 else f"{share:.2g}")


def _slope_in_words(rows: list[Row]) -> str | None:
    slope = slope_of(rows)
    return None if slope is None else f"{slope:.1f}"


def _shape(row: Row | dict[str, int]) -> str:
    return f"({row['heads']},{row['tokens']},{row['dim']})"


def weightings_table(rows: Sequence[Row]) -> Table:
    """A row for each weighting; nothing where it was not measured."""
    bias = largest_shape(rows, "bias", tokens=2)
    agree = largest_shape(rows, "agreement", tokens=3) or largest_shape(rows, "agreement")
    descent, newton = largest_shape(rows, "descent"), largest_shape(rows, "newton")
    hulls = chosen(rows, "hull", heads=2, tokens=2, dim=16)
    least = min((row["accept"] for row in hulls), default=0.0)
    floors = max((row["floors"] for row in chosen(rows, "descent")), default=0)
    lines = []
    for name in NAMES:
        at_least = chosen(hulls, "hull", weighting=name, accept=least)
        ends = chosen(rows, "descent", weighting=name, floors=floors, **descent)
        agreeing = chosen(rows, "agreement", weighting=name, **agree)
        cells = (
            _or_nothing(chosen(rows, "bias", weighting=name, **bias), lambda g: f"{_median(g, 'bias'):.3f}"),
            _or_nothing(agreeing, _share_in_words),
            _or_nothing(agreeing, lambda g: _slope_in_words(g) or "–"),
            _or_nothing(at_least, lambda g: f"{min(_median(g, 'refined'), _median(g, 'one_hot')):.1e}"),
            _or_nothing(at_least, lambda g: f"{_median(g, 'span'):.1e}"),
            _or_nothing(ends, _success_in_words),
            _or_nothing(
                chosen(rows, "newton", weighting=name, **newton), lambda g: f"{_median(g, 'error'):.1e}"
            ),
        )
        if any(cell != "–" for cell in cells):
            lines.append((f"{NAMES[name]}: {_EQUATIONS[name]}", *cells))
    header = (
        "weighting: its equation",
        f"bias {_at(bias)}",
        f"equal rows {_at(agree)}",
        "slope",
        f"sum W {_at(hulls[0] if hulls else {})}",
        f"span, {100 * least:g} % of rows",
        f"exact, {floors} floors {_at(descent)}",
        f"softmax Newton {_at(newton)}",
    )
    return Table(header, tuple(lines))


def _or_nothing(rows: list[Row], told: Callable[[list[Row]], str]) -> str:
    return told(rows) if rows else "–"


def _at(shape: Row | dict[str, int]) -> str:
    return _shape(shape) if shape else ""


def _success_in_words(rows: list[Row]) -> str:
    hits, trials = exact_share(rows)
    interval = proportion_interval(hits, trials, confidence=0.95)
    return f"{hits} of {trials} ({interval.low:.2f} to {interval.high:.2f})"
