"""Learn Turing machines from steps of their runs, each step alone with its tape."""

from math import ceil, log

import numpy as np
from numpy.random import Generator

from studies.tasks.machines import TuringMachine
from studies.tasks.turing import TapeLayout
from upper.linear_attention.features import first_independent
from upper.linear_attention.regression import CubicRegression, regress

__all__ = ["enough_examples", "learn_from_steps"]

_STEPS = 20  # steps of each run to learn from


def enough_examples(rank: int) -> int:
    """Random examples that nearly always reach a rank: (2 + log rank) for each unit of it."""
    return ceil(rank * (2 + log(rank)))


def learn_from_steps(
    machine: TuringMachine, layout: TapeLayout, *, rank: int | None = None, rng: Generator
) -> CubicRegression:
    """Learn from steps of runs from random configurations, those that add to the rank, until `rank` (None: all)."""
    start = layout.draw(enough_examples(layout.rank), rng=rng)
    passed = np.concatenate([start[:, None], machine.run(start, _STEPS - 1)], axis=1)
    passed = passed.reshape(-1, start.shape[1])
    # run by run; each configuration counts at its first occurrence
    x, y = layout.examples(passed[np.sort(np.unique(passed, axis=0, return_index=True)[1])], machine)
    kept = first_independent(x, rank=rank)
    return regress(x[kept], y[kept], least_norm=True)
