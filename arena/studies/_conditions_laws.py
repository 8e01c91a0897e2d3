"""How the measures of random heads change with d: slopes over the draws, and those of their laws."""

import math
from collections.abc import Callable, Sequence

from arena.studies.study import Row
from paper_checks import Interval, slope_interval

__all__ = ["HEADS", "exponents", "heaviest_column", "stable_rank", "values_of"]

HEADS = 4
"""Heads of every layer of the study."""


def values_of(row: Row, name: str) -> list[float]:
    """The measure of every layer of a row, without those that have none."""
    return [float(one) for one in row["measured"][name] if one is not None]


def exponents(rows: Sequence[Row]) -> dict[str, tuple[Interval, float]]:
    """Of random heads: the exponent in d of a measure, and what the law of the measure gives over the same sizes."""
    random = [row for row in rows if row["family"] == "random"]
    if len({row["dim"] for row in random}) < 3:
        return {}
    places = [math.log(row["dim"]) for row in random for _ in range(row["draws"])]
    measures: dict[str, tuple[Callable[[Row], list[float]], Callable[[int], float]]] = {
        "incoherence": (lambda row: values_of(row, "theta_incoherence"), lambda d: 1 / d),
        "Tr²/|Θ|²": (lambda row: values_of(row, "theta_trace"), lambda d: 1 / d),
        "heaviest column": (lambda row: values_of(row, "theta_heavy_column"), heaviest_column),
        "norm ratio − 1": (
            lambda row: [one - 1 for one in values_of(row, "theta_norms_comparable")],
            lambda d: 1 / d,
        ),
        "stable rank": (lambda row: list(row["mean_stable_rank"]), stable_rank),
        "gap of singular values": (
            lambda row: values_of(row, "theta_distinct_singular_values"),
            lambda d: d**-1.5,
        ),
    }
    found = {}
    for name, (of_row, law) in measures.items():
        heights = [math.log(one) for row in random for one in of_row(row)]
        derived = slope_interval(
            places, [math.log(law(row["dim"])) for row in random for _ in range(row["draws"])]
        )
        found[name] = slope_interval(places, heights), derived.estimate
    return found


def heaviest_column(dim: int) -> float:
    """The median of the largest of m d independent chi-squared variables, over their sum d^2."""
    from scipy.special import chdtri

    return float(chdtri(dim, -math.expm1(math.log(0.5) / (HEADS * dim)))) / dim**2


def stable_rank(dim: int) -> float:
    """The edge of the Marchenko-Pastur law, with the mean of the Tracy-Widom law: about d/4."""
    return dim**2 / (4 * dim - 2 - 1.2065 * 2 ** (4 / 3) * dim ** (1 / 3))
