"""Random networks: as many examples as features determine them, for any number of heads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from upper.linear_attention import (
    FeatureMoments,
    feature_count,
    make_linear_attention,
    regress,
    regress_moments,
)

__all__ = ["STUDY"]

_NOISE = 0.1
_NOISY_EXAMPLES = 4000


def _cells(scale: Scale) -> Sequence[Parameters]:
    dims = (2, 4) if scale is Scale.QUICK else (2, 4, 6, 8)
    networks = [
        {"d": d, "heads": heads, "noise": 0.0}
        for d in dims
        for heads in dict.fromkeys((1, d, d * d if d <= 4 else d))
    ]
    return [*networks, {"d": 4, "heads": 4, "noise": _NOISE}]


def _measure(*, d: int, heads: int, noise: float, rng: Generator) -> dict[str, Any]:
    """Relative errors by number of examples and solver; with noise the mean squared excess.

    A smaller set of examples is the beginning of a larger one. Below D examples the solution is that of least norm.
    """
    model, features = make_linear_attention(heads=heads, dim=d, rng=rng), feature_count(d)
    if noise:
        x = rng.standard_normal((_NOISY_EXAMPLES, 10, d))
        clean = model(x)
        noisy = regress(x, clean + noise * rng.standard_normal(clean.shape))
        fresh = rng.standard_normal((4000, 10, d))
        excess = float(np.mean((noisy(fresh) - model(fresh)) ** 2))
        return {"features": features, "fits": [], "examples": _NOISY_EXAMPLES, "excess": excess}
    few = sorted({max(1, features * share // 4) for share in (1, 2, 3)} - {features - 1})
    wanted = [
        *((number, "svd") for number in few),
        (features - 1, "svd"),
        (features, "svd"),
        (features, "moments"),
        (2 * features, "auto"),
        (4 * features, "auto"),
    ]
    x = rng.standard_normal((4 * features, 10, d))
    fresh = rng.standard_normal((1000, 10, d))
    y, right = model(x), model(fresh)
    fits = []
    for number, method in wanted:
        learned: Any
        if method == "moments":
            moments = FeatureMoments(features, model.outputs)
            moments.add(x[:number], y[:number])
            learned = regress_moments(moments)
        else:
            learned = regress(x[:number], y[:number], method=method, least_norm=True)  # type: ignore[arg-type]
        fits.append(
            {
                "examples": number,
                "solver": learned.method if method == "auto" else method,
                "rank": learned.rank,
                "error": float(relative_error(learned(fresh), right)),
            }
        )
    return {"features": features, "fits": fits}


def _networks(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not row["noise"]]


def _errors(row: Row, times: float, solver: str | None = None) -> list[float]:
    """Errors of the fits with `times` examples per feature, or with one example fewer than features if `times` is 0."""
    number = times * row["features"] if times else row["features"] - 1
    return [
        fit["error"]
        for fit in row["fits"]
        if fit["examples"] == number and (solver is None or fit["solver"] == solver)
    ]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    networks = _networks(rows)
    noisy = [row for row in rows if row["noise"]]
    named: dict[str, Any] = {"dims": ", ".join(dict.fromkeys(str(row["d"]) for row in networks))}
    if networks:
        named["below"] = number_text(min(error for row in networks for error in _errors(row, 0)))
        named["at"] = number_text(max(error for row in networks for error in _errors(row, 1, "svd")))
        named["moments"] = number_text(max(error for row in networks for error in _errors(row, 1, "moments")))
        named["above"] = number_text(max(error for row in networks for error in _errors(row, 4)))
    for row in noisy:
        named["excess"] = number_text(row["excess"])
        named["predicted"] = number_text(row["noise"] ** 2 * row["features"] / row["examples"])
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "d": str(row["d"]),
            "heads": str(row["heads"]),
            "D": str(row["features"]),
            "N = D - 1": number_text(_errors(row, 0)[0]),
            "N = D, by singular values": number_text(_errors(row, 1, "svd")[0]),
            "N = D, by normal equations": number_text(_errors(row, 1, "moments")[0]),
            "N = 4 D": number_text(_errors(row, 4)[0]),
        }
        for row in _networks(rows)
    ]


def _figure(rows: Sequence[Row]) -> Any:
    curves = {}
    for row in _networks(rows):
        if row["heads"] == row["d"]:
            fits = sorted(
                (fit["examples"] / row["features"], fit["error"])
                for fit in row["fits"]
                if fit["solver"] != "moments"
            )
            curves[f"d = {row['d']}"] = tuple(zip(*fits, strict=True))
    return line_figure([Panel("examples / features", "relative error", curves, verticals=(1.0,))])  # type: ignore[arg-type]


STUDY = Study(
    name="linear-random",
    title="Random networks: the threshold is N = D",
    question="How many examples determine a random network of linear attention, and does its number of heads matter?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
