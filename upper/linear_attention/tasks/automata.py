"""Finite automata as linear attention: a fixed one on one token, and any of a size, given in the context."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator, real_array, require_instance
from upper.linear_attention.model import LinearAttention, zero_heads
from upper.linear_attention.tasks.closed_loop import ClosedLoop, Model
from upper.linear_attention.tasks.one_hot import one_hot, whole_numbers

__all__ = [
    "Automaton",
    "automata_in_context",
    "automaton_examples",
    "automaton_in_context_examples",
    "automaton_in_context_model",
    "automaton_in_context_rank",
    "automaton_model",
    "random_automaton",
    "run_automaton",
    "run_in_context",
]


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic finite automaton: in state s, reading x, it passes to the state transitions[s, x].

    Parameters
    ----------
    transitions : integer array (S, A)
        Next states, from 0 to S - 1.

    Raises
    ------
    ValueError
        If the array is no (S, A), or holds anything but states.

    Examples
    --------
    Parity of the ones:

    >>> Automaton(np.array([[0, 1], [1, 0]])).run(np.array([0]), np.array([[1, 1, 0, 1]]))
    array([[1, 0, 0, 1]])
    """

    transitions: Int[np.ndarray, "S A"]

    def __post_init__(self) -> None:
        given = whole_numbers("transitions", self.transitions, ("S", "A"))
        object.__setattr__(
            self, "transitions", whole_numbers("transitions", given, given.shape, range(len(given)))
        )

    @property
    def states(self) -> int:
        """The number S of states."""
        return int(self.transitions.shape[0])

    @property
    def symbols(self) -> int:
        """The number A of symbols."""
        return int(self.transitions.shape[1])

    def run(self, states: Int[np.ndarray, " R"], words: Int[np.ndarray, "R T"]) -> Int[np.ndarray, "R T"]:
        """The states after each symbol of each word, O(R T); a ValueError if a state or a symbol is none."""
        states, words = _checked(states, words, self.states, self.symbols)
        found = np.empty(words.shape, dtype=np.int64)
        for step in range(words.shape[1]):
            states = found[:, step] = self.transitions[states, words[:, step]]
        return found


def random_automaton(*, states: int, symbols: int, rng: Rng = None) -> Automaton:
    """An automaton whose transitions, S A of them, are independent and uniform.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> random_automaton(states=3, symbols=2, rng=0).transitions.shape
    (3, 2)
    """
    states, symbols = count("states", states), count("symbols", symbols)
    require_memory(f"An automaton of {states} states and {symbols} symbols", 32 * states * symbols)
    return Automaton(random_generator(rng).integers(states, size=(states, symbols)))


def automaton_examples(
    automaton: Automaton, pairs: Int[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, "N 1 d"], Float[np.ndarray, "N S"]]:
    """Examples of one token [e_s ; e_x ; 1], d = S + A + 1, labelled with the next state, one-hot.

    Parameters
    ----------
    automaton : Automaton
        With S states and A symbols.
    pairs : integer array (N,)
        Numbers s A + x of pairs of a state and a symbol.

    Returns
    -------
    tuple of arrays (N, 1, d), (N, S)
        Tokens and labels.

    Raises
    ------
    ValueError
        If a pair is not from 0 to S A - 1.

    Notes
    -----
    The features of different pairs are linearly independent, for they hold the products s_b x_c, of which one is
    one: the rank is the number of pairs seen. O(N d).
    """
    _require(automaton)
    pairs = whole_numbers("pairs", pairs, ("N",), range(automaton.states * automaton.symbols))
    states, symbols = np.divmod(pairs, automaton.symbols)
    return _tokens(automaton, states, symbols), one_hot(
        automaton.transitions[states, symbols], automaton.states
    )


