"""Noise on the labels.

What does noise on the labels do to each learner?
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    Inputs,
    Learner,
    make_nice_layer,
)
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, table, values
from studies.study import Parameters, Row, Table
from upper import GradientDescent, Newton
from upper.floor import counting_floor
from upper.six_phase import SixPhase, SixPhases

STREAM = ("kind", "heads", "tokens", "dim")
NEEDS = ("torch",)

_PHASES = {"crude": "crude sum", "refined": "refined sum", "span": "span"}
_SMALL = 0.1  # the largest noise at which a first-order law is compared with the measurement
_FRESH, _BATCH = 1000, 256
_MOST_UNKNOWNS = 256  # the largest number for the law of the covariance, whose cost per example is its square
_NOTHING = 1e-9  # a direction of the parameters that changes less than this share of the largest change


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    levels = (0.01, 0.1, 1.0) if quick else (0.001, 0.01, 0.1, 1.0)
    phases = (0.0, *levels) if quick else (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    sizes = ((2, 3, 8, 4), (2, 2, 16, 2)) if quick else ((2, 3, 8, 12), (2, 2, 16, 4), (4, 4, 32, 2))
    cells = [
        ("newton", (m, k, d), level, floors * counting_floor(heads=m, tokens=k, dim=d), draws)
        for m, k, d, draws in sizes
        for floors in ((4, 32) if quick or m == 4 else (4, 8, 16, 32, 64))
        for level in levels
        if m == 2 or level in (0.01, 0.1)
    ]
    size, draws = (2, 2, 16), 1 if quick else 3
    cells += [("phases", size, level, 40_000 if quick else 450_000, draws) for level in phases]
    cells += [("adam", size, level, 38_400 if quick else 256_000, draws) for level in levels]
    return [
        {"kind": kind, "heads": m, "tokens": k, "dim": d}
        | {"level": level, "examples": examples, "draws": draws}
        for kind, (m, k, d), level, examples, draws in cells
    ]


def measure(*, rng: Generator, draws: int, **cell: Any) -> Mapping[str, Any]:
    """The medians over layers; for the ratio to the formula the mean, with the half-width of its 95 % interval."""
    layers = [_learn(stream, **cell) for stream in rng.spawn(draws)]
    medians = {name: median(layers, name) for name in layers[0]}
    if ratios := values(layers, "ratio"):
        interval = mean_interval(ratios, confidence=0.95) if draws > 1 else None
        medians["ratio"] = float(np.mean(ratios))
        medians["half_width"] = interval and interval.high - interval.estimate
    return medians


def _learn(
    rng: Generator, *, kind: str, heads: int, tokens: int, dim: int, level: float, examples: int
) -> dict[str, Any]:
    """One learner on one target whose labels have Gaussian noise, `level` times their root mean square."""
    inputs = BooleanInputs(tokens, dim)
    learner: Any = {
        "newton": lambda: Newton(heads, examples=examples, starts=5, engine="numpy"),
        "phases": lambda: SixPhase(heads, examples=examples),
        "adam": lambda: GradientDescent(heads, work=examples // _BATCH, batch=_BATCH, learning_rate=0.01),
    }[kind]()
    errors, truth = fit_errors(learner, inputs, heads=heads, rng=rng, noise=level)
    layer, for_law = truth.attention, rng.spawn(1)[0]
    assert isinstance(layer, AttentionLayer)
    if kind == "phases":
        return {name: errors[name] for name in (*_PHASES, "error")}
    measured = {
        "error": errors["error"],
        "ratio": errors["error"] ** 2 / _large_sample_error(heads, tokens, dim, level, examples),
    }
    if kind == "newton" and 2 * layer.theta.size <= _MOST_UNKNOWNS:
        law = squared_law(layer, inputs.sample(examples, rng=for_law), truth.x) * examples * tokens * dim
        measured["law"] = law / (2 * layer.theta.size)
    return measured


def fit_errors(
    learner: Learner, inputs: Inputs, *, heads: int, rng: Generator, noise: float = 0.0
) -> tuple[dict[str, Any], GroundTruth]:
    """Fit a nice layer from labels with noise, in units of their root mean square; the error on fresh tokens.

    For the six phases also the errors of the crude sum, of the refined sum and of the span; None for phases that were
    not reached.
    """
    for_layer, for_truth, for_examples, for_learner = rng.spawn(4)
    layer = make_nice_layer(heads=heads, dim=inputs.dim, rng=for_layer)
    truth = GroundTruth.draw(layer, inputs, _FRESH, rng=for_truth)
    size = float(np.sqrt(np.mean(truth.y**2)))
    oracle = ExampleOracle(layer, inputs, noise=noise * size, rng=for_examples)
    fit = learner.fit(oracle, rng=for_learner)
    errors: dict[str, Any] = {"error": truth.measure(predict=fit.predict)["relative_error"]}
    if isinstance(fit.details, SixPhases):
        crude, refined, span = fit.details.crude_sum, fit.details.refined_sum, fit.details.span
        errors["crude"] = crude and crude.error(layer)
        errors["refined"] = refined and refined.error(layer)
        errors["span"] = span and span.errors(layer)["span_error"]
    return errors, truth


def _large_sample_error(heads: int, tokens: int, dim: int, level: float, examples: int) -> float:
    """The squared relative error by the large-sample formula: unknowns over equations, times the squared noise."""
    return level**2 * 2 * heads * dim / (examples * tokens)


def derivative(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n*k d p"]:
    """The derivative of every output entry in all Theta_i, then all W_i, p = 2 m d^2 numbers; O(n k d p)."""
    n, k, d = x.shape
    pattern = layer.patterns(x)
    read = pattern @ x[:, None]
    # dF_a = x_a dTheta_i C_a W_i, C_a the covariance of the tokens under the pattern of row a
    second = np.einsum("niab,nbp,nbq->niapq", pattern, x, x) - read[..., :, None] * read[..., None, :]
    in_theta = np.einsum("nap,niaqj->najipq", x, second @ layer.w[None, :, None]).reshape(n * k, d, -1)
    in_w = np.einsum("niar,jc->najirc", read, np.eye(d)).reshape(n * k, d, -1)
    return np.concatenate([in_theta, in_w], axis=2)


def squared_law(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], fresh: Float[np.ndarray, "fresh k d"]
) -> float:
    """The excess squared error of least squares on an entry of a fresh label, to first order in noise of variance 1.

    Notes
    -----
    tr(G H^+) / (n k d) with H = E J^T J on the examples and G that on fresh inputs; with many examples it is
    p / (n k d). O(n k d p^2 + p^3).
    """
    h, g = (
        rows.T @ rows / len(tokens)
        for tokens in (x, fresh)
        for rows in [derivative(layer, tokens).reshape(-1, 2 * layer.theta.size)]
    )
    return float(np.vdot(g, np.linalg.pinv(h, rcond=_NOTHING, hermitian=True))) / x.size


def _newton(rows: Sequence[Row]) -> list[Row]:
    """Newton's rows at small noise, with the counting floors."""
    return [
        {
            **row,
            "floors": round(
                row["examples"] / counting_floor(heads=row["heads"], tokens=row["tokens"], dim=row["dim"])
            ),
        }
        for row in chosen(rows, kind="newton")
        if row["level"] <= _SMALL
    ]


