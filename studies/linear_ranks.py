"""What tokens of a distribution determine: exact ranks, spectra, and transfer to other lengths and domains."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from upper.linear_attention import (
    certify,
    exact_rank,
    feature_count,
    feature_moment,
    make_linear_attention,
    population_moment,
    regress,
)
from upper.linear_attention.populations import token_dimension

__all__ = ["STUDY"]

_POPULATIONS = (
    ("gaussian", 4, 1),
    ("gaussian", 4, 5),
    ("sphere", 4, 5),
    ("boolean", 4, 1),
    ("boolean", 4, 3),
    ("boolean-constant", 4, 3),
    ("one-hot", 4, 3),
    ("gaussian", 6, 5),
    ("boolean", 6, 5),
)
_TITLES = {"gaussian": "Gaussian", "boolean": "Boolean"}


def _cells(scale: Scale) -> Sequence[Parameters]:
    samples = 50_000 if scale is Scale.QUICK else 500_000
    populations = [
        {"part": "population", "tokens": tokens, "d": d, "n": n, "size": 0} for tokens, d, n in _POPULATIONS
    ]
    return [
        *populations,
        {"part": "sampled", "tokens": "gaussian", "d": 4, "n": 5, "size": samples},
        *({"part": "transfer", "tokens": "boolean", "d": 5, "n": 4, "size": size} for size in (0, 20)),
    ]


def _measure(*, part: str, tokens: Any, d: int, n: int, size: int, rng: Generator) -> dict[str, Any]:
    """The rank and spectrum of an exact moment, the least eigenvalue of a sampled one, or errors after transfer.

    `size` is the number of samples, or of Gaussian examples added to 200 of signs.
    """
    if part == "sampled":
        return {"smallest": float(np.linalg.eigvalsh(feature_moment(rng.standard_normal((size, n, d))))[0])}
    if part == "transfer":
        return _transfer(d, n, size, rng)
    moment = population_moment(tokens, d, n)
    dim = token_dimension(tokens, d)
    return {
        "dim": dim,
        "features": feature_count(dim),
        "rank": certify(moment, moment).rank,
        "formula": exact_rank(tokens, d, n),
        "spectrum": np.linalg.eigvalsh(moment).tolist(),
    }


def _transfer(d: int, n: int, added: int, rng: Generator) -> dict[str, Any]:
    """Relative errors, on signs of four lengths (the largest) and on Gaussian tokens."""
    model = make_linear_attention(heads=3, dim=d, rng=rng)
    x = np.concatenate([np.sign(rng.standard_normal((200, n, d))), rng.standard_normal((added, n, d))])
    learned = regress(x, model(x))
    signs = [np.sign(rng.standard_normal((300, length, d))) for length in (2, 3, 8, 30)]
    gaussian = rng.standard_normal((1000, n, d))
    return {
        "rank": learned.rank,
        "on_signs": max(float(relative_error(learned(one), model(one))) for one in signs),
        "on_gaussian": float(relative_error(learned(gaussian), model(gaussian))),
    }


def _populations(rows: Sequence[Row]) -> dict[tuple[str, int, int], Row]:
    return {(row["tokens"], row["d"], row["n"]): row for row in rows if row["part"] == "population"}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    populations = _populations(rows)
    named: dict[str, Any] = {
        "populations": len(populations),
        "agree": sum(row["rank"] == row["formula"] for row in populations.values()),
    }
    if ("gaussian", 4, 5) in populations:
        named["smallest"] = f"{populations['gaussian', 4, 5]['spectrum'][0]:.6g}"
    if ("boolean", 4, 3) in populations:
        distinct = sorted({round(abs(value), 4) for value in populations["boolean", 4, 3]["spectrum"]})
        named["boolean_spectrum"] = ", ".join(f"{value:g}" for value in distinct)
    for row in rows:
        if row["part"] == "sampled":
            named["sampled"] = number_text(row["smallest"])
        if row["part"] == "transfer":
            which = "added" if row["size"] else "signs"
            named[f"{which}_rank"] = row["rank"]
            named[f"{which}_on_signs"] = number_text(row["on_signs"])
            named[f"{which}_on_gaussian"] = number_text(row["on_gaussian"])
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "tokens": tokens,
            "dimension": str(row["dim"]),
            "n": str(n),
            "D": str(row["features"]),
            "rank": str(row["rank"]),
            "formula": str(row["formula"]),
        }
        for (tokens, _, n), row in _populations(rows).items()
    ]


def _figure(rows: Sequence[Row]) -> Any:
    curves = {}
    for (tokens, d, n), row in _populations(rows).items():
        if (tokens, d, n) in (("gaussian", 4, 5), ("boolean", 4, 3)):
            values = [value for value in row["spectrum"][::-1] if value > 1e-9]
            curves[f"{_TITLES[tokens]}, n = {n}"] = (range(1, len(values) + 1), values)
    return line_figure([Panel("place", "eigenvalue, d = 4", curves, marks_only=True)])


STUDY = Study(
    name="linear-ranks",
    title="What tokens determine: ranks, spectra, transfer",
    question="On which inputs do examples of a distribution of tokens determine linear attention?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
