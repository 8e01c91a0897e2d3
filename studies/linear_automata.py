"""Finite automata run by learned models: a fixed automaton, one given in the context, and a reader of tapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from studies.tasks import AutomataInContext, Automaton, TapeLayout
from studies.tasks.learned_machines import enough_examples
from upper.linear_attention import first_independent, regress

__all__ = ["STUDY"]

# states, symbols, pairs seen
_FIXED = ((3, 2, 6), (3, 2, 4), (5, 3, 15), (5, 3, 3), (8, 4, 32), (8, 4, 1))
# states, symbols, examples
_CONTEXTS = (
    *((2, 2, number) for number in (6, 10, 16, 50)),
    *((3, 2, number) for number in (30, 50, 70, 200)),
    *((4, 2, number) for number in (80, 150, 190, 1000)),
)
# states, symbols, positions
_TAPES = ((2, 2, 4), (3, 2, 5), (3, 3, 6))


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    draws, strings, steps = (4, 10, 100) if quick else (20, 50, 1000)
    parts = (
        ("fixed", _FIXED, {"draws": draws, "strings": strings, "steps": steps}),
        ("context", _CONTEXTS, {"draws": 1, "strings": 20 if quick else 50, "steps": 100}),
        ("tape", _TAPES, {"draws": 1, "strings": 200, "steps": 1}),
    )
    return [
        {"part": part, "states": s, "symbols": a, "size": size, **more}
        for part, sizes, more in parts
        for s, a, size in sizes
    ]


def _measure(
    *,
    part: str,
    states: int,
    symbols: int,
    size: int,
    draws: int,
    strings: int,
    steps: int,
    rng: Generator,
) -> dict[str, Any]:
    """Ranks, and the share of right steps in closed loops; for a tape reader, relative errors on fresh tapes.

    `size` is the number of pairs seen (fixed automaton), of examples (automata in context), or of positions (tape).
    """
    if part == "fixed":
        return _fixed(states, symbols, size, draws, strings, steps, rng)
    if part == "context":
        return _in_context(states, symbols, size, strings, steps, rng)
    layout = TapeLayout(states, symbols, size)
    number = enough_examples(layout.rank)
    x, y = layout.examples(layout.draw(number, rng=rng))
    kept = first_independent(x)
    learned = regress(x[kept], y[kept], least_norm=True)
    x, y = layout.examples(layout.draw(strings, rng=rng))
    errors = [float(relative_error(model(x), y)) for model in (layout.reader_model(), learned)]
    return {
        "rank": len(kept),
        "full_rank": layout.rank,
        "constructed_error": errors[0],
        "learned_error": errors[1],
    }


def _fixed(
    states: int, symbols: int, seen: int, draws: int, strings: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Random automata learned from some of their transitions: the rank, and the share of each draw."""
    shares, ranks = [], []
    for _ in range(draws):
        automaton = Automaton.random(states=states, symbols=symbols, rng=rng)
        x, y = automaton.examples(rng.permutation(states * symbols)[:seen])
        ranks.append(len(first_independent(x)))
        learned = regress(x, y, least_norm=True)
        start, words = rng.integers(states, size=strings), rng.integers(symbols, size=(strings, steps))
        right = automaton.answered(learned).run(start, words) == automaton.run(start, words)
        shares.append(float(right.mean()))
    return {"rank": max(ranks), "full_rank": states * symbols, "shares": shares}


def _in_context(
    states: int, symbols: int, number: int, strings: int, steps: int, rng: Generator
) -> dict[str, Any]:
    """Automata given in the context, learned from random automata: the share on unseen automata, one string each."""
    task = AutomataInContext(states, symbols)
    x, y = task.examples(number, rng=rng)
    kept = first_independent(x)
    learned = regress(x[kept], y[kept], least_norm=True)
    unseen = [Automaton.random(states=states, symbols=symbols, rng=rng) for _ in range(strings)]
    start, words = rng.integers(states, size=strings), rng.integers(symbols, size=(strings, steps))
    context = task.contexts(np.stack([one.transitions for one in unseen]), rng=rng)
    found = map(Automaton, task.answered(learned, context))
    wanted, reached = (
        np.concatenate([one.run(start[[i]], words[[i]]) for i, one in enumerate(those)])
        for those in (unseen, found)
    )
    share = float(np.mean(reached == wanted))
    return {"rank": len(kept), "full_rank": task.rank, "shares": [share]}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    loops = [row for row in rows if row["part"] != "tape"]
    full = [share for row in loops if row["rank"] == row["full_rank"] for share in row["shares"]]
    short = [float(np.median(row["shares"])) for row in loops if row["rank"] < row["full_rank"]]
    fixed = [row for row in rows if row["part"] == "fixed"]
    ranks = {row["states"]: row["full_rank"] for row in rows if row["part"] == "context"}
    named: dict[str, Any] = {
        "rank_is_pairs": f"{sum(row['rank'] == row['size'] for row in fixed)} of {len(fixed)}",
        "context_ranks": ", ".join(str(rank) for rank in ranks.values()),
    }
    if full:
        named["full_least"] = f"{min(full):.2f}"
    if short:
        named |= {"short_least": f"{min(short):.2f}", "short_most": f"{max(short):.2f}"}
    errors = [row["learned_error"] for row in rows if row["part"] == "tape"]
    if errors:
        named["tape_error"] = number_text(max(errors))
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    titles = {"fixed": "fixed automaton", "context": "automaton in context", "tape": "tape reader"}
    return [
        {
            "task": titles[row["part"]],
            "states": str(row["states"]),
            "symbols": str(row["symbols"]),
            "rank": str(row["rank"]),
            "full rank": str(row["full_rank"]),
            "steps right, median": "-" if row["part"] == "tape" else f"{np.median(row['shares']):.3g}",
            "error": number_text(row.get("learned_error")),
        }
        for row in rows
    ]


def _figure(rows: Sequence[Row]) -> Any:
    panels = []
    for part, title in (("fixed", "a fixed automaton"), ("context", "an automaton in context")):
        curves: dict[str, Any] = {}
        for states in sorted({row["states"] for row in rows if row["part"] == part}):
            points = sorted(
                (row["rank"] / row["full_rank"], float(np.median(row["shares"])))
                for row in rows
                if row["part"] == part and row["states"] == states
            )
            curves[f"{states} states"] = tuple(zip(*points, strict=True))
        if curves:
            panels.append(Panel("rank / full rank", f"steps right, {title}", curves, log_y=False))
    return line_figure(panels)


STUDY = Study(
    name="linear-automata",
    title="Finite automata, run by what was learned",
    question="How many examples does linear attention need to run a finite automaton in a closed loop?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
