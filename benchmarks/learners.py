"""Newton and Adam, interleaved in one process under one BLAS thread: seconds and examples to given errors.

Adam runs with schedules of several lengths, and the best for each error counts: one made for its floor is slow to 1e-2.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from arena.cells import single_thread
from attention import BooleanInputs, ExampleOracle, Fit, GroundTruth, Learner, Step, make_nice_layer
from upper import Adam, Newton

__all__ = ["ADAM_STEPS", "CASES", "ERRORS", "run_learners"]

CASES = ((2, 2, 32), (4, 4, 32), (8, 4, 32))
ERRORS = (1e-2, 1e-6, 1e-12)
ADAM_STEPS = (500, 1500, 4000)


def run_learners(targets: int, path: Path | None) -> None:
    rows: list[dict[str, Any]] = []
    for m, k, d in CASES:
        learners: dict[str, Learner] = {"Newton": Newton(m)}
        learners |= {f"Adam, {steps} steps": Adam(m, work=steps) for steps in ADAM_STEPS}
        fits: dict[str, list[Fit]] = {name: [] for name in learners}
        for seed in range(targets):
            layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
            truth = GroundTruth.draw(layer, inputs, 1000, rng=seed + 1)
            for name, learner in learners.items():
                with single_thread("torch"):
                    oracle = ExampleOracle(layer, inputs, rng=seed + 2)
                    fits[name].append(learner.fit(oracle, rng=seed + 3, truth=truth))
        for error in ERRORS:
            newton, *adam = ({"name": name} | _cost(runs, error) for name, runs in fits.items())
            best = min(adam, key=lambda cost: cost["seconds"])
            rows.append({"m": m, "k": k, "d": d, "error": error, "newton": newton, "adam": best})
    _show(rows)
    if path is not None:
        text = json.dumps(rows, indent=1).replace("Infinity", "null")
        path.write_text(text, encoding="utf-8")


def _cost(fits: list[Fit], error: float) -> dict[str, float]:
    """Medians over the fits of what it took to get below `error`; infinite where half of them never do."""
    reached = [next(_steps_below(fit, error), None) for fit in fits]
    return {
        name: median(float("inf") if step is None else getattr(step, name) for step in reached)
        for name in ("seconds", "examples")
    }


def _steps_below(fit: Fit, error: float) -> Iterator[Step]:
    return (step for step in fit.trace if step.measures["relative_error"] <= error)


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(
        title="Medians over targets, one thread; Adam with the best of its schedules for each error"
    )
    for name in (
        "m,k,d",
        "error",
        "Newton s",
        "Adam s",
        "ratio",
        "Newton examples",
        "Adam examples",
        "schedule",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        newton, adam = row["newton"], row["adam"]
        never = adam["seconds"] == float("inf")
        table.add_row(
            f"{row['m']},{row['k']},{row['d']}",
            f"{row['error']:.0e}",
            *(_number(cost["seconds"]) for cost in (newton, adam)),
            "" if never else f"{newton['seconds'] / adam['seconds']:.2f}",
            *(_number(cost["examples"]) for cost in (newton, adam)),
            "" if never else adam["name"].removeprefix("Adam, "),
        )
    Console(width=110).print(table)


def _number(value: float) -> str:
    if value == float("inf"):
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
