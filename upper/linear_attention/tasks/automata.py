"""A finite automaton as linear attention on one token: what is learned are the transitions that were seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import count, random_generator, require_instance, shown
from attention.inputs import Rng
from attention.memory import require_memory
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks._one_hot import nearest_one_hot, one_hot, require_entries, whole_numbers
from upper.linear_attention.tasks.closed_loop import Model, agreement, run_closed_loop
from upper.linear_attention.tasks.independent import first_independent

__all__ = [
    "Automaton",
    "AutomatonRow",
    "automaton_examples",
    "automaton_model",
    "fixed_automaton_rows",
    "random_automaton",
    "run_automaton",
]

CASES = ((3, 2, 6), (3, 2, 4), (5, 3, 15), (5, 3, 3), (8, 4, 32), (8, 4, 1))


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
        require_entries("transitions", given, range(len(given)))
        object.__setattr__(self, "transitions", given)

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
        states, words = self.checked(states, words)
        found = np.empty(words.shape, dtype=np.int64)
        for step in range(words.shape[1]):
            states = self.transitions[states, words[:, step]]
            found[:, step] = states
        return found

    def checked(self, states: Any, words: Any) -> tuple[Int[np.ndarray, " R"], Int[np.ndarray, "R T"]]:
        """States to start in and words as arrays, lists too.

        Raises
        ------
        ValueError
            If one is out of range, or there is not a word a run, of one symbol at least.
        """
        words = whole_numbers("words", words, ("R", "T"), range(self.symbols))
        return whole_numbers("states", states, (len(words),), range(self.states)), words


def random_automaton(*, states: int, symbols: int, rng: Rng = None) -> Automaton:
    """An automaton whose transitions are independent and uniform.

    Parameters
    ----------
    states, symbols : int
        S and A.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    Automaton
        The automaton.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    O(S A). References: derived here.

    Examples
    --------
    >>> random_automaton(states=3, symbols=2, rng=0).transitions.shape
    (3, 2)
    """
    states, symbols = count("states", states), count("symbols", symbols)
    require_memory(
        f"An automaton of {shown(states)} states and {shown(symbols)} symbols",
        32 * states * symbols,
        advice="take fewer",
    )
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

    References
    ----------
    Derived here.
    """
    require_instance("automaton", automaton, Automaton, needed="an Automaton")
    pairs = whole_numbers("pairs", pairs, ("N",), range(automaton.states * automaton.symbols))
    states, symbols = np.divmod(pairs, automaton.symbols)
    x = _tokens(automaton, one_hot(states, automaton.states), symbols)
    return x, one_hot(automaton.transitions[states, symbols], automaton.states)


def automaton_model(automaton: Automaton) -> LinearAttention:
    """The automaton as linear attention with a head a symbol, in whole numbers.

    Parameters
    ----------
    automaton : Automaton
        With S states and A symbols.

    Returns
    -------
    LinearAttention
        A heads, d = S + A + 1, S outputs.

    Raises
    ------
    ValueError
        If `automaton` holds anything but states, when it is made.

    Notes
    -----
    Of one token, G_sx = 1 at its own state and symbol. Head x asks with the constant for row x of G, which is e_s when
    x is read and zero in the states otherwise, and its V_x is the map of states under x. O(A d^2).

    References
    ----------
    Derived here.
    """
    require_instance("automaton", automaton, Automaton, needed="an Automaton")
    s, a = automaton.states, automaton.symbols
    d = s + a + 1
    v, q = np.zeros((a, s, d)), np.zeros((a, d, d))
    for x in range(a):
        v[x, automaton.transitions[:, x], np.arange(s)] = 1
        q[x, s + x, d - 1] = 1
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
        If the model has another dimension, a state or a symbol is out of range, or there is not a word a run.

    Notes
    -----
    O(R T (S d^3)) by coefficients.

    References
    ----------
    Derived here.
    """

    def following(step: int, outputs: np.ndarray) -> np.ndarray:
        return _tokens(automaton, nearest_one_hot(outputs), words[:, step + 1])

    require_instance("automaton", automaton, Automaton, needed="an Automaton")
    states, words = automaton.checked(states, words)
    start = _tokens(automaton, one_hot(states, automaton.states), words[:, 0])
    outputs = run_closed_loop(model, start, words.shape[1], following, keep=False)
    return np.argmax(outputs, axis=-1)


@dataclass(frozen=True)
class AutomatonRow:
    """A row of the table of fixed automata.

    Attributes
    ----------
    states, symbols : int
        S and A.
    seen : int
        Pairs of a state and a symbol in the examples, of all S A.
    rank : int
        Of the features on the examples.
    draws : int
        Automata drawn.
    accuracy, lowest, highest : float
        Median, least and largest share of steps in the right state, over the draws.
    """

    states: int
    symbols: int
    seen: int
    rank: int
    draws: int
    accuracy: float
    lowest: float
    highest: float


def fixed_automaton_rows(
    cases: tuple[tuple[int, int, int], ...] = CASES,
    *,
    draws: int = 10,
    strings: int = 50,
    steps: int = 1000,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[AutomatonRow]:
    """Learn random automata from some of their transitions and run them in a closed loop.

    Parameters
    ----------
    cases : tuple of (S, A, seen)
        Sizes and the number of different pairs in the examples.
    draws : int
        Automata a case; with transitions unseen the accuracy of one says little.
    strings, steps : int
        Random words, from random states, and their length.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each case when it is done.

    Returns
    -------
    list of AutomatonRow
        A row a case.

    Raises
    ------
    ValueError
        If more pairs are to be seen than there are, or a number is below 1.

    Notes
    -----
    With all pairs seen every word is followed without error, which is derived. With pairs missing, what least
    norm makes of them is measured only.

    References
    ----------
    Derived here.
    """
    draws, strings, steps = (
        count(name, value) for name, value in (("draws", draws), ("strings", strings), ("steps", steps))
    )
    generator = random_generator(rng)
    rows = []
    for states, symbols, seen in cases:
        if not 1 <= seen <= states * symbols:
            raise ValueError(
                f"{seen} pairs are to be seen: there are {states * symbols}, and 1 at least is needed."
            )
        found, ranks = [], []
        for _ in range(draws):
            automaton = random_automaton(states=states, symbols=symbols, rng=generator)
            x, y = automaton_examples(automaton, generator.permutation(states * symbols)[:seen])
            ranks.append(len(first_independent(x)))
            learned = regress(x, y, least_norm=True)
            start = generator.integers(states, size=strings)
            words = generator.integers(symbols, size=(strings, steps))
            reached = run_automaton(learned, automaton, start, words)
            found.append(agreement((reached, automaton.run(start, words))))
        rows.append(
            AutomatonRow(
                states, symbols, seen, max(ranks), draws, float(np.median(found)), min(found), max(found)
            )
        )
        if progress is not None:
            progress(f"automaton with {states} states, {symbols} symbols, {seen} transitions seen")
    return rows


def _tokens(automaton: Automaton, states: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    constant = np.ones((len(symbols), 1))
    return np.concatenate([states, one_hot(symbols, automaton.symbols), constant], axis=-1)[:, None]
