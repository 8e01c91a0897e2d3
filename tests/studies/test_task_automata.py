"""Automata: run by their table, and learned pair by pair."""

import numpy as np

from studies.tasks.automata import Automaton
from upper.linear_attention.regression import regress


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
