"""Linear attention: examples, tokens, heads, and Adam.

How many examples, and of which tokens, determine linear attention, are its heads found, and does Adam reach the
error of the exact regression?
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import Fit, relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped, of_all, table, values
from studies.study import Parameters, Row, Table
from upper.linear_attention import (
    feature_count,
    features_from_tensor,
    fit_heads,
    make_linear_attention,
    regress,
    symmetric_rank,
    tensor_from_features,
    train_linear_attention,
)

NEEDS = ("torch",)

_TOKENS = 10  # of a sequence
_PLANTED = ((3, 1), (4, 3), (5, 5), (6, 6), (8, 8), (3, 2), (3, 3), (4, 4), (4, 5), (4, 6))
_MATCHES = 1e-6  # relative error; students too small to learn the target stay above 1e-2
_STARTS = 3
_ADAM = ("Adam, H known", "Adam, 2 H", "Adam, H - 1")


def cells(scale: Scale) -> Iterator[Parameters]:
    quick = scale is Scale.QUICK
    for d in (2, 4) if quick else (2, 4, 6, 8):
        for heads in dict.fromkeys((1, d, d * d if d <= 4 else d)):
            yield {"part": "threshold", "d": d, "heads": heads}
    yield from ({"part": "transfer", "d": 5, "added": added} for added in (0, 20))
    for d, heads in _PLANTED:
        if not quick or d <= 5:
            yield from (
                {"part": "heads", "d": d, "heads": heads, "draw": draw} for draw in range(2 if quick else 6)
            )
    for d, heads in ((3, 2),) if quick else ((4, 2), (4, 4), (8, 4)):
        yield {"part": "adam", "d": d, "heads": heads, "steps": 2500 if quick else 8000}


def measure(*, part: str, rng: Generator, **size: Any) -> Any:
    parts: dict[str, Any] = {"threshold": _threshold, "transfer": _transfer, "heads": _heads, "adam": _adam}
    return parts[part](rng=rng, **size)


def _threshold(*, d: int, heads: int, rng: Generator) -> list[dict[str, Any]]:
    """Errors on fresh inputs by number of examples; a smaller set is the beginning of a larger one.

    Below D examples the solution is that of least norm.
    """
    model, features = make_linear_attention(heads=heads, dim=d, rng=rng), feature_count(d)
    x, fresh = (rng.standard_normal((number, _TOKENS, d)) for number in (4 * features, 1000))
    y, shares = model(x), {max(1, features * quarters // 4) for quarters in (1, 2, 3, 4, 8, 16)}
    return [
        {
            "features": features,
            "examples": number,
            "error": float(
                relative_error(regress(x[:number], y[:number], least_norm=True)(fresh), model(fresh))
            ),
        }
        for number in sorted(shares | {features - 1})
    ]


def _transfer(*, d: int, added: int, rng: Generator) -> dict[str, Any]:
    """Learn from 200 examples of signs and some Gaussian ones: errors on signs of other lengths and Gaussian tokens."""
    model = make_linear_attention(heads=3, dim=d, rng=rng)
    x = np.concatenate([np.sign(rng.standard_normal((200, 4, d))), rng.standard_normal((added, 4, d))])
    learned = regress(x, model(x))
    signs = [np.sign(rng.standard_normal((300, length, d))) for length in (2, 3, 8, 30)]
    gaussian = rng.standard_normal((1000, 4, d))
    return {
        "rank": learned.rank,
        "on_signs": max(float(relative_error(learned(x), model(x))) for x in signs),
        "on_gaussian": float(relative_error(learned(gaussian), model(gaussian))),
    }


def _heads(*, d: int, heads: int, draw: int, rng: Generator) -> dict[str, Any]:
    """Heads found of a planted model's coefficients."""
    model = make_linear_attention(heads=heads, dim=d, rng=rng)
    tensor = tensor_from_features(features_from_tensor(model.tensor()), d)
    fit = fit_heads(tensor, rng=rng)
    success = bool(fit.exact and fit.model.heads <= heads)
    return {
        "rank": symmetric_rank(tensor),
        "found": success,
        "proved": bool(success and fit.lower_bound == fit.model.heads),
    }


