"""What the study of weightings found, in words and as a table."""

from collections.abc import Callable, Sequence

import numpy as np

from arena._phrases import sentence
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
    told = (
        _answer(rows),
        _bias(rows),
        _agreement(rows),
        _two_tokens(rows),
        _span(rows),
        _success(rows),
        _newton(rows),
    )
    parts = [part for part in told if part]
    return sentence("; ".join(parts)) if parts else "Nothing was measured."


def _answer(rows: Sequence[Row]) -> str:
    """How agreement at three tokens depends on the tolerance, and how frequent it is beside softmax's."""
    shape = largest_shape(rows, "agreement", tokens=3)
    slopes, three = _slopes(rows, shape), _useful(rows, shape)
    sparse = [name for name in _SPARSE if name in three]
    if "softmax" not in three or not sparse or not all(three[name].all() for name in ("softmax", *sparse)):
        return ""
    first = all(slopes[name] < 1.25 for name in sparse) and slopes["softmax"] > 1.5
    ratios = np.array([three[name] / three["softmax"] for name in sparse])
    begin = (
        "with sparse weightings the share of rows with usable agreement falls with the first power of the tolerance at "
        "three tokens, not the second"
        if first
        else "with sparse weightings the share of rows with usable agreement falls at three tokens with the power "
        f"{_range([slopes[name] for name in sparse], '.1f')} of the tolerance, with softmax {slopes['softmax']:.1f}"
    )
    told = (
        f"{begin}: it is {_range(ratios[:, 0])} times softmax's at tolerance {TOLERANCES[0]:g}, "
        f"{_range(ratios[:, -1])} times at {TOLERANCES[-1]:g}"
    )
    two = _useful(rows, {**shape, "tokens": 2})
    if "softmax" not in two:
        return told
    behind = np.array([two["softmax"] / three[name] for name in sparse])
    if behind.min() <= 1:
        return f"{told}, and {_range(1 / behind)} times softmax's at two tokens"
    return f"{told}, and stays {_range(behind)} times below softmax's at two tokens"


def _slopes(rows: Sequence[Row], shape: dict[str, int]) -> dict[str, float]:
    slopes = {name: slope_of(chosen(rows, "agreement", weighting=name, **shape)) for name in NAMES}
    return {name: slope for name, slope in slopes.items() if slope is not None}


def _useful(rows: Sequence[Row], shape: dict[str, int]) -> dict[str, np.ndarray]:
    """The share of rows that agree usefully up to each tolerance."""
    groups = {name: chosen(rows, "agreement", weighting=name, **shape) for name in NAMES if shape}
    return {name: _shares(group) for name, group in groups.items() if group}


def _shares(group: Sequence[Row]) -> np.ndarray:
    counts = np.sum([row["useful"] for row in group], axis=0)
    return np.asarray(counts / sum(row["rows"] for row in group))


def _range(values: Sequence[float] | np.ndarray, form: str = ".2g") -> str:
    low, high = format(float(np.min(values)), form), format(float(np.max(values)), form)
    return low if low == high else f"{low} to {high}"


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
    if not shape:
        return ""
    here = [row for row in chosen(rows, "agreement", **shape) if row["weighting"] in ("softmax", *_SPARSE)]
    told = [
        f"{words} {_each(values)}"
        for words, values in (
            (
                f"at {_shape(shape)} heads' patterns are exactly equal in a share of rows of",
                _by_weighting([row for row in here if row["weighting"] in _SPARSE], _share_in_words),
            ),
            ("and uniform for want of a positive weight in", _by_weighting(here, _uniform_share)),
            (f"they agree usefully to {TOLERANCES[0]:g} in", _by_weighting(here, _first_share)),
            ("falling with the power", _by_weighting(here, _slope_in_words)),
            (
                f"and a row useful to {TOLERANCES[-1]:g} gives so many equations:",
                _by_weighting(here, _equations_in_words),
            ),
        )
        if values
    ]
    return ", ".join(told)


def _two_tokens(rows: Sequence[Row]) -> str:
    """Sparse weightings beside softmax at two tokens."""
    shape = largest_shape(rows, "agreement", tokens=2)
    shares = _useful(rows, shape)
    sparse = [name for name in _SPARSE if name in shares and shares[name][0]]
    if "softmax" not in shares or not sparse:
        return ""
    ratios = [shares["softmax"][0] / shares[name][0] for name in sparse]
    return (
        f"at {_shape(shape)} softmax's heads agree usefully to {TOLERANCES[0]:g} {_range(ratios)} times as often as "
        "those of sparse weightings"
    )


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
    return f"L-BFGS is exact ({EXACT_ERROR:g}) at {_shape(shape)} from {floors} floors {_each(shares)}"


def _newton(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "newton")
    errors = [
        _median(group, "error")
        for name in NAMES
        if name != "softmax" and (group := chosen(rows, "newton", weighting=name, **shape))
    ]
    if not errors:
        return ""
    return f"Newton's softmax leaves {min(errors):.2g} to {max(errors):.2g} of the others' labels at {_shape(shape)}"


def _median(rows: Sequence[Row], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


def _share_in_words(rows: list[Row]) -> str:
    share = sum(row["exact"] for row in rows) / sum(row["rows"] for row in rows)
    return "0" if share == 0 else (f"{share:.1e}" if share < 1e-3 else f"{share:.2g}")


def _uniform_share(rows: list[Row]) -> str | None:
    share = sum(row["uniform"] for row in rows) / sum(row["rows"] for row in rows)
    return f"{share:.2g}" if share else None


def _first_share(rows: list[Row]) -> str:
    return f"{_shares(rows)[0]:.1e}"


def _last_share(rows: list[Row]) -> str:
    return f"{_shares(rows)[-1]:.1e}"


def _equations_in_words(rows: list[Row]) -> str | None:
    """Equations of a row that agrees usefully up to the largest tolerance, if the weighting has any."""
    if _EQUATIONS[rows[0]["weighting"]].startswith("none"):
        return None
    count = sum(row["useful"][-1] for row in rows)
    return f"{sum(row['equations'][-1] for row in rows) / count:.2f}" if count else None


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
            _or_nothing(agreeing, _first_share),
            _or_nothing(agreeing, _last_share),
            _or_nothing(agreeing, lambda g: _slope_in_words(g) or "–"),
            _or_nothing(agreeing, lambda g: _equations_in_words(g) or "–"),
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
        f"useful to {TOLERANCES[0]:g}",
        f"useful to {TOLERANCES[-1]:g}",
        "slope",
        "equations a row",
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
