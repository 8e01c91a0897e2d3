"""Noise on the answers to value queries: errors before and after polish."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import ValueOracle, make_nice_layer, parameter_errors
from attention.fits import Step
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import curve, grouped, median, of_all, table, values
from studies.study import Parameters, Row, Study, Table
from upper import ByQueries

__all__ = ["STUDY"]

_LEVELS = (1e-6, 1e-4, 1e-2)
_TOKENS = 4  # of the queries on which the size of the outputs is measured
_STAGES = {"Logits": "estimate", "Fitted": "polished"}  # by the step of the trace


def _cells(scale: Scale) -> list[Parameters]:
    sizes = [(2, 8, 1)] if scale is Scale.QUICK else [(2, 16, 3), (4, 32, 1)]
    return [
        {"heads": heads, "dim": dim, "level": level, "draw": draw}
        for heads, dim, draws in sizes
        for level in _LEVELS
        for draw in range(draws)
    ]


def _measure(*, rng: np.random.Generator, heads: int, dim: int, level: float, draw: int) -> Mapping[str, Any]:
    for_layer, for_noise, for_learner, for_tokens = rng.spawn(4)
    layer = make_nice_layer(heads=heads, dim=dim, rng=for_layer)
    size = float(np.sqrt(np.mean(layer(for_tokens.standard_normal((200, _TOKENS, dim))) ** 2)))
    errors: dict[str, float | None] = {
        f"{name}_{stage}": None for stage in _STAGES.values() for name in ("theta", "w")
    }

    def see(step: Step) -> None:
        if step.layer is not None and step.name in _STAGES and step.layer.heads == heads:
            worst, stage = parameter_errors(step.layer, layer), _STAGES[step.name]
            errors.update({f"theta_{stage}": float(worst.theta.max()), f"w_{stage}": float(worst.w.max())})

    oracle = ValueOracle(layer, noise=level * size, rng=for_noise)
    fit = ByQueries().fit(oracle, rng=for_learner, progress=see)
    noise = None if fit.precision is None else fit.precision.noise / (level * size)
    return {"outcome": fit.outcome.name, "queries": fit.examples_used, "noise_found": noise, **errors}


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.1e}".replace("e-0", "e-")


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    noise, read = values(rows, "noise_found"), [row for row in rows if row["theta_estimate"] is not None]
    gains = [row["theta_estimate"] / row["theta_polished"] for row in read if row["theta_polished"]]
    return {
        "found": of_all(row["outcome"] == "NOISE_FLOOR" for row in rows),
        "least_gain": f"{min(gains, default=math.nan):.1f}",
        "largest_gain": f"{max(gains, default=math.nan):.0f}",
        "least_found": f"{min(noise, default=math.nan):.2f}",
        "most_found": f"{max(noise, default=math.nan):.2f}",
    }


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    def errors(stage: str) -> Any:
        return lambda draws: ", ".join(_text(median(draws, f"{name}_{stage}")) for name in ("w", "theta"))

    columns = {
        "queries": lambda draws: f"{median(draws, 'queries'):,.0f}",
        **{f"{stage}: W, Theta": errors(stage) for stage in _STAGES.values()},
        "at the noise": lambda draws: of_all(row["outcome"] == "NOISE_FLOOR" for row in draws),
    }
    return {"errors": table(rows, {"heads": "heads", "d": "dim", "noise": "level"}, columns)}


def _figure(rows: Sequence[Row]) -> Any:
    """Errors of Theta and of W against noise: a curve for each size and stage."""
    sizes = grouped(rows, "heads", "dim").items()
    panels = []
    for name, title in (("theta", "relative error of Theta"), ("w", "relative error of W")):
        curves = {
            f"{heads}, {dim}: {stage}": curve(draws, "level", f"{name}_{stage}")
            for (heads, dim), draws in sizes
            for stage in _STAGES.values()
        }
        panels.append(Panel("noise, in units of the outputs", title, curves, log_x=True))
    return line_figure(panels)


STUDY = Study(
    name="query-noise",
    title="Noise on the answers to value queries",
    question="How well are the heads read off when every answer to a value query has noise, before and after all "
    "parameters are fitted to fresh answers?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("heads", "dim", "draw"),
)
