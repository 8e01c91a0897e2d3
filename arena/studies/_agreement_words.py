"""What the study of agreement found: in words and as a table."""

import math
from collections.abc import Sequence

import numpy as np

from arena._phrases import listed, sentence
from arena.studies.study import Row, Table

__all__ = [
    "FRACTIONS",
    "HEADS",
    "SIGMA",
    "Points",
    "agreement_table",
    "found_in_words",
    "half_widths",
    "lattice_law",
    "mean_ratio",
    "points_of",
    "spacing",
]

SIGMA = 2.0
HEADS = {"generic": "generic", "lattice": "on a lattice of a quarter", "signs": "plus or minus one value"}
FRACTIONS = tuple(4.0**-power for power in range(6))
"""The tolerances, in units of 1/sqrt d."""

_CLOSE = 0.05  # off the law by less is as often
_SHOWN = (0, 2, len(FRACTIONS) - 1)  # of the tolerances, in the table

Points = dict[tuple[str, str, int], list[Row]]
"""Rows by heads, inputs and d."""


def points_of(rows: Sequence[Row]) -> Points:
    groups: Points = {}
    for row in rows:
        groups.setdefault((row["heads"], row["inputs"], row["dim"]), []).append(row)
    return groups


def mean_ratio(members: Sequence[Row]) -> np.ndarray:
    return np.mean([row["ratio"] for row in members], axis=0)


def half_widths(members: Sequence[Row]) -> np.ndarray:
    """Of the interval of a mean over draws, which are independent."""
    widths = np.array([(np.array(row["high"]) - np.array(row["low"])) / 2 for row in members])
    return np.sqrt(np.sum(widths**2, axis=0)) / len(members)


def spacing(heads: str, dim: int) -> float | None:
    """Between the gaps that heads on a lattice can have: twice that of the entries of Theta_1 - Theta_2.

    Notes
    -----
    With Boolean tokens a gap is a sum of c_j (x_1j - x_2j), of c = x_1 (Theta_1 - Theta_2), with x_1j - x_2j 0 or twice
    a sign. Entries of plus or minus sigma/d have differences on a lattice of 2 sigma/d, entries rounded to sigma/4d on
    one of sigma/4d. Derived here.
    """
    return {"signs": 4 * SIGMA / dim, "lattice": SIGMA / (2 * dim)}.get(heads)


