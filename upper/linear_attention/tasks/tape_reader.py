"""A tape as tokens, and the single head that reads the symbol at a position."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention._arrays import count, random_generator, require_instance, shown
from attention.inputs import Rng
from attention.memory import require_memory
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks._one_hot import one_hot
from upper.linear_attention.tasks.independent import first_independent
from upper.linear_attention.tasks.machines import Configurations, random_configurations

__all__ = [
    "TapeLayout",
    "TapeReaderRow",
    "all_configurations",
    "reader_examples",
    "reader_model",
    "tape_reader_rows",
]

SIZES = ((2, 2, 4), (3, 2, 5), (3, 3, 6))


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
    >>> TapeLayout(states=2, symbols=2, positions=4).dim
    14
    """

    states: int
    symbols: int
    positions: int

    def __post_init__(self) -> None:
        for name in ("states", "symbols", "positions"):
            object.__setattr__(self, name, count(name, getattr(self, name)))

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
        of the symbols, also in G, are linear in it. Different queries have different features (derived here).
        """
        return self.positions * self.states * (1 + self.positions * (self.symbols - 1))

    @cached_property
    def configurations(self) -> int:
        """The number A^P P S of tapes with a position and a state."""
        return self.symbols**self.positions * self.positions * self.states

    def draw(self, runs: int, *, rng: Rng = None) -> Configurations:
        """Uniform tapes, positions and states of this size."""
        return random_configurations(
            states=self.states, symbols=self.symbols, positions=self.positions, runs=runs, rng=rng
        )

    def contexts(self, at: Configurations) -> Float[np.ndarray, "R n d"]:
        """The P cells of each tape and then the query, n = P + 1.

        Raises
        ------
        ValueError
            If the configurations are not of this size.
        """
        Configurations.require_are("The configurations", at)
        if at.tapes.shape[-1] != self.positions:
            raise ValueError(f"The tapes have {at.tapes.shape[-1]} cells: {self.positions} are needed.")
        at.require(states=self.states, symbols=self.symbols)
        require_memory(
            f"Contexts of {shown(len(at.tapes))} tapes of {shown(self.positions)} cells",
            8 * len(at.tapes) * (self.positions + 1) * self.dim,
            advice="take fewer at a time",
        )
        x = np.zeros((len(at.tapes), self.positions + 1, self.dim))
        x[:, :-1, self.symbol_block] = one_hot(at.tapes, self.symbols)
        x[:, :-1, self.position_block] = np.eye(self.positions)
        x[:, -1, self.place_block] = one_hot(
            at.positions * self.states + at.states, self.positions * self.states
        )
        return x


def reader_model(layout: TapeLayout) -> LinearAttention:
    """One head that reads the symbol at the position of the query, in whole numbers.

    Parameters
    ----------
    layout : TapeLayout
        Sizes.

    Returns
    -------
    LinearAttention
        d = A + P + P S, A outputs.

    Raises
    ------
    ValueError
        If a size is below 1, when the layout is made.

    Notes
    -----
    Q maps e_p⊗e_s to e_p whatever s is, G maps it to the symbol there, and V keeps the symbols. The query has
    neither symbol nor position and adds nothing. O(d^2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> layout = TapeLayout(states=2, symbols=2, positions=4)
    >>> x, y = reader_examples(layout, all_configurations(layout))
    >>> bool(np.all(reader_model(layout)(x) == y))
    True
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    v, q = np.zeros((1, layout.symbols, layout.dim)), np.zeros((1, layout.dim, layout.dim))
    v[0, :, layout.symbol_block] = np.eye(layout.symbols)
    q[0, layout.position_block, layout.place_block] = np.repeat(
        np.eye(layout.positions), layout.states, axis=1
    )
    return LinearAttention(v, q)


def reader_examples(
    layout: TapeLayout, at: Configurations
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N A"]]:
    """Tapes with a query each, labelled with the symbol there, one-hot.

    Parameters
    ----------
    layout : TapeLayout
        Sizes.
    at : Configurations
        N of them.

    Returns
    -------
    tuple of arrays (N, P + 1, d), (N, A)
        Tokens and labels.

    Raises
    ------
    ValueError
        If the configurations are not of the layout's size.

    Notes
    -----
    O(N P d). References: derived here.
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    return layout.contexts(at), one_hot(at.symbols_read, layout.symbols)


def all_configurations(layout: TapeLayout, *, most: int = 100_000) -> Configurations:
    """Every tape with every position and state, A^P P S in all.

    Parameters
    ----------
    layout : TapeLayout
        Sizes.
    most : int
        How many are allowed.

    Returns
    -------
    Configurations
        All of them.

    Raises
    ------
    ValueError
        If there are more than `most`.

    Notes
    -----
    O(A^P P^2 S). References: derived here.
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    most = count("most", most)
    if layout.configurations > most:
        raise ValueError(
            f"There are {shown(layout.configurations)} configurations: {shown(most)} are allowed, so draw some at "
            "random."
        )
    require_memory(
        f"All {shown(layout.configurations)} configurations",
        24 * layout.configurations * (layout.positions + 2),
        advice="draw some at random",
    )
    shape = (layout.symbols,) * layout.positions + (layout.positions, layout.states)
    grid = np.indices(shape).reshape(len(shape), -1).T
    return Configurations(grid[:, : layout.positions].copy(), grid[:, -2].copy(), grid[:, -1].copy())


@dataclass(frozen=True)
class TapeReaderRow:
    """A row of the table of tape readers.

    Attributes
    ----------
    states, symbols, positions, dim : int
        S, A, P and d.
    examples, rank, exact_rank : int
        N, the rank of the features on the examples, and that on all tapes.
    constructed_error, learned_error : float
        Relative errors on fresh tapes, of the single head and of the learned model.
    """

    states: int
    symbols: int
    positions: int
    dim: int
    examples: int
    rank: int
    exact_rank: int
    constructed_error: float
    learned_error: float


def tape_reader_rows(
    sizes: tuple[tuple[int, int, int], ...] = SIZES,
    *,
    fresh: int = 200,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[TapeReaderRow]:
    """Construct and learn tape readers, from random tapes enough to reach the rank.

    Parameters
    ----------
    sizes : tuple of (S, A, P)
        Sizes.
    fresh : int
        Tapes to test on.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each size when it is done.

    Returns
    -------
    list of TapeReaderRow
        A row a size.

    Raises
    ------
    ValueError
        If a size is below 1.

    Notes
    -----
    From (2 + log r) r examples, r the exact rank, with which queries that come late are covered too.

    References
    ----------
    Derived here.
    """
    generator = random_generator(rng)
    rows = []
    for states, symbols, positions in sizes:
        layout = TapeLayout(states=states, symbols=symbols, positions=positions)
        number = enough(layout.rank)
        x, y = reader_examples(layout, layout.draw(number, rng=generator))
        kept = first_independent(x)
        learned = regress(x[kept], y[kept], least_norm=True)
        x, y = reader_examples(layout, layout.draw(fresh, rng=generator))
        errors = [
            np.linalg.norm(model(x) - y) / np.linalg.norm(y) for model in (reader_model(layout), learned)
        ]
        rows.append(
            TapeReaderRow(
                states, symbols, positions, layout.dim, number, len(kept), layout.rank,
                float(errors[0]), float(errors[1]),
            )
        )  # fmt: skip
        if progress is not None:
            progress(f"tape reader with {states} states, {symbols} symbols, {positions} positions")
    return rows


def enough(rank: int) -> int:
    """Random examples with which a task of this rank is nearly always covered: (2 + log rank) a unit of it."""
    return math.ceil(rank * (2 + math.log(rank)))
