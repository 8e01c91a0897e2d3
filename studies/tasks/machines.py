"""Turing machines on a circular tape, and the plain simulator that linear attention is compared with.

A configuration is a row of P + 2 whole numbers: the symbols in the cells, the position of the head, and the state.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import random_generator

MOVES = (-1, 0, 1)
"""Where a machine's head can go: to the left, nowhere, to the right."""


@dataclass(frozen=True, eq=False)
class TuringMachine:
    """A deterministic machine with one tape, a circle of P cells.

    A machine that would halt stays where it is, writes what it reads and keeps its state.

    Parameters
    ----------
    write, move, next_state : integer array (S, A)
        The symbol written in state s on reading x, the move -1, 0 or 1, and the next state.

    Examples
    --------
    One that writes ones to the right for ever:

    >>> machine = TuringMachine(np.array([[1, 1]]), np.array([[1, 1]]), np.array([[0, 0]]))
    >>> machine.run(np.array([[0, 0, 0, 2, 0]]), 2)
    array([[[0, 0, 1, 0, 0],
            [1, 0, 1, 1, 0]]])
    """

    write: Int[np.ndarray, "S A"]
    move: Int[np.ndarray, "S A"]
    next_state: Int[np.ndarray, "S A"]

    @staticmethod
    def random(*, states: int, symbols: int, rng: Rng = None) -> "TuringMachine":
        """A machine whose table is independent and uniform."""
        size, generator = (states, symbols), random_generator(rng)
        return TuringMachine(
            generator.integers(symbols, size=size),
            generator.choice(MOVES, size=size),
            generator.integers(states, size=size),
        )

    def run(self, start: Int[np.ndarray, "R columns"], steps: int) -> Int[np.ndarray, "R T columns"]:
        """The configurations (R, steps, P + 2) after each step. O(R P T)."""
        visited, run = np.empty((len(start), steps, start.shape[1]), dtype=np.int64), np.arange(len(start))
        at = start
        for step in range(steps):
            positions, states = at[:, -2], at[:, -1]
            read = at[run, positions]
            after = visited[:, step]
            after[:] = at
            after[run, positions] = self.write[states, read]
            after[:, -2] = (positions + self.move[states, read]) % (start.shape[1] - 2)
            after[:, -1] = self.next_state[states, read]
            at = after
        return visited


def agreement(run: Int[np.ndarray, "R T columns"], wanted: Int[np.ndarray, "R T columns"]) -> float:
    """The share of all steps at which tape, position and state agree; 0 to 1."""
    return float(np.mean((run == wanted).all(axis=-1)))


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """The unit vectors e_i of each index i, of shape (..., size) for indices (...)."""
    return np.eye(size)[indices]
