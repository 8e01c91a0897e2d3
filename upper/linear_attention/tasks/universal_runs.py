"""Runs of random Turing machines on the universal one, constructed and learned, against the plain simulator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attention._arrays import random_generator
from attention.inputs import Rng
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks.closed_loop import Model, agreement
from upper.linear_attention.tasks.independent import first_independent
from upper.linear_attention.tasks.machines import Configurations
from upper.linear_attention.tasks.universal import (
    UniversalLayout,
    simulate_universal,
    universal_examples,
    universal_model,
)

__all__ = ["UniversalRow", "learned_universal_rows", "universal_rows"]

SIZES = ((2, 2, 4), (3, 3, 6))
CASES = ((2, 2, 2, 188), (2, 2, 2, 376), (2, 2, 4, 800))


@dataclass(frozen=True)
class UniversalRow:
    """A row of the table of universal machines.

    Attributes
    ----------
    states, symbols, positions, dim : int
        S, A, P and d.
    training : str
        "constructed"; or "short contexts", learned from steps of uniform machines at uniform tapes, each shown alone.
    heads : int or None
        H of the constructed model.
    rank, exact_rank : int or None
        Of the features on the examples, and on all machines and tapes.
    steps, machines : int
        Length of the runs, and random machines run, none of them in the examples but by chance.
    accuracy : float
        Share of steps with the right tape, position and state.
    rounding : float
        The largest difference between an output and the token it was rounded to.
    """

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


def universal_rows(
    sizes: tuple[tuple[int, int, int], ...] = SIZES,
    *,
    machines: int = 10,
    steps: int = 1000,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[UniversalRow]:
    """Run random machines on the one constructed model of their size, and compare at each step.

    Parameters
    ----------
    sizes : tuple of (S, A, P)
        Sizes.
    machines, steps : int
        Machines a size, each from a random configuration, and steps of a run.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each size when it is done.

    Returns
    -------
    list of UniversalRow
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
    generator = random_generator(rng)
    rows = []
    for states, symbols, positions in sizes:
        layout = UniversalLayout(states=states, symbols=symbols, positions=positions)
        model = universal_model(layout)
        accuracy, rounding = _compare(model, layout, machines, steps, True, generator)
        rows.append(
            UniversalRow(
                states, symbols, positions, layout.dim, "constructed", model.heads, None, None,
                steps, machines, accuracy, rounding,
            )
        )  # fmt: skip
        if progress is not None:
            progress(f"universal machine for {states} states, {symbols} symbols, {positions} positions")
    return rows


def learned_universal_rows(
    cases: tuple[tuple[int, int, int, int], ...] = CASES,
    *,
    machines: int = 20,
    steps: int = 100,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[UniversalRow]:
    """Learn the universal machine of a size from steps of random machines, and run unseen ones.

    Parameters
    ----------
    cases : tuple of (S, A, P, rank)
        Sizes, and the rank of the features at which to stop.
    machines, steps : int
        Fresh random machines a case, each from a random configuration, and steps of a run.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each case when it is done.

    Returns
    -------
    list of UniversalRow
        A row a case.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    From three examples a unit of the exact rank, of which the first independent ones are kept. At the exact rank every
    machine is run without error, which is derived; below it nothing is promised.

    References
    ----------
    Derived here.
    """
    generator = random_generator(rng)
    rows = []
    for states, symbols, positions, rank in cases:
        layout = UniversalLayout(states=states, symbols=symbols, positions=positions)
        x, y = universal_examples(layout, (3 * layout.rank + 1) // 2, rng=generator)
        kept = first_independent(x, rank=rank)
        learned = regress(x[kept], y[kept], least_norm=True)
        accuracy, rounding = _compare(learned, layout, machines, steps, False, generator)
        rows.append(
            UniversalRow(
                states, symbols, positions, layout.dim, "short contexts", None, len(kept), layout.rank,
                steps, machines, accuracy, rounding,
            )
        )  # fmt: skip
        if progress is not None:
            progress(f"universal machine learned for {states} states, {symbols} symbols, rank {len(kept)}")
    return rows


def _compare(
    model: Model,
    layout: UniversalLayout,
    number: int,
    steps: int,
    keep: bool,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Accuracy and rounding on fresh machines."""
    machines, start = layout.draw(number, rng=generator)
    found = simulate_universal(model, layout, machines, start, steps, keep=keep)
    wanted = Configurations.of_runs([one.run(start.part(run), steps) for run, one in enumerate(machines)])
    return agreement(*found.configurations.pairs_with(wanted)), found.rounding
