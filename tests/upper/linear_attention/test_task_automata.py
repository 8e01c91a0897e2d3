import itertools

import numpy as np
import pytest

from upper.linear_attention.features import cubic_features
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks.automata import AutomataInContext, Automaton


@pytest.mark.parametrize(("states", "symbols"), [(1, 1), (3, 2), (5, 3)])
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
    words = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1]])
    reached = automaton.run(np.array([0, 0, 1]), words, learned)
    assert np.array_equal(reached, automaton.run(np.array([0, 0, 1]), words))  # never reads 1 in state 1
    x, y = automaton.examples(np.array([3]))
    assert np.abs(learned(x) - y).max() > 0.1


def test_one_head_looks_every_transition_of_every_automaton_up():
    tables = np.array(list(itertools.product(range(3), repeat=4))).reshape(-1, 2, 2) % 2
    task = AutomataInContext(2, 2)
    context = task.contexts(tables, rng=0)
    for state, symbol in itertools.product(range(2), repeat=2):
        start, words = np.full(len(tables), state), np.full((len(tables), 1), symbol)
        assert np.array_equal(task.run(start, words, task.model(), context)[:, 0], tables[:, state, symbol])


def test_contexts_hold_each_transition_once_in_orders_that_differ():
    tables = np.tile(np.array([[0, 1], [1, 2], [2, 0]]), (40, 1, 1))
    context = AutomataInContext(3, 2).contexts(tables, rng=0)
    assert np.array_equal(np.sort(context[..., :6].argmax(-1)), np.tile(np.arange(6), (40, 1)))
    found = np.take_along_axis(context[..., 6:].argmax(-1), context[..., :6].argmax(-1).argsort(-1), axis=1)
    assert np.array_equal(found, tables.reshape(40, 6))
    assert len({tuple(order) for order in context[..., :6].argmax(-1)}) > 20


@pytest.mark.parametrize(("states", "rank"), [(2, 20), (3, 78), (4, 200)])
def test_rank_in_context_is_the_documented_one_and_no_sample_exceeds_it(states, rank):
    assert AutomataInContext(states, 2).rank == rank
    x, _ = AutomataInContext(states, 2).examples(4 * rank, rng=0)
    assert np.linalg.matrix_rank(cubic_features(x)) == rank


def test_rank_in_context_over_all_automata_and_queries():
    for states, symbols in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 1)):
        pairs = states * symbols
        tables = np.array(list(itertools.product(range(states), repeat=pairs))).reshape(-1, states, symbols)
        context = AutomataInContext(states, symbols).contexts(tables, rng=0)
        queries = np.zeros((pairs, pairs + states))
        queries[:, :pairs] = np.eye(pairs)
        x = np.concatenate(
            [
                np.repeat(context, pairs, axis=0),
                np.tile(queries, (len(tables), 1))[:, None],
            ],
            axis=1,
        )
        rank = AutomataInContext(states, symbols).rank
        assert np.linalg.matrix_rank(cubic_features(x)) == rank


def test_what_is_run_is_the_automaton_in_the_context():
    task = AutomataInContext(3, 2)
    automaton, other = (Automaton.random(states=3, symbols=2, rng=seed) for seed in (0, 1))
    words = np.random.default_rng(0).integers(2, size=(1, 50))
    context = task.contexts(other.transitions[None], rng=0)
    start = np.array([0])
    reached = task.run(start, words, task.model(), context)
    assert np.array_equal(reached, other.run(start, words))
    assert not np.array_equal(reached, automaton.run(start, words))


@pytest.mark.bad_input
def test_bad_automata_are_refused_in_sentences():
    with pytest.raises(ValueError, match="0 to 1 are allowed"):
        Automaton(np.array([[0, 2], [1, 0]]))
    with pytest.raises(ValueError, match="whole numbers"):
        Automaton(np.array([[0.5]]))
    with pytest.raises(ValueError, match="states is 0"):
        Automaton.random(states=0, symbols=1)
    automaton = Automaton([[0, 1], [1, 0]])  # lists are taken
    assert automaton.run([0], [[1, 1, 0, 1]]).tolist() == [[1, 0, 0, 1]]
    model, task = automaton.model(), AutomataInContext(2, 2)
    context = task.contexts(automaton.transitions[None], rng=0)
    for states, words, said in (
        ([2], [[0, 1]], "states holds numbers from 2"),
        ([-1], [[0, 1]], "states holds numbers from -1"),
        ([0], [[0, 2]], "words holds numbers from 0 to 2"),
        ([0], [[0, -1]], "words holds numbers from -1"),
        ([0, 1], [[0, 1]], "where R is"),
        ([0], [0, 1], "words is an array of shape"),
        ([0], [[]], "words is an array of"),
        ([0.0], [[0, 1]], "whole numbers"),
    ):
        for call in (
            lambda states=states, words=words: automaton.run(states, words),
            lambda states=states, words=words: automaton.run(states, words, model),
            lambda states=states, words=words: task.run(states, words, task.model(), context),
        ):
            with pytest.raises(ValueError, match=said):
                call()
    with pytest.raises(ValueError, match=r"context has shape .*\(R, 4, 6\)"):
        task.run([0], [[0]], task.model(), context[:, :2])
    with pytest.raises(ValueError, match="pairs holds numbers"):
        Automaton.random(states=2, symbols=2, rng=0).examples(np.array([4]))
