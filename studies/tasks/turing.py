"""A Turing machine as linear attention: tokens are delta writes, and the Gram matrix holds the tape.

A step of the machine is the token [(e_w - e_x) | e_p | e_p'⊗e_s']: at position p, x was erased and w written, and the
machine went on to position p' in state s'. With the tape's cells [e_x | e_p | 0] before it, the block of
G = X^T X between symbols and positions is the current tape, one-hot, however many steps there were.

The query is the last token; only its p' and s' matter. There is one head for each position and state. Its query matrix
Q = e_p (e_p⊗e_s)^T selects the symbol under the machine's head from G, and its V maps the symbol to the next token.
This gives P S heads of dimension d = A + P + P S with d outputs, and all entries are -1, 0 or 1.

The same model is learned by regression from steps that each stand alone with the current tape: the rank is
P S (1 + P (A - 1)). Such a model of least norm mostly fails on whole histories, where entries of G vary that are
constant in the examples, so in the closed loop the tape is written out again after each step.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attention.inputs import Rng
from attention.validation import random_generator
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import Model

MOVES = (-1, 0, 1)
"""Where a machine's head can go: to the left, nowhere, to the right."""


@dataclass(frozen=True, eq=False)
class TuringMachine:
    """A deterministic machine with one tape, a circle of P cells.

    A configuration is a row of P + 2 whole numbers: the symbols in the cells, the position of the head, and the state.
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


class Simulation(NamedTuple):
    """A run in a closed loop: configurations (R, T, P + 2) after each step, and the largest rounding of an output."""

    configurations: Int[np.ndarray, "R T columns"]
    rounding: float


@dataclass(frozen=True)
class TapeLayout:
    """Tokens [symbol A | position P | position⊗state P S] for a machine's tape, its state and the place of its head.

    A cell is [e_symbol | e_position | 0] and the query [0 | 0 | e_p⊗e_s], so that the block of G between symbols and
    positions is the tape, one-hot.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P.

    Examples
    --------
    >>> layout = TapeLayout(states=2, symbols=2, positions=4)
    >>> layout.dim, layout.rank
    (14, 40)
    >>> layout.model(TuringMachine.random(states=2, symbols=2, rng=0))
    LinearAttention(heads=8, outputs=14, dim=14)
    """

    states: int
    symbols: int
    positions: int

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Where symbols, positions and position⊗state stand; the state is the fast index."""
        return block_slices(self.symbols, self.positions, self.positions * self.states)

    @property
    def dim(self) -> int:
        """The dimension d = A + P + P S of the tokens."""
        return int(self.blocks[-1].stop)

    @property
    def rank(self) -> int:
        """The rank P S (1 + P (A - 1)) of the features on all tapes and queries.

        At each of the P S queries G is an affine function of the tape, P one-hot vectors of A entries; the counts
        of the symbols, also in G, are linear in it. Different queries have different features.
        """
        return self.positions * self.states * (1 + self.positions * (self.symbols - 1))

    def draw(self, runs: int, *, rng: Rng = None) -> Int[np.ndarray, "R columns"]:
        """Uniform tapes, positions and states of R runs."""
        generator = random_generator(rng)
        tapes = generator.integers(self.symbols, size=(runs, self.positions))
        ends = [generator.integers(size, size=runs) for size in (self.positions, self.states)]
        return np.column_stack([tapes, *ends])

    def contexts(self, at: Int[np.ndarray, "R columns"]) -> Float[np.ndarray, "R n d"]:
        """The P cells of each tape and then the query, n = P + 1."""
        symbols, positions, places = self.blocks
        x = np.zeros((len(at), self.positions + 1, self.dim))
        x[:, :-1, symbols] = one_hot(at[:, :-2], self.symbols)
        x[:, :-1, positions] = np.eye(self.positions)
        x[:, -1, places] = self._places(at)
        return x

    def examples(
        self, at: Int[np.ndarray, "N columns"], machine: TuringMachine
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N d"]]:
        """Steps of a machine, each with its tape as the context, labelled with [(e_w - e_x) | e_p | e_p'⊗e_s']."""
        after, positions, run = machine.run(at, 1)[:, 0], at[:, -2], np.arange(len(at))
        written, read = (one_hot(tape[run, positions], self.symbols) for tape in (after, at))
        tokens = np.hstack([written - read, one_hot(positions, self.positions), self._places(after)])
        return self.contexts(at), tokens

    def model(self, machine: TuringMachine) -> LinearAttention:
        """A machine as linear attention with a head for each position and state, in whole numbers. O(P S d^2)."""
        first = self.blocks[2].start
        v, q = np.zeros((2, self.positions * self.states, self.dim, self.dim))
        for head in range(len(v)):
            p, s = divmod(head, self.states)
            q[head, self.symbols + p, first + head] = 1
            for x in range(self.symbols):
                v[head, machine.write[s, x], x] += 1
                v[head, x, x] -= 1
                v[head, self.symbols + p, x] = 1
                reached = (p + machine.move[s, x]) % self.positions
                v[head, first + reached * self.states + machine.next_state[s, x], x] = 1
        return LinearAttention(v, q)

    def simulate(
        self, model: Model, start: Int[np.ndarray, "R columns"], steps: int, *, keep: bool = True
    ) -> Simulation:
        """Run a model in a closed loop, rounding its outputs to the nearest token at each step.

        With `keep` the tokens are appended to the history, as the constructed model allows; otherwise the tape is
        written out again after each step, as what was learned from `examples` needs. O(R T H d^2) by heads,
        O(R T d^4) by coefficients, however long the history is.
        """
        return run_closed_loop(model, self, self.contexts(start), start, steps, keep=keep)

    def nearest_tokens(self, outputs: Float[np.ndarray, "R d"]) -> Float[np.ndarray, "R d"]:
        """The tokens that a step can have nearest to given outputs, block by block; zero in further entries.

        e_w - e_x is nearer than 0 if and only if the entries at w and x differ by more than 1.
        """
        tokens = np.zeros_like(outputs)
        delta = outputs[:, self.blocks[0]]
        step = nearest_one_hot(delta) - nearest_one_hot(-delta)
        tokens[:, self.blocks[0]] = np.where(np.ptp(delta, axis=1)[:, None] > 1, step, 0.0)
        for block in self.blocks[1:]:
            tokens[:, block] = nearest_one_hot(outputs[:, block])
        return tokens

    def _places(self, at: np.ndarray) -> np.ndarray:
        """The vectors e_p⊗e_s."""
        return one_hot(at[..., -2] * self.states + at[..., -1], self.positions * self.states)


def run_closed_loop(
    model: Model,
    tape: TapeLayout,
    x: Float[np.ndarray, "R n d"],
    start: Int[np.ndarray, "R columns"],
    steps: int,
    *,
    keep: bool = True,
    scratch: slice | None = None,
) -> Simulation:
    """Steps of a machine, each token rounded to the nearest one; `keep` is that of `TapeLayout.simulate`.

    The history enters only through its Gram matrix, to which each step adds a token. Whole numbers stay exact while
    every sum is below 2^53. With a `scratch` block of the tokens a step of the machine takes two of attention: the
    first puts out a unit vector there, the second writes.
    """
    symbols, positions, places = tape.blocks
    cells, visited, rounding = one_hot(start[:, :-2], tape.symbols), [], 0.0
    gram, query = np.matrix_transpose(x) @ x, x[:, -1:]
    for reads in [False] * steps if scratch is None else [True, False] * steps:
        outputs = model.of_gram(gram, query)[:, 0]
        if reads:
            tokens = np.zeros_like(outputs)
            tokens[:, scratch] = nearest_one_hot(outputs[:, scratch])
        else:
            tokens = tape.nearest_tokens(outputs)
        rounding = max(rounding, float(np.max(np.abs(outputs - tokens))))
        query = tokens[:, None]
        gram = gram + np.matrix_transpose(query) @ query
        if not reads:  # delta writes add up as in the Gram matrix
            cells = cells + tokens[:, positions, None] * tokens[:, None, symbols]
            at = np.divmod(np.argmax(tokens[:, places], axis=1), tape.states)
            visited.append(np.column_stack([np.argmax(cells, axis=2), *at]))
        if not keep:
            cells, x = one_hot(visited[-1][:, :-2], tape.symbols), tape.contexts(visited[-1])
            gram, query = np.matrix_transpose(x) @ x, x[:, -1:]
    return Simulation(np.stack(visited, axis=1), rounding)


def block_slices(*sizes: int) -> tuple[slice, ...]:
    """Where blocks of the given sizes stand, one after the other."""
    return tuple(slice(*ends) for ends in pairwise(accumulate(sizes, initial=0)))


def nearest_one_hot(values: np.ndarray) -> np.ndarray:
    """The unit vector nearest to each row of (..., size): that of its largest entry, the first of equal ones."""
    return one_hot(np.argmax(values, axis=-1), values.shape[-1])
