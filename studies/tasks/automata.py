"""Finite automata as linear attention: a fixed one on one token, and any of a size, given in the context."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention.inputs import Rng
from attention.validation import random_generator
from studies.tasks.turing import one_hot
from upper.linear_attention.regression import Model


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic finite automaton, and the task to learn it from tokens [e_s ; e_x ; 1], one per example.

    The features of different pairs (s, x) are linearly independent: they contain the products s_b x_c, and exactly one
    of these is 1. So the rank is the number of pairs seen. d = S + A + 1.

    Parameters
    ----------
    transitions : integer array (S, A)
        In state s, reading x, it passes to the state transitions[s, x], from 0 to S - 1.

    Examples
    --------
    Parity of the ones:

    >>> parity = Automaton(np.array([[0, 1], [1, 0]]))
    >>> parity.run(np.array([0]), np.array([[1, 1, 0, 1]]))
    array([[1, 0, 0, 1]])
    """

    transitions: Int[np.ndarray, "S A"]

    @staticmethod
    def random(*, states: int, symbols: int, rng: Rng = None) -> "Automaton":
        """An automaton whose transitions are independent and uniform."""
        return Automaton(random_generator(rng).integers(states, size=(states, symbols)))

    @property
    def states(self) -> int:
        """The number S of states."""
        return int(self.transitions.shape[0])

    @property
    def symbols(self) -> int:
        """The number A of symbols."""
        return int(self.transitions.shape[1])

    def run(self, states: Int[np.ndarray, " R"], words: Int[np.ndarray, "R T"]) -> Int[np.ndarray, "R T"]:
        """The states after each symbol of each word."""
        visited = np.empty(words.shape, dtype=np.int64)
        for step in range(words.shape[1]):
            states = visited[:, step] = self.transitions[states, words[:, step]]
        return visited

    def answered(self, model: Model) -> "Automaton":
        """The automaton that a model makes of this one: its answer to every pair, rounded to the nearest state."""
        every, _ = self.examples(np.arange(self.transitions.size))
        return Automaton(np.argmax(model(every), axis=1).reshape(self.transitions.shape))

    def examples(
        self, pairs: Int[np.ndarray, " N"]
    ) -> tuple[Float[np.ndarray, "N 1 d"], Float[np.ndarray, "N S"]]:
        """The tokens of pairs, numbers s A + x below S A, labelled with the next state, one-hot."""
        states, symbols = np.divmod(pairs, self.symbols)
        parts = one_hot(states, self.states), one_hot(symbols, self.symbols), np.ones((len(pairs), 1))
        return np.hstack(parts)[:, None], one_hot(self.transitions[states, symbols], self.states)


@dataclass(frozen=True)
class AutomataInContext:
    """The task to run any automaton of a size, given in the context: S A tokens [e_(s,x) ; e_s'], query [e_(s,x) ; 0].

    Parameters
    ----------
    states, symbols : int
        S and A; the tokens have d = S A + S entries.

    Examples
    --------
    >>> task = AutomataInContext(states=3, symbols=2)
    >>> x, y = task.examples(100, rng=0)
    >>> x.shape, y.shape, task.rank
    ((100, 7, 9), (100, 3), 78)
    """

    states: int
    symbols: int

    @property
    def pairs(self) -> int:
        """The number S A of transitions."""
        return self.states * self.symbols

    @property
    def rank(self) -> int:
        """The rank S A (1 + S A (S - 1)) of the features on all automata and queries.

        At each of the S A queries G is an affine function of the table, S A one-hot vectors of S entries that span
        S A (S - 1) directions and a constant; what G holds besides, how often each state occurs as the next one, is
        linear in it. Different queries have different features.
        """
        return self.pairs * (1 + self.pairs * (self.states - 1))

    def contexts(
        self, transitions: Int[np.ndarray, "N S A"], *, rng: Rng = None
    ) -> Float[np.ndarray, "N pairs d"]:
        """The tokens of N automata, a token a transition, in random order."""
        number = len(transitions)
        order = random_generator(rng).permuted(np.tile(np.arange(self.pairs), (number, 1)), axis=1)
        following = np.take_along_axis(transitions.reshape(number, self.pairs), order, axis=1)
        return np.concatenate([one_hot(order, self.pairs), one_hot(following, self.states)], axis=-1)

    def examples(
        self, number: int, *, rng: Rng = None
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N S"]]:
        """Random automata in the context, a random query of each, and the next state as the label."""
        generator = random_generator(rng)
        transitions = generator.integers(self.states, size=(number, self.states, self.symbols))
        asked = generator.integers(self.pairs, size=number)
        x = _with_query(self.contexts(transitions, rng=generator), asked)
        return x, one_hot(transitions.reshape(number, -1)[np.arange(number), asked], self.states)

    def answered(self, model: Model, context: Float[np.ndarray, "N pairs d"]) -> Int[np.ndarray, "N S A"]:
        """The transitions that a model reads from the contexts of N automata, rounded to the nearest states."""
        asked = np.tile(np.arange(self.pairs), len(context))
        every = _with_query(np.repeat(context, self.pairs, axis=0), asked)
        return np.argmax(model(every), axis=1).reshape(-1, self.states, self.symbols)


def _with_query(context: np.ndarray, asked: np.ndarray) -> np.ndarray:
    query = np.zeros((len(context), 1, context.shape[2]))
    query[np.arange(len(context)), 0, asked] = 1
    return np.concatenate([context, query], axis=1)
