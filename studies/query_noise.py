"""Noise on the answers to value queries: errors before and after polish."""

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
    if scale is Scale.QUICK:
        return [_cell(2, 8, level, 0) for level in (1e-4, 1e-2)]
    return [_cell(2, 16, level, draw) for level in _LEVELS for draw in range(3)] + [
        _cell(4, 32, level, 0) for level in _LEVELS
    ]


def _cell(heads: int, dim: int, level: float, draw: int) -> Parameters:
    return {"heads": heads, "dim": dim, "level": level, "draw": draw}


def _measure(*, rng: np.random.Generator, heads: int, dim: int, level: float, draw: int) -> Mapping[str, Any]:
    for_layer, for_noise, for_learner, for_tokens = rng.spawn(4)
    layer = make_nice_layer(heads=heads, dim=dim, rng=for_layer)
    size = float(np.sqrt(np.mean(layer(for_tokens.standard_normal((200, _TOKENS, dim))) ** 2)))
    noise = level * size
    errors: dict[str, float] = {}

    def see(step: Step) -> None:
        if step.layer is not None and step.name in _STAGES and step.layer.heads == heads:
            worst, stage = parameter_errors(step.layer, layer), _STAGES[step.name]
            errors.update({f"theta_{stage}": float(worst.theta.max()), f"w_{stage}": float(worst.w.max())})

    oracle = ValueOracle(layer, noise=noise, rng=for_noise)
    fit = ByQueries().fit(oracle, rng=for_learner, progress=see)
    counted = next((step.measures for step in fit.trace if step.name == "Heads counted"), {})
    return {
        "outcome": fit.outcome.name,
        "queries": fit.examples_used,
        "answers": counted.get("repetitions"),
        "noise_found": None if fit.precision is None else fit.precision.noise / noise,
        **{
            f"{name}_{stage}": errors.get(f"{name}_{stage}")
            for stage in _STAGES.values()
            for name in ("theta", "w")
        },
    }


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.1e}".replace("e-0", "e-")


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {"found": of_all(row["outcome"] == "NOISE_FLOOR" for row in rows)}
    for (heads, _, level), those in grouped(rows, "heads", "dim", "level").items():
        at = f"{heads}_{-np.log10(level):.0f}"
        named |= {
            f"{name}_polished_{at}": _text(median(those, f"{name}_polished")) for name in ("theta", "w")
        }
        named[f"queries_{at}"] = f"{median(those, 'queries'):,.0f}"
    read = [row for row in rows if row["theta_estimate"] is not None and row["theta_polished"]]
    if gains := [row["theta_estimate"] / row["theta_polished"] for row in read]:
        named |= {"least_gain": f"{min(gains):.1f}", "largest_gain": f"{max(gains):.0f}"}
    if noise := values(rows, "noise_found"):
        named |= {"least_found": f"{min(noise):.2f}", "most_found": f"{max(noise):.2f}"}
    return named


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    def errors(stage: str) -> Any:
        return lambda those: ", ".join(_text(median(those, f"{name}_{stage}")) for name in ("w", "theta"))

    columns = {
        "queries": lambda those: f"{median(those, 'queries'):,.0f}",
        "answers": lambda those: f"{median(those, 'answers') or 0:,.0f}",
        **{f"{stage}: W, Theta": errors(stage) for stage in _STAGES.values()},
        "at the noise": lambda those: of_all(row["outcome"] == "NOISE_FLOOR" for row in those),
    }
    return {"errors": table(rows, {"heads": "heads", "d": "dim", "noise": "level"}, columns)}


def _figure(rows: Sequence[Row]) -> Any:
    """Errors of Theta and of W against noise: a curve for each size and stage."""
    sizes = grouped(rows, "heads", "dim").items()
    panels = []
    for name, title in (("theta", "relative error of Theta"), ("w", "relative error of W")):
        curves = {
            f"{heads}, {dim}: {stage}": curve(those, "level", f"{name}_{stage}")
            for (heads, dim), those in sizes
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
