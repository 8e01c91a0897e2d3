"""Low-degree tests beside the statistical dimension: what each sees of the hard families, with and without flips."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention import Outcome
from lower import FAMILIES, SecretPairs
from lower.low_degree import advantage_within_dimension, dimension_within_advantage
from runs import Scale
from sq import ParityElimination, ParityFamily, SQFamily
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, of_all
from studies.study import Parameters, Row, Study

__all__ = ["STUDY"]

_FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "parity, l = 3": {"name": "sq-parity", "bits": 3},
    "parity, l = 19": {"name": "sq-parity", "bits": 19, "construction": "B"},
    "hidden gate, l = 3": {"name": "sq-hidden-gate"},
    "parity of each token, l = 2": {"name": "sq-token-parity", "tokens": 3},
    "two slopes, l = 8": {"name": "sq-two-slope"},
    "designed steps, l = 6": {"name": "sq-designed-steps", "bits": 6, "heads_count": 4},
    "bump, l = 8": {"name": "sq-bump"},
    "centre thresholds, l = 8": {"name": "sq-centre-threshold", "heads_count": 4},
    "pair": {"name": "sq-pair"},
}
_RATES = (0.0, 0.1, 0.4)
_LEVELS = (10, 100, 1000, 10**4, 10**5)  # m of the dimension
_TIMES = (1, 2, 3)  # degrees as multiples of the lowest
_LARGEST_LOG = 60.0  # of a number of samples, base 2


def _cells(scale: Scale) -> list[Parameters]:
    dim, runs = (12, 5) if scale is Scale.QUICK else (40, 40)
    names = [name for name in _FAMILIES if dim > 19 or name != "parity, l = 19"]
    return [{"family": name, "dim": dim, "rate": rate, "runs": runs} for name in names for rate in _RATES]


def _measure(*, rng: np.random.Generator, family: str, dim: int, rate: float, runs: int) -> dict[str, Any]:
    parameters = dict(_FAMILIES[family])
    made = FAMILIES[parameters.pop("name")].preset(dim=dim, noise=rate, **parameters)
    assert isinstance(made, SQFamily)
    pairs, few = made.secret_pairs, 2 * (dim + 9)
    lowest = pairs.lowest_degree
    assert lowest is not None
    return {
        "targets": str(made.secrets.size),
        "lowest": lowest,
        "samples": [_fewest(pairs, degree=times * lowest) for times in _TIMES],
        "any_degree": _least(lambda n: _whole(pairs, n) >= 1),
        "few": few,
        "degree_at_few": pairs.smallest_degree(samples=few),
        "dimensions": [_finite(pairs.statistical_dimension(samples=one)) for one in _LEVELS],
        **_equivalence(pairs),
        "eliminated": _eliminated(made, runs, rng) if type(made) is ParityFamily else None,
    }


def _fewest(pairs: SecretPairs, degree: int) -> int | None:
    """The fewest samples at which the advantage up to this degree is 1."""
    return _least(lambda n: bool(pairs.squared_advantage(samples=n, degree=degree) >= 1))


def _whole(pairs: SecretPairs, samples: int) -> float:
    """The squared advantage of all degrees, E (1 + rho)^n - 1; powers beyond e^700 count as that."""
    logarithms = np.log1p([float(total) for total in pairs.totals])
    return float(
        np.expm1(np.minimum(samples * logarithms, 700.0)) @ np.array(pairs.chances, dtype=np.float64)
    )


def _least(reached: Callable[[int], bool]) -> int | None:
    low, high = 0, 1
    while not reached(high):
        low, high = high, 2 * high
        if math.log2(high) > _LARGEST_LOG:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _equivalence(pairs: SecretPairs) -> dict[str, list[float]]:
    """How much each direction of the equivalence loses: a number over its bound, at least 1, for k = 2 and 4."""
    largest = max(pairs.totals)
    losses: dict[str, list[float]] = {
        f"{what}_{k}": [] for what in ("dimension", "advantage") for k in (2, 4)
    }
    for at in _LEVELS:
        found = pairs.statistical_dimension(samples=at)
        if not 0 < found < math.inf:
            continue
        for k in (2, 4):
            # with many samples the last term is nearly all of the advantage: the bound is as sharp as it gets
            many = pairs.squared_advantage(samples=10**9, touched=k)
            below = dimension_within_advantage(many, samples=10**9, touched=k, at=at)
            losses[f"dimension_{k}"].append(found / below)
            seen = pairs.squared_advantage(samples=at, touched=k)
            above = advantage_within_dimension(found, at=at, samples=at, touched=k, largest=largest)
            losses[f"advantage_{k}"].append(above / float(seen))
    return losses


def _eliminated(family: SQFamily, runs: int, rng: np.random.Generator) -> int:
    """In how many runs Gaussian elimination finds the secret."""
    found = 0
    for _ in range(runs):
        instance = family.instance(rng=rng)
        fit = ParityElimination.for_instance(instance).fit(family.examples(instance, rng=rng), rng=rng)
        found += fit.outcome is Outcome.EXACT
    return found


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _count(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for k in (2, 4):
        for what in ("dimension", "advantage"):
            losses = [loss for row in rows for loss in row[f"{what}_{k}"]]
            if losses:
                named[f"{what}_holds_{k}"] = of_all(loss >= 1 - 1e-9 for loss in losses)
                named[f"{what}_least_{k}"] = f"{min(losses):.3g}"
                named[f"{what}_median_{k}"] = f"{float(np.median(losses)):.2g}"
                named[f"{what}_largest_{k}"] = _count(max(losses))
    for short, family in (("three", "parity, l = 3"), ("dense", "parity, l = 19"), ("bump", "bump, l = 8")):
        for row in chosen(rows, family=family):
            at = f"{short}_{round(100 * row['rate'])}"
            named |= {
                f"first_{at}": _count(row["samples"][0]),
                f"second_{at}": _count(row["samples"][1]),
                f"any_{at}": _count(row["any_degree"]),
                f"degree_{at}": _count(row["degree_at_few"]),
                f"few_{at}": row["few"],
            }
            if row["eliminated"] is not None:
                named[f"eliminated_{at}"] = f"{row['eliminated']} of {row['runs']}"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "family": row["family"],
            "flips": f"{row['rate']:g}",
            "targets": _count(float(row["targets"])),
            "lowest degree D0": str(row["lowest"]),
            "n at D0, 2 D0, 3 D0": "; ".join(_count(one) for one in row["samples"]),
            "n at any degree": _count(row["any_degree"]),
            "D at n = 2(d + 9)": _count(row["degree_at_few"]),
            "SDA(100)": "infinite" if row["dimensions"][1] is None else _count(row["dimensions"][1]),
            "elimination": "" if row["eliminated"] is None else f"{row['eliminated']} of {row['runs']}",
        }
        for row in rows
    ]


def _figure(rows: Sequence[Row]) -> Any:
    """Samples needed against the degree, and the dimension against m, without flips."""
    needed: dict[str, Any] = {}
    dimensions: dict[str, Any] = {}
    for row in chosen(rows, rate=0.0):
        degrees = [times * row["lowest"] for times in _TIMES]
        points: dict[float, float | None] = dict(zip(degrees, row["samples"], strict=True))
        needed[row["family"]] = curve_of(points)
        finite: dict[float, float | None] = {
            m: value for m, value in zip(_LEVELS, row["dimensions"], strict=True) if value and value > 0
        }
        dimensions[row["family"]] = curve_of(finite)
    return line_figure(
        [
            Panel("degree D", "samples for advantage 1", needed, log_x=True),
            Panel("m", "SDA(m)", dimensions, log_x=True),
        ]
    )


STUDY = Study(
    name="low-degree",
    title="Low-degree tests and the statistical dimension",
    question="From how many samples, and from which degree on, does a polynomial see anything of a hard family, and "
    "does the statistical dimension say the same?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
