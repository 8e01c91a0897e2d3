"""An automaton given in the context: one model that runs every automaton of a size, whether it has seen it or not."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import count, random_generator, real_array, shown
from attention.inputs import Rng
from attention.memory import require_memory
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks._one_hot import nearest_one_hot, one_hot, require_entries, whole_numbers
from upper.linear_attention.tasks.automata import random_automaton
from upper.linear_attention.tasks.closed_loop import Model, agreement, run_closed_loop
from upper.linear_attention.tasks.independent import first_independent

__all__ = [
    "AutomatonInContextRow",
    "automata_in_context",
    "automaton_in_context_examples",
    "automaton_in_context_model",
    "automaton_in_context_rank",
    "automaton_in_context_rows",
    "run_in_context",
]

CASES = ((2, 2, 10), (2, 2, 50), (3, 2, 50), (3, 2, 200), (4, 2, 150), (4, 2, 1000))


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

    Notes
    -----
    O(N S A d). References: derived here.
    """
    transitions = whole_numbers("transitions", transitions, ("N", "S", "A"))
    number, states, symbols = transitions.shape
    require_entries("transitions", transitions, range(states))
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

    Notes
    -----
    O(N (S A)^2).

    References
    ----------
    Derived here.
    """
    states, symbols, number = (
        count(name, value) for name, value in (("states", states), ("symbols", symbols), ("number", number))
    )
    require_memory(
        f"{shown(number)} automata of {shown(states)} states and {shown(symbols)} symbols",
        16 * number * states * symbols * (2 + states * symbols + states),
        advice="take fewer",
    )
    generator = random_generator(rng)
    transitions = generator.integers(states, size=(number, states, symbols))
    asked = generator.integers(states * symbols, size=number)
    x = _with_query(automata_in_context(transitions, rng=generator), one_hot(asked, states * symbols))
    following = transitions.reshape(number, -1)[np.arange(number), asked]
    return x, one_hot(following, states)


def automaton_in_context_model(*, states: int, symbols: int) -> LinearAttention:
    """One head that looks the transition up: it runs every automaton with S states and A symbols.

    Parameters
    ----------
    states, symbols : int
        S and A.

    Returns
    -------
    LinearAttention
        d = S A + S, S outputs.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    The block of G between states and pairs is the table of the automaton, its column at the pair asked for is the
    next state, and the query adds nothing to it. O(d^2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> x, y = automaton_in_context_examples(states=3, symbols=2, number=100, rng=0)
    >>> bool(np.all(automaton_in_context_model(states=3, symbols=2)(x) == y))
    True
    """
    states, symbols = count("states", states), count("symbols", symbols)
    pairs = states * symbols
    d = pairs + states
    require_memory(
        f"A model of {shown(states)} states and {shown(symbols)} symbols",
        24 * d * (d + states),
        advice="take fewer",
    )
    v, q = np.zeros((1, states, d)), np.zeros((1, d, d))
    v[0, :, pairs:] = np.eye(states)
    q[0, :pairs, :pairs] = np.eye(pairs)
    return LinearAttention(v, q)


def automaton_in_context_rank(*, states: int, symbols: int) -> int:
    """The rank S A (1 + S A (S - 1)) of the features on all automata and queries of a size.

    Parameters
    ----------
    states, symbols : int
        S and A.

    Returns
    -------
    int
        The rank.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    At each of the S A queries G is an affine function of the table, S A one-hot vectors of S entries that span
    S A (S - 1) directions and a constant; what G holds besides, how often each state occurs as the next one, is linear
    in it. Different queries have different features. O(1).

    References
    ----------
    Derived here.

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

    References
    ----------
    Derived here.
    """
    context = real_array("context", context, ("R", "pairs", "d"))
    pairs = context.shape[1]
    number = context.shape[2] - pairs
    if number < 1 or pairs % number:
        raise ValueError(
            f"The context has {pairs} tokens of {context.shape[2]} dimensions: it takes S A tokens of S A + S."
        )
    symbols = pairs // number
    words = whole_numbers("words", words, (len(context), "T"), range(symbols))
    states = whole_numbers("states", states, (len(context),), range(number))

    def ask(reached: np.ndarray, step: int) -> np.ndarray:
        return _with_query(context, one_hot(reached * symbols + words[:, step], pairs))

    def following(step: int, outputs: np.ndarray) -> np.ndarray:
        return ask(np.argmax(nearest_one_hot(outputs), axis=-1), step + 1)

    outputs = run_closed_loop(model, ask(states, 0), words.shape[1], following, keep=False)
    return np.argmax(outputs, axis=-1)


@dataclass(frozen=True)
class AutomatonInContextRow:
    """A row of the table of automata in the context.

    Attributes
    ----------
    states, symbols : int
        S and A.
    examples : int
        N.
    rank, exact_rank : int
        Of the features on the examples, and on all automata.
    accuracy : float
        Share of steps in the right state, on automata drawn afresh.
    """

    states: int
    symbols: int
    examples: int
    rank: int
    exact_rank: int
    accuracy: float


def automaton_in_context_rows(
    cases: tuple[tuple[int, int, int], ...] = CASES,
    *,
    automata: int = 50,
    steps: int = 100,
    rng: Rng = None,
    progress: Callable[[str], None] | None = None,
) -> list[AutomatonInContextRow]:
    """Learn to run automata given in the context, and run unseen ones in a closed loop.

    Parameters
    ----------
    cases : tuple of (S, A, N)
        Sizes and examples.
    automata, steps : int
        Fresh automata, each with a random state and word, and the words' length.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Told of each case when it is done.

    Returns
    -------
    list of AutomatonInContextRow
        A row a case.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    Once the rank is the exact one, every automaton of the size is run without error, which is derived: the deficit
    is zero and one head does it.

    References
    ----------
    Derived here.
    """
    automata, steps = count("automata", automata), count("steps", steps)
    generator = random_generator(rng)
    rows = []
    for states, symbols, number in cases:
        x, y = automaton_in_context_examples(states=states, symbols=symbols, number=number, rng=generator)
        kept = first_independent(x)
        learned = regress(x[kept], y[kept], least_norm=True)
        unseen = [random_automaton(states=states, symbols=symbols, rng=generator) for _ in range(automata)]
        start = generator.integers(states, size=automata)
        words = generator.integers(symbols, size=(automata, steps))
        wanted = np.concatenate([one.run(start[i : i + 1], words[i : i + 1]) for i, one in enumerate(unseen)])
        context = automata_in_context(np.stack([one.transitions for one in unseen]), rng=generator)
        accuracy = agreement((run_in_context(learned, context, start, words), wanted))
        exact = automaton_in_context_rank(states=states, symbols=symbols)
        rows.append(AutomatonInContextRow(states, symbols, number, len(kept), exact, accuracy))
        if progress is not None:
            progress(f"automata in context with {states} states, {symbols} symbols, {number} examples")
    return rows


def _with_query(context: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    query = np.zeros((len(context), 1, context.shape[2]))
    query[:, 0, : pairs.shape[1]] = pairs
    return np.concatenate([context, query], axis=1)
