"""Turing machines on a circular tape, and the plain simulator that linear attention is compared with.

A configuration is a row of P + 2 whole numbers: the symbols in the cells, the position of the head, and the state.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import PositiveInt, Whole, checked, random_generator

__all__ = [
    "MOVES",
    "Size",
    "TuringMachine",
    "agreement",
    "one_hot",
    "require_configurations",
    "require_range",
]

Size = Annotated[int, Whole(1, 1000)]
"""A number of states, symbols or cells."""

MOVES = (-1, 0, 1)
"""Where a machine's head can go: to the left, nowhere, to the right."""


@dataclass(frozen=True, eq=False)
@checked
class TuringMachine:
    """A deterministic machine with one tape, a circle of P cells.

    A machine that would halt stays where it is, writes what it reads and keeps its state.

    Parameters
    ----------
    write, move, next_state : integer array (S, A)
        The symbol written in state s on reading x, the move -1, 0 or 1, and the next state.

    Raises
    ------
    ValueError
        If the shapes differ, or an entry is out of range.

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

    def __post_init__(self) -> None:
        require_range("write", self.write, self.symbols)
        require_range("move", self.move, MOVES[-1] + 1, least=MOVES[0])
        require_range("next_state", self.next_state, self.states)

    @staticmethod
    @checked
    def random(*, states: Size, symbols: Size, rng: Rng = None) -> "TuringMachine":
        """A machine whose table is independent and uniform; a ValueError for sizes below 1 or above 1000."""
        size, generator = (states, symbols), random_generator(rng)
        return TuringMachine(
            generator.integers(symbols, size=size),
            generator.choice(MOVES, size=size),
            generator.integers(states, size=size),
        )

    @property
    def states(self) -> int:
        """The number S of states."""
        return int(self.write.shape[0])

    @property
    def symbols(self) -> int:
        """The number A of symbols."""
        return int(self.write.shape[1])

    @checked
    def run(self, start: Int[np.ndarray, "R columns"], steps: PositiveInt) -> Int[np.ndarray, "R T columns"]:
        """The configurations (R, steps, P + 2) after each step; a ValueError if one is not the machine's. O(R P T)."""
        require_configurations(start, self.states, self.symbols)
        found, run = np.empty((len(start), steps, start.shape[1]), dtype=np.int64), np.arange(len(start))
        at = start
        for step in range(steps):
            positions, states = at[:, -2], at[:, -1]
            read = at[run, positions]
            after = found[:, step]
            after[:] = at
            after[run, positions] = self.write[states, read]
            after[:, -2] = (positions + self.move[states, read]) % (start.shape[1] - 2)
            after[:, -1] = self.next_state[states, read]
            at = after
        return found


@checked
def agreement(found: Int[np.ndarray, "R T columns"], wanted: Int[np.ndarray, "R T columns"]) -> float:
    """The share of all steps at which tape, position and state agree; 0 to 1."""
    return float(np.mean((found == wanted).all(axis=-1)))


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """The unit vectors e_i of each index i, of shape (..., size) for indices (...)."""
    return np.eye(size)[indices]


def require_configurations(at: np.ndarray, states: int, symbols: int) -> None:
    """Raise a ValueError where there is no cell, or a symbol, position or state is out of range."""
    if at.shape[-1] < 3:
        raise ValueError(f"A configuration has {at.shape[-1]} entries: P + 2 are needed, P at least 1.")
    require_range("The tape", at[..., :-2], symbols)
    require_range("The position", at[..., -2], at.shape[-1] - 2)
    require_range("The state", at[..., -1], states)


def require_range(name: str, numbers: np.ndarray, end: int, *, least: int = 0) -> None:
    """Raise a ValueError where a number is below `least`, or `end` or above."""
    if numbers.min() < least or numbers.max() >= end:
        raise ValueError(
            f"{name} holds numbers from {numbers.min()} to {numbers.max()}: {least} to {end - 1} are allowed."
        )
