"""Runs of Turing machines on linear attention, constructed and learned, against the plain simulator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attention._arrays import count, random_generator
from attention.inputs import Rng
from upper.linear_attention.fitted import FeatureRegression
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks.closed_loop import Model, agreement
from upper.linear_attention.tasks.independent import first_independent
from upper.linear_attention.tasks.machines import Configurations, TuringMachine, random_machine
from upper.linear_attention.tasks.tape_reader import TapeLayout, all_configurations, enough
from upper.linear_attention.tasks.turing import (
    history_examples,
    learn_from_histories,
    simulate,
    step_examples,
    turing_model,
)

__all__ = ["Training", "TuringRow", "learned_turing_rows", "turing_rows"]

Training = Literal["short contexts of runs", "whole histories"]

SIZES = ((2, 2, 4), (3, 3, 6), (4, 3, 10))
CASES: tuple[tuple[int, int, int, Training, int | None], ...] = (
    (2, 2, 4, "short contexts of runs", 24),
    (2, 2, 4, "short contexts of runs", None),
    (3, 2, 5, "short contexts of runs", 79),
    (3, 2, 5, "short contexts of runs", None),
    (2, 2, 4, "whole histories", None),
)

_STARTS = 256  # runs whose whole histories are learned from, where not every start is taken
_STEPS = 20  # of each run that is learned from


@dataclass(frozen=True)
class TuringRow:
    """A row of the tables of Turing machines.

    Attributes
    ----------
    states, symbols, positions : int
        S, A and P.
    training : str
        "constructed"; "short contexts of runs", learned from the steps of runs, each shown alone with its tape; or
        "whole histories", learned from the same with all tokens of the run before it.
    rank : int or None
        Of the features on the examples, the largest of all machines; None where nothing was learned.
    steps, machines : int
        Length of the runs, and machines drawn.
    accuracy, lowest, highest : float
        Share of steps with the right tape, position and state: median, least and largest over the machines.
    rounding : float
        The largest difference between an output and the token it was rounded to.
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


def turing_rows(
    sizes: tuple[tuple[int, int, int], ...] = SIZES,
    *,
    machines: int = 5,
    runs: int = 4,
    steps: int = 1000,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[TuringRow]:
    """Simulate random machines with the constructed model, and compare with the plain simulator at each step.

    Parameters
    ----------
    sizes : tuple of (S, A, P)
        Sizes.
    machines, runs, steps : int
        Machines a size, runs of each from random configurations, and steps of a run.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each size when it is done.

    Returns
    -------
    list of TuringRow
        A row a size.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    Derived: accuracy 1 and rounding 0, in whole numbers.

    References
    ----------
    Derived here.
    """
    machines = count("machines", machines)
    generator = random_generator(rng)
    rows = []
    for size in sizes:
        results = []
        for _ in range(machines):
            machine = random_machine(states=size[0], symbols=size[1], rng=generator)
            model = turing_model(machine, size[2])
            results.append(_compare(model, machine, size[2], runs, steps, True, generator))
        rows.append(_row(size, "constructed", None, steps, results))
        if progress is not None:
            progress(f"constructed machine with {size[0]} states, {size[1]} symbols, {size[2]} positions")
    return rows


def learned_turing_rows(
    cases: tuple[tuple[int, int, int, Training, int | None], ...] = CASES,
    *,
    machines: int = 10,
    runs: int = 10,
    steps: int = 100,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[TuringRow]:
    """Learn random machines from steps of their runs, and run what was learned in a closed loop.

    Parameters
    ----------
    cases : tuple of (S, A, P, training, rank)
        Sizes, "short contexts of runs" or "whole histories", and the rank at which to stop (with short contexts only),
        or None for all.
    machines, runs, steps : int
        Machines a case, runs of each from random configurations, and steps of a run.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each case when it is done.

    Returns
    -------
    list of TuringRow
        A row a case.

    Raises
    ------
    ValueError
        If a number is below 1, or a rank is asked of whole histories.

    Notes
    -----
    All examples are steps of runs of 20 steps from uniform configurations. In short contexts they are taken run by run,
    those that add to the rank, from as many runs as nearly always reach it: (2 + log r) r. A machine need not pass
    through every state, but it can start in it, so that the rank reached is that of all tapes and queries. Below it the
    accuracy varies from machine to machine. Whole histories are those of runs of 20 steps from
    every configuration, or from 256 random ones if there are more; that longer ones add nothing to the rank is
    measured for (2, 2, 4), where 10 steps are enough, and not derived.

    References
    ----------
    Derived here.
    """
    machines = count("machines", machines)
    generator = random_generator(rng)
    rows = []
    for states, symbols, positions, training, rank in cases:
        if training == "whole histories" and rank is not None:
            raise ValueError(
                f"The rank {rank} is asked of whole histories: it can be set for short contexts only."
            )
        results, ranks = [], []
        for _ in range(machines):
            machine = random_machine(states=states, symbols=symbols, rng=generator)
            learned = _learn(machine, positions, training, rank, generator)
            ranks.append(learned.rank)
            keep = training == "whole histories"
            results.append(_compare(learned, machine, positions, runs, steps, keep, generator))
        rows.append(_row((states, symbols, positions), training, max(ranks), steps, results))
        if progress is not None:
            progress(f"{training} with {states} states, {symbols} symbols, {positions} positions")
    return rows


def _learn(
    machine: TuringMachine,
    positions: int,
    training: Training,
    rank: int | None,
    generator: np.random.Generator,
) -> FeatureRegression:
    layout = TapeLayout(states=machine.states, symbols=machine.symbols, positions=positions)
    if training == "whole histories":
        few = layout.configurations <= _STARTS
        start = all_configurations(layout) if few else layout.draw(_STARTS, rng=generator)
        return learn_from_histories(*history_examples(machine, start, _STEPS))
    x, y = step_examples(machine, _passed(machine, layout.draw(enough(layout.rank), rng=generator)))
    kept = first_independent(x, rank=rank)
    return regress(x[kept], y[kept], least_norm=True)


def _passed(machine: TuringMachine, start: Configurations) -> Configurations:
    """The configurations that runs begin their steps in, run by run, each where it is met first."""
    passed = machine.path(start, _STEPS)
    whole = np.concatenate([passed.tapes, passed.positions[..., None], passed.states[..., None]], axis=-1)
    whole = whole.reshape(-1, whole.shape[-1])
    whole = whole[np.sort(np.unique(whole, axis=0, return_index=True)[1])]
    return Configurations(whole[:, :-2], whole[:, -2], whole[:, -1])


def _compare(
    model: Model,
    machine: TuringMachine,
    positions: int,
    runs: int,
    steps: int,
    keep: bool,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Accuracy and rounding on fresh runs."""
    layout = TapeLayout(states=machine.states, symbols=machine.symbols, positions=positions)
    start = layout.draw(runs, rng=generator)
    found = simulate(model, layout, start, steps, keep=keep)
    wanted = machine.run(start, steps)
    return agreement(*found.configurations.pairs_with(wanted)), found.rounding


def _row(
    size: tuple[int, int, int],
    training: str,
    rank: int | None,
    steps: int,
    results: list[tuple[float, float]],
) -> TuringRow:
    accuracies, roundings = zip(*results, strict=True)
    return TuringRow(
        *size,
        training,
        rank,
        steps,
        len(results),
        float(np.median(accuracies)),
        min(accuracies),
        max(accuracies),
        max(roundings),
    )
