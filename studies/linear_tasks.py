"""Memories, automata and Turing machines as linear attention: which data determine them, and do they run on."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, grouped, of_all, table, values
from studies.study import Parameters, Row, Study, Table
from studies.tasks import (
    KEYS,
    AutomataInContext,
    Automaton,
    KeyValueMemory,
    TapeLayout,
    TuringMachine,
    UniversalLayout,
    agreement,
)
from studies.tasks.learned_machines import learn_from_steps
from upper.linear_attention import another_minimiser, certify, feature_moment, first_independent, regress

__all__ = ["STUDY"]

_QUERIES = (1, 6, 12, 15, 17, 18, 19, 20, 25)  # of the rare key
_OTHERS = 20  # minimisers beside that of least norm
# states, symbols, pairs seen
_FIXED = ((3, 2, 6), (3, 2, 4), (5, 3, 15), (5, 3, 3), (8, 4, 32), (8, 4, 1))
# states with two symbols, and numbers of examples
_CONTEXTS = {2: (6, 10, 16, 50), 3: (30, 50, 70, 200), 4: (80, 150, 190, 1000)}
# states, symbols, positions
_MACHINES = ((2, 2, 4), (3, 3, 6), (4, 3, 10))
# ranks at which learning stops; None for all
_STEPS = {(2, 2, 4): (16, 24, 32, 39, None), (3, 2, 5): (60, 79, 86, None)}
_UNIVERSAL = (((2, 2, 2), 188), ((2, 2, 2), 376), ((2, 2, 4), 800))


def _cells(scale: Scale) -> Iterator[Parameters]:
    quick = scale is Scale.QUICK
    for keys in (*KEYS, "rare"):
        yield {"task": "memory", "keys": keys, "examples": 1500 if quick else 4000}
    draws, strings, steps = (4, 10, 100) if quick else (20, 50, 1000)
    for states, symbols, seen in _FIXED:
        size = {"states": states, "symbols": symbols, "examples": seen}
        yield {"task": "automaton", **size, "draws": draws, "runs": strings, "steps": steps}
    for states, numbers in _CONTEXTS.items():
        for number in numbers:
            size = {"states": states, "symbols": 2, "examples": number}
            yield {"task": "automaton in context", **size, "draws": strings, "steps": 100}
    steps, made, learned = (200, 2, 4) if quick else (1000, 5, 10)
    parts: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
        *(("machine", size, {"draws": made, "runs": 4, "steps": steps}) for size in _MACHINES),
        *(
            ("learned machine", size, {"draws": learned, "runs": 10, "steps": 100, "stop": stop})
            for size, stops in _STEPS.items()
            for stop in stops
        ),
        *(
            ("universal machine", size, {"draws": 3 if quick else 10, "steps": steps})
            for size in _MACHINES[:2]
        ),
        *(
            ("learned universal machine", size, {"draws": 20, "steps": 100, "stop": stop})
            for size, stop in _UNIVERSAL
        ),
    ]
    for task, (states, symbols, positions), more in parts:
        yield {"task": task, "states": states, "symbols": symbols, "positions": positions, **more}


def _measure(*, task: str, rng: Generator, **size: Any) -> Any:
    if task == "memory":
        return _memory(**size, rng=rng)
    if task.startswith("automaton"):
        return (_automaton if task == "automaton" else _in_context)(**size, rng=rng)
    layout = [size.pop(name) for name in ("states", "symbols", "positions")]
    if "universal" in task:
        return _universal(UniversalLayout(*layout), learned=task.startswith("learned"), **size, rng=rng)
    return _machine(TapeLayout(*layout), learned=task.startswith("learned"), **size, rng=rng)


def _memory(*, keys: Any, examples: int, rng: Generator) -> Any:
    """The memory learned from one distribution of keys and used on Haar keys; errors are squared, over the labels'.

    The error of another minimiser is the mean over 20, each as far from that of least norm as its own norm, in any
    directions that the examples do not see.
    """
    if keys == "rare":
        return _rare_key(examples, rng)
    x_haar, y_haar = KeyValueMemory("haar").examples(examples, rng=rng)
    x, y = KeyValueMemory(keys).examples(examples, rng=rng)
    learned = regress(x, y, least_norm=True)
    certificate = certify(feature_moment(x), feature_moment(x_haar))
    others = [
        relative_error(another_minimiser(learned, certificate, on_domain=False, rng=rng)(x_haar), y_haar)
        for _ in range(_OTHERS)
    ]
    return {
        "rank": certificate.rank,
        "deficit": certificate.deficit,
        "error": float(relative_error(learned(x_haar), y_haar) ** 2),
        "other_error": float(np.mean(np.square(others))),
    }


def _rare_key(examples: int, rng: Generator) -> list[dict[str, Any]]:
    """Errors on queries of the last key of a fixed basis, by the number of its queries."""
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
        ranks.append(len(first_independent(x)))
        learned = regress(x, y, least_norm=True)
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
    independent = first_independent(x)
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
    layout: TapeLayout,
    *,
    learned: bool,
    draws: int,
    runs: int,
    steps: int,
    stop: int | None = None,
    rng: Generator,
) -> dict[str, Any]:
    """Constructed machines, or machines learned from steps of runs, each step alone with its tape.

    Models run on their own outputs, rounded at each step. Where learned, the tape is written out again at each step.
    """
    shares, roundings, ranks = [], [], []
    for _ in range(draws):
        machine = TuringMachine.random(states=layout.states, symbols=layout.symbols, rng=rng)
        model: Any = layout.model(machine)
        if learned:
            model = learn_from_steps(machine, layout, rank=stop, rng=rng)
            ranks.append(model.rank)
        start = layout.draw(runs, rng=rng)
        run = layout.simulate(model, start, steps, keep=not learned)
        shares.append(agreement(run.configurations, machine.run(start, steps)))
        roundings.append(run.rounding)
    rank = {"rank": max(ranks), "full_rank": layout.rank} if learned else {}
    return {**rank, **_shares(shares), "rounding": float(max(roundings))}


def _universal(
    layout: UniversalLayout, *, learned: bool, draws: int, steps: int, stop: int | None = None, rng: Generator
) -> dict[str, Any]:
    """Random machines, one run each, on one model of their size; a learned model has not seen them."""
    model: Any = layout.model()
    rank = {}
    if learned:
        x, y = layout.examples((3 * layout.rank + 1) // 2, rng=rng)
        independent = first_independent(x, rank=stop)
        model = regress(x[independent], y[independent], least_norm=True)
        rank = {"rank": len(independent), "full_rank": layout.rank}
    machines, start = layout.draw(draws, rng=rng)
    run = layout.simulate(model, machines, start, steps, keep=not learned)
    wanted = np.concatenate([machine.run(start[[i]], steps) for i, machine in enumerate(machines)])
    return {**rank, **_shares([agreement(run.configurations, wanted)]), "rounding": float(run.rounding)}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    learned = [row for row in rows if row["task"] != "memory" and row.get("rank") is not None]
    constructed = [row for row in rows if row["task"] in ("machine", "universal machine")]
    named: dict[str, Any] = {
        "needed": KeyValueMemory("fixed").rank_of_a_key,
        "rank_is_pairs": of_all(row["rank"] == row["examples"] for row in chosen(rows, task="automaton")),
        "least_at_full_rank": min(
            (row["least"] for row in learned if row["rank"] == row["full_rank"]), default=None
        ),
        "constructed_least": min(values(constructed, "least"), default=None),
        "constructed_rounding": max(values(constructed, "rounding"), default=None),
        "constructed_steps": max(values(constructed, "steps"), default=None),
    }
    for row in chosen(rows, task="memory"):
        if row["keys"] == "rare":
            named[f"queries_{row['queries']}"] = row["error"]
        else:
            named |= {
                f"{row['keys']}_{name}": row[name] for name in ("rank", "deficit", "error", "other_error")
            }
    for task in dict.fromkeys(row["task"] for row in learned):
        ranks = dict.fromkeys(row["full_rank"] for row in chosen(learned, task=task))
        named[f"{task.replace(' ', '_')}_ranks"] = ", ".join(map(str, ranks))
    return named


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    return {
        "memories": table(
            [row for row in chosen(rows, task="memory") if row["keys"] != "rare"],
            {},
            {
                "training data": "keys",
                "rank": "rank",
                "deficit on Haar keys": "deficit",
                "error, least norm": "error",
                "error, another minimiser": "other_error",
            },
        ),
        "machines": table(
            [row for row in rows if row["task"] != "memory"],
            {},
            {
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
            },
        ),
    }


def _figure(rows: Sequence[Row]) -> Any:
    rare = curve_of({row["queries"]: row["error"] for row in chosen(rows, task="memory", keys="rare")})
    panels = [Panel("queries of the rare key", "squared error", {"memory": rare}, verticals=(19.0,))]
    for task in ("automaton", "automaton in context", "learned machine"):
        curves = {
            f"{states} states": curve_of({row["rank"] / row["full_rank"]: row["right"] for row in those})
            for (states,), those in grouped(chosen(rows, task=task), "states").items()
        }
        panels.append(Panel("rank / full rank", f"steps right, {task}", curves, log_y=False))
    return line_figure(panels, columns=2)


STUDY = Study(
    name="linear-tasks",
    title="Memories, automata and Turing machines in linear attention",
    question="Which examples determine a memory, an automaton or a Turing machine in linear attention, and does it run "
    "without an error then?",
    cells=lambda scale: list(_cells(scale)),
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
)
