"""Attention weightings other than exp: which parts of the learning of layers still work."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from attention import AttentionLayer, BooleanInputs, make_nice_layer, relative_error
from attention.layer import contract, mix, softmax
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, of_all, table, values, with_interval
from studies.study import Parameters, Row, Study, Table
from upper.floor import counting_floor

__all__ = ["STUDY", "agreement", "descend", "outputs", "pattern", "pattern_gradient", "phase_one_bias"]

_TITLES = {"softmax": "softmax", "sparsemax": "sparsemax", "positive square": "z₊²", "sigmoid": "sigmoid"}
_SIGMA = 2.0
_TOLERANCES = (0.01, 0.02, 0.04, 0.08)  # in a weight of a pattern
_SMALLEST = 0.05  # smaller entries of a pattern determine their logits too poorly
_ROWS = 40_000  # at a time
_PASSES, _HISTORY = 600, 30
_RIDGE = 1e-13  # in units of the mean diagonal: reads of two equal heads have a singular Gram matrix
_RESIDUAL = 1e-8  # stop at this residual
_TESTED = 2000  # fresh examples for measuring errors
_EXACT = 1e-4

Logits = Float[np.ndarray, "*batch k"]


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    examples, draws = (40_000, 1) if quick else (150_000, 3)
    settings = [
        ("bias", (2, 2, d), {"examples": examples}, draws) for d in ((16, 32) if quick else (16, 32, 64))
    ]
    for shape in ((2, 3, 16),) if quick else ((2, 3, 32), (3, 2, 32)):
        settings.append(("agreement", shape, {"examples": examples}, draws))
    for shape in ((2, 3, 8),) if quick else ((2, 2, 16), (2, 3, 16)):
        settings += [("descent", shape, {"floors": floors}, 2 if quick else 8) for floors in (4, 8)]
    return [
        {"part": part, "weighting": name, **dict(zip(("heads", "tokens", "dim"), shape, strict=True))}
        | {"draw": draw, **more}
        for part, shape, more, several in settings
        for name in _TITLES
        for draw in range(several)
    ]


def _measure(
    *,
    part: str,
    weighting: str,
    heads: int,
    tokens: int,
    dim: int,
    draw: int,
    rng: Generator,
    examples: int = 0,
    floors: int = 0,
) -> Mapping[str, Any] | list[Row]:
    """A part of the learning of one layer: phase 1's bias, agreement, or descent."""
    layer = make_nice_layer(heads=heads, dim=dim, sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(tokens, dim)
    if part == "bias":
        return {"bias": phase_one_bias(weighting, layer, inputs, examples=examples, rng=rng)}
    if part == "agreement":
        return agreement(weighting, layer, inputs.sample(examples, rng=rng), _TOLERANCES)
    x = inputs.sample(floors * counting_floor(heads=heads, tokens=tokens, dim=dim), rng=rng)
    start = rng.standard_normal(layer.theta.shape) / dim
    end = descend(weighting, x, outputs(weighting, layer, x), start)
    fresh = inputs.sample(_TESTED, rng=rng)
    error = relative_error(outputs(weighting, end, fresh), outputs(weighting, layer, fresh))
    return {"error": error}


def pattern(weighting: str, z: Logits) -> Logits:
    """The attention pattern of logits along the last axis: entries of at least zero and of sum one.

    Notes
    -----
    Sparsemax is the Euclidean projection of the logits on the simplex, max(z - tau, 0) with tau for a sum of 1 (Martins
    and Astudillo, arXiv 1602.02068). The others are weights over their sum: exp(z), max(z, 0)^2, 1 / (1 + exp(-z)). If
    no logit is positive, the square gives a uniform pattern.
    """
    if weighting == "softmax":
        return softmax(z, np)
    if weighting == "sigmoid":
        return softmax(-np.logaddexp(-z, 0.0), np)
    if weighting == "positive square":
        weights = np.maximum(z, 0.0) ** 2
        return np.where(z.max(axis=-1, keepdims=True) > 0, weights, 1.0) / _sum(weights, z)
    # logits that are 1 or more below the largest are outside the support; clipping there keeps sums small
    z = np.maximum(z - z.max(axis=-1, keepdims=True), -2.0)
    ordered = np.sort(z, axis=-1)[..., ::-1]
    inside = 1 + np.arange(1.0, z.shape[-1] + 1) * ordered > np.cumsum(ordered, axis=-1)
    tau = (np.sum(inside * ordered, axis=-1, keepdims=True) - 1) / inside.sum(axis=-1, keepdims=True)
    p = np.maximum(z - tau, 0.0)
    return p / p.sum(axis=-1, keepdims=True)  # rounding


def _sum(weights: Logits, z: Logits) -> Logits:
    """The sum of weights, and the number of tokens where no logit is positive."""
    return np.where(z.max(axis=-1, keepdims=True) > 0, weights.sum(axis=-1, keepdims=True), z.shape[-1])


def pattern_gradient(weighting: str, z: Logits, u: Logits) -> Logits:
    """The derivative of <pattern(z), u> in the logits.

    Notes
    -----
    With weights g(z) over their sum G it is g'(z) / G times u - <p, u>. For sparsemax it is u minus its mean over the
    support, there. At a kink it is the derivative of the flat side.
    """
    p = pattern(weighting, z)
    slope, share = p, p
    if weighting == "sigmoid":
        slope = p * np.exp(-np.logaddexp(z, 0.0))
    elif weighting == "positive square":
        positive = np.maximum(z, 0.0)
        slope = 2 * positive / _sum(positive**2, z)
    elif weighting == "sparsemax":
        slope = (p > 0).astype(float)
        share = slope / slope.sum(axis=-1, keepdims=True)
    return slope * (u - np.sum(share * u, axis=-1, keepdims=True))


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
    Exact: all heads have the same pattern up to rounding. Rows on which heads without a positive logit are uniform by
    convention do not count, because they carry no information. Useful: all heads share a support of two or
    more tokens, no weight on it is below .05, and no weight differs by more than the tolerance. A row with s tokens in
    its support gives s - 1 equations.
    """
    z = np.moveaxis(contract(x, layer.theta, np), -2, -3)
    p = pattern(weighting, z)  # n, m, k, k
    gap = (p.max(axis=1) - p.min(axis=1)).max(axis=-1)
    support = p > 0
    size = support[:, 0].sum(axis=-1)
    known = (
        (z.max(axis=-1) > 0).all(axis=1) if weighting == "positive square" else np.ones_like(gap, dtype=bool)
    )
    large = np.where(support, p, 1.0).min(axis=(1, 3)) >= _SMALLEST
    useful = (support == support[:, :1]).all(axis=(1, 3)) & large & (size > 1) & known
    return [
        {
            "tolerance": tolerance,
            "exact": float(np.mean((gap < 1e-12) & known)),
            "useful": int(np.sum(useful & (gap <= tolerance))),
            "equations": int(np.sum((size - 1)[useful & (gap <= tolerance)])),
            "rows": gap.size,
        }
        for tolerance in tolerances
    ]


def descend(
    weighting: str,
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "m d d"],
) -> AttentionLayer:
    """The best layer of L-BFGS on |Y - F(X)|^2 over Theta from a start, W the least squares solution at every Theta."""
    d, m = x.shape[2], len(theta)
    labels = y.reshape(-1, d)
    energy = float(np.vdot(labels, labels))
    best: tuple[float, AttentionLayer] = np.inf, AttentionLayer(theta=theta, w=np.zeros_like(theta))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        heads = flat.reshape(m, d, d)
        logits = contract(x, heads, np)
        read = mix(pattern(weighting, logits), x, np)
        gram = read.T @ read
        gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
        w = cho_solve(cho_factor(gram), read.T @ labels)
        residual = read @ w - labels
        value = float(np.vdot(residual, residual)) / energy
        if value < best[0]:
            best = value, AttentionLayer(theta=heads.copy(), w=w.reshape(m, d, d))
        # (n k, m d) against the tokens of the same example
        pull = np.matmul((residual @ w.T).reshape(len(x), -1, d), np.swapaxes(x, 1, 2)).reshape(logits.shape)
        back = mix(pattern_gradient(weighting, logits, pull), x, np).reshape(-1, m, d)
        gradient = np.einsum("ri,rmj->mij", x.reshape(-1, d), back, optimize=True)
        return value, (2 / energy) * gradient.ravel()

    def stop_if_exact(_: np.ndarray) -> None:
        if best[0] <= _RESIDUAL**2:
            raise StopIteration

    options = {"maxcor": _HISTORY, "maxiter": _PASSES, "maxfun": _PASSES, "ftol": 0.0, "gtol": 0.0}
    minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", callback=stop_if_exact, options=options)
    return best[1]


def _slope(rows: Sequence[Row]) -> float:
    """The slope of ln(useful rows) over ln(tolerance), weighted by the counts."""
    counts = {
        tolerance: sum(row["useful"] for row in some)
        for (tolerance,), some in grouped(rows, "tolerance").items()
    }
    x, y = np.array([(np.log(at), count) for at, count in counts.items() if count]).T
    return float(np.polyfit(x, np.log(y), 1, w=np.sqrt(y))[0])


def _ratio(rows: Sequence[Row], name: str, over: str, tolerance: float) -> float:
    there = chosen(rows, tolerance=tolerance)
    return float(sum(row[name] for row in there) / sum(row[over] for row in there))


def _exact(rows: Sequence[Row], floors: int) -> list[bool]:
    return [row["error"] <= _EXACT for row in chosen(rows, part="descent", floors=floors)]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for name in _TITLES:
        key, own = name.replace(" ", "_"), chosen(rows, weighting=name)
        last = max(row["dim"] for row in chosen(own, part="bias"))
        numbers[f"bias_{key}"] = f"{median(chosen(own, part='bias', dim=last), 'bias'):.2g}"
        numbers |= {f"exact_{floors}_{key}": of_all(_exact(own, floors)) for floors in (4, 8)}
        for (m, k), some in grouped(chosen(own, part="agreement"), "heads", "tokens").items():
            usual = chosen(rows, part="agreement", weighting="softmax", heads=m, tokens=k)
            often = _ratio(some, "useful", "rows", 0.01) / _ratio(usual, "useful", "rows", 0.01)
            numbers |= {f"power_{m}{k}_{key}": f"{_slope(some):.1f}", f"often_{m}{k}_{key}": f"{often:.2g}"}
    return numbers


def _exact_share(rows: Sequence[Row], floors: int) -> str:
    return with_interval(_exact(rows, floors))


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    titled = [{**row, "title": _TITLES[row["weighting"]]} for row in rows]
    size = {"weighting": "title", "m": "heads", "k": "tokens", "d": "dim"}
    return {
        "agreement": table(
            chosen(titled, part="agreement"),
            size,
            {
                "equal rows": lambda some: float(np.mean(values(some, "exact"))),
                "useful to .01": lambda some: _ratio(some, "useful", "rows", 0.01),
                "useful to .08": lambda some: _ratio(some, "useful", "rows", 0.08),
                "power": _slope,
                "equations a row": lambda some: _ratio(some, "equations", "useful", 0.08),
            },
        ),
        "descent": table(
            chosen(titled, part="descent"),
            size,
            {f"exact, {floors} floors": partial(_exact_share, floors=floors) for floors in (4, 8)},
        ),
    }


def _figure(rows: Sequence[Row]) -> Any:
    """Phase 1's bias by d, and the share of useful rows by the tolerance."""
    useful = [
        {**row, "share": row["useful"] / row["rows"]} for row in chosen(rows, part="agreement", heads=2)
    ]
    bias = {
        title: curve(chosen(rows, part="bias", weighting=name), "dim", "bias")
        for name, title in _TITLES.items()
    }
    shares = {
        title: curve(chosen(useful, weighting=name), "tolerance", "share") for name, title in _TITLES.items()
    }
    return line_figure(
        [
            Panel("d", "bias of phase 1, m = k = 2", bias, log_x=True),
            Panel("tolerance", "share of useful rows, m = 2, k = 3", shares, log_x=True),
        ]
    )


STUDY = Study(
    name="weightings",
    title="Other weightings than exp",
    question="What does the learning of attention layers need of exp: what stands when patterns are made of the logits "
    "by sparsemax, by powers or by sigmoids?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("part", "heads", "tokens", "dim", "draw", "floors"),
)
