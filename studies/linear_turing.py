"""Turing machines: simulated in whole numbers, learned from runs, and a universal one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from studies.tasks import TapeLayout, TuringMachine, UniversalLayout, agreement
from studies.tasks.learned_machines import (
    history_examples,
    learn_from_histories,
    learn_from_steps,
)
from upper.linear_attention import first_independent, regress
from upper.linear_attention.regression import CubicRegression, Model

__all__ = ["STUDY"]

Size = tuple[int, int, int]

_SIZES = ((2, 2, 4), (3, 3, 6), (4, 3, 10))
# states, symbols, positions, and the rank at which learning stops; None for all
_SHORT: tuple[tuple[Size, int | None], ...] = (
    *(((2, 2, 4), rank) for rank in (16, 24, 32, 39, None)),
    *(((3, 2, 5), rank) for rank in (60, 79, 86, None)),
)
_UNIVERSAL_SHORT = (((2, 2, 2), 188), ((2, 2, 2), 376), ((2, 2, 4), 800))
_STARTS = 256  # the number of runs with whole histories in the training data, if not every start is used
_STEPS = 20  # of each training run
_MODELS = {
    "constructed": "constructed",
    "short": "short contexts of runs",
    "histories": "whole histories",
    "universal": "universal, constructed",
    "universal-short": "universal, short contexts",
}


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    steps, made, learned = (200, 2, 4) if quick else (1000, 5, 10)

    def cell(model: str, size: Size, rank: int | None, machines: int, runs: int, steps: int) -> Parameters:
        return {
            "model": model,
            "size": list(size),
            "stop": rank,
            "machines": machines,
            "runs": runs,
            "steps": steps,
        }

    return [
        *(cell("constructed", size, None, made, 4, steps) for size in _SIZES),
        *(cell("short", size, rank, learned, 10, 100) for size, rank in _SHORT),
        cell("histories", (2, 2, 4), None, learned, 10, 100),
        *(cell("universal", size, None, 3 if quick else 10, 1, steps) for size in _SIZES[:2]),
        *(cell("universal-short", size, rank, 20, 1, 100) for size, rank in _UNIVERSAL_SHORT),
    ]


def _measure(
    *, model: str, size: list[int], stop: int | None, machines: int, runs: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Shares of steps with the right tape, position and state, one per machine, and the largest rounding error.

    Models run on their own outputs, rounded at each step. They are learned from the steps of runs with 20 steps, from
    random configurations. In short contexts each step is alone with its tape; in whole histories it comes with every
    earlier token of the run.
    """
    if model.startswith("universal"):
        return _universal(model == "universal", UniversalLayout(*size), stop, machines, steps, rng)
    layout, results, rank = TapeLayout(*size), [], 0
    for _ in range(machines):
        machine = TuringMachine.random(states=size[0], symbols=size[1], rng=rng)
        used: Model
        if model == "constructed":
            used = layout.model(machine)
        else:
            learned = (
                _from_histories(machine, layout, rng)
                if model == "histories"
                else learn_from_steps(machine, layout, rank=stop, rng=rng)
            )
            rank, used = max(rank, learned.rank), learned
        start = layout.draw(runs, rng=rng)
        found = layout.simulate(used, start, steps, keep=model != "short")
        results.append((agreement(found.configurations, machine.run(start, steps)), found.rounding))
    shares, roundings = zip(*results, strict=True)
    full = layout.rank if model == "short" else None
    return {
        "rank": rank or None,
        "full_rank": full,
        "shares": [float(share) for share in shares],
        "rounding": float(max(roundings)),
    }


def _from_histories(machine: TuringMachine, layout: TapeLayout, rng: Generator) -> CubicRegression:
    few = layout.configurations <= _STARTS
    start = layout.every_configuration() if few else layout.draw(_STARTS, rng=rng)
    return learn_from_histories(*history_examples(machine, start, _STEPS))


def _universal(
    constructed: bool, layout: UniversalLayout, stop: int | None, machines: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Run random machines, one run each, on one model of their size; a learned model has not seen them."""
    rank = None
    used: Model
    if constructed:
        used = layout.model()
    else:
        x, y = layout.examples((3 * layout.rank + 1) // 2, rng=rng)
        kept = first_independent(x, rank=stop)
        rank, used = len(kept), regress(x[kept], y[kept], least_norm=True)
    drawn, start = layout.draw(machines, rng=rng)
    found = layout.simulate(used, drawn, start, steps, keep=constructed)
    wanted = np.concatenate([one.run(start[[run]], steps) for run, one in enumerate(drawn)])
    share = float(agreement(found.configurations, wanted))
    full = None if constructed else layout.rank
    return {"rank": rank, "full_rank": full, "shares": [share], "rounding": float(found.rounding)}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    constructed = [row for row in rows if row["model"] in ("constructed", "universal")]
    if constructed:
        named["constructed_least"] = f"{min(min(row['shares']) for row in constructed):.2f}"
        named["constructed_rounding"] = number_text(max(row["rounding"] for row in constructed))
        named["constructed_steps"] = constructed[0]["steps"]
    for name in ("short", "universal-short"):
        those = [row for row in rows if row["model"] == name]
        full = [row for row in those if row["rank"] == row["full_rank"]]
        if full:
            key = name.replace("-", "_")
            named[f"{key}_ranks"] = ", ".join(str(row["rank"]) for row in full)
            named[f"{key}_least"] = f"{min(min(row['shares']) for row in full):.2f}"
    for row in rows:
        if row["model"] == "histories":
            named |= {"histories_rank": row["rank"], "histories_least": f"{min(row['shares']):.2f}"}
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "states, symbols, positions": ", ".join(map(str, row["size"])),
            "model": _MODELS[row["model"]],
            "rank": number_text(row["rank"]),
            "full rank": number_text(row["full_rank"]),
            "machines": str(row["machines"]),
            "steps": str(row["steps"]),
            "right, median": number_text(float(np.median(row["shares"]))),
            "least": number_text(min(row["shares"])),
            "rounded by at most": number_text(row["rounding"]),
        }
        for row in rows
    ]


def _figure(rows: Sequence[Row]) -> Any:
    short = [row for row in rows if row["model"] == "short"]
    curves: dict[str, Any] = {}
    for size in dict.fromkeys(tuple(row["size"]) for row in short):
        points = [
            (row["rank"] / row["full_rank"], float(np.median(row["shares"])))
            for row in short
            if tuple(row["size"]) == size
        ]
        label = f"{size[0]} states, {size[1]} symbols, {size[2]} cells"
        curves[label] = tuple(zip(*points, strict=True))
    return line_figure([Panel("rank / full rank", "steps right", curves, log_y=False)])


STUDY = Study(
    name="linear-turing",
    title="Turing machines in linear attention",
    question="Does linear attention run Turing machines without an error, constructed and learned from runs?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
