"""Turing machines on a circular tape, and the plain simulator that linear attention is compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import PositiveInt, Whole, checked, random_generator

__all__ = ["MOVES", "Configurations", "Size", "TuringMachine", "require_range"]

Size = Annotated[int, Whole(1, 1000)]
"""A number of states, symbols or cells."""

MOVES = (-1, 0, 1)
"""Where a machine's head can go: to the left, nowhere, to the right."""


@dataclass(frozen=True, eq=False)
@checked
class Configurations:
    """Tapes, positions of the head on them and states, of many runs or of all steps of many runs.

    Parameters
    ----------
    tapes : integer array (..., P)
        The symbol in each cell.
    positions : integer array (...)
        The cell under the machine's head.
    states : integer array (...)
        States.

    Raises
    ------
    ValueError
        If the shapes do not fit, or the arrays, or lists, do not hold whole numbers.
    """

    tapes: Int[np.ndarray, "... P"]
    positions: Int[np.ndarray, "..."]
    states: Int[np.ndarray, "..."]

    def __post_init__(self) -> None:
        if (
            not self.tapes.size
            or not self.tapes.shape[:-1] == self.positions.shape == self.states.shape != self.tapes.shape
        ):
            raise ValueError(
                f"There are tapes {self.tapes.shape}, positions {self.positions.shape} and states "
                f"{self.states.shape}: (..., P), (...) and (...) are needed."
            )

    def require(self, *, states: int, symbols: int) -> None:
        """Raise a ValueError where a symbol, position or state is out of range."""
        for name, size in (("tapes", symbols), ("positions", self.tapes.shape[-1]), ("states", states)):
            require_range(name, getattr(self, name), size)

    @property
    def symbols_read(self) -> Int[np.ndarray, "..."]:
        """The symbols under the heads."""
        return np.take_along_axis(self.tapes, self.positions[..., None], axis=-1)[..., 0]

    def agreement(self, other: "Configurations") -> float:
        """The share of all steps (R, T) at which tape, position and state are those of the other; 0 to 1."""
        same = (self.tapes == other.tapes).all(axis=-1)
        return float(np.mean(same & (self.positions == other.positions) & (self.states == other.states)))

    def part(self, run: int) -> "Configurations":
        """Those of one run, still with an axis of runs."""
        return _joined([self], lambda arrays: arrays[0][run : run + 1])

    @staticmethod
    def of_runs(runs: "Sequence[Configurations]") -> "Configurations":
        """Those of all the given runs, one after the other."""
        return _joined(runs, np.concatenate)

    @staticmethod
    def along_steps(steps: "Sequence[Configurations]") -> "Configurations":
        """The configurations (R, ...) of each of T steps as those of R runs of T steps."""
        return _joined(steps, lambda arrays: np.stack(arrays, axis=1))


@dataclass(frozen=True, eq=False)
@checked
class TuringMachine:
    """A deterministic machine with one tape: what it writes, where it moves, and its next state.

    Parameters
    ----------
    write : integer array (S, A)
        The symbol written in state s on reading x.
    move : integer array (S, A)
        -1, 0 or 1: to the left, nowhere, to the right.
    next_state : integer array (S, A)
        The next state.

    Raises
    ------
    ValueError
        If the shapes differ, or an entry is out of range.

    Notes
    -----
    The tape is a circle of P cells; a machine that would halt stays where it is, writes what it reads and keeps its
    state.

    Examples
    --------
    One that writes ones to the right for ever:

    >>> machine = TuringMachine(np.array([[1, 1]]), np.array([[1, 1]]), np.array([[0, 0]]))
    >>> start = Configurations(np.array([[0, 0, 0]]), np.array([2]), np.array([0]))
    >>> machine.run(start, 2).tapes
    array([[[0, 0, 1],
            [1, 0, 1]]])
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

    def step(self, at: Configurations) -> Configurations:
        """One step of each of R runs, O(R P); a ValueError if a symbol or a state is not the machine's."""
        return self._path(at, 1)[-1]

    def run(self, start: Configurations, steps: int) -> Configurations:
        """The configurations (R, steps, ...) after each step, O(R P steps); a ValueError as for `step`."""
        return Configurations.along_steps(self._path(start, steps)[1:])

    def path(self, start: Configurations, steps: int) -> Configurations:
        """The configurations (R, steps, ...) before each step, O(R P steps); a ValueError as for `step`."""
        return Configurations.along_steps(self._path(start, steps)[:-1])

    @checked
    def _path(self, at: Configurations, steps: PositiveInt) -> list[Configurations]:
        at.require(states=self.states, symbols=self.symbols)
        found = [at]
        for _ in range(steps):
            run, read = np.arange(len(at.tapes)), at.symbols_read
            tapes = at.tapes.copy()
            tapes[run, at.positions] = self.write[at.states, read]
            positions = (at.positions + self.move[at.states, read]) % tapes.shape[-1]
            at = Configurations(tapes, positions, self.next_state[at.states, read])
            found.append(at)
        return found


def require_range(name: str, numbers: np.ndarray, end: int, *, least: int = 0) -> None:
    """Raise where a number is below `least`, or `end` or above."""
    if numbers.min() < least or numbers.max() >= end:
        raise ValueError(
            f"{name} holds numbers from {numbers.min()} to {numbers.max()}: {least} to {end - 1} are allowed."
        )


def _joined(
    parts: Sequence[Configurations], join: Callable[[list[np.ndarray]], np.ndarray]
) -> Configurations:
    return Configurations(
        join([one.tapes for one in parts]),
        join([one.positions for one in parts]),
        join([one.states for one in parts]),
    )
