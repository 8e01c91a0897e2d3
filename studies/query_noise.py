"""Noise on the answers to value queries.

How well are the heads read off when every answer to a value query has noise, before and after all parameters are
fitted to fresh answers?
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import AttentionLayer, ValueOracle, make_nice_layer, parameter_errors
from attention.fits import Step
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.noise import derivative
from studies.rows import curve, grouped, median, number_text, of_all, table, values
from studies.study import Parameters, Row, Table
from upper import ByQueries

STREAM = ("heads", "dim", "draw")

_LEVELS = (1e-6, 1e-4, 1e-2)
_TOKENS = 4  # of the queries on which the size of the outputs is measured
_STAGES = {"Logits": "estimate", "Fitted": "polished"}  # by the step of the trace
_BOUNDS = {"condition": "condition numbers", "bound": "Cramér-Rao"}
_MOST_UNKNOWNS = 1024  # the largest number for the bound, whose cost per answer is its square
_ANSWERS = 20_000  # numbers in the queries whose derivatives are held at a time
_UNSEEN = 1e-13  # a direction of the parameters that the answers show less than this is not determined


def cells(scale: Scale) -> list[Parameters]:
    sizes = [(2, 8, 1)] if scale is Scale.QUICK else [(2, 16, 3), (4, 32, 1)]
    return [
        {"heads": heads, "dim": dim, "level": level, "draw": draw}
        for heads, dim, draws in sizes
        for level in _LEVELS
        for draw in range(draws)
    ]


def measure(*, rng: np.random.Generator, heads: int, dim: int, level: float, draw: int) -> Mapping[str, Any]:
    for_layer, for_noise, for_learner, for_tokens = rng.spawn(4)
    layer = make_nice_layer(heads=heads, dim=dim, rng=for_layer)
    size = float(np.sqrt(np.mean(layer(for_tokens.standard_normal((200, _TOKENS, dim))) ** 2)))
    errors: dict[str, float | None] = {
        f"{name}_{stage}": None for stage in _STAGES.values() for name in ("theta", "w")
    }

    def see(step: Step) -> None:
        if isinstance(step.layer, AttentionLayer) and step.name in _STAGES and step.layer.heads == heads:
            worst, stage = parameter_errors(step.layer, layer), _STAGES[step.name]
            errors.update({f"theta_{stage}": float(worst.theta.max()), f"w_{stage}": float(worst.w.max())})

    oracle = _Recorded(layer, noise=level * size, rng=for_noise)
    fit = ByQueries().fit(oracle, rng=for_learner, progress=see)
    noise = None if fit.precision is None else fit.precision.noise / (level * size)
    steps = {name: value for step in fit.trace for name, value in step.measures.items()}
    predicted: dict[str, float | None] = {
        f"{name}_{curve}": None for curve in _BOUNDS for name in ("theta", "w")
    }
    if "condition" in steps:
        theta, w = condition_errors(layer, steps, level * size, rng=for_tokens)
        predicted |= {"theta_condition": theta, "w_condition": w}
    if draw == 0 and 2 * layer.theta.size <= _MOST_UNKNOWNS:
        theta, w = cramer_rao_errors(layer, oracle.asked, level * size)
        predicted |= {"theta_bound": theta, "w_bound": w}
    return {
        "outcome": fit.outcome.name,
        "queries": fit.examples_used,
        "noise_found": noise,
        **errors,
        **predicted,
    }


class _Recorded(ValueOracle):
    """An oracle that keeps what it was asked."""

    asked: list[np.ndarray]

    def ask(self, x: np.ndarray) -> np.ndarray:
        self.asked = [*getattr(self, "asked", []), np.array(x)]
        return super().ask(x)


def condition_errors(
    layer: AttentionLayer, steps: Mapping[str, Any], noise: float, *, rng: np.random.Generator
) -> tuple[float, float]:
    """The errors of Theta and of W, relative to the norms of the smallest ones, as condition numbers predict them.

    Before all parameters are fitted to fresh answers. `steps` are the measures in the trace of `ByQueries`; the
    derivation is on the page of value queries.
    """
    m, d, scale = layer.heads, layer.dim, steps["scale"]
    size = {name: float(np.linalg.norm(getattr(layer, name), axis=(1, 2)).min()) for name in ("theta", "w")}
    # the error of an entry of g
    error = noise / (steps["step_length"] * np.sqrt(steps["repetitions"]))
    output = scale * size["w"] / np.sqrt(d)
    w = float(np.sqrt(2 * m) * error * steps["condition"] / (steps["change"] * output))
    group = max(1, int(0.4 * d / m))
    outputs = scale * np.linalg.qr(rng.standard_normal((d, d)))[0][:group] @ layer.w
    # weights of tokens that are 1 / (group + 1) each solve a system with the rows t_b W_i, which are off as W is
    weight = np.linalg.norm(np.linalg.pinv(outputs.reshape(-1, d)), 2) * np.hypot(
        error, w * output / (group + 1)
    )
    logit = weight * (group + 1) * (1 + np.sqrt(group))
    theta = float(np.sqrt(2) * logit * d / (scale**2 * size["theta"]))
    return theta, w


def cramer_rao_errors(
    layer: AttentionLayer, asked: Sequence[np.ndarray], noise: float
) -> tuple[float, float]:
    """The least error of the worst Theta and W, relative to their norms, of unbiased estimates from these queries.

    Notes
    -----
    The Fisher information is J^T J / noise^2 with the derivative J of all answers; the bound is its pseudo-inverse. In
    coordinates in which W_1 + ... + W_m is one matrix, as long tokens show that far better than the rest.
    O(n p^2 + p^3) for n answers and p = 2 m d^2 unknowns.
    """
    m, unknowns = layer.heads, layer.theta.size
    heads = np.linalg.qr(np.column_stack([np.ones(m), np.eye(m)[:, 1:]]))[0]
    information = np.zeros((2 * unknowns, 2 * unknowns))
    for x in asked:
        for part in np.array_split(x, -(-x.size // _ANSWERS)):
            rows = derivative(layer, part).reshape(-1, 2, m, layer.dim**2)
            rows[:, 1] = np.swapaxes(heads, 0, 1) @ rows[:, 1]
            flat = rows.reshape(len(rows), -1)
            information += flat.T @ flat
    unit = 1 / np.sqrt(np.diag(information))
    values, vectors = np.linalg.eigh(unit[:, None] * information * unit)
    seen = values > _UNSEEN * values[-1]
    root = unit[:, None] * vectors[:, seen] / np.sqrt(values[seen])
    in_theta, in_w = root.reshape(2, m, -1)
    in_w = np.tensordot(heads, in_w.reshape(m, layer.dim**2, -1), 1)
    theta, w = (
        noise
        * float(np.max(np.linalg.norm(part.reshape(m, -1), axis=1) / np.linalg.norm(array, axis=(1, 2))))
        for part, array in ((in_theta, layer.theta), (in_w, layer.w))
    )
    return theta, w


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    noise, read = values(rows, "noise_found"), [row for row in rows if row["theta_estimate"] is not None]
    gains = [row["theta_estimate"] / row["theta_polished"] for row in read if row["theta_polished"]]
    return {
        "found": of_all(row["outcome"] == "NOISE_FLOOR" for row in rows),
        "least_gain": f"{min(gains, default=math.nan):.1f}",
        "largest_gain": f"{max(gains, default=math.nan):.0f}",
        "least_found": f"{min(noise, default=math.nan):.2f}",
        "most_found": f"{max(noise, default=math.nan):.2f}",
        **{f"{name}_{curve}": _range(rows, name, curve) for name in ("theta", "w") for curve in _BOUNDS},
    }


def _range(rows: Sequence[Row], name: str, curve: str) -> str:
    """The errors over those predicted: of the estimate by condition numbers, of the polished one by the bound."""
    stage = "estimate" if curve == "condition" else "polished"
    pairs = [(row[f"{name}_{stage}"], row[f"{name}_{curve}"]) for row in rows]
    ratios = [measured / predicted for measured, predicted in pairs if measured and predicted]
    return f"{min(ratios, default=math.nan):.1f} to {max(ratios, default=math.nan):.1f}"


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    def errors(stage: str) -> Any:
        return lambda draws: ", ".join(
            number_text(median(draws, f"{name}_{stage}")) for name in ("w", "theta")
        )

    columns = {
        "queries": lambda draws: f"{median(draws, 'queries'):,.0f}",
        **{
            f"{title}: W, Theta": errors(stage)
            for title, stage in (
                ("condition numbers", "condition"),
                *((stage, stage) for stage in _STAGES.values()),
                ("Cramér-Rao", "bound"),
            )
        },
        "at the noise": lambda draws: of_all(row["outcome"] == "NOISE_FLOOR" for row in draws),
    }
    return {"errors": table(rows, {"heads": "heads", "d": "dim", "noise": "level"}, columns)}


def figure(rows: Sequence[Row]) -> Any:
    """Errors of Theta and of W against noise: a curve for each size and stage, and the predicted ones in grey."""
    sizes = grouped(rows, "heads", "dim").items()
    panels = []
    for name, title in (("theta", "relative error of Theta"), ("w", "relative error of W")):
        curves = {
            f"{heads}, {dim}: {stage}": curve(draws, "level", f"{name}_{stage}")
            for (heads, dim), draws in sizes
            for stage in _STAGES.values()
        }
        bounds = {
            f"{heads}, {dim}: {title}": curve(draws, "level", f"{name}_{bound}")
            for (heads, dim), draws in sizes
            for bound, title in _BOUNDS.items()
        }
        panels.append(Panel("noise, in units of the outputs", title, curves, log_x=True, bounds=bounds))
    return line_figure(panels)
