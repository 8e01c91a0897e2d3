"""Other weightings than exp.

What do phase 1 and agreement need of exp: what stands when patterns are made of the logits by sparsemax or by
sigmoids?
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from attention.layer import contract, mix, softmax
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, table, values
from studies.study import Parameters, Row, Table

STREAM = ("part", "heads", "tokens", "dim", "draw")

_NAMES = ("softmax", "sparsemax", "sigmoid")
_SIGMA = 2.0
_TOLERANCES = (0.01, 0.02, 0.04, 0.08)  # in a weight of a pattern
_SMALLEST = 0.05  # smaller entries of a pattern determine their logits too poorly
_ROWS = 40_000  # at a time

Logits = Float[np.ndarray, "*batch k"]


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    shapes = [("bias", (2, 2, dim)) for dim in ((16, 32) if quick else (16, 32, 64))]
    shapes += [("agreement", shape) for shape in (((2, 3, 16),) if quick else ((2, 3, 32), (3, 2, 32)))]
    return [
        {"part": part, "weighting": name, **dict(zip(("heads", "tokens", "dim"), shape, strict=True))}
        | {"draw": draw, "examples": 40_000 if quick else 150_000}
        for part, shape in shapes
        for name in _NAMES
        for draw in range(1 if quick else 3)
    ]


def measure(
    *, part: str, weighting: str, examples: int, draw: int, rng: Generator, **size: int
) -> Mapping[str, Any] | list[Row]:
    """Phase 1's bias on one layer, or how often its heads agree."""
    layer = make_nice_layer(heads=size["heads"], dim=size["dim"], sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(size["tokens"], size["dim"])
    if part == "bias":
        return {"bias": phase_one_bias(weighting, layer, inputs, examples=examples, rng=rng)}
    return agreement(weighting, layer, inputs.sample(examples, rng=rng), _TOLERANCES)


def pattern(weighting: str, z: Logits) -> Logits:
    """The attention pattern of logits along the last axis: entries of at least zero and of sum one.

    Notes
    -----
    Sparsemax is the Euclidean projection of the logits on the simplex, max(z - tau, 0) with tau for a sum of 1 (Martins
    and Astudillo, arXiv 1602.02068). The others are weights over their sum: exp(z) and 1 / (1 + exp(-z)).
    """
    if weighting == "softmax":
        return softmax(z, np)
    if weighting == "sigmoid":
        return softmax(-np.logaddexp(-z, 0.0), np)
    # logits that are 1 or more below the largest are outside the support; clipping there keeps sums small
    z = np.maximum(z - z.max(axis=-1, keepdims=True), -2.0)
    ordered = np.sort(z, axis=-1)[..., ::-1]
    inside = 1 + np.arange(1.0, z.shape[-1] + 1) * ordered > np.cumsum(ordered, axis=-1)
    tau = (np.sum(inside * ordered, axis=-1, keepdims=True) - 1) / inside.sum(axis=-1, keepdims=True)
    p = np.maximum(z - tau, 0.0)
    return p / p.sum(axis=-1, keepdims=True)  # rounding


def outputs(
    weighting: str, layer: AttentionLayer, x: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "n k d"]:
    """sum_i weighting(X Theta_i X^T) X W_i, with the parameters of a layer."""
    read = mix(pattern(weighting, contract(x, layer.theta, np)), x, np)
    return (read @ layer.w.reshape(-1, layer.dim)).reshape(x.shape)


def phase_one_bias(
    weighting: str, layer: AttentionLayer, inputs: BooleanInputs, *, examples: int, rng: Generator
) -> float:
    """|E (1/k) X^T J Y - S| / |S| with S = sum_i W_i, without the noise of the mean.

    Notes
    -----
    (1/k) X^T J times the mean token, repeated, times S has the mean S, so only the rest is averaged. The squared norm
    of the rest's mean is the scalar product of the means over two halves of the examples, whose noises are independent.
    """
    total = layer.w.sum(axis=0)
    halves = []
    for _ in range(2):
        moment, left = np.zeros((layer.dim, layer.dim)), examples // 2
        while left > 0:
            x = inputs.sample(min(left, _ROWS), rng=rng)
            tokens = x.sum(axis=1)
            rest = outputs(weighting, layer, x).sum(axis=1) / inputs.tokens - tokens @ total / inputs.tokens
            moment, left = moment + tokens.T @ rest, left - len(x)
        halves.append(moment / (examples // 2))
    return float(np.sqrt(max(float(np.vdot(*halves)), 0.0)) / np.linalg.norm(total))


def agreement(
    weighting: str, layer: AttentionLayer, x: Float[np.ndarray, "n k d"], tolerances: Sequence[float]
) -> list[Row]:
    """The shares of rows that agree, and for each tolerance the numbers of useful rows and of their equations.

    Notes
    -----
    Exact: all heads have the same pattern up to rounding. Useful: all heads share a support of two or more tokens, no
    weight on it is below .05, and no weight differs by more than the tolerance. A row with s tokens in its support
    gives s - 1 equations.
    """
    p = pattern(weighting, np.moveaxis(contract(x, layer.theta, np), -2, -3))  # n, m, k, k
    gap = (p.max(axis=1) - p.min(axis=1)).max(axis=-1)
    support = p > 0
    size = support[:, 0].sum(axis=-1)
    large = np.where(support, p, 1.0).min(axis=(1, 3)) >= _SMALLEST
    useful = (support == support[:, :1]).all(axis=(1, 3)) & large & (size > 1)
    return [
        {
            "tolerance": tolerance,
            "exact": float(np.mean(gap < 1e-12)),
            "useful": int(np.sum(useful & (gap <= tolerance))),
            "equations": int(np.sum((size - 1)[useful & (gap <= tolerance)])),
            "rows": gap.size,
        }
        for tolerance in tolerances
    ]


def _ratio(rows: Sequence[Row], name: str, over: str, tolerance: float) -> float:
    counts = chosen(rows, tolerance=tolerance)
    return float(sum(row[name] for row in counts) / sum(row[over] for row in counts))


def _slope(rows: Sequence[Row]) -> float:
    """The slope of ln(useful rows) over ln(tolerance), weighted by the counts."""
    counts = {at: sum(row["useful"] for row in draws) for (at,), draws in grouped(rows, "tolerance").items()}
    x, y = np.array([(np.log(at), count) for at, count in counts.items() if count]).T
    return float(np.polyfit(x, np.log(y), 1, w=np.sqrt(y))[0])


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for name in _NAMES:
        bias, agreeing = (chosen(rows, weighting=name, part=part) for part in ("bias", "agreement"))
        last = max(row["dim"] for row in bias)
        numbers[f"bias_{name}"] = f"{median(chosen(bias, dim=last), 'bias'):.2g}"
        for (m, k), draws in grouped(agreeing, "heads", "tokens").items():
            numbers[f"power_{m}{k}_{name}"] = f"{_slope(draws):.1f}"
    return numbers


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    return {
        "agreement": table(
            chosen(rows, part="agreement"),
            {"weighting": "weighting", "m": "heads", "k": "tokens", "d": "dim"},
            {
                "equal rows": lambda draws: float(np.mean(values(draws, "exact"))),
                "useful to .01": lambda draws: _ratio(draws, "useful", "rows", 0.01),
                "useful to .08": lambda draws: _ratio(draws, "useful", "rows", 0.08),
                "power": _slope,
                "equations a row": lambda draws: _ratio(draws, "equations", "useful", 0.08),
            },
        )
    }


def figure(rows: Sequence[Row]) -> Any:
    """Phase 1's bias by d, and the share of useful rows by the tolerance."""
    useful = [
        {**row, "share": row["useful"] / row["rows"]} for row in chosen(rows, part="agreement", heads=2)
    ]
    panels = (
        ("d", "bias of phase 1, m = k = 2", "dim", "bias", chosen(rows, part="bias")),
        ("tolerance", "share of useful rows, m = 2, k = 3", "tolerance", "share", useful),
    )
    return line_figure(
        [
            Panel(
                below,
                title,
                {name: curve(chosen(own, weighting=name), x, y) for name in _NAMES},
                log_x=True,
            )
            for below, title, x, y, own in panels
        ]
    )
