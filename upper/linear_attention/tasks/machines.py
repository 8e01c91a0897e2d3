"""Turing machines on a circular tape, and the plain simulator that linear attention is compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator, require_instance, require_shape
from upper.linear_attention.tasks.one_hot import whole_numbers

__all__ = ["MOVES", "Configurations", "TuringMachine", "random_machine"]

MOVES = (-1, 0, 1)
"""Where a machine's head can go: to the left, nowhere, to the right."""


@dataclass(frozen=True, eq=False)
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

    tapes: Int[np.ndarray, "*batch P"]
    positions: Int[np.ndarray, "*batch"]
    states: Int[np.ndarray, "*batch"]

    def __post_init__(self) -> None:
        for name in ("tapes", "positions", "states"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        if not self.tapes.shape[:-1] == self.positions.shape == self.states.shape != self.tapes.shape:
            raise ValueError(
                f"There are tapes {self.tapes.shape}, positions {self.positions.shape} and states "
                f"{self.states.shape}: (..., P), (...) and (...) are needed."
            )

    def require(self, *, states: int, symbols: int) -> None:
        """Raise a ValueError where a symbol, position or state is out of range."""
        cells = self.tapes.shape[-1]
        for name, size in (("tapes", symbols), ("positions", cells), ("states", states)):
            whole_numbers(name, getattr(self, name), allowed=range(size))

    @property
    def symbols_read(self) -> Int[np.ndarray, "*batch"]:
        """The symbols under the heads."""
        return np.take_along_axis(self.tapes, self.positions[..., None], axis=-1)[..., 0]

    def agreement(self, other: "Configurations") -> float:
        """The share of all steps (R, T) at which tape, position and state are those of the other; 0 to 1."""
        require_shape("other.tapes", other.tapes, self.tapes.shape)
        return float(
            np.mean(
                (self.tapes == other.tapes).all(axis=-1)
                & (self.positions == other.positions)
                & (self.states == other.states)
            )
        )

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
    The tape is a circle of P cells, and to the right of the last one is the first: every step is defined, and a
    machine that would halt stays where it is, writes what it reads and keeps its state.

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
        states, symbols = size = whole_numbers("write", self.write, ("S", "A")).shape
        for name, allowed in (
            ("write", range(symbols)),
            ("move", range(-1, 2)),
            ("next_state", range(states)),
        ):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name), size, allowed))

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
        return Configurations.along_steps(self._path(start, count("steps", steps))[1:])

    def path(self, start: Configurations, steps: int) -> Configurations:
        """The configurations (R, steps, ...) before each step, O(R P steps); a ValueError as for `step`."""
        return Configurations.along_steps(self._path(start, count("steps", steps))[:-1])

    def _path(self, at: Configurations, steps: int) -> list[Configurations]:
        require_instance("The configurations", at, Configurations, needed="Configurations")
        require_shape("tapes", at.tapes, ("R", "P"))
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


def random_machine(*, states: int, symbols: int, rng: Rng = None) -> TuringMachine:
    """A machine whose table is independent and uniform.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> random_machine(states=4, symbols=3, rng=0).write.shape
    (4, 3)
    """
    size = states, symbols = count("states", states), count("symbols", symbols)
    require_memory(f"A machine of {states} states and {symbols} symbols", 96 * states * symbols)
    generator = random_generator(rng)
    return TuringMachine(
        generator.integers(symbols, size=size),
        generator.choice(MOVES, size=size),
        generator.integers(states, size=size),
    )


def _joined(
    parts: Sequence[Configurations], join: Callable[[list[np.ndarray]], np.ndarray]
) -> Configurations:
    return Configurations(
        join([one.tapes for one in parts]),
        join([one.positions for one in parts]),
        join([one.states for one in parts]),
    )
