"""From coefficients to heads: how often each strategy finds a number of heads no larger than planted."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from upper.linear_attention import (
    alternate,
    features_from_tensor,
    fit_heads,
    make_linear_attention,
    regress,
    symmetric_rank,
    tensor_from_features,
)

__all__ = ["STUDY"]

_CASES = ((3, 1), (4, 3), (5, 5), (6, 6), (8, 8), (3, 2), (3, 3), (4, 4), (4, 5), (4, 6))
_TAILS = ((4, 3), (6, 4), (6, 6))


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    cases = [case for case in _CASES if not quick or case[0] <= 5]
    return [
        *(
            {"part": "found", "d": d, "planted": planted, "draw": draw}
            for d, planted in cases
            for draw in range(2 if quick else 6)
        ),
        *({"part": "tails", "d": d, "planted": planted, "draw": 0} for d, planted in _TAILS),
        {"part": "learned", "d": 8, "planted": 4, "draw": 0},
    ]


def _measure(*, part: str, d: int, planted: int, draw: int, rng: Generator) -> dict[str, Any]:
    """Heads found of a planted model's coefficients, the distance by number of heads, or heads of a learned model."""
    model = make_linear_attention(heads=planted, dim=d, rng=rng)
    if part == "learned":
        x, fresh = rng.standard_normal((576, 10, d)), rng.standard_normal((500, 10, d))
        learned = regress(x, model(x))
        fit = fit_heads(learned, rng=rng)
        error = float(relative_error(fit.model(fresh), model(fresh)))
        return {"rank": symmetric_rank(learned.tensor), "heads": fit.model.heads, "error": error}
    tensor = tensor_from_features(features_from_tensor(model.tensor()), d)
    if part == "tails":
        tails = [
            float(fit_heads(tensor, heads=number, restarts=2, rng=rng).tail)
            for number in range(1, planted + 1)
        ]
        return {"tails": tails}
    alone = float(alternate(tensor, planted, rng=rng)[1])
    began = time.perf_counter()
    fit = fit_heads(tensor, rng=rng)
    found = bool(fit.exact and fit.model.heads <= planted)
    return {
        "rank": symmetric_rank(tensor),
        "alternation_tail": alone,
        "found": found,
        "proved": bool(found and fit.lower_bound == fit.model.heads),
        "tail": float(fit.tail),
        "seconds": time.perf_counter() - began,
    }


def _cases_of(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    cases: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row["part"] == "found":
            cases.setdefault((row["d"], row["planted"]), []).append(row)
    return cases


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    cases = _cases_of(rows)
    every = [row for those in cases.values() for row in those]
    easy = [row for (d, planted), those in cases.items() if d <= 5 and planted <= 4 for row in those]
    named: dict[str, Any] = {
        "found": f"{sum(row['found'] for row in every)} of {len(every)}",
        "proved": f"{sum(row['proved'] for row in every)} of {len(every)}",
        "alternation": f"{sum(row['alternation_tail'] < 1e-7 for row in every)} of {len(every)}",
        "easy": f"{sum(row['found'] for row in easy)} of {len(easy)}",
    }
    for row in rows:
        if row["part"] == "learned":
            named |= {"rank": row["rank"], "heads": row["heads"], "error": number_text(row["error"])}
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "d": str(d),
            "planted": str(planted),
            "symmetric rank": str(those[0]["rank"]),
            "by alternation alone": f"{sum(row['alternation_tail'] < 1e-7 for row in those)}/{len(those)}",
            "found": f"{sum(row['found'] for row in those)}/{len(those)}",
            "proved the fewest": f"{sum(row['proved'] for row in those)}/{len(those)}",
            "largest tail": number_text(max((row["tail"] for row in those if row["found"]), default=None)),
            "seconds": number_text(float(np.median([row["seconds"] for row in those]))),
        }
        for (d, planted), those in _cases_of(rows).items()
    ]


def _figure(rows: Sequence[Row]) -> Any:
    curves = {
        f"d = {row['d']}, {row['planted']} planted": (range(1, row["planted"] + 1), row["tails"])
        for row in rows
        if row["part"] == "tails"
    }
    return line_figure([Panel("heads", "relative distance of coefficients", curves)])


STUDY = Study(
    name="linear-heads",
    title="From coefficients to heads",
    question="Are as few heads as were planted found from the symmetric coefficients that regression determines?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