def automaton_model(automaton: Automaton) -> LinearAttention:
    """The automaton as linear attention with a head a symbol, in whole numbers.

    Of one token, G_sx = 1 at its own state and symbol. Head x asks with the constant for row x of G, which is e_s when
    x is read and zero in the states otherwise, and its V_x is the map of states under x. A heads, d = S + A + 1,
    S outputs.

    Raises
    ------
    ValueError
        If it is no automaton.
    """
    _require(automaton)
    s, a = automaton.states, automaton.symbols
    v, q = zero_heads(a, s, s + a + 1)
    for x in range(a):
        v[x, automaton.transitions[:, x], np.arange(s)] = 1
        q[x, s + x, -1] = 1
    return LinearAttention(v, q)


def run_automaton(
    model: Model, automaton: Automaton, states: Int[np.ndarray, " R"], words: Int[np.ndarray, "R T"]
) -> Int[np.ndarray, "R T"]:
    """The states that a model passes through, its outputs rounded to the nearest state at each step.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        On tokens [e_s ; e_x ; 1].
    automaton : Automaton
        For its sizes only.
    states : integer array (R,)
        States to start in.
    words : integer array (R, T)
        Symbols read.

    Returns
    -------
    integer array (R, T)
        The states after each symbol.

    Raises
    ------
    ValueError
        If the model has another dimension, or a state or a symbol is out of range.

    Notes
    -----
    O(R T A d^2) by heads, O(R T d^3) by coefficients.
    """
    _require(automaton)
    states, words = _checked(states, words, automaton.states, automaton.symbols)
    return _followed(model, states, words, lambda at, read: _tokens(automaton, at, read))


def automata_in_context(
    transitions: Int[np.ndarray, "N S A"], *, rng: Rng = None
) -> Float[np.ndarray, "N pairs d"]:
    """Contexts of S A tokens [e_(s,x) ; e_s'], a token a transition, in random order; d = S A + S.

    Parameters
    ----------
    transitions : integer array (N, S, A)
        Next states of N automata.
    rng : SPEC 7 generator or seed
        Where the order comes from.

    Returns
    -------
    array (N, S A, d)
        Tokens, one a row.

    Raises
    ------
    ValueError
        If the array holds anything but states.
    """
    transitions = whole_numbers("transitions", transitions, ("N", "S", "A"))
    number, states, symbols = transitions.shape
    transitions = whole_numbers("transitions", transitions, transitions.shape, range(states))
    pairs = states * symbols
    order = random_generator(rng).permuted(np.tile(np.arange(pairs), (number, 1)), axis=1)
    following = np.take_along_axis(transitions.reshape(number, pairs), order, axis=1)
    return np.concatenate([one_hot(order, pairs), one_hot(following, states)], axis=-1)


