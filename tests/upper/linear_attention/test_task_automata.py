"""Automata: constructed in whole numbers, learned pair by pair, and read from the context."""

import itertools

import numpy as np
import pytest

from upper.linear_attention.features import cubic_features
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks.automata import AutomataInContext, Automaton


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


def test_rank_is_the_number_of_pairs_seen():
    automaton = Automaton.random(states=3, symbols=2, rng=0)
    for seen in range(1, 7):
        for pairs in itertools.combinations(range(6), seen):
            x, _ = automaton.examples(np.array(pairs * 2))
            assert np.linalg.matrix_rank(cubic_features(x)) == seen


def test_learned_automaton_fails_at_the_unseen_transition_only():
    automaton = Automaton(np.array([[1, 0], [0, 0]]))  # of (1, 1) nothing is known
    x, y = automaton.examples(np.array([0, 1, 2]))
    learned = regress(x, y, least_norm=True)
    found = automaton.answered(learned)
    assert np.array_equal(found.transitions.ravel()[:3], automaton.transitions.ravel()[:3])
    x, y = automaton.examples(np.array([3]))
    assert np.abs(learned(x) - y).max() > 0.1


def test_one_head_looks_every_transition_of_every_automaton_up():
    tables = np.array(list(itertools.product(range(2), repeat=4))).reshape(-1, 2, 2)
    task = AutomataInContext(2, 2)
    context = task.contexts(tables, rng=0)
    assert np.array_equal(task.answered(task.model(), context), tables)
    with pytest.raises(ValueError, match=r"context has shape .*\(N, 4, 6\)"):
        task.answered(task.model(), context[:, :2])


def test_contexts_hold_each_transition_once_in_orders_that_differ():
    tables = np.tile(np.array([[0, 1], [1, 2], [2, 0]]), (40, 1, 1))
    context = AutomataInContext(3, 2).contexts(tables, rng=0)
    orders = context[..., :6].argmax(-1)
    assert np.array_equal(np.sort(orders), np.tile(np.arange(6), (40, 1)))
    found = np.take_along_axis(context[..., 6:].argmax(-1), orders.argsort(-1), axis=1)
    assert np.array_equal(found, tables.reshape(40, 6))
    assert len({tuple(order) for order in orders}) > 20


@pytest.mark.parametrize("sizes", [(1, 3), (2, 1), (2, 2), (3, 1)])
def test_rank_in_context_over_all_automata_and_queries(sizes):
    task, pairs = AutomataInContext(*sizes), sizes[0] * sizes[1]
    tables = np.array(list(itertools.product(range(sizes[0]), repeat=pairs))).reshape(-1, *sizes)
    queries = np.tile(np.eye(pairs, task.model().dim), (len(tables), 1))[:, None]
    x = np.concatenate([np.repeat(task.contexts(tables, rng=0), pairs, axis=0), queries], axis=1)
    assert np.linalg.matrix_rank(cubic_features(x)) == task.rank


@pytest.mark.bad_input
def test_bad_automata_are_refused_in_sentences():
    automaton = Automaton([[0, 1], [1, 0]])
    for call, said in (
        (lambda: Automaton(np.array([[0, 2], [1, 0]])), "0 to 1 are allowed"),
        (lambda: Automaton.random(states=0, symbols=1), "states is 0"),
        (lambda: automaton.run([2], [[0, 1]]), "states holds numbers from 2"),
        (lambda: automaton.run([0], [[0, -1]]), "words holds numbers from -1"),
        (lambda: automaton.run([0, 1], [[0, 1]]), "where R is"),
        (lambda: automaton.examples(np.array([4])), "pairs holds numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
