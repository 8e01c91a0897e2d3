"""A Turing machine as linear attention: tokens are delta writes, and the Gram matrix holds the tape.

A step of the machine is the token [(e_w - e_x) | e_p | e_p'⊗e_s']: at position p, x was erased and w written, and the
machine went on to position p' in state s'. With the tape's cells [e_x | e_p | 0] before it, the block of
G = X^T X between symbols and positions is the current tape, one-hot, however many steps there were.

The query is the last token, and of it p' and s' matter. A head for each position and state asks with
Q = e_p (e_p⊗e_s)^T, gets the symbol under the machine's head from G, and its V maps the symbol to the next token:
P S heads of dimension d = A + P + P S and as many outputs, all entries -1, 0 or 1. One head alone reads the symbol: the
tape reader.

The same model is learned by regression from the steps of runs. In *short contexts* each step stands alone, the current
tape and a query: the rank is P S (1 + P (A - 1)), as for a tape reader, and in the closed loop the tape is written out
again after each step. With *whole histories* the tokens of all steps stay: G then counts visits, and the rank is larger
and depends on the machine (116 to 260 among random ones of 2 states, 2 symbols and 4 positions, instead of 40). A model
of least norm from short contexts mostly fails on whole histories, where entries of G vary that it has only seen
constant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.validation import PositiveInt, checked, random_generator
from upper.linear_attention.model import LinearAttention, zero_heads, zeros
from upper.linear_attention.tasks.closed_loop import ClosedLoop, Model, nearest_one_hot, one_hot
from upper.linear_attention.tasks.machines import Configurations, Size, TuringMachine

__all__ = ["Simulation", "TapeLayout", "run_closed_loop"]

_MOST_CONFIGURATIONS = 100_000


@dataclass(frozen=True, eq=False)
class Simulation:
    """The run of a model in a closed loop.

    Attributes
    ----------
    configurations : Configurations
        (R, T, ...), after each step.
    rounding : float
        The largest difference between an output and the token it was rounded to; zero for exact models.
    """

    configurations: Configurations
    rounding: float


@dataclass(frozen=True)
@checked
class TapeLayout:
    """Tokens [symbol A | position P | position⊗state P S] of a machine's tape and of where its head is.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P, each from 1 to 1000.

    Notes
    -----
    A cell is [e_symbol | e_position | 0] and the query [0 | 0 | e_p⊗e_s], so that the block of G between symbols and
    positions is the tape, one-hot.

    Examples
    --------
    >>> layout = TapeLayout(states=2, symbols=2, positions=4)
    >>> layout.dim, layout.rank
    (14, 40)
    >>> layout.model(TuringMachine.random(states=2, symbols=2, rng=0))
    LinearAttention(heads=8, outputs=14, dim=14)
    >>> x, y = layout.reader_examples(layout.every_configuration())
    >>> bool(np.all(layout.reader_model()(x) == y))
    True
    """

    states: Size
    symbols: Size
    positions: Size

    @cached_property
    def dim(self) -> int:
        """The dimension d = A + P + P S of the tokens."""
        return self.symbols + self.positions * (1 + self.states)

    @cached_property
    def symbol_block(self) -> slice:
        """Where symbols stand."""
        return slice(0, self.symbols)

    @cached_property
    def position_block(self) -> slice:
        """Where positions stand."""
        return slice(self.symbols, self.symbols + self.positions)

    @cached_property
    def place_block(self) -> slice:
        """Where position⊗state stands; the state is the fast index."""
        return slice(self.symbols + self.positions, self.dim)

    @cached_property
    def rank(self) -> int:
        """The rank P S (1 + P (A - 1)) of the features on all tapes and queries.

        At each of the P S queries G is an affine function of the tape, P one-hot vectors of A entries; the counts
        of the symbols, also in G, are linear in it. Different queries have different features.
        """
        return self.positions * self.states * (1 + self.positions * (self.symbols - 1))

    @cached_property
    def configurations(self) -> int:
        """The number A^P P S of tapes with a position and a state."""
        return self.symbols**self.positions * self.positions * self.states

    def every_configuration(self) -> Configurations:
        """Every tape with every position and state; a ValueError if there are more than 100,000."""
        if self.configurations > _MOST_CONFIGURATIONS:
            raise ValueError(
                f"There are more than {_MOST_CONFIGURATIONS} configurations: draw some at random instead."
            )
        sizes = (self.symbols,) * self.positions + (self.positions, self.states)
        grid = np.indices(sizes).reshape(len(sizes), -1).T
        return Configurations(grid[:, :-2].copy(), grid[:, -2].copy(), grid[:, -1].copy())

    @checked
    def draw(self, runs: PositiveInt, *, rng: Rng = None) -> Configurations:
        """Uniform tapes, positions and states of R runs; a ValueError if there is none."""
        generator = random_generator(rng)
        return Configurations(
            generator.integers(self.symbols, size=(runs, self.positions)),
            generator.integers(self.positions, size=runs),
            generator.integers(self.states, size=runs),
        )

    def contexts(self, at: Configurations) -> Float[np.ndarray, "R n d"]:
        """The P cells of each tape and then the query, n = P + 1; a ValueError if they are not of this size."""
        self.require(at)
        x = zeros(len(at.tapes), self.positions + 1, self.dim)
        x[:, :-1, self.symbol_block] = one_hot(at.tapes, self.symbols)
        x[:, :-1, self.position_block] = np.eye(self.positions)
        x[:, -1, self.place_block] = self._places(at)
        return x

    def reader_examples(
        self, at: Configurations
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N A"]]:
        """N tapes (N, P + 1, d) with a query each, labelled with the symbol there, one-hot (N, A)."""
        return self.contexts(at), one_hot(at.symbols_read, self.symbols)

    def reader_model(self) -> LinearAttention:
        """One head that reads the symbol at the position of the query, in whole numbers.

        Q maps e_p⊗e_s to e_p whatever s is, G maps it to the symbol there, and V keeps the symbols. The query has
        neither symbol nor position and adds nothing.
        """
        v, q = zero_heads(1, self.symbols, self.dim)
        v[0, :, self.symbol_block] = np.eye(self.symbols)
        q[0, self.position_block, self.place_block] = np.repeat(np.eye(self.positions), self.states, axis=1)
        return LinearAttention(v, q)

    def step_examples(
        self, machine: TuringMachine, at: Configurations
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N d"]]:
        """Steps of a machine in short contexts: the tape and the query (N, P + 1, d), and the step's token (N, d)."""
        return self.contexts(at), self.delta_tokens(at, machine.step(at))

    def model(self, machine: TuringMachine) -> LinearAttention:
        """A machine as linear attention with a head for each position and state, in whole numbers. O(P S d^2)."""
        self.require_machine(machine)
        first = self.place_block.start
        v, q = zero_heads(self.positions * self.states, self.dim, self.dim)
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

    @checked
    def simulate(
        self, model: Model, start: Configurations, steps: PositiveInt, *, keep: bool = True
    ) -> Simulation:
        """Run a model in a closed loop, rounding its outputs to the nearest token at each step.

        With `keep` the tokens are appended to the history, as the constructed model allows; otherwise the tape is
        written out again after each step, as what was learned from `step_examples` needs. A ValueError if the model or
        the configurations are not of this size. O(R T (H d^2)) by heads, O(R T (P d^2 + d^4)) by coefficients, however
        long the history is.
        """
        return run_closed_loop(
            model, self, start, steps, contexts=self.contexts, nearest=(self.nearest_tokens,), keep=keep
        )

    def delta_tokens(self, before: Configurations, after: Configurations) -> Float[np.ndarray, "... d"]:
        """The tokens [(e_w - e_x) | e_p | e_p'⊗e_s'] of steps, from the configurations before and after each."""
        for at in (before, after):
            self.require(at)
        written = np.take_along_axis(after.tapes, before.positions[..., None], axis=-1)[..., 0]
        delta = one_hot(written, self.symbols) - one_hot(before.symbols_read, self.symbols)
        return np.concatenate(
            [delta, one_hot(before.positions, self.positions), self._places(after)], axis=-1
        )

    def nearest_tokens(self, outputs: Float[np.ndarray, "R d"]) -> Float[np.ndarray, "R d"]:
        """The tokens that a step can have nearest to given outputs, block by block.

        e_w - e_x is nearer than 0 if and only if the entries at w and x differ by more than 1.
        """
        tokens = np.zeros_like(outputs)
        delta = outputs[:, self.symbol_block]
        step = nearest_one_hot(delta) - nearest_one_hot(-delta)
        tokens[:, self.symbol_block] = np.where(np.ptp(delta, axis=1)[:, None] > 1, step, 0.0)
        for block in (self.position_block, self.place_block):
            tokens[:, block] = nearest_one_hot(outputs[:, block])
        return tokens

    def written(
        self, cells: Float[np.ndarray, "R P A"], tokens: Float[np.ndarray, "R d"]
    ) -> tuple[Float[np.ndarray, "R P A"], Configurations]:
        """One-hot cells after delta writes, added up as the Gram matrix does, and the configurations read off."""
        cells = cells + tokens[:, self.position_block, None] * tokens[:, None, self.symbol_block]
        places, states = np.divmod(np.argmax(tokens[:, self.place_block], axis=1), self.states)
        return cells, Configurations(np.argmax(cells, axis=2), places, states)

    def require(self, at: Configurations) -> None:
        """Raise a ValueError where the configurations are not of this size."""
        if at.tapes.shape[-1] != self.positions:
            raise ValueError(f"The tapes have {at.tapes.shape[-1]} cells: {self.positions} are needed.")
        at.require(states=self.states, symbols=self.symbols)

    def require_machine(self, machine: TuringMachine) -> None:
        """Raise a ValueError where a machine is not of this size."""
        if (machine.states, machine.symbols) != (self.states, self.symbols):
            raise ValueError(
                f"A machine has {machine.states} states and {machine.symbols} symbols: "
                f"{self.states} and {self.symbols} are needed."
            )

    def _places(self, at: Configurations) -> np.ndarray:
        """The vectors e_p⊗e_s."""
        return one_hot(at.positions * self.states + at.states, self.positions * self.states)


def run_closed_loop(
    model: Model,
    tape: TapeLayout,
    start: Configurations,
    steps: int,
    *,
    contexts: Callable[[Configurations], np.ndarray],
    nearest: Sequence[Callable[[np.ndarray], np.ndarray]],
    keep: bool,
) -> Simulation:
    """Steps of a machine of one or more steps of attention, each with its `nearest` tokens; the last one writes."""
    loop = ClosedLoop(model, contexts(start))
    at, cells = start, one_hot(start.tapes, tape.symbols)
    found, rounding = [], 0.0
    for step in range(len(nearest) * steps):
        outputs = loop.outputs()
        tokens = nearest[step % len(nearest)](outputs)
        rounding = max(rounding, float(np.max(np.abs(outputs - tokens))))
        writes = (step + 1) % len(nearest) == 0
        if writes:
            cells, at = tape.written(cells, tokens[:, : tape.dim])
            found.append(at)
        if keep:
            loop.append(tokens[:, None])
        else:
            cells = one_hot(at.tapes, tape.symbols)
            context = contexts(at)
            if not writes:
                context[:, -1] = tokens
            loop.replace(context)
    return Simulation(Configurations.along_steps(found), rounding)
