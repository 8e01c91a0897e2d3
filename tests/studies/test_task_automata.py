"""Automata: constructed in whole numbers, learned pair by pair, and read from the context."""

import numpy as np
import pytest

from studies.tasks.automata import Automaton
from upper.linear_attention.regression import regress


@pytest.mark.parametrize(("states", "symbols"), [(1, 1), (5, 3)])
def test_a_head_a_symbol_is_the_automaton_in_whole_numbers(states, symbols):
    automaton = Automaton.random(states=states, symbols=symbols, rng=1)
    x, y = automaton.examples(np.arange(states * symbols))
    assert np.array_equal(automaton.model()(x), y)


def test_plain_run_follows_the_table():
    automaton = Automaton(np.array([[1, 0], [2, 0], [2, 1]]))
    assert automaton.run(np.array([0, 2]), np.array([[0, 0, 1], [1, 1, 0]])).tolist() == [
        [1, 2, 1],
        [1, 0, 1],
    ]


def test_learned_automaton_fails_at_the_unseen_transition_only():
    automaton = Automaton(np.array([[1, 0], [0, 0]]))  # of (1, 1) nothing is known
    x, y = automaton.examples(np.array([0, 1, 2]))
    learned = regress(x, y, least_norm=True)
    found = automaton.answered(learned)
    assert np.array_equal(found.transitions.ravel()[:3], automaton.transitions.ravel()[:3])
    x, y = automaton.examples(np.array([3]))
    assert np.abs(learned(x) - y).max() > 0.1
