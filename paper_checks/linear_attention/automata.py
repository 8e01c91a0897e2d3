"""Finite automata: a fixed one, one that is given in the context, and a reader of tapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.random import Generator

from attention.metrics import relative_error
from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention import first_independent, regress
from upper.linear_attention.tasks import AutomataInContext, Automaton, TapeLayout

__all__ = [
    "AutomatonRow",
    "ContextRow",
    "TapeReaderRow",
    "automata_experiment",
    "automaton_in_context_rows",
    "fixed_automaton_rows",
    "tape_reader_rows",
]

# states, symbols, pairs seen
_FIXED = ((3, 2, 6), (3, 2, 4), (5, 3, 15), (5, 3, 3), (8, 4, 32), (8, 4, 1))
# states, symbols, positions
_TAPES = ((2, 2, 4), (3, 2, 5), (3, 3, 6))

_FIXED_REFERENCE = {(3, 2, 4): 0.50, (5, 3, 3): 0.26, (8, 4, 1): 0.20}
_ENOUGH = {2: 50, 3: 200, 4: 1000}
# states, symbols, examples
_CONTEXTS = (
    *((2, 2, n) for n in (6, 10, 16, 50)),
    *((3, 2, n) for n in (30, 50, 70, 200)),
    *((4, 2, n) for n in (80, 150, 190, 1000)),
)


@dataclass(frozen=True)
class AutomatonRow:
    """A fixed automaton from some of its S A pairs: median, least and largest share of right steps over the draws."""

    states: int
    symbols: int
    seen: int
    rank: int
    accuracy: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ContextRow:
    """Automata in the context: ranks of the examples and of all automata, share of right steps on fresh ones."""

    states: int
    symbols: int
    examples: int
    rank: int
    exact_rank: int
    accuracy: float


@dataclass(frozen=True)
class TapeReaderRow:
    """A tape reader: examples, their rank and that of all tapes, and relative errors on fresh tapes."""

    states: int
    symbols: int
    positions: int
    dim: int
    examples: int
    rank: int
    exact_rank: int
    constructed_error: float
    learned_error: float


def automata_experiment(*, seed: int = 0, quick: bool = False, progress: Report | None = None) -> Experiment:
    """Automata learned from examples and run in closed loops.

    Parameters
    ----------
    seed, quick, progress
        As for `random_experiment`; `quick` runs fewer and shorter strings.

    Returns
    -------
    Experiment
        Tables, curves and checks.

    Notes
    -----
    Seconds.

    References
    ----------
    Yau et al., arXiv 2410.10101, for the question; the encodings are derived here.
    """
    tell = progress or (lambda words: None)
    fixed = fixed_automaton_rows(
        _FIXED,
        draws=4 if quick else 20,
        strings=10 if quick else 50,
        steps=100 if quick else 1000,
        rng=np.random.default_rng([seed, 0]),
    )
    tell("fixed automata")
    context = automaton_in_context_rows(
        _CONTEXTS, automata=20 if quick else 50, rng=np.random.default_rng([seed, 1])
    )
    tell("automata in context")
    tape = tape_reader_rows(_TAPES, rng=np.random.default_rng([seed, 2]))
    tell("tape readers")
    tables = (
        Table.of(
            "fixed",
            "A fixed automaton, one token [state; symbol; 1]: steps right in closed loops of 1000"
            if not quick
            else "A fixed automaton, one token [state; symbol; 1]: steps right in closed loops of 100",
            fixed,
            {
                "states": "states",
                "symbols": "symbols",
                "pairs seen": "seen",
                "of": lambda row: row.states * row.symbols,
                "rank": "rank",
                "median": "accuracy",
                "least": "lowest",
                "largest": "highest",
                "(reference)": lambda row: (
                    1.0
                    if row.seen == row.states * row.symbols
                    else _FIXED_REFERENCE.get((row.states, row.symbols, row.seen))
                ),
            },
            note="The rank is the number of pairs of a state and a symbol that were seen. Where some were not, the "
            "share depends on the automaton: the range is over draws, and the reference is of others.",
        ),
        Table.of(
            "in-context",
            "An automaton given in the context: unseen automata, closed loops of 100 steps",
            context,
            {
                "states": "states",
                "symbols": "symbols",
                "examples": "examples",
                "rank": "rank",
                "full rank": "exact_rank",
                "steps right": "accuracy",
                "(reference)": lambda row: 1.0 if row.examples >= _ENOUGH[row.states] else None,
            },
        ),
        Table.of(
            "tape",
            "A tape reader, tokens [symbol | position | position⊗state]",
            tape,
            {
                "states": "states",
                "symbols": "symbols",
                "positions": "positions",
                "dimension": "dim",
                "examples": "examples",
                "rank": "rank",
                "full rank": "exact_rank",
                "error, constructed": "constructed_error",
                "error, learned": "learned_error",
                "(reference)": lambda row: 6e-15 if row.dim == 14 else None,
            },
        ),
    )
    seen_all = [row for row in fixed if row.seen == row.states * row.symbols]
    enough = [row for row in context if row.examples >= _ENOUGH[row.states]]
    ranks = {row.states: row.exact_rank for row in context}
    checks = (
        HeldFigure(
            "fixed automaton: the rank is the number of pairs seen",
            "every row",
            ", ".join(f"{row.rank} of {row.seen}" for row in fixed),
            all(row.rank == row.seen for row in fixed),
        ),
        HeldFigure(
            "fixed automaton, all pairs seen: every step right",
            "1.00",
            f"{min(row.lowest for row in seen_all):.2f}",
            all(row.lowest == 1 for row in seen_all),
        ),
        HeldFigure(
            "in context: ranks SA(1 + SA(S - 1))",
            "20, 78, 200 for S = 2, 3, 4",
            ", ".join(str(rank) for rank in ranks.values()),
            ranks == {2: 20, 3: 78, 4: 200} and all(row.rank == row.exact_rank for row in enough),
        ),
        HeldFigure(
            "in context, rank reached: unseen automata run right",
            "1.00",
            f"{min(row.accuracy for row in enough):.2f}",
            all(row.accuracy == 1 for row in enough),
        ),
        HeldFigure(
            "tape reader: exact",
            "below 1e-12",
            f"{max(row.learned_error for row in tape):.1e}",
            max(row.learned_error for row in tape) < 1e-12,
        ),
    )
    return Experiment(
        name="automata",
        title="Finite automata, run by what was learned",
        question="Next states are learned by regression, and the model runs on by itself: each output is rounded to "
        "the nearest state and becomes part of the next query.",
        findings=(
            "An automaton is learned as soon as the rank of the examples is that of the domain, and then it runs on "
            "without an error; short of the rank it fails within a few steps.",
        ),
        checks=checks,
        tables=tables,
        plots=(
            Plot(
                name="in-context",
                words="Unseen automata given in the context: share of right steps against the rank reached",
                x_label="rank / full rank",
                y_label="steps right",
                curves=tuple(
                    Curve(
                        f"{states} states",
                        tuple(row.rank / row.exact_rank for row in context if row.states == states),
                        tuple(row.accuracy for row in context if row.states == states),
                        marks_only=False,
                    )
                    for states in sorted(ranks)
                ),
                log_y=False,
            ),
        ),
        seed=seed,
    )


def fixed_automaton_rows(
    cases: Sequence[tuple[int, int, int]], *, draws: int, strings: int, steps: int, rng: Generator
) -> list[AutomatonRow]:
    """Learn random automata from some of their transitions, cases of (S, A, seen), and run them in a closed loop."""
    rows = []
    for states, symbols, seen in cases:
        shares, ranks = [], []
        for _ in range(draws):
            automaton = Automaton.random(states=states, symbols=symbols, rng=rng)
            x, y = automaton.examples(rng.permutation(states * symbols)[:seen])
            ranks.append(len(first_independent(x)))
            learned = regress(x, y, least_norm=True)
            start, words = rng.integers(states, size=strings), rng.integers(symbols, size=(strings, steps))
            right = automaton.run_model(learned, start, words) == automaton.run(start, words)
            shares.append(float(right.mean()))
        median = float(np.median(shares))
        rows.append(AutomatonRow(states, symbols, seen, max(ranks), median, min(shares), max(shares)))
    return rows


def automaton_in_context_rows(
    cases: Sequence[tuple[int, int, int]], *, automata: int, steps: int = 100, rng: Generator
) -> list[ContextRow]:
    """Learn to run automata given in the context, cases of (S, A, N), and run unseen ones in a closed loop."""
    rows = []
    for states, symbols, number in cases:
        task = AutomataInContext(states, symbols)
        x, y = task.examples(number, rng=rng)
        kept = first_independent(x)
        learned = regress(x[kept], y[kept], least_norm=True)
        unseen = [Automaton.random(states=states, symbols=symbols, rng=rng) for _ in range(automata)]
        start, words = rng.integers(states, size=automata), rng.integers(symbols, size=(automata, steps))
        wanted = [one.run(start[i : i + 1], words[i : i + 1])[0] for i, one in enumerate(unseen)]
        context = task.contexts(np.stack([one.transitions for one in unseen]), rng=rng)
        share = float(np.mean(task.run_model(learned, context, start, words) == wanted))
        rows.append(ContextRow(states, symbols, number, len(kept), task.rank, share))
    return rows


def tape_reader_rows(
    sizes: Sequence[tuple[int, int, int]], *, fresh: int = 200, rng: Generator
) -> list[TapeReaderRow]:
    """Construct and learn tape readers of sizes (S, A, P), from random tapes enough to reach the rank."""
    rows = []
    for size in sizes:
        layout = TapeLayout(*size)
        number = enough(layout.rank)
        x, y = layout.reader_examples(layout.draw(number, rng=rng))
        kept = first_independent(x)
        learned = regress(x[kept], y[kept], least_norm=True)
        x, y = layout.reader_examples(layout.draw(fresh, rng=rng))
        errors = [relative_error(model(x), y) for model in (layout.reader_model(), learned)]
        rows.append(TapeReaderRow(*size, layout.dim, number, len(kept), layout.rank, *errors))
    return rows


def enough(rank: int) -> int:
    """Random examples with which a task of this rank is nearly always covered: (2 + log rank) a unit of it."""
    return ceil(rank * (2 + log(rank)))
