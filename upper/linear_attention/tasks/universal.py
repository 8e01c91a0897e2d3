"""A universal machine: one linear attention model that runs every Turing machine given to it in the context.

The context holds the table of the machine, a token [row e_(s,x) | written e_w | go e_m⊗e_s'] for each state s and
symbol x read, besides the tape's cells of `TapeLayout`. A step of the machine takes two steps of attention:

1. *Read.* The query holds e_p⊗e_s. A head for each position and state gets the symbol x at p from the block of G
   between symbols and positions, and the output is the scratch token e_p⊗e_s⊗e_x.
2. *Look up.* The query is the scratch token. A head for each position and symbol asks for the row (s, x) of the
   table, gets e_w and e_m⊗e_s' from the blocks of G between rows and what they hold, and the output is the delta
   write [(e_w - e_x) | e_p | e_(p+m)⊗e_s'] of `turing`, which is the query of the next step.

So there are P S + P A heads, all entries -1, 0 or 1, d = A + P + P S + P S A + S A + A + 3 S, and they depend on
(S, A, P) only. Scratch tokens have a block of their own and change neither the tape nor the table in G.

One step of attention does not do, rounded or not, while tape and table have tokens of their own and the query knows of
neither. At a given query the output is affine in G, so a sum f(tape) + g(table). Let the head be in a cell with the
symbol 0 or 1, and let T_0, T_1 in {a, b} be the states that the two rows lead to. With u = f_a - f_b and w = g_a - g_b,
rounding to the larger entry needs u(0) + w > 0 > u(1) + w for T = (a, b) and the opposite signs for T = (b, a), that is
both u(0) > u(1) and u(0) < u(1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator, require_flag, require_instance
from upper.linear_attention.model import LinearAttention, zero_heads
from upper.linear_attention.tasks.closed_loop import ClosedLoop, Model
from upper.linear_attention.tasks.machines import MOVES, Configurations, TuringMachine, random_machine
from upper.linear_attention.tasks.one_hot import nearest_one_hot, one_hot
from upper.linear_attention.tasks.turing import Simulation, TapeLayout, delta_tokens, nearest_delta_tokens

__all__ = ["UniversalLayout", "simulate_universal", "universal_examples", "universal_model"]


@dataclass(frozen=True)
class UniversalLayout:
    """Tokens [tape | scratch P S A | row S A | written A | go 3 S] of a tape and of a machine's table.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> layout = UniversalLayout(states=2, symbols=2, positions=2)
    >>> layout.dim, layout.rank
    (28, 376)
    """

    states: int
    symbols: int
    positions: int

    def __post_init__(self) -> None:
        for name in ("states", "symbols", "positions"):
            object.__setattr__(self, name, count(name, getattr(self, name), most=2**31))

    @cached_property
    def tape(self) -> TapeLayout:
        """The layout of the first entries of a token."""
        return TapeLayout(states=self.states, symbols=self.symbols, positions=self.positions)

    @cached_property
    def scratch_block(self) -> slice:
        """Where position⊗state⊗symbol stands; the symbol is the fastest index."""
        first = self.tape.dim
        return slice(first, first + self.positions * self.states * self.symbols)

    @cached_property
    def row_block(self) -> slice:
        """Where the rows (s, x) of the table stand; the symbol is the fast index."""
        first = self.scratch_block.stop
        return slice(first, first + self.states * self.symbols)

    @cached_property
    def written_block(self) -> slice:
        """Where the symbol written stands."""
        first = self.row_block.stop
        return slice(first, first + self.symbols)

    @cached_property
    def go_block(self) -> slice:
        """Where move⊗next state stands; the state is the fast index."""
        first = self.written_block.stop
        return slice(first, first + len(MOVES) * self.states)

    @cached_property
    def dim(self) -> int:
        """The dimension d = A + P + P S + P S A + S A + A + 3 S of the tokens."""
        return self.go_block.stop

    @cached_property
    def rank(self) -> int:
        """The rank of the features on all machines, tapes and queries, in contexts of one attention step.

        At a query that reads, G is affine in P one-hot symbols, in S A one-hot symbols written and as many one-hot
        ways to go, and in the counts of each symbol written with each way to go: with a constant,
        K = 1 + P (A - 1) + S A (A - 1 + 3 S - 1) + (A - 1)(3 S - 1) directions. At a query that looks up, the symbol
        under the head is known, which leaves K - (A - 1). In all P S K + P S A (K - A + 1).
        """
        written, go = self.symbols - 1, len(MOVES) * self.states - 1
        at_read = 1 + self.positions * written + self.states * self.symbols * (written + go) + written * go
        return self.positions * self.states * (at_read + self.symbols * (at_read - written))

    def draw(self, runs: int, *, rng: Rng = None) -> tuple[list[TuringMachine], Configurations]:
        """Random machines and uniform configurations, one a run."""
        generator = random_generator(rng)
        runs = count("runs", runs)
        require_memory(f"{runs} machines", runs * (1000 + 96 * self.states * self.symbols))
        machines = [
            random_machine(states=self.states, symbols=self.symbols, rng=generator) for _ in range(runs)
        ]
        return machines, self.tape.draw(runs, rng=generator)

    def contexts(
        self, machines: Sequence[TuringMachine], at: Configurations, *, look_up: bool = False
    ) -> Float[np.ndarray, "R n d"]:
        """The table and the tape of each run and then the query, n = S A + P + 1.

        Parameters
        ----------
        machines : sequence of TuringMachine
            One a run.
        at : Configurations
            Of R runs.
        look_up : bool
            Whether the query is a scratch token, which looks the table up; otherwise it reads the tape.

        Raises
        ------
        ValueError
            If the machines are not as many as the runs, or something is not of this size.
        """
        require_flag("look_up", look_up)
        self.tape.require(at)
        runs, rows = len(at.tapes), self.states * self.symbols
        if not isinstance(machines, Sequence):
            raise ValueError(f"machines is a {type(machines).__name__}: a list of machines is needed.")
        if len(machines) != runs:
            raise ValueError(f"There are {len(machines)} machines and {runs} runs: one a run is needed.")
        for machine in machines:
            require_instance("An entry of machines", machine, TuringMachine, needed="a TuringMachine")
            if (machine.states, machine.symbols) != (self.states, self.symbols):
                raise ValueError(
                    f"A machine has {machine.states} states and {machine.symbols} symbols: "
                    f"{self.states} and {self.symbols} are needed."
                )
        write, move, following = (
            np.stack([getattr(machine, name).reshape(rows) for machine in machines])
            for name in ("write", "move", "next_state")
        )
        require_memory(f"Contexts of {runs} machines", 8 * runs * (rows + self.positions + 1) * self.dim)
        x = np.zeros((runs, rows + self.positions + 1, self.dim))
        x[:, :rows, self.row_block] = np.eye(rows)
        x[:, :rows, self.written_block] = one_hot(write, self.symbols)
        x[:, :rows, self.go_block] = one_hot(
            (move - MOVES[0]) * self.states + following, len(MOVES) * self.states
        )
        x[:, rows:, : self.tape.dim] = self.tape.contexts(at)
        if look_up:
            x[:, -1] = self.scratch_tokens(at)
        return x

    def scratch_tokens(self, at: Configurations) -> Float[np.ndarray, "R d"]:
        """The tokens e_p⊗e_s⊗e_x, with x the symbol under the head; a ValueError if `at` is not of this size."""
        at.require(states=self.states, symbols=self.symbols)
        tokens = np.zeros((len(at.tapes), self.dim))
        places = at.positions * self.states + at.states
        size = self.positions * self.states * self.symbols
        tokens[:, self.scratch_block] = one_hot(places * self.symbols + at.symbols_read, size)
        return tokens


def universal_model(layout: UniversalLayout) -> LinearAttention:
    """One model for every machine of a size, in whole numbers: P S + P A heads, d inputs and outputs.

    Raises
    ------
    ValueError
        If it is no layout.

    Examples
    --------
    >>> universal_model(UniversalLayout(states=2, symbols=2, positions=4))
    LinearAttention(heads=16, outputs=42, dim=42)
    """
    _require_layout(layout)
    s_all, a_all, p_all, d = layout.states, layout.symbols, layout.positions, layout.dim
    place, scratch, row = layout.tape.place_block.start, layout.scratch_block.start, layout.row_block.start
    written, go = layout.written_block.start, layout.go_block.start
    v, q = zero_heads(p_all * (s_all + a_all), d, d)
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


def universal_examples(
    layout: UniversalLayout, number: int, *, rng: Rng = None
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N d"]]:
    """Both attention steps of a machine's step, each in a context of its own, for random machines and tapes.

    Parameters
    ----------
    layout : UniversalLayout
        Sizes.
    number : int
        Steps, each of a machine of its own.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    tuple of arrays (2 number, n, d), (2 number, d)
        Tokens and labels; reading and looking up take turns.

    Raises
    ------
    ValueError
        If `number` is below 1.
    """
    _require_layout(layout)
    number = count("number", number)
    machines, at = layout.draw(number, rng=rng)
    x = np.stack([layout.contexts(machines, at, look_up=look_up) for look_up in (False, True)], axis=1)
    y = np.zeros((number, 2, layout.dim))
    y[:, 0] = layout.scratch_tokens(at)
    after = Configurations.of_runs([one.step(at.part(run)) for run, one in enumerate(machines)])
    y[:, 1, : layout.tape.dim] = delta_tokens(layout.tape, at, after)
    return x.reshape(2 * number, -1, layout.dim), y.reshape(2 * number, layout.dim)


def simulate_universal(
    model: Model,
    layout: UniversalLayout,
    machines: Sequence[TuringMachine],
    start: Configurations,
    steps: int,
    *,
    keep: bool = True,
) -> Simulation:
    """Run one model in a closed loop on many machines, rounding its outputs to the nearest token at each step.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        From tokens of the layout to tokens.
    layout : UniversalLayout
        Sizes.
    machines : sequence of TuringMachine
        One a run; they are in the contexts only.
    start : Configurations
        Of R runs.
    steps : int
        Steps T of the machines, 2 T of attention.
    keep : bool
        Whether the tokens are appended to the history, as the constructed model allows; otherwise the tape
        is written out again after each step, as in `universal_examples`.

    Returns
    -------
    Simulation
        The configurations after each step of the machines.

    Raises
    ------
    ValueError
        If the machines are not as many as the runs, or something is not of the layout's size.

    Notes
    -----
    O(R T H d^2) by heads, O(R T (d^3 + d^4)) by coefficients.
    """
    _require_layout(layout)
    require_flag("keep", keep)
    tape = layout.tape
    loop = ClosedLoop(model, layout.contexts(machines, start))
    at, cells = start, one_hot(start.tapes, layout.symbols)
    found, rounding = [], 0.0
    for step in range(2 * count("steps", steps)):
        outputs = loop.outputs()
        tokens = np.zeros_like(outputs)
        reading = step % 2 == 0
        if reading:
            tokens[:, layout.scratch_block] = nearest_one_hot(outputs[:, layout.scratch_block])
        else:
            tokens[:, : tape.dim] = nearest_delta_tokens(tape, outputs[:, : tape.dim])
            cells, at = tape.written(cells, tokens[:, : tape.dim])
            found.append(at)
        rounding = max(rounding, float(np.max(np.abs(outputs - tokens))))
        if keep:
            loop.append(tokens[:, None])
        else:
            cells = one_hot(at.tapes, layout.symbols)
            context = layout.contexts(machines, at)
            if reading:
                context[:, -1] = tokens
            loop.replace(context)
    return Simulation(Configurations.along_steps(found), rounding)


def _require_layout(layout: object) -> None:
    require_instance("layout", layout, UniversalLayout, needed="a UniversalLayout")
