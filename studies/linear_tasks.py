"""Memories, automata and Turing machines in linear attention.

Which examples determine a memory, an automaton or a Turing machine in linear attention, and does it run without an
error then?
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Int
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped, table
from studies.study import Parameters, Row, Table
from studies.tasks import (
    AutomataInContext,
    Automaton,
    KeyValueMemory,
    TapeLayout,
    TuringMachine,
    agreement,
)
from upper.linear_attention import cubic_kernel, regress
from upper.linear_attention.regression import CubicRegression

_QUERIES = (1, 6, 12, 15, 17, 18, 19, 20, 25)  # of the rare key
# states, symbols, pairs seen
_FIXED = ((3, 2, 6), (3, 2, 4), (5, 3, 15), (5, 3, 3), (8, 4, 32), (8, 4, 1))
# states with two symbols, and numbers of examples
_CONTEXTS = {2: (6, 10, 16, 50), 3: (30, 50, 70, 200), 4: (80, 150, 190, 1000)}
# states, symbols, positions, and the ranks at which learning stops; None for all
_MACHINES = {(2, 2, 4): (16, 24, 32, 39, None), (3, 2, 5): (60, 79, 86, None)}
_STEPS = 20  # of each run of a machine to learn from


def cells(scale: Scale) -> Iterator[Parameters]:
    quick = scale is Scale.QUICK
    yield {"task": "memory", "keys": "rare", "examples": 1500 if quick else 4000}
    draws, strings, steps = (4, 10, 100) if quick else (20, 50, 1000)
    for states, symbols, seen in _FIXED:
        size = {"states": states, "symbols": symbols, "examples": seen}
        yield {"task": "automaton", **size, "draws": draws, "runs": strings, "steps": steps}
    for states, numbers in _CONTEXTS.items():
        for number in numbers:
            size = {"states": states, "symbols": 2, "examples": number}
            yield {"task": "automaton in context", **size, "draws": strings, "steps": 100}
    for (states, symbols, positions), stops in _MACHINES.items():
        size = {"states": states, "symbols": symbols, "positions": positions}
        for stop in stops:
            more = {"draws": 4 if quick else 10, "runs": 10, "steps": 100, "stop": stop}
            yield {"task": "learned machine", **size, **more}


def measure(*, task: str, rng: Generator, **size: Any) -> Any:
    tasks: dict[str, Any] = {"memory": _rare_key, "automaton": _automaton}
    tasks |= {"automaton in context": _in_context, "learned machine": _machine}
    return tasks[task](rng=rng, **size)


def _rare_key(*, keys: str, examples: int, rng: Generator) -> list[dict[str, Any]]:
    """Squared errors, over the labels', on queries of the last key of a fixed basis, by the number of its queries."""
    memory, most = KeyValueMemory("fixed"), max(_QUERIES)
    x, y = memory.on_a_basis(np.arange(examples - most) % (memory.dk - 1), rng=rng)
    x_rare, y_rare = memory.on_a_basis(np.full(most, memory.dk - 1), rng=rng)
    fresh, wanted = memory.on_a_basis(np.full(1000, memory.dk - 1), rng=rng)
    rows = []
    for queries in _QUERIES:
        both = np.concatenate([x, x_rare[:queries]]), np.concatenate([y, y_rare[:queries]])
        learned = regress(*both, least_norm=True)
        error = float(relative_error(learned(fresh), wanted) ** 2)
        rows.append({"queries": queries, "rank": learned.rank, "error": error})
    return rows


def _shares(shares: Sequence[float]) -> dict[str, float]:
    return {"right": float(np.median(shares)), "least": float(min(shares))}


