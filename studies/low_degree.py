"""Low-degree tests beside the statistical dimension: what each sees of the hard families, with and without flips."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention import Outcome
from lower import FAMILIES, SecretPairs
from runs import Scale
from sq import ParityElimination, ParityFamily, SQFamily
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, count_text, curve, grouped
from studies.study import Parameters, Row, Study, Table

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
_MOST_SAMPLES, _MOST_DEGREE = 1 << 60, 512


def _cells(scale: Scale) -> list[Parameters]:
    dim, runs = (12, 5) if scale is Scale.QUICK else (40, 40)
    names = [name for name in _FAMILIES if dim > 19 or name != "parity, l = 19"]
    return [{"family": name, "dim": dim, "rate": rate, "runs": runs} for name in names for rate in _RATES]


def _measure(
    *, rng: np.random.Generator, family: str, dim: int, rate: float, runs: int
) -> list[dict[str, Any]]:
    """A row for the family, a row for each of several degrees, and a row for each number of samples m."""
    parameters = dict(_FAMILIES[family])
    made = FAMILIES[parameters.pop("name")].preset(dim=dim, noise=rate, **parameters)
    assert isinstance(made, SQFamily)
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
    low, high = 0, 1
    while not reached(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


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


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for short, family in (("three", "parity, l = 3"), ("dense", "parity, l = 19"), ("bump", "bump, l = 8")):
        for (rate,), own in grouped(chosen(rows, family=family), "rate").items():
            at, (whole,) = f"{short}_{round(100 * rate)}", _of(own, "lowest")
            first, second, _ = _of(own, "degree")
            named |= {
                f"first_{at}": count_text(first["samples"]),
                f"second_{at}": count_text(second["samples"]),
                f"any_{at}": count_text(whole["any_degree"]),
                f"degree_{at}": count_text(whole["degree_at_few"]),
                f"few_{at}": whole["few"],
            }
            if whole["eliminated"] is not None:
                named[f"eliminated_{at}"] = f"{whole['eliminated']} of {whole['runs']}"
    return named


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    lines = []
    for (family, rate), own in grouped(rows, "family", "rate").items():
        (whole,), dimension = _of(own, "lowest"), chosen(own, m=100)[0]["dimension"]
        lines.append(
            {
                "family": family,
                "flips": rate,
                "targets": count_text(float(whole["targets"])),
                "lowest degree D0": whole["lowest"],
                "n at D0, 2 D0, 3 D0": "; ".join(count_text(row["samples"]) for row in _of(own, "degree")),
                "n at any degree": count_text(whole["any_degree"]),
                "D at n = 2(d + 9)": count_text(whole["degree_at_few"]),
                "SDA(100)": count_text(math.inf if dimension is None else dimension),
                "elimination": ""
                if whole["eliminated"] is None
                else f"{whole['eliminated']} of {whole['runs']}",
            }
        )
    return {"families": lines}


def _figure(rows: Sequence[Row]) -> Any:
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


STUDY = Study(
    name="low-degree",
    title="Low-degree tests and the statistical dimension",
    question="From how many samples, and from which degree on, does a polynomial see anything of a hard family, and "
    "does the statistical dimension say the same?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
)
