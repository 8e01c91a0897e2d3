"""Turing machines: simulated in whole numbers, learned from runs, and a universal one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from paper_checks.linear_attention.automata import enough
from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention import first_independent, prefix_features, regress
from upper.linear_attention.least_squares import FeatureRegression
from upper.linear_attention.regression import regress_features
from upper.linear_attention.tasks import Configurations, TapeLayout, TuringMachine, UniversalLayout
from upper.linear_attention.tasks.closed_loop import Model

__all__ = [
    "TuringRow",
    "UniversalRow",
    "history_examples",
    "learn_from_histories",
    "learned_turing_rows",
    "learned_universal_rows",
    "turing_experiment",
    "turing_rows",
    "universal_rows",
]

Size = tuple[int, int, int]

# (S, A, P), rank: share of right steps
_FULL = {(2, 2, 4): 40, (3, 2, 5): 90}
_REFERENCE = {((2, 2, 4), 40): 1.0, ((2, 2, 4), 24): 0.25, ((3, 2, 5), 90): 1.0, ((3, 2, 5), 79): 0.45}

_SIZES = ((2, 2, 4), (3, 3, 6), (4, 3, 10))
_UNIVERSAL = ((2, 2, 4), (3, 3, 6))
# (S, A, P), and the rank at which learning stops
_SHORT: tuple[tuple[Size, int | None], ...] = (
    *(((2, 2, 4), rank) for rank in (16, 24, 32, 39, None)),
    *(((3, 2, 5), rank) for rank in (60, 79, 86, None)),
)
_UNIVERSAL_SHORT = (((2, 2, 2), 188), ((2, 2, 2), 376), ((2, 2, 4), 800))
_STARTS = 256  # runs whose whole histories are learned from, where not every start is taken
_STEPS = 20  # of each run that is learned from


@dataclass(frozen=True)
class TuringRow:
    """Random machines of a size: median, least and largest share of steps with the right tape, position and state.

    `rank` is the largest of the machines', None where nothing was learned; `rounding` the largest difference between an
    output and the token it was rounded to.
    """

    states: int
    symbols: int
    positions: int
    training: str
    rank: int | None
    steps: int
    machines: int
    accuracy: float
    lowest: float
    highest: float
    rounding: float


@dataclass(frozen=True)
class UniversalRow:
    """Random machines on one model of their size: the share of right steps, and what was rounded, as in `TuringRow`."""

    states: int
    symbols: int
    positions: int
    dim: int
    training: str
    heads: int | None
    rank: int | None
    exact_rank: int | None
    steps: int
    machines: int
    accuracy: float
    rounding: float


def turing_experiment(*, seed: int = 0, quick: bool = False, progress: Report | None = None) -> Experiment:
    """Machines constructed and learned, run on by their own outputs.

    Parameters
    ----------
    seed, quick, progress
        As for `random_experiment`; `quick` runs fewer machines for fewer steps.

    Returns
    -------
    Experiment
        Tables and checks.

    Notes
    -----
    A minute.

    References
    ----------
    The construction is derived here, and need not be that of Yau et al., arXiv 2410.10101, who ask the
    question.
    """
    tell = progress or (lambda words: None)
    steps, machines = (200, 2) if quick else (1000, 5)

    def rng(stream: int) -> np.random.Generator:
        return np.random.default_rng([seed, stream])

    made = turing_rows(_SIZES, machines=machines, runs=4, steps=steps, rng=rng(0))
    tell("constructed machines")
    stream, number = rng(1), 4 if quick else 10
    learned = learned_turing_rows(_SHORT, machines=number, rng=stream)
    tell("machines learned from short contexts")
    learned += learned_turing_rows([((2, 2, 4), None)], machines=number, histories=True, rng=stream)
    tell("machines learned from whole histories")
    universal = universal_rows(_UNIVERSAL, machines=3 if quick else 10, steps=steps, rng=rng(2))
    universal += learned_universal_rows(_UNIVERSAL_SHORT, rng=rng(3))
    tell("universal machines")
    tables = (
        Table.of(
            "machines",
            "Random machines, run on by the model's own outputs rounded at each step",
            (*made, *learned),
            {
                "states": "states",
                "symbols": "symbols",
                "positions": "positions",
                "model": "training",
                "rank": "rank",
                "machines": "machines",
                "steps": "steps",
                "right, median": "accuracy",
                "least": "lowest",
                "largest": "highest",
                "rounded by at most": "rounding",
                "(reference)": _reference,
            },
            note="Right is a step after which tape, position and state are those of the machine. Models "
            "are learned from the steps of runs of 20 steps: in short contexts of runs each step stands alone, the "
            "current tape and a query; whole histories hold every step since the beginning. Short of the full rank "
            "the share depends on the machine and on how the contexts were drawn, which the reference does not say.",
        ),
        Table.of(
            "universal",
            "One model for all machines of a size, their tables in the context",
            universal,
            {
                "states": "states",
                "symbols": "symbols",
                "positions": "positions",
                "dimension": "dim",
                "model": "training",
                "heads": "heads",
                "rank": "rank",
                "full rank": "exact_rank",
                "machines": "machines",
                "steps": "steps",
                "right": "accuracy",
                "rounded by at most": "rounding",
            },
            note="Two attention steps make one step of a machine: read the cell, then look up the table.",
        ),
    )
    short = [row for row in learned if row.training == "short contexts of runs" and row.rank is not None]
    full = {
        size: max(
            (row.rank or 0, row.lowest) for row in short if (row.states, row.symbols, row.positions) == size
        )
        for size in _FULL
    }
    small = [row for row in learned if (row.states, row.symbols, row.positions, row.rank) == (2, 2, 4, 40)]
    constructed = [row for row in universal if row.training == "constructed"]
    taught = [row for row in universal if row.rank is not None and row.rank == row.exact_rank]
    checks = (
        HeldFigure(
            f"constructed machines are exact in whole numbers for {steps} steps",
            "every step, nothing to round",
            f"{min(row.lowest for row in made):.2f}, rounded by {max(row.rounding for row in made):g}",
            all(row.lowest == 1 and row.rounding == 0 for row in made),
        ),
        HeldFigure(
            "learned from runs, (2, 2, 4): rank 40, then 100 steps right",
            "1.00",
            ", ".join(f"{row.lowest:.2f}" for row in small) or "not there",
            bool(small) and all(row.lowest == 1 for row in small),
        ),
        HeldFigure(
            "learned from runs: full ranks of (2, 2, 4) and (3, 2, 5)",
            "40, 90",
            ", ".join(str(rank) for rank, _ in full.values()),
            all(full[size] == (rank, 1) for size, rank in _FULL.items()),
        ),
        HeldFigure(
            "the universal machine is exact in whole numbers",
            "every step, nothing to round",
            f"{min(row.accuracy for row in constructed):.2f}",
            all(row.accuracy == 1 and row.rounding == 0 for row in constructed),
        ),
        HeldFigure(
            "the universal machine, learned to its full rank, runs unseen machines",
            "1.00",
            ", ".join(f"{row.accuracy:.2f}" for row in taught) or "not there",
            bool(taught) and all(row.accuracy == 1 for row in taught),
        ),
    )
    return Experiment(
        name="turing",
        title="Turing machines in linear attention",
        question="A step of a machine is a token of delta writes [(e_w - e_x) | e_p | e_p'⊗e_s'], so that the block "
        "of the Gram matrix between symbols and positions is the current tape, however long the run. A head for each "
        "position and state reads the cell; the same model is learned from runs by regression.",
        findings=(
            "The constructed models are exact: all numbers are whole, and after a thousand steps nothing was rounded.",
            "Learned to full rank a machine runs on without an error; short of it some steps are wrong, soon.",
            "With the table in the context one model runs every machine of its size, also when it is learned.",
        ),
        checks=checks,
        tables=tables,
        plots=(
            Plot(
                name="ranks",
                words="Machines learned from short contexts of runs: share of right steps, median of the machines, "
                "against the rank",
                x_label="rank / full rank",
                y_label="steps right",
                curves=tuple(_curve(learned, size, full_rank) for size, full_rank in _FULL.items()),
                log_y=False,
            ),
        ),
        seed=seed,
    )


def _curve(rows: list[TuringRow], size: tuple[int, int, int], full_rank: int) -> Curve:
    points = [
        (row.rank / full_rank, row.accuracy)
        for row in rows
        if (row.states, row.symbols, row.positions) == size
        and row.training == "short contexts of runs"
        and row.rank is not None
    ]
    return Curve(
        f"{size[0]} states, {size[1]} symbols, {size[2]} cells",
        tuple(x for x, _ in points),
        tuple(y for _, y in points),
    )


def _reference(row: TuringRow) -> float | None:
    if row.training == "constructed":
        return 1.0
    if row.training != "short contexts of runs" or row.rank is None:
        return None
    return _REFERENCE.get(((row.states, row.symbols, row.positions), row.rank))


def turing_rows(
    sizes: Sequence[Size], *, machines: int, runs: int, steps: int, rng: Generator
) -> list[TuringRow]:
    """Simulate random machines with the constructed model, and compare with the plain simulator at each step."""
    rows = []
    for size in sizes:
        results = []
        for _ in range(machines):
            machine = TuringMachine.random(states=size[0], symbols=size[1], rng=rng)
            results.append(_compared(TapeLayout(*size).model(machine), machine, size, runs, steps, True, rng))
        rows.append(_turing_row(size, "constructed", None, steps, results))
    return rows


def learned_turing_rows(
    cases: Sequence[tuple[Size, int | None]],
    *,
    machines: int,
    runs: int = 10,
    steps: int = 100,
    histories: bool = False,
    rng: Generator,
) -> list[TuringRow]:
    """Learn random machines from steps of their runs, and run what was learned in a closed loop.

    Parameters
    ----------
    cases : sequence of ((S, A, P), rank)
        Sizes, and the rank at which to stop, or None for all; with short contexts only.
    machines, runs, steps : int
        Machines a case, runs of each from random configurations, and steps of a run.
    histories : bool
        Whether steps are shown with all tokens of the run before them, instead of each alone with its tape.
    rng : numpy.random.Generator
        Where randomness comes from.

    Returns
    -------
    list of TuringRow
        A row a case.

    Notes
    -----
    Examples are steps of runs of 20 steps from uniform configurations. In short contexts they are taken run by run,
    those that add to the rank, from as many runs as nearly always reach it: (2 + log r) r. A machine need not pass
    through every state, but it can start in it, so that the rank reached is that of all tapes and queries. Whole
    histories are those from every configuration, or from 256 random ones if there are more; that longer runs add
    nothing to the rank is measured for (2, 2, 4), where 10 steps are enough, and not derived.
    """
    training = "whole histories" if histories else "short contexts of runs"
    rows = []
    for size, rank in cases:
        results, ranks = [], []
        for _ in range(machines):
            machine = TuringMachine.random(states=size[0], symbols=size[1], rng=rng)
            learned = _learned(machine, TapeLayout(*size), rank, histories, rng)
            ranks.append(learned.rank)
            results.append(_compared(learned, machine, size, runs, steps, histories, rng))
        rows.append(_turing_row(size, training, max(ranks), steps, results))
    return rows


def universal_rows(sizes: Sequence[Size], *, machines: int, steps: int, rng: Generator) -> list[UniversalRow]:
    """Run random machines on the one constructed model of their size, and compare at each step."""
    rows = []
    for size in sizes:
        layout = UniversalLayout(*size)
        model = layout.model()
        results = _compared_on_one(model, layout, machines, steps, True, rng)
        rows.append(
            UniversalRow(*size, layout.dim, "constructed", model.heads, None, None, steps, machines, *results)
        )
    return rows


def learned_universal_rows(
    cases: Sequence[tuple[Size, int]], *, machines: int = 20, steps: int = 100, rng: Generator
) -> list[UniversalRow]:
    """Learn the universal machine of a size to a rank from steps of random machines, and run unseen ones.

    From three examples a unit of the exact rank, of which the first independent ones are kept.
    """
    rows = []
    for size, rank in cases:
        layout = UniversalLayout(*size)
        x, y = layout.examples((3 * layout.rank + 1) // 2, rng=rng)
        kept = first_independent(x, rank=rank)
        learned = regress(x[kept], y[kept], least_norm=True)
        results = _compared_on_one(learned, layout, machines, steps, False, rng)
        ranks = len(kept), layout.rank
        rows.append(
            UniversalRow(*size, layout.dim, "short contexts", None, *ranks, steps, machines, *results)
        )
    return rows


def history_examples(
    machine: TuringMachine, start: Configurations, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every step of R runs with its whole history: features (R T, D) of the tokens so far, and the step's tokens."""
    layout = TapeLayout(machine.states, machine.symbols, start.tapes.shape[-1])
    labels = layout.delta_tokens(machine.path(start, steps), machine.run(start, steps))
    x = np.concatenate([layout.contexts(start), labels[:, :-1]], axis=1)
    phi = np.concatenate([prefix_features(run)[layout.positions :] for run in x])
    return phi, labels.reshape(-1, layout.dim)


