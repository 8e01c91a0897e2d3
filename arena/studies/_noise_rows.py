"""Sums over the rows of the study of noisy labels: ratios to a law, where phases break, exponents."""

from collections.abc import Sequence

import numpy as np

from arena.studies.study import Row
from paper_checks import mean_interval
from upper.floor import counting_floor

__all__ = [
    "PHASES",
    "SMALL",
    "Case",
    "breaking_levels",
    "excess_ratios",
    "floors_of",
    "likelihood_over_bound",
    "likelihood_slopes",
    "mean_words",
    "middle",
    "most_examples",
    "of_kind",
    "over_covariance",
    "over_law",
    "size_of",
    "steep_slopes",
    "where_likelier_is_better",
]

Case = tuple[tuple[int, int, int], float]
"""The numbers m, k and d, and a gain."""

PHASES = {"crude": "crude sum", "refined": "refined sum", "span": "span"}
"""What is measured of the phases, and what it is called."""
SMALL = 0.1
"""The noise, in units of the labels, up to which a law to first order is held against what is found."""
_BROKEN = 2.0  # times the error without noise
_SETTLED = 0.2  # errors below which a law to first order is taken to hold
_ABOVE = 1.05  # times the bound: more is no longer on it
_FEWEST = 3  # independent layers, for an interval that says something


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
    """Newton's excess over the law, by size and floors, for small noise, one value a layer; what the covariance says.

    Notes
    -----
    A layer's examples and noise are the same at every level, the noise scaled: its values there are one, measured
    again, and are averaged.
    """
    groups: dict[tuple[tuple[int, int, int], int], list[Row]] = {}
    for row in of_kind(rows, "newton"):
        if row["level"] <= SMALL:
            groups.setdefault((size_of(row), floors_of(row)), []).append(row)
    return {
        key: (
            _by_layer([row["ratio"] for row in members]),
            middle([law for row in members for law in row["law"]]),
        )
        for key, members in sorted(groups.items())
    }


def over_covariance(rows: Sequence[Row]) -> dict[tuple[tuple[int, int, int], int], float]:
    """Newton's mean excess over what the covariance of least squares says, by size and floors, for small noise."""
    return {
        key: float(np.mean(values)) / law
        for key, (values, law) in excess_ratios(rows).items()
        if law is not None
    }


def over_law(rows: Sequence[Row], kind: str) -> dict[float, list[float]]:
    """The squared error of a learner over s^2 2 m d^2/(N k d), by level, one value a layer.

    Notes
    -----
    It is the whole error: what the learner would be off by without noise is in it.
    """
    found = {}
    for row in of_kind(rows, kind):
        m, k, d = size_of(row)
        law = row["level"] ** 2 * 2 * m * d / (row["examples"] * k)
        if law:
            found[row["level"]] = [error**2 / law for error in row["error"]]
    return found


def _by_layer(columns: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each layer's values, of lists with a value for each layer."""
    return [float(np.mean(values)) for values in zip(*columns, strict=False)]


def mean_words(values: Sequence[float]) -> str:
    """The mean of one value a layer in words, with its interval by Student's t where there are layers enough."""
    mean = f"{np.mean(values):.2f}"
    if len(values) < _FEWEST:
        return mean
    interval = mean_interval(values, confidence=0.95)
    return f"{mean} (95 %: {interval.low:.2f} to {interval.high:.2f})"


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


def likelihood_slopes(rows: Sequence[Row]) -> dict[float, list[float]]:
    """Exponents of the examples in the error of maximum likelihood, by gain: one a layer of the smallest size.

    Notes
    -----
    The layers and their examples are the same at every gain, so that exponents at two gains are not independent.
    """
    there = of_kind(rows, "sampled")
    slopes = {}
    for gain in sorted({row["level"] for row in there}):
        settled = [row for row in _smallest(there) if row["level"] == gain and _settled(row)]
        if len(settled) > 1:
            places = np.log([row["examples"] for row in settled])
            errors = zip(*(row["likelihood"] for row in settled), strict=False)
            slopes[gain] = [float(np.polyfit(places, np.log(one), 1)[0]) for one in errors]
    return slopes


def likelihood_over_bound(rows: Sequence[Row]) -> dict[float, dict[int, float]]:
    """The error of maximum likelihood over its bound, a mean over layers of the smallest size: by gain and examples."""
    found: dict[float, dict[int, float]] = {}
    for row in sorted(_smallest(of_kind(rows, "sampled")), key=lambda row: (row["level"], row["examples"])):
        ratios = np.divide(row["likelihood"], row["likelihood_law"])
        found.setdefault(row["level"], {})[row["examples"]] = float(np.mean(ratios))
    return found


def _settled(row: Row) -> bool:
    """Whether the bound is so small that a law to first order is taken to hold."""
    law = middle(row["likelihood_law"])
    return law is not None and law < _SETTLED


def steep_slopes(rows: Sequence[Row]) -> list[float]:
    """The gains whose exponent is below -1/2 beyond chance, for being above the bound from the fewest examples only."""
    over = likelihood_over_bound([row for row in rows if row["kind"] == "sampled" and _settled(row)])
    found = []
    for gain, slopes in likelihood_slopes(rows).items():
        if len(slopes) >= _FEWEST and mean_interval(slopes, confidence=0.95).high < -0.5:
            fewest, most = (over[gain][end(over[gain])] for end in (min, max))
            if fewest > _ABOVE > most:
                found.append(gain)
    return found


def where_likelier_is_better(rows: Sequence[Row]) -> tuple[dict[Case, list[int]], dict[Case, list[int]]]:
    """With how many examples maximum likelihood beats squared loss on every layer, and with how many it does not."""
    better: dict[Case, list[int]] = {}
    worse: dict[Case, list[int]] = {}
    for row in sorted(of_kind(rows, "sampled"), key=lambda row: int(row["examples"])):
        pairs = zip(row["likelihood"], row["squared"], strict=True)
        there = better if all(likely < squared for likely, squared in pairs) else worse
        there.setdefault((size_of(row), float(row["level"])), []).append(row["examples"])
    return better, worse


def _smallest(rows: Sequence[Row]) -> list[Row]:
    """The rows of the smallest size."""
    return [row for row in rows if size_of(row) == min(map(size_of, rows), key=lambda size: size[2])]


def most_examples(rows: Sequence[Row]) -> list[Row]:
    """The sampled rows of the smallest size with the most examples, one a gain."""
    there = _smallest(of_kind(rows, "sampled"))
    return sorted(
        (row for row in there if row["examples"] == max(one["examples"] for one in there)),
        key=lambda row: float(row["level"]),
    )
