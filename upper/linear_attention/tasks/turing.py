"""A Turing machine as linear attention: tokens are delta writes, and the Gram matrix holds the tape.

A step of the machine is the token [(e_w - e_x) | e_p | e_p'⊗e_s']: at position p, x was erased and w written, and the
machine went on to position p' in state s'. With the tape's cells [e_x | e_p | 0] before it, the block of
G = X^T X between symbols and positions is the current tape, one-hot, however many steps there were.

The query is the last token, and of it p' and s' matter. A head for each position and state asks with
Q = e_p (e_p⊗e_s)^T, gets the symbol under the machine's head from G, and its V maps the symbol to the next token:
P S heads of dimension d = A + P + P S and as many outputs, all entries -1, 0 or 1. One head alone reads the symbol: the
tape reader.

The same model is learned by regression from the steps of runs. There are two ways to show them, and they differ in what
else G holds. In *short contexts* each step stands alone, the current tape and a query: the rank is P S (1 + P (A - 1)),
as for a tape reader, and in the closed loop the tape is written out again after each step. With *whole histories* the
tokens of all steps stay: G then counts visits, the rank is larger and depends on the machine (116 to 260 among random
ones of 2 states, 2 symbols and 4 positions, instead of 40), and the model runs on by its own outputs alone. A model of
least norm from short contexts mostly fails on whole histories, where entries of G vary that it has only seen constant.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import (
    count,
    random_generator,
    real_array,
    require_flag,
    require_instance,
    require_shape,
)
from upper.linear_attention.model import LinearAttention, zero_heads
from upper.linear_attention.tasks.closed_loop import ClosedLoop, Model
from upper.linear_attention.tasks.machines import Configurations, TuringMachine
from upper.linear_attention.tasks.one_hot import nearest_one_hot, one_hot

__all__ = [
    "Simulation",
    "TapeLayout",
    "all_configurations",
    "delta_tokens",
    "nearest_delta_tokens",
    "reader_examples",
    "reader_model",
    "simulate",
    "step_examples",
    "turing_model",
]

_MOST_CONFIGURATIONS = 100_000


@dataclass(frozen=True)
class TapeLayout:
    """Tokens [symbol A | position P | position⊗state P S] of a machine's tape and of where its head is.

    Parameters
    ----------
    states, symbols, positions : int
        S, A and P.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    A cell is [e_symbol | e_position | 0] and the query [0 | 0 | e_p⊗e_s], so that the block of G between symbols and
    positions is the tape, one-hot.

    Examples
    --------
    >>> layout = TapeLayout(states=2, symbols=2, positions=4)
    >>> layout.dim, layout.rank
    (14, 40)
    """

    states: int
    symbols: int
    positions: int

    def __post_init__(self) -> None:
        for name in ("states", "symbols", "positions"):
            object.__setattr__(self, name, count(name, getattr(self, name), most=2**31))

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

    def draw(self, runs: int, *, rng: Rng = None) -> Configurations:
        """Uniform tapes, positions and states of R runs; a ValueError if there is none."""
        runs = count("runs", runs)
        require_memory(f"{runs} tapes of {self.positions} positions", 16 * runs * (self.positions + 2))
        generator = random_generator(rng)
        return Configurations(
            generator.integers(self.symbols, size=(runs, self.positions)),
            generator.integers(self.positions, size=runs),
            generator.integers(self.states, size=runs),
        )

    def contexts(self, at: Configurations) -> Float[np.ndarray, "R n d"]:
        """The P cells of each tape and then the query, n = P + 1; a ValueError if they are not of this size."""
        self.require(at)
        require_shape("tapes", at.tapes, ("R", self.positions))
        runs = len(at.tapes)
        require_memory(f"Contexts of {runs} tapes", 8 * runs * (self.positions + 1) * self.dim)
        x = np.zeros((runs, self.positions + 1, self.dim))
        x[:, :-1, self.symbol_block] = one_hot(at.tapes, self.symbols)
        x[:, :-1, self.position_block] = np.eye(self.positions)
        x[:, -1, self.place_block] = self.places(at)
        return x

    def places(self, at: Configurations) -> Float[np.ndarray, "*batch places"]:
        """The vectors e_p⊗e_s."""
        return one_hot(at.positions * self.states + at.states, self.positions * self.states)

    def written(
        self, cells: Float[np.ndarray, "R P A"], tokens: Float[np.ndarray, "R d"]
    ) -> tuple[Float[np.ndarray, "R P A"], Configurations]:
        """One-hot cells after delta writes, added up as the Gram matrix does, and the configurations read off."""
        cells = cells + tokens[:, self.position_block, None] * tokens[:, None, self.symbol_block]
        places, states = np.divmod(np.argmax(tokens[:, self.place_block], axis=1), self.states)
        return cells, Configurations(np.argmax(cells, axis=2), places, states)

    def require(self, at: Configurations) -> None:
        """Raise a ValueError where the configurations are not of this size."""
        require_instance("The configurations", at, Configurations, needed="Configurations")
        if at.tapes.shape[-1] != self.positions:
            raise ValueError(f"The tapes have {at.tapes.shape[-1]} cells: {self.positions} are needed.")
        at.require(states=self.states, symbols=self.symbols)


def all_configurations(layout: TapeLayout) -> Configurations:
    """Every tape with every position and state, A^P P S in all.

    Raises
    ------
    ValueError
        If there are more than 100,000.
    """
    _require_layout(layout)
    sizes = (layout.symbols,) * layout.positions + (layout.positions, layout.states)
    if layout.configurations > _MOST_CONFIGURATIONS:
        raise ValueError(f"There are more than {_MOST_CONFIGURATIONS} configurations: draw some at random.")
    grid = np.indices(sizes).reshape(len(sizes), -1).T
    return Configurations(grid[:, :-2].copy(), grid[:, -2].copy(), grid[:, -1].copy())


def reader_model(layout: TapeLayout) -> LinearAttention:
    """One head that reads the symbol at the position of the query, in whole numbers; d = A + P + P S, A outputs.

    Q maps e_p⊗e_s to e_p whatever s is, G maps it to the symbol there, and V keeps the symbols. The query has
    neither symbol nor position and adds nothing.

    Raises
    ------
    ValueError
        If it is no layout.

    Examples
    --------
    >>> layout = TapeLayout(states=2, symbols=2, positions=4)
    >>> x, y = reader_examples(layout, all_configurations(layout))
    >>> bool(np.all(reader_model(layout)(x) == y))
    True
    """
    _require_layout(layout)
    v, q = zero_heads(1, layout.symbols, layout.dim)
    v[0, :, layout.symbol_block] = np.eye(layout.symbols)
    q[0, layout.position_block, layout.place_block] = np.repeat(
        np.eye(layout.positions), layout.states, axis=1
    )
    return LinearAttention(v, q)


def reader_examples(
    layout: TapeLayout, at: Configurations
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N A"]]:
    """N tapes (N, P + 1, d) with a query each, labelled with the symbol there, one-hot (N, A).

    Raises
    ------
    ValueError
        If the configurations are not of the layout's size.
    """
    _require_layout(layout)
    return layout.contexts(at), one_hot(at.symbols_read, layout.symbols)


def delta_tokens(
    layout: TapeLayout, before: Configurations, after: Configurations
) -> Float[np.ndarray, "*batch d"]:
    """The tokens [(e_w - e_x) | e_p | e_p'⊗e_s'] of steps, from the configurations before and after each.

    Raises
    ------
    ValueError
        If an entry is out of range, or the shapes differ.
    """
    _require_layout(layout)
    for at in (before, after):
        layout.require(at)
    require_shape("The tapes after the steps", after.tapes, before.tapes.shape)
    written = np.take_along_axis(after.tapes, before.positions[..., None], axis=-1)[..., 0]
    delta = one_hot(written, layout.symbols) - one_hot(before.symbols_read, layout.symbols)
    return np.concatenate([delta, one_hot(before.positions, layout.positions), layout.places(after)], axis=-1)


def nearest_delta_tokens(layout: TapeLayout, outputs: Float[np.ndarray, "R d"]) -> Float[np.ndarray, "R d"]:
    """The tokens that a step can have nearest to given outputs, block by block.

    e_w - e_x is nearer than 0 if and only if the entries at w and x differ by more than 1.

    Raises
    ------
    ValueError
        If the outputs have another dimension.
    """
    _require_layout(layout)
    outputs = real_array("outputs", outputs, ("R", layout.dim))
    tokens = np.zeros_like(outputs)
    delta = outputs[:, layout.symbol_block]
    step = nearest_one_hot(delta) - nearest_one_hot(-delta)
    tokens[:, layout.symbol_block] = np.where(np.ptp(delta, axis=1)[:, None] > 1, step, 0.0)
    for block in (layout.position_block, layout.place_block):
        tokens[:, block] = nearest_one_hot(outputs[:, block])
    return tokens


def turing_model(machine: TuringMachine, positions: int) -> LinearAttention:
    """The machine as linear attention with a head for each position and state, in whole numbers.

    Parameters
    ----------
    machine : TuringMachine
        With S states and A symbols.
    positions : int
        Cells P of the tape.

    Returns
    -------
    LinearAttention
        P S heads, d = A + P + P S inputs and outputs.

    Raises
    ------
    ValueError
        If `positions` is below 1.

    Notes
    -----
    The fewest heads are not sought: states with the same transitions could share theirs. O(P S d^2).

    Examples
    --------
    >>> from upper.linear_attention.tasks import random_machine
    >>> turing_model(random_machine(states=2, symbols=2, rng=0), 4)
    LinearAttention(heads=8, outputs=14, dim=14)
    """
    layout = _layout_of(machine, positions)
    first = layout.place_block.start
    v, q = zero_heads(layout.positions * layout.states, layout.dim, layout.dim)
    for head in range(len(v)):
        p, s = divmod(head, layout.states)
        q[head, layout.symbols + p, first + head] = 1
        for x in range(layout.symbols):
            v[head, machine.write[s, x], x] += 1
            v[head, x, x] -= 1
            v[head, layout.symbols + p, x] = 1
            reached = (p + machine.move[s, x]) % layout.positions
            v[head, first + reached * layout.states + machine.next_state[s, x], x] = 1
    return LinearAttention(v, q)


def step_examples(
    machine: TuringMachine, at: Configurations
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N d"]]:
    """Steps in short contexts: the tape and the query [0 | 0 | e_p⊗e_s] (N, P + 1, d), and the step's token (N, d).

    The rank is P S (1 + P (A - 1)), far below D.

    Raises
    ------
    ValueError
        If the configurations are not of the machine's size.
    """
    layout = _layout_at(machine, at)
    return layout.contexts(at), delta_tokens(layout, at, machine.step(at))


@dataclass(frozen=True, eq=False)
class Simulation:
    """What a model made of a machine.

    Attributes
    ----------
    configurations : Configurations
        (R, T, ...), after each step.
    rounding : float
        The largest difference between an output and the token it was rounded to; zero for exact models.
    """

    configurations: Configurations
    rounding: float


def simulate(
    model: Model, layout: TapeLayout, start: Configurations, steps: int, *, keep: bool = True
) -> Simulation:
    """Run a model in a closed loop, rounding its outputs to the nearest token at each step.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        From tokens of the layout to tokens.
    layout : TapeLayout
        Sizes.
    start : Configurations
        Of R runs.
    steps : int
        Steps T.
    keep : bool
        Whether the tokens are appended to the history, as the constructed model allows; otherwise the tape is written
        out again after each step, as in `step_examples`: what was learned from those needs ``keep=False``.

    Returns
    -------
    Simulation
        The configurations, read off the tokens.

    Raises
    ------
    ValueError
        If the model or the configurations are not of the layout's size.

    Notes
    -----
    O(R T (H d^2)) by heads, O(R T (P d^2 + d^4)) by coefficients, however long the history is.
    """
    _require_layout(layout)
    require_flag("keep", keep)
    loop = ClosedLoop(model, layout.contexts(start))
    at, cells = start, one_hot(start.tapes, layout.symbols)
    found, rounding = [], 0.0
    for _ in range(count("steps", steps)):
        outputs = loop.outputs()
        tokens = nearest_delta_tokens(layout, outputs)
        rounding = max(rounding, float(np.max(np.abs(outputs - tokens))))
        cells, at = layout.written(cells, tokens)
        found.append(at)
        if keep:
            loop.append(tokens[:, None])
        else:
            cells = one_hot(at.tapes, layout.symbols)
            loop.replace(layout.contexts(at))
    return Simulation(Configurations.along_steps(found), rounding)


def _require_layout(layout: object) -> None:
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")


def _layout_of(machine: TuringMachine, positions: int) -> TapeLayout:
    require_instance("machine", machine, TuringMachine, needed="a TuringMachine")
    return TapeLayout(states=machine.states, symbols=machine.symbols, positions=positions)


def _layout_at(machine: TuringMachine, at: Configurations) -> TapeLayout:
    require_instance("The configurations", at, Configurations, needed="Configurations")
    return _layout_of(machine, at.tapes.shape[-1])