def learn_from_histories(phi: np.ndarray, y: np.ndarray) -> FeatureRegression:
    """Least squares of least norm; features that are zero in all examples, more than half of them, stay out of it."""
    used = phi.any(axis=0)
    found = regress_features(phi[:, used], y, method="svd", least_norm=True)
    coefficients = np.zeros((phi.shape[1], y.shape[1]))
    coefficients[used] = found.coefficients
    return replace(found, coefficients=coefficients)


def _learned(
    machine: TuringMachine, layout: TapeLayout, rank: int | None, histories: bool, rng: Generator
) -> FeatureRegression:
    if histories:
        few = layout.configurations <= _STARTS
        start = layout.every_configuration() if few else layout.draw(_STARTS, rng=rng)
        return learn_from_histories(*history_examples(machine, start, _STEPS))
    passed = machine.path(layout.draw(enough(layout.rank), rng=rng), _STEPS)
    # run by run, each configuration where it is met first
    whole = np.concatenate([passed.tapes, passed.positions[..., None], passed.states[..., None]], axis=-1)
    whole = whole.reshape(-1, whole.shape[-1])
    whole = whole[np.sort(np.unique(whole, axis=0, return_index=True)[1])]
    x, y = layout.step_examples(machine, Configurations(whole[:, :-2], whole[:, -2], whole[:, -1]))
    kept = first_independent(x, rank=rank)
    return regress(x[kept], y[kept], least_norm=True)


def _compared(
    model: Model, machine: TuringMachine, size: Size, runs: int, steps: int, keep: bool, rng: Generator
) -> tuple[float, float]:
    """Share of right steps and rounding on fresh runs."""
    layout = TapeLayout(*size)
    start = layout.draw(runs, rng=rng)
    found = layout.simulate(model, start, steps, keep=keep)
    return found.configurations.agreement(machine.run(start, steps)), found.rounding


def _compared_on_one(
    model: Model, layout: UniversalLayout, number: int, steps: int, keep: bool, rng: Generator
) -> tuple[float, float]:
    """The same on fresh machines."""
    machines, start = layout.draw(number, rng=rng)
    found = layout.simulate(model, machines, start, steps, keep=keep)
    wanted = Configurations.of_runs([one.run(start.part(run), steps) for run, one in enumerate(machines)])
    return found.configurations.agreement(wanted), found.rounding


def _turing_row(
    size: Size, training: str, rank: int | None, steps: int, results: list[tuple[float, float]]
) -> TuringRow:
    shares, roundings = zip(*results, strict=True)
    measured = float(np.median(shares)), min(shares), max(shares), max(roundings)
    return TuringRow(*size, training, rank, steps, len(results), *measured)
