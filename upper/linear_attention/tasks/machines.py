"""Turing machines on a circular tape, and the plain simulator that linear attention is compared with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from attention._arrays import count, random_generator, require_instance, require_shape, shown
from attention.inputs import Rng
from attention.memory import require_memory
from upper.linear_attention.tasks._one_hot import require_entries, whole_numbers

__all__ = ["Configurations", "TuringMachine", "random_configurations", "random_machine"]

MOVES = (-1, 0, 1)


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
            values = getattr(self, name)
            if not isinstance(values, np.ndarray):
                values = np.asarray(values)
                object.__setattr__(self, name, values)
            if (values.ndim == 0 and name == "tapes") or values.dtype.kind not in "iu":
                raise ValueError(
                    f"{name} is an array of {values.dtype}, shape {values.shape}: whole numbers are needed, and tapes "
                    "are (..., P)."
                )
        if not self.tapes.shape[:-1] == self.positions.shape == self.states.shape:
            raise ValueError(
                f"There are tapes {self.tapes.shape}, positions {self.positions.shape} and states "
                f"{self.states.shape}: (..., P), (...) and (...) are needed."
            )

    def require(self, *, states: int, symbols: int) -> None:
        """Refuse what is not of R runs, or has numbers out of range.

        Raises
        ------
        ValueError
            If there is no axis of runs, or a symbol, position or state is not allowed.
        """
        require_shape("tapes", self.tapes, ("R", "P"))
        require_entries("tapes", self.tapes, range(symbols))
        require_entries("positions", self.positions, range(self.tapes.shape[-1]))
        require_entries("states", self.states, range(states))

    @property
    def symbols_read(self) -> Int[np.ndarray, "*batch"]:
        """The symbols under the heads."""
        return np.take_along_axis(self.tapes, self.positions[..., None], axis=-1)[..., 0]

    @staticmethod
    def require_are(name: str, at: object) -> None:
        """Refuse what is none of these, named; a ValueError."""
        require_instance(name, at, Configurations, needed="Configurations")

    def pairs_with(self, other: "Configurations") -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Tapes, positions and states, each with the other's, as `agreement` wants them."""
        return (
            (self.tapes, other.tapes),
            (self.positions, other.positions),
            (self.states, other.states),
        )

    def part(self, run: int) -> "Configurations":
        """Those of one run, still with an axis of runs."""
        part = slice(run, run + 1)
        return Configurations(self.tapes[part], self.positions[part], self.states[part])

    @staticmethod
    def of_runs(runs: "list[Configurations]") -> "Configurations":
        """Those of all the given runs, one after the other."""
        return Configurations(
            np.concatenate([one.tapes for one in runs]),
            np.concatenate([one.positions for one in runs]),
            np.concatenate([one.states for one in runs]),
        )

    @staticmethod
    def along_steps(steps: "list[Configurations]") -> "Configurations":
        """The configurations (R, ...) of each of T steps as those of R runs of T steps."""
        return Configurations(
            np.stack([one.tapes for one in steps], axis=1),
            np.stack([one.positions for one in steps], axis=1),
            np.stack([one.states for one in steps], axis=1),
        )


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
        size = whole_numbers("write", self.write, ("S", "A")).shape
        for name, allowed in (
            ("write", range(size[1])),
            ("move", range(-1, 2)),
            ("next_state", range(size[0])),
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
        self._require(at)
        return self._step(at)

    def _step(self, at: Configurations) -> Configurations:
        run = np.arange(len(at.tapes))
        read = at.tapes[run, at.positions]
        tapes = at.tapes.copy()
        tapes[run, at.positions] = self.write[at.states, read]
        positions = (at.positions + self.move[at.states, read]) % tapes.shape[-1]
        return Configurations(tapes, positions, self.next_state[at.states, read])

    def run(self, start: Configurations, steps: int) -> Configurations:
        """The configurations (R, steps, ...) after each step, O(R P steps)."""
        self._require(start)
        found = []
        for _ in range(count("steps", steps)):
            start = self._step(start)
            found.append(start)
        return Configurations.along_steps(found)

    def path(self, start: Configurations, steps: int) -> Configurations:
        """The configurations (R, steps, ...) before each step, O(R P steps)."""
        self._require(start)
        found = [start]
        for _ in range(count("steps", steps) - 1):
            found.append(self._step(found[-1]))
        return Configurations.along_steps(found)

    def _require(self, at: Configurations) -> None:
        at.require(states=self.states, symbols=self.symbols)


def random_machine(*, states: int, symbols: int, rng: Rng = None) -> TuringMachine:
    """A machine whose table is independent and uniform.

    Parameters
    ----------
    states, symbols : int
        S and A.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    TuringMachine
        The machine.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    O(S A). References: derived here.

    Examples
    --------
    >>> random_machine(states=4, symbols=3, rng=0).write.shape
    (4, 3)
    """
    size = (count("states", states), count("symbols", symbols))
    require_memory(
        f"A machine of {shown(states)} states and {shown(symbols)} symbols",
        96 * size[0] * size[1],
        advice="take fewer",
    )
    generator = random_generator(rng)
    return TuringMachine(
        generator.integers(symbols, size=size),
        generator.choice(MOVES, size=size),
        generator.integers(states, size=size),
    )


def random_configurations(
    *, states: int, symbols: int, positions: int, runs: int, rng: Rng = None
) -> Configurations:
    """Tapes, positions and states, all uniform.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P.
    runs : int
        R.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    Configurations
        Of R runs.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    O(R P). References: derived here.
    """
    states, symbols, positions, runs = (
        count(name, value)
        for name, value in (
            ("states", states),
            ("symbols", symbols),
            ("positions", positions),
            ("runs", runs),
        )
    )
    require_memory(
        f"{shown(runs)} tapes of {shown(positions)} positions",
        16 * runs * (positions + 2),
        advice="take fewer",
    )
    # entries are 64-bit numbers
    count("states", states, most=2**62)
    count("symbols", symbols, most=2**62)
    generator = random_generator(rng)
    return Configurations(
        generator.integers(symbols, size=(runs, positions)),
        generator.integers(positions, size=runs),
        generator.integers(states, size=runs),
    )
