"""Noise on the answers to value queries: errors before and after polish."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import ValueOracle, make_nice_layer, parameter_errors
from attention.fits import Step
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import grouped, of_all
from studies.study import Parameters, Row, Study
from upper import ByQueries

__all__ = ["STUDY"]

_LEVELS = (1e-6, 1e-4, 1e-2)
_TOKENS = 4  # of the queries on which the size of the outputs is measured
_STAGES = ("estimate", "polished")


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
    errors: dict[str, tuple[float, float]] = {}

    def see(step: Step) -> None:
        if step.layer is not None and step.layer.heads == heads:
            found = parameter_errors(step.layer, layer)
            stage = "polished" if step.name == "Fitted" else "estimate"
            errors[stage] = float(found.theta.max()), float(found.w.max())

    oracle = ValueOracle(layer, noise=noise, rng=for_noise)
    fit = ByQueries().fit(oracle, rng=for_learner, progress=see)
    counted = next((step.measures for step in fit.trace if step.name == "Heads counted"), {})
    return {
        "outcome": fit.outcome.name,
        "queries": fit.examples_used,
        "answers": counted.get("repetitions"),
        "step_length": counted.get("step_length"),
        "noise_found": None if fit.precision is None else fit.precision.noise / noise,
        **{
            f"{name}_{stage}": errors.get(stage, (None, None))[place]
            for stage in _STAGES
            for place, name in enumerate(("theta", "w"))
        },
    }


def _median(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.median(values)) if values else None


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.1e}".replace("e-0", "e-")


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {"found": of_all(row["outcome"] == "NOISE_FLOOR" for row in rows)}
    for (heads, _, level), those in grouped(rows, "heads", "dim", "level").items():
        at = f"{heads}_{-np.log10(level):.0f}"
        for name in ("theta", "w"):
            for stage in _STAGES:
                named[f"{name}_{stage}_{at}"] = _text(_median(those, f"{name}_{stage}"))
        named[f"queries_{at}"] = f"{_median(those, 'queries'):,.0f}"
    gains = [
        row["theta_estimate"] / row["theta_polished"]
        for row in rows
        if row["theta_estimate"] is not None and row["theta_polished"]
    ]
    noise_found = [row["noise_found"] for row in rows if row["noise_found"] is not None]
    if noise_found:
        named |= {"least_found": f"{min(noise_found):.2f}", "most_found": f"{max(noise_found):.2f}"}
    if gains:
        named |= {"least_gain": f"{min(gains):.1f}", "largest_gain": f"{max(gains):.0f}"}
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "heads, d": f"{heads}, {dim}",
            "noise": f"{level:g}",
            "queries": f"{_median(those, 'queries'):,.0f}",
            "answers": f"{_median(those, 'answers') or 0:,.0f}",
            **{
                f"{stage}: W, Theta": ", ".join(
                    _text(_median(those, f"{name}_{stage}")) for name in ("w", "theta")
                )
                for stage in _STAGES
            },
            "at the noise": of_all(row["outcome"] == "NOISE_FLOOR" for row in those),
        }
        for (heads, dim, level), those in grouped(rows, "heads", "dim", "level").items()
    ]


def _figure(rows: Sequence[Row]) -> Any:
    """Errors of Theta and of W against noise: a curve for each size and stage."""
    panels = []
    for name, title in (("theta", "relative error of Theta"), ("w", "relative error of W")):
        curves: dict[str, Any] = {}
        for (heads, dim), sized in grouped(rows, "heads", "dim").items():
            for stage in _STAGES:
                points = {
                    level: _median(those, f"{name}_{stage}")
                    for (level,), those in grouped(sized, "level").items()
                }
                curves[f"{heads}, {dim}: {stage}"] = curve_of(points)
        panels.append(Panel("noise, in units of the outputs", title, curves, log_x=True))
    return line_figure(panels)


STUDY = Study(
    name="query-noise",
    title="Noise on the answers to value queries",
    question="How well are the heads read off when every answer to a value query has noise, before and after all "
    "parameters are fitted to all answers?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("heads", "dim", "draw"),
)