def _adam(*, d: int, heads: int, steps: int, rng: Generator) -> list[dict[str, Any]]:
    """Errors on fresh inputs of the regression and of Adam, on one target and the same 4 D examples.

    All run in one process, one after the other, so that their seconds are comparable. Adam stops at the first start
    that brings the error on the examples below 1e-6. Its best model and the seconds of all its starts count.
    """
    target, examples = make_linear_attention(heads=heads, dim=d, rng=rng), 4 * feature_count(d)
    x, fresh = (rng.standard_normal((size, _TOKENS, d)) for size in (examples, 2000))
    y, wanted = target(x), target(fresh)
    # run both once before timing, because the first call of each library is slower
    regress(x, y)
    train_linear_attention(x[:2], y[:2], heads=1, steps=2, rng=0)
    began = time.perf_counter()
    regression = regress(x, y)
    seconds = time.perf_counter() - began
    error = float(relative_error(regression(fresh), wanted))
    rows: list[dict[str, Any]] = [{"learner": "regression", "error": error, "times": 1.0}]
    for learner, heads_used in zip(_ADAM, (heads, 2 * heads, heads - 1), strict=True):
        fits: list[Fit] = []
        while len(fits) < _STARTS and not any(min(_errors(fit)) < _MATCHES for fit in fits):
            fits.append(
                train_linear_attention(x, y, heads=heads_used, steps=steps, learning_rate=0.03, rng=rng)
            )
        best, times = min(fits, key=lambda fit: _errors(fit)[-1]), sum(fit.seconds for fit in fits) / seconds
        error = float(relative_error(best.predict(fresh), wanted))
        rows.append({"learner": learner, "heads_used": heads_used, "error": error, "times": times})
    return [row | {"examples": examples} for row in rows]


def _errors(fit: Fit) -> list[float]:
    """The errors on the examples, step by step."""
    return [float(step.measures["relative_error"]) for step in fit.trace]


def _error(fits: Sequence[Row], times: int) -> float:
    """The error with `times` examples per feature, or with one example fewer than features if `times` is 0."""
    examples = times * fits[0]["features"] or fits[0]["features"] - 1
    return float(chosen(fits, examples=examples)[0]["error"])


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    heads = chosen(rows, part="heads")
    threshold = grouped(chosen(rows, part="threshold"), "d", "heads").values()
    named = {
        "below": min((_error(fits, 0) for fits in threshold), default=None),
        "at": max((_error(fits, 1) for fits in threshold), default=None),
        **{name: of_all(row[name] for row in heads) for name in ("found", "proved")},
    }
    if times := values(chosen(rows, part="adam", learner=_ADAM[0]), "times"):
        named |= {"least_times": f"{min(times):.0f}", "largest_times": f"{max(times):.0f}"}
    for row in chosen(rows, part="transfer"):
        data = "added" if row["added"] else "signs"
        named |= {f"{data}_{name}": row[name] for name in ("rank", "on_signs", "on_gaussian")}
    return named


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    size = {"d": "d", "H": "heads"}
    return {
        "threshold": table(
            chosen(rows, part="threshold"),
            size,
            {
                "D": "features",
                "N = D - 1": lambda fits: _error(fits, 0),
                "N = D": lambda fits: _error(fits, 1),
                "N = 4 D": lambda fits: _error(fits, 4),
            },
        ),
        "heads": table(
            chosen(rows, part="heads"),
            size,
            {
                "symmetric rank": "rank",
                "found": lambda draws: of_all(row["found"] for row in draws),
                "proved the fewest": lambda draws: of_all(row["proved"] for row in draws),
            },
        ),
        "adam": table(
            chosen(rows, part="adam"),
            size | {"N": "examples", "learner": "learner"},
            {"its heads": "heads_used", "error": "error", "times the regression's seconds": "times"},
        ),
    }


def figure(rows: Sequence[Row]) -> Any:
    curves = {
        f"d = {d}": [(row["examples"] / row["features"], row["error"]) for row in fits]
        for (d, heads), fits in grouped(chosen(rows, part="threshold"), "d", "heads").items()
        if heads == d
    }
    return line_figure([Panel("examples / features", "relative error", curves, verticals=(1.0,))])