def _mean(rows: Sequence[Row]) -> float:
    """A layer has the same examples and the same scaled noise at every level, so levels are averaged."""
    return float(np.mean(values(rows, "ratio")))


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    laws = [row for row in _newton(rows) if row.get("law") is not None]
    ratios = [
        _mean(layers) / float(np.median(values(layers, "law"))) for layers in grouped(laws, "floors").values()
    ]
    return {
        "newton_covariance": f"{min(ratios):.2f} to {max(ratios):.2f}",
        **{
            f"adam_{row['level']:g}".replace(".", "_"): f"{row['ratio']:.2g}"
            for row in chosen(rows, kind="adam")
        },
    }


def _with_interval(rows: Sequence[Row]) -> str:
    """The mean over levels, with the widest of their intervals."""
    half = max(values(rows, "half_width"), default=0.0)
    return f"{_mean(rows):.2f} ± {half:.2f}" if rows[0]["draws"] > 2 else f"{_mean(rows):.2f}"


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    size = {"m": "heads", "k": "tokens", "d": "dim"}
    return {
        "newton": table(
            _newton(rows),
            size | {"floors of examples": "floors"},
            {"excess / formula": _with_interval, "covariance / formula": "law"},
        ),
        "phases": table(
            chosen(rows, kind="phases"),
            {"s": "level"},
            {**{title: name for name, title in _PHASES.items()}, "end": "error"},
        ),
    }


def figure(rows: Sequence[Row]) -> Any:
    """Median errors against the noise, at d = 16."""
    noisy = [row for row in rows if row["dim"] == 16 and row["level"] > 0]
    most = max(row["examples"] for row in chosen(noisy, kind="newton"))
    newton = chosen(noisy, kind="newton", examples=most)
    formula = {row["level"]: _large_sample_error(2, 2, 16, row["level"], most) ** 0.5 for row in newton}
    curves = {
        f"Newton, {most} examples": curve(newton, "level", "error"),
        "large-sample formula": formula.items(),
        **{
            f"phases: {title}": curve(chosen(noisy, kind="phases"), "level", name)
            for name, title in _PHASES.items()
        },
        "Adam": curve(chosen(noisy, kind="adam"), "level", "error"),
    }
    return line_figure([Panel("noise s, in units of the labels", "relative error", curves, log_x=True)])
