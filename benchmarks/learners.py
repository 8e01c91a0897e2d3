"""Newton and Adam, interleaved in one process under one BLAS thread: seconds and examples to given errors."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from arena.cells import single_thread
from attention import BooleanInputs, ExampleOracle, Fit, GroundTruth, make_nice_layer
from upper import Adam, Newton

CASES = ((2, 2, 32), (4, 4, 32), (8, 4, 32))
ERRORS = (1e-2, 1e-6, 1e-12)


def run_learners(targets: int, path: Path | None) -> None:
    rows = []
    for m, k, d in CASES:
        fits: dict[str, list[Fit]] = {"Newton": [], "Adam": []}
        for seed in range(targets):
            layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
            truth = GroundTruth.draw(layer, inputs, 1000, rng=seed + 1)
            for name, learner in (("Newton", Newton(m)), ("Adam", Adam(m, work=6000))):
                with single_thread("torch"):
                    oracle = ExampleOracle(layer, inputs, rng=seed + 2)
                    fits[name].append(learner.fit(oracle, rng=seed + 3, truth=truth))
        for error in ERRORS:
            rows.append({"m": m, "k": k, "d": d, "error": error} | _costs(fits, error))
    _show(rows)
    if path is not None:
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _costs(fits: dict[str, list[Fit]], error: float) -> dict[str, Any]:
    costs: dict[str, Any] = {}
    for name, runs in fits.items():
        reached = [next(_steps_below(fit, error), None) for fit in runs]
        costs[f"{name} reached"] = sum(step is not None for step in reached)
        costs[f"{name} seconds"] = median(step.seconds if step else float("inf") for step in reached)
        costs[f"{name} examples"] = median(step.examples if step else float("inf") for step in reached)
    seconds = costs["Newton seconds"], costs["Adam seconds"]
    costs["ratio of seconds"] = None if float("inf") in seconds else seconds[0] / seconds[1]
    return {key: None if value == float("inf") else value for key, value in costs.items()}


def _steps_below(fit: Fit, error: float) -> Iterable[Any]:
    return (step for step in fit.trace if step.measures["relative_error"] <= error)


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Median over targets; one thread; never: not reached by half of the runs")
    for name in ("m,k,d", "error", "Newton s", "Adam s", "ratio", "Newton examples", "Adam examples"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_number(row[key]) for key in ("Newton seconds", "Adam seconds", "ratio of seconds")]
        counts = [_number(row[key]) for key in ("Newton examples", "Adam examples")]
        table.add_row(f"{row['m']},{row['k']},{row['d']}", f"{row['error']:.0e}", *cells, *counts)
    Console().print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
