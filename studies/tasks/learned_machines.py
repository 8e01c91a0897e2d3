"""Learn Turing machines from steps of their runs, each step alone or with its whole history."""

from math import ceil, log

import numpy as np
from numpy.random import Generator

from studies.tasks.machines import TuringMachine
from studies.tasks.turing import TapeLayout
from upper.linear_attention.features import first_independent, prefix_features
from upper.linear_attention.regression import CubicRegression, regress, regress_features

__all__ = ["enough_examples", "history_examples", "learn_from_histories", "learn_from_steps"]

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


def history_examples(machine: TuringMachine, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Every step of R runs with its whole history: features (R T, D) of the tokens so far, and the step's tokens."""
    layout = TapeLayout(machine.states, machine.symbols, start.shape[-1] - 2)
    after = machine.run(start, steps)
    labels = layout.delta_tokens(np.concatenate([start[:, None], after[:, :-1]], axis=1), after)
    x = np.concatenate([layout.contexts(start), labels[:, :-1]], axis=1)
    phi = np.concatenate([prefix_features(run)[layout.positions :] for run in x])
    return phi, labels.reshape(-1, layout.dim)


def learn_from_histories(phi: np.ndarray, y: np.ndarray) -> CubicRegression:
    """Least squares of least norm on features (N, D); those that are zero in all examples stay out of it."""
    used = phi.any(axis=0)
    found = regress_features(phi[:, used], y, method="svd", least_norm=True)
    coefficients = np.zeros((phi.shape[1], y.shape[1]))
    coefficients[used] = found.coefficients
    return CubicRegression(**vars(found) | {"coefficients": coefficients}, dim=y.shape[1])