def _automaton(
    *, states: int, symbols: int, examples: int, draws: int, runs: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Random automata learned from some of their transitions: the rank, and the shares of right steps."""
    shares, ranks = [], []
    for _ in range(draws):
        automaton = Automaton.random(states=states, symbols=symbols, rng=rng)
        x, y = automaton.examples(rng.permutation(states * symbols)[:examples])
        learned = regress(x, y, least_norm=True)
        ranks.append(learned.rank)
        start, words = rng.integers(states, size=runs), rng.integers(symbols, size=(runs, steps))
        right = automaton.answered(learned).run(start, words) == automaton.run(start, words)
        shares.append(float(right.mean()))
    return {"rank": max(ranks), "full_rank": states * symbols, **_shares(shares)}


def _in_context(
    *, states: int, symbols: int, examples: int, draws: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Automata given in the context, learned from random automata: the share on unseen automata, one string each."""
    task = AutomataInContext(states, symbols)
    x, y = task.examples(examples, rng=rng)
    independent = _independent(x)
    learned = regress(x[independent], y[independent], least_norm=True)
    unseen = [Automaton.random(states=states, symbols=symbols, rng=rng) for _ in range(draws)]
    start, words = rng.integers(states, size=draws), rng.integers(symbols, size=(draws, steps))
    context = task.contexts(np.stack([automaton.transitions for automaton in unseen]), rng=rng)
    read = map(Automaton, task.answered(learned, context))
    wanted, reached = (
        np.concatenate([automaton.run(start[[i]], words[[i]]) for i, automaton in enumerate(automata)])
        for automata in (unseen, read)
    )
    share = float(np.mean(reached == wanted))
    return {"rank": len(independent), "full_rank": task.rank, **_shares([share])}


def _machine(
    *, draws: int, runs: int, steps: int, stop: int | None, rng: Generator, **size: int
) -> dict[str, Any]:
    """Machines learned from steps, each alone with its tape, which run on their own outputs, rounded at each step."""
    layout = TapeLayout(**size)
    shares, roundings, ranks = [], [], []
    for _ in range(draws):
        machine = TuringMachine.random(states=layout.states, symbols=layout.symbols, rng=rng)
        learned = _learned(machine, layout, stop, rng)
        start = layout.draw(runs, rng=rng)
        run = layout.simulate(learned, start, steps, keep=False)
        ranks.append(learned.rank)
        shares.append(agreement(run.configurations, machine.run(start, steps)))
        roundings.append(run.rounding)
    rank = {"rank": max(ranks), "full_rank": layout.rank}
    return {**rank, **_shares(shares), "rounding": float(max(roundings))}


def _learned(machine: TuringMachine, layout: TapeLayout, rank: int | None, rng: Generator) -> CubicRegression:
    """Learn from steps of runs from random configurations, the first of this rank (None: all)."""
    # (2 + log rank) examples for each unit of the rank nearly always reach it
    start = layout.draw(math.ceil(layout.rank * (2 + math.log(layout.rank))), rng=rng)
    passed = np.concatenate([start[:, None], machine.run(start, _STEPS - 1)], axis=1)
    passed = passed.reshape(-1, start.shape[1])
    # run by run; each configuration counts at its first occurrence
    x, y = layout.examples(passed[np.sort(np.unique(passed, axis=0, return_index=True)[1])], machine)
    independent = _independent(x, rank)
    return regress(x[independent], y[independent], least_norm=True)


def _independent(x: Float[np.ndarray, "N n d"], rank: int | None = None) -> Int[np.ndarray, " kept"]:
    """The places of independent examples, as many as the rank of all, or of the first that have a rank.

    Exact labels at these examples give the same regression of least norm as at all of them.
    """
    kernel = cubic_kernel(x, x)

    def independent(number: int) -> np.ndarray:
        _, pivots, found, _ = scipy.linalg.lapack.dpstrf(kernel[:number, :number], tol=1e-9 * kernel.max())
        return np.sort(pivots[:found]) - 1  # LAPACK counts from 1

    first = bisect_left(range(1, len(x)), rank or math.inf, key=lambda number: len(independent(number)))
    return independent(first + 1)


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    whole = [row["least"] for row in rows if row["task"] != "memory" and row["rank"] == row["full_rank"]]
    return {
        "needed": KeyValueMemory("fixed").rank_of_a_key,
        "least_at_full_rank": min(whole, default=None),
        **{f"queries_{row['queries']}": row["error"] for row in chosen(rows, task="memory")},
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    columns = {
        "task": "task",
        "states": "states",
        "symbols": "symbols",
        "cells": "positions",
        "rank": "rank",
        "full rank": "full_rank",
        "steps": "steps",
        "right, median": "right",
        "least": "least",
        "rounded by at most": "rounding",
    }
    return {"machines": table([row for row in rows if row["task"] != "memory"], {}, columns)}


def figure(rows: Sequence[Row]) -> Any:
    rare = [(row["queries"], row["error"]) for row in chosen(rows, task="memory")]
    needed = float(KeyValueMemory("fixed").rank_of_a_key)
    panels = [Panel("queries of the rare key", "squared error", {"memory": rare}, verticals=(needed,))]
    for task in ("automaton", "automaton in context", "learned machine"):
        curves = {
            f"{states} states": [(row["rank"] / row["full_rank"], row["right"]) for row in those]
            for (states,), those in grouped(chosen(rows, task=task), "states").items()
        }
        panels.append(Panel("rank / full rank", f"steps right, {task}", curves, log_y=False))
    return line_figure(panels, columns=2)
