"""Low-degree tests and the statistical dimension.

From how many samples, and from which degree on, does a polynomial see anything of a hard family, and does the
statistical dimension say the same?
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attention import Outcome
from lower import FAMILIES, SecretPairs
from runs import Scale
from sq import ParityElimination, ParityFamily, SQFamily
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, number_text
from studies.study import Parameters, Row, Table

_FAMILIES: Mapping[str, partial[SQFamily]] = {
    "parity, l = 3": partial(FAMILIES["sq-parity"].preset, bits=3),
    "parity, l = 19": partial(FAMILIES["sq-parity"].preset, bits=19, construction="B"),
    "hidden gate, l = 3": partial(FAMILIES["sq-hidden-gate"].preset),
    "parity of each token, l = 2": partial(FAMILIES["sq-token-parity"].preset, tokens=3),
    "two slopes, l = 8": partial(FAMILIES["sq-two-slope"].preset),
    "designed steps, l = 6": partial(FAMILIES["sq-designed-steps"].preset, bits=6, heads_count=4),
    "bump, l = 8": partial(FAMILIES["sq-bump"].preset),
    "centre thresholds, l = 8": partial(FAMILIES["sq-centre-threshold"].preset, heads_count=4),
    "pair": partial(FAMILIES["sq-pair"].preset),
}
_RATES = (0.0, 0.1, 0.4)
_LEVELS = (10, 100, 1000, 10**4, 10**5)  # m of the dimension
_TIMES = (1, 2, 3)  # degrees as multiples of the lowest
_MOST_SAMPLES, _MOST_DEGREE = 1 << 60, 512


def cells(scale: Scale) -> list[Parameters]:
    dim, runs = (12, 5) if scale is Scale.QUICK else (40, 40)
    names = [name for name in _FAMILIES if dim > 19 or name != "parity, l = 19"]
    return [{"family": name, "dim": dim, "rate": rate, "runs": runs} for name in names for rate in _RATES]


def measure(
    *, rng: np.random.Generator, family: str, dim: int, rate: float, runs: int
) -> list[dict[str, Any]]:
    """A row for the family, a row for each of several degrees, and a row for each number of samples m."""
    made = _FAMILIES[family](dim=dim, noise=rate)
    pairs, few = made.secret_pairs, 2 * (dim + 9)
    lowest = pairs.lowest_degree
    assert lowest is not None
    whole = {
        "targets": str(made.secrets.size),
        "lowest": lowest,
        "any_degree": _least(lambda n: _whole(pairs, n) >= 1),
        "few": few,
        # the smallest degree whose advantage is at least 1
        "degree_at_few": _least(
            lambda D: bool(pairs.squared_advantage(samples=few, degree=D) >= 1), most=_MOST_DEGREE
        )
        if _whole(pairs, few) >= 1
        else None,
        "eliminated": _eliminated(made, runs, rng) if type(made) is ParityFamily else None,
    }
    degrees = [{"degree": t * lowest, "samples": _fewest(pairs, degree=t * lowest)} for t in _TIMES]
    dimensions = {m: pairs.statistical_dimension(samples=m) for m in _LEVELS}
    finite = ({"m": m, "dimension": None if math.isinf(size) else size} for m, size in dimensions.items())
    return [whole, *degrees, *finite]


def _fewest(pairs: SecretPairs, degree: int) -> int | None:
    """The fewest samples at which the advantage up to this degree is 1."""
    return _least(lambda n: bool(pairs.squared_advantage(samples=n, degree=degree) >= 1))


def _whole(pairs: SecretPairs, samples: int) -> float:
    """The squared advantage of all degrees, E (1 + rho)^n - 1; powers beyond e^700 count as that."""
    logarithms = np.log1p([float(total) for total in pairs.totals])
    return float(
        np.expm1(np.minimum(samples * logarithms, 700.0)) @ np.array(pairs.chances, dtype=np.float64)
    )


def _least(reached: Callable[[int], bool], *, most: int = _MOST_SAMPLES) -> int | None:
    high = 1
    while not reached(high):
        high *= 2
        if high > most:
            return None
    between = range(high // 2 + 1, high)
    return between.start + bisect_left(between, True, key=reached)


def _eliminated(family: SQFamily, runs: int, rng: np.random.Generator) -> int:
    """In how many runs Gaussian elimination finds the secret."""
    outcomes = []
    for _ in range(runs):
        instance = family.instance(rng=rng)
        fit = ParityElimination.for_instance(instance).fit(family.examples(instance, rng=rng), rng=rng)
        outcomes.append(fit.outcome)
    return outcomes.count(Outcome.EXACT)


def _of(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows about a degree, about a number m, or about the family."""
    return [row for row in rows if row.get(name) is not None]


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for short, family in (("three", "parity, l = 3"), ("dense", "parity, l = 19"), ("bump", "bump, l = 8")):
        for (rate,), own in grouped(chosen(rows, family=family), "rate").items():
            (whole,), (first, second, _) = _of(own, "lowest"), _of(own, "degree")
            measured = {"first": first["samples"], "second": second["samples"], "any": whole["any_degree"]}
            measured |= {
                "degree": whole["degree_at_few"],
                "few": whole["few"],
                "eliminated": _elimination(whole),
            }
            named |= {f"{name}_{short}_{round(100 * rate)}": value for name, value in measured.items()}
    return named


def _elimination(row: Row) -> str:
    return "" if row["eliminated"] is None else f"{row['eliminated']} of {row['runs']}"


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    lines = []
    for (family, rate), own in grouped(rows, "family", "rate").items():
        (whole,), dimension = _of(own, "lowest"), chosen(own, m=100)[0]["dimension"]
        lines.append(
            {
                "family": family,
                "flips": rate,
                "targets": int(whole["targets"]),
                "lowest degree D0": whole["lowest"],
                "n at D0, 2 D0, 3 D0": "; ".join(number_text(row["samples"]) for row in _of(own, "degree")),
                "n at any degree": whole["any_degree"],
                "D at n = 2(d + 9)": whole["degree_at_few"],
                "SDA(100)": "infinite" if dimension is None else round(dimension),
                "elimination": _elimination(whole),
            }
        )
    return {"families": lines}


def figure(rows: Sequence[Row]) -> Any:
    """Samples needed against the degree, and the dimension against m, without flips."""
    families = grouped(chosen(rows, rate=0.0), "family").items()
    needed = {family: curve(_of(own, "degree"), "degree", "samples") for (family,), own in families}
    positive = {family: [row for row in _of(own, "m") if row["dimension"]] for (family,), own in families}
    dimensions = {family: curve(own, "m", "dimension") for family, own in positive.items()}
    return line_figure(
        [
            Panel("degree D", "samples for advantage 1", needed, log_x=True),
            Panel("m", "SDA(m)", dimensions, log_x=True),
        ]
    )
