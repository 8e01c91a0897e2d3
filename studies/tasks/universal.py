"""A universal machine: one linear attention model that runs every Turing machine given to it in the context.

The context holds the table of the machine, a token [row e_(s,x) | written e_w | go e_m⊗e_s'] for each state s and
symbol x read, besides the tape's cells of `TapeLayout`. A step of the machine takes two steps of attention:

1. *Read.* The query holds e_p⊗e_s. A head for each position and state gets the symbol x at p from the block of G
   between symbols and positions, and the output is the scratch token e_p⊗e_s⊗e_x.
2. *Look up.* The query is the scratch token. A head for each position and symbol asks for the row (s, x) of the
   table, gets e_w and e_m⊗e_s' from the blocks of G between rows and what they hold, and the output is the delta
   write [(e_w - e_x) | e_p | e_(p+m)⊗e_s'] of `turing`, which is the query of the next step.

So there are P S + P A heads, with entries -1, 0 or 1 and d = A + P + P S + P S A + S A + A + 3 S. They depend on
(S, A, P) only. Scratch tokens have their own block, and change neither the tape nor the table in G.

One step of attention is not enough, rounded or not, if tape and table have separate tokens and the query depends on
neither. At a given query the output is affine in G, so it is a sum f(tape) + g(table). Let the head be in a cell with
the symbol 0 or 1, and let T_0, T_1 in {a, b} be the states that the two rows lead to. With u = f_a - f_b and
w = g_a - g_b, rounding to the larger entry needs u(0) + w > 0 > u(1) + w for T = (a, b) and the opposite signs for
T = (b, a). This implies both u(0) > u(1) and u(0) < u(1), a contradiction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from attention.inputs import Rng
from attention.validation import random_generator
from studies.tasks.turing import (
    MOVES,
    Simulation,
    TapeLayout,
    TuringMachine,
    block_slices,
    one_hot,
    run_closed_loop,
)
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import Model


@dataclass(frozen=True)
class UniversalLayout:
    """Tokens [tape | scratch P S A | row S A | written A | go 3 S] of a tape and of a machine's table.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P.

    Examples
    --------
    >>> layout = UniversalLayout(states=2, symbols=2, positions=2)
    >>> layout.dim
    28
    >>> layout.model()
    LinearAttention(heads=8, outputs=28, dim=28)
    """

    states: int
    symbols: int
    positions: int

    @cached_property
    def tape(self) -> TapeLayout:
        """The layout of the first entries of a token."""
        return TapeLayout(self.states, self.symbols, self.positions)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Where tape, position⊗state⊗symbol, rows (s, x), symbols written and move⊗next state stand, the last fast."""
        rows = self.states * self.symbols
        return block_slices(
            self.tape.dim, self.positions * rows, rows, self.symbols, len(MOVES) * self.states
        )

    @property
    def dim(self) -> int:
        """The dimension d = A + P + P S + P S A + S A + A + 3 S of the tokens."""
        return int(self.blocks[-1].stop)

    def draw(self, runs: int, *, rng: Rng = None) -> tuple[list[TuringMachine], np.ndarray]:
        """Random machines and uniform configurations, one a run."""
        generator = random_generator(rng)
        machines = [
            TuringMachine.random(states=self.states, symbols=self.symbols, rng=generator) for _ in range(runs)
        ]
        return machines, self.tape.draw(runs, rng=generator)

    def contexts(
        self, machines: Sequence[TuringMachine], at: Int[np.ndarray, "R columns"]
    ) -> Float[np.ndarray, "R n d"]:
        """The table and the tape of each run and then the query, which reads the tape; n = S A + P + 1."""
        runs, rows = len(at), self.states * self.symbols
        write, move, following = (
            np.stack([getattr(machine, name).reshape(rows) for machine in machines])
            for name in ("write", "move", "next_state")
        )
        x = np.zeros((runs, rows + self.positions + 1, self.dim))
        tape, _, row, written, go = self.blocks
        x[:, :rows, row] = np.eye(rows)
        x[:, :rows, written] = one_hot(write, self.symbols)
        x[:, :rows, go] = one_hot((move - MOVES[0]) * self.states + following, len(MOVES) * self.states)
        x[:, rows:, tape] = self.tape.contexts(at)
        return x

    def model(self) -> LinearAttention:
        """One model for every machine of this size, in whole numbers: P S + P A heads, d inputs and outputs."""
        s_all, a_all, p_all, d = self.states, self.symbols, self.positions, self.dim
        place = self.tape.blocks[2].start
        scratch, row, written, go = (block.start for block in self.blocks[1:])
        v, q = np.zeros((2, p_all * (s_all + a_all), d, d))
        head = 0
        for p in range(p_all):
            for s in range(s_all):  # read
                at = p * s_all + s
                q[head, a_all + p, place + at] = 1
                v[head, scratch + at * a_all + np.arange(a_all), np.arange(a_all)] = 1
                head += 1
            for x in range(a_all):  # look up
                for s in range(s_all):
                    q[head, row + s * a_all + x, scratch + (p * s_all + s) * a_all + x] = 1
                for w in range(a_all):
                    v[head, w, written + w] += 1
                    v[head, x, written + w] -= 1
                    v[head, a_all + p, written + w] = 1
                for number, move in enumerate(MOVES):
                    for s in range(s_all):
                        v[head, place + (p + move) % p_all * s_all + s, go + number * s_all + s] = 1
                head += 1
        return LinearAttention(v, q)

    def simulate(
        self, model: Model, machines: Sequence[TuringMachine], start: Int[np.ndarray, "R columns"], steps: int
    ) -> Simulation:
        """Run one model in a closed loop on many machines, rounding its outputs to the nearest token at each step.

        As `TapeLayout.simulate`, with a machine a run, which is in its context only: T steps of the machines are 2 T of
        attention.
        """
        contexts = self.contexts(machines, start)
        return run_closed_loop(model, self.tape, contexts, start, steps, scratch=self.blocks[1])