def lattice_law(within: float) -> float:
    """Agreement over the normal law, of gaps on a lattice, at a tolerance in units of its spacing."""
    return (2 * math.floor(within * (1 + 1e-9)) + 1) / (2 * within)


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, made of whatever was measured."""
    points = points_of(rows)
    boolean = {(heads, dim): those for (heads, inputs, dim), those in points.items() if inputs == "boolean"}
    generic = {dim: those for (heads, dim), those in sorted(boolean.items()) if heads == "generic"}
    lattice = {key: those for key, those in sorted(boolean.items()) if key[0] != "generic"}
    parts = (
        _found_answer(generic, lattice),
        _found_deficit(generic),
        _found_chance(generic),
        _found_lattice(lattice),
        _found_scaling(lattice),
        _found_gaussian([row for row in rows if row["inputs"] == "gaussian"]),
        _found_left_out(rows),
    )
    return sentence("; ".join(one for one in parts if one))


def _found_answer(generic: dict[int, list[Row]], lattice: dict[tuple[str, int], list[Row]]) -> str:
    told = []
    if generic:
        worst = max(float(np.abs(mean_ratio(those) - 1).max()) for those in generic.values())
        told.append(
            f"generic heads agree as often as the normal law says, within {worst:.1%} at every d and tolerance measured"
            if worst < _CLOSE
            else f"generic heads agree as often as the normal law says only within {worst:.1%}"
        )
    if lattice:
        below = [
            ratio / lattice_law(within)
            for key, those in lattice.items()
            for within, ratio in _within(key, those)
            if within < 1
        ]
        stops = bool(below) and max(abs(one - 1) for one in below) < _CLOSE
        kinds = dict.fromkeys(heads for heads, _ in lattice)
        spacings = " or ".join(f"{spacing(heads, 1):g}/d" for heads in kinds)
        told.append(
            f"for heads with entries on a lattice the share stops falling below the spacing of their gaps, {spacings}"
            if stops
            else "heads with entries on a lattice agree otherwise"
        )
    return f"with Boolean tokens {', while '.join(told)}" if told else ""


def _within(key: tuple[str, int], members: Sequence[Row]) -> list[tuple[float, float]]:
    """Tolerances in units of the spacing, and the ratios there."""
    heads, dim = key
    unit = (spacing(heads, dim) or math.nan) * math.sqrt(dim)
    return [
        (fraction / unit, float(one)) for fraction, one in zip(FRACTIONS, mean_ratio(members), strict=True)
    ]


def _found_deficit(generic: dict[int, list[Row]]) -> str:
    if not generic:
        return ""
    missing = {dim: 1 - float(mean_ratio(those)[0]) for dim, those in generic.items()}
    sides = [[_side(row, 0) for row in those] for those in generic.values()]
    excluded = listed([f"{sum(one != 0 for one in each)} of {len(each)}" for each in sides])
    sizes, dims = (
        listed([f"{100 * one:.2g}%" for one in missing.values()]),
        listed([str(dim) for dim in missing]),
    )
    values = list(missing.values())
    told = f"99.9 % intervals exclude the law in {excluded} draws"
    if min(values) <= 0:
        return f"at {_fraction(FRACTIONS[0])} and d = {dims} generic heads are off the law by {sizes}, where {told}"
    grows = len(values) > 1 and values == sorted(values, reverse=True)
    scaled = [dim * one for dim, one in missing.items()]
    return (
        f"the generic ones agree a little less often than the law says, by {sizes} at {_fraction(FRACTIONS[0])} and "
        f"d = {dims} ({min(scaled):.2g}/d to {max(scaled):.2g}/d{', vanishing as d grows' if grows else ''}), where "
        f"{told}"
    )


def _side(row: Row, place: int) -> int:
    """1 and -1 where the interval lies above and below the law, 0 where it holds it."""
    return int(row["low"][place] > 1) - int(row["high"][place] < 1)


def _found_chance(generic: dict[int, list[Row]]) -> str:
    widths = np.array([half_widths(those) for those in generic.values()])
    if not widths.size:
        return ""
    return (
        f"the 99.9 % intervals of these means over draws reach {widths[:, 0].max():.1%} to either side at "
        f"{_fraction(FRACTIONS[0])} and {widths[:, -1].max():.1%} at {_fraction(FRACTIONS[-1])}, where no "
        "smaller difference can be seen"
    )


def _found_lattice(lattice: dict[tuple[str, int], list[Row]]) -> str:
    pairs = [pair for key, those in lattice.items() for pair in _within(key, those)]
    if not pairs:
        return ""
    worst = max(abs(ratio / lattice_law(within) - 1) for within, ratio in pairs)
    if worst > _CLOSE:
        return f"on a lattice agreement is off the share of its points within eps by up to {worst:.1%}"
    ratio, (heads, dim), place = min(
        (float(one), key, place)
        for key, those in lattice.items()
        for place, one in enumerate(mean_ratio(those))
    )
    rarer = (
        f", and in places agreement is rarer than the normal law says, {ratio:.2g} times as frequent with entries "
        f"{HEADS[heads]} at d = {dim} and {_fraction(FRACTIONS[place])}"
        if ratio < 1 - _CLOSE
        else ""
    )
    return (
        f"on a lattice agreement is as frequent as its points within eps are, (2 floor(eps/s) + 1) s / (2 eps) times "
        f"the normal law's with s the spacing (derived here), within {worst:.1%} at every d and tolerance{rarer}"
    )


def _found_scaling(lattice: dict[tuple[str, int], list[Row]]) -> str:
    told, slopes = [], []
    for heads in dict.fromkeys(heads for heads, _ in lattice):
        last = {dim: float(mean_ratio(those)[-1]) for (one, dim), those in lattice.items() if one == heads}
        if len(last) > 1:
            first, final = min(last), max(last)
            slope = math.log(last[final] / last[first]) / math.log(final / first)
            slopes.append(slope)
            told.append(
                f"{last[first]:.4g} at d = {first} to {last[final]:.4g} at d = {final} (d^{slope:.2f}) with entries "
                f"{HEADS[heads]}"
            )
    if not told:
        return ""
    ratio = f"at {_fraction(FRACTIONS[-1])} the ratio goes from {' and from '.join(told)}"
    if max(abs(slope + 0.5) for slope in slopes) > _CLOSE:
        return ratio
    return (
        "so the normal law fails on the scale 1/d of the spacing, not on that of 1/√d which the sources name, and at a "
        f"fixed share of 1/√d by ever less: {ratio}"
    )


def _found_gaussian(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    worst = max(float(np.abs(mean_ratio(those) - 1).max()) for those in points_of(rows).values())
    sides = [_side(row, place) for row in rows for place in range(len(FRACTIONS))]
    return (
        f"Gaussian tokens only check the method, as given x_1 the law is exact for them whatever the heads: the ratios "
        f"are 1 within {worst:.1%}, and {sum(one != 0 for one in sides)} of {len(sides)} intervals exclude it"
    )


def _found_left_out(rows: Sequence[Row]) -> str:
    left = {row["dim"]: row["left_out"] for row in rows if row["left_out"]}
    if not left:
        return ""
    return (
        f"pairs of equal or opposite Boolean tokens, which are left out, were {left[min(left)]:.1e} of all at d = "
        f"{min(left)}"
    )


def agreement_table(rows: Sequence[Row]) -> Table:
    """Means over draws; Gaussian tokens, for which all heads have the same law, in one line for each d."""
    points = points_of(rows)
    lines = [
        (
            HEADS[heads],
            inputs,
            str(dim),
            f"{np.mean([row['arithmetic'] for row in those]):.2f}",
            "" if (between := spacing(heads, dim)) is None else f"{between:.2g}",
            *_ratios(those),
        )
        for (heads, inputs, dim), those in points.items()
        if inputs == "boolean"
    ]
    for dim in sorted({dim for _, inputs, dim in points if inputs == "gaussian"}):
        those = [row for row in rows if (row["inputs"], row["dim"]) == ("gaussian", dim)]
        lines.append(("all of these, a check", "gaussian", str(dim), "", "", *_ratios(those)))
    names = tuple(f"ratio at {_fraction(FRACTIONS[place])}" for place in _SHOWN)
    return Table(("heads", "tokens", "d", "arithmetic", "spacing", *names), tuple(lines))


def _ratios(members: Sequence[Row]) -> tuple[str, ...]:
    ratio = mean_ratio(members)
    return tuple(f"{ratio[place]:.4g}" for place in _SHOWN)


def _fraction(value: float) -> str:
    """A tolerance that is a fraction of 1/sqrt d."""
    return "1/√d" if value == 1 else f"1/({round(1 / value)}√d)"