def automaton_in_context_examples(
    *, states: int, symbols: int, number: int, rng: Rng = None
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N S"]]:
    """Examples: a random automaton in the context, a random query [e_(s,x) ; 0], the next state as the label.

    Parameters
    ----------
    states, symbols : int
        S and A.
    number : int
        Examples, each with an automaton of its own.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    tuple of arrays (N, S A + 1, S A + S), (N, S)
        Tokens and labels.

    Raises
    ------
    ValueError
        If a number is below 1.
    """
    states, symbols, number = count("states", states), count("symbols", symbols), count("number", number)
    pairs = states * symbols
    require_memory(f"{number} automata of {pairs} transitions", 16 * number * pairs * (2 + pairs + states))
    generator = random_generator(rng)
    transitions = generator.integers(states, size=(number, states, symbols))
    asked = generator.integers(pairs, size=number)
    x = _with_query(automata_in_context(transitions, rng=generator), asked)
    return x, one_hot(transitions.reshape(number, -1)[np.arange(number), asked], states)


def automaton_in_context_model(*, states: int, symbols: int) -> LinearAttention:
    """One head that looks the transition up: it runs every automaton with S states and A symbols.

    The block of G between states and pairs is the table of the automaton, its column at the pair asked for is the
    next state, and the query adds nothing to it. d = S A + S, S outputs.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> x, y = automaton_in_context_examples(states=3, symbols=2, number=100, rng=0)
    >>> bool(np.all(automaton_in_context_model(states=3, symbols=2)(x) == y))
    True
    """
    states, pairs = count("states", states), states * count("symbols", symbols)
    v, q = zero_heads(1, states, pairs + states)
    v[0, :, pairs:], q[0, :pairs, :pairs] = np.eye(states), np.eye(pairs)
    return LinearAttention(v, q)


def automaton_in_context_rank(*, states: int, symbols: int) -> int:
    """The rank S A (1 + S A (S - 1)) of the features on all automata and queries of a size.

    At each of the S A queries G is an affine function of the table, S A one-hot vectors of S entries that span
    S A (S - 1) directions and a constant; what G holds besides, how often each state occurs as the next one, is linear
    in it. Different queries have different features.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> [automaton_in_context_rank(states=s, symbols=2) for s in (2, 3, 4)]
    [20, 78, 200]
    """
    states, symbols = count("states", states), count("symbols", symbols)
    pairs = states * symbols
    return pairs * (1 + pairs * (states - 1))


def run_in_context(
    model: Model,
    context: Float[np.ndarray, "R pairs d"],
    states: Int[np.ndarray, " R"],
    words: Int[np.ndarray, "R T"],
) -> Int[np.ndarray, "R T"]:
    """The states that a model passes through, a context a run, rounded to the nearest state at each step.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        On contexts of `automata_in_context` and a query.
    context : array (R, S A, d)
        Automata in the context.
    states : integer array (R,)
        States to start in.
    words : integer array (R, T)
        Symbols read.

    Returns
    -------
    integer array (R, T)
        The states after each symbol.

    Raises
    ------
    ValueError
        If the model has another dimension, the context is none, or a state or a symbol is out of range.

    Notes
    -----
    The context stays, and each query replaces the one before it, as in the examples.
    O(R T (S A d^2 + S d^3)) by coefficients.
    """
    context = real_array("context", context, ("R", "pairs", "d"))
    pairs = context.shape[1]
    number = context.shape[2] - pairs
    if number < 1 or pairs % number:
        raise ValueError(
            f"The context has {pairs} tokens of {context.shape[2]} dimensions: it takes S A tokens of S A + S."
        )
    symbols = pairs // number
    words = whole_numbers("words", words, (len(context), "T"))
    states, words = _checked(states, words, number, symbols)
    return _followed(model, states, words, lambda at, read: _with_query(context, at * symbols + read))


def _followed(
    model: Model,
    states: np.ndarray,
    words: np.ndarray,
    tokens: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The states after each symbol, from the tokens of the states before and of the symbols read."""
    loop = ClosedLoop(model, tokens(states, words[:, 0]))
    found: list[np.ndarray] = []
    for step in range(words.shape[1]):
        if step:
            loop.replace(tokens(found[-1], words[:, step]))
        found.append(np.argmax(loop.outputs(), axis=1))
    return np.stack(found, axis=1)


def _require(automaton: object) -> None:
    require_instance("automaton", automaton, Automaton, needed="an Automaton")


def _checked(
    states: np.ndarray, words: np.ndarray, number: int, symbols: int
) -> tuple[Int[np.ndarray, " R"], Int[np.ndarray, "R T"]]:
    """States to start in, one a word, and words of one symbol at least; lists too."""
    words = whole_numbers("words", words, ("R", "T"), range(symbols))
    return whole_numbers("states", states, (len(words),), range(number)), words


def _tokens(automaton: Automaton, states: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    parts = one_hot(states, automaton.states), one_hot(symbols, automaton.symbols), np.ones((len(states), 1))
    return np.concatenate(parts, axis=-1)[:, None]


def _with_query(context: np.ndarray, asked: np.ndarray) -> np.ndarray:
    query = np.zeros((len(context), 1, context.shape[2]))
    query[np.arange(len(context)), 0, asked] = 1
    return np.concatenate([context, query], axis=1)
