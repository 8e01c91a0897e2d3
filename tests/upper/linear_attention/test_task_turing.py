"""Turing machines: the plain simulator, the construction, and what is learned from steps of runs."""

import numpy as np
import pytest

from upper.linear_attention.features import cubic_kernel
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks import TapeLayout, TuringMachine, agreement
from upper.linear_attention.tasks.learned_machines import history_examples, learn_from_histories

SMALL = TapeLayout(states=2, symbols=2, positions=4)


def test_plain_machine_adds_one_to_a_binary_number():
    # state 0 carries to the right of a number whose lowest bit comes first, state 1 has halted
    machine = TuringMachine(
        np.array([[1, 0], [0, 1]]), np.array([[0, 1], [0, 0]]), np.array([[1, 0], [1, 1]])
    )
    end = machine.run(np.array([[1, 1, 0, 1, 0, 0]]), 5)[0]
    tapes = [[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert end[:, :-2].tolist() == tapes
    assert end[:, -2].tolist() == [1, 2, 2, 2, 2]
    assert end[:, -1].tolist() == [0, 0, 1, 1, 1]


def test_one_head_reads_every_symbol_of_every_tape():
    layout = TapeLayout(states=2, symbols=3, positions=3)
    x, y = layout.examples(layout.every_configuration())
    assert len(x) == 3**3 * 3 * 2
    assert np.array_equal(layout.reader_model()(x), y)


@pytest.mark.parametrize(("size", "rank"), [((2, 2, 4), 40), ((2, 3, 2), 20), ((3, 1, 2), 6)])
def test_rank_of_all_tapes_and_queries(size, rank):
    layout = TapeLayout(*size)
    assert layout.rank == rank
    x = layout.contexts(layout.every_configuration())
    assert np.linalg.matrix_rank(cubic_kernel(x, x), tol=1e-8) == rank


def test_gram_matrix_of_the_history_holds_the_current_tape():
    layout = TapeLayout(states=3, symbols=3, positions=5)
    machine = TuringMachine.random(states=3, symbols=3, rng=0)
    at = layout.draw(4, rng=1)
    tokens = layout.contexts(at)
    for _ in range(30):
        after = machine.run(at, 1)[:, 0]
        tokens = np.concatenate([tokens, layout.delta_tokens(at, after)[:, None]], axis=1)
        gram = np.matrix_transpose(tokens) @ tokens
        symbols, positions, _ = layout.blocks
        assert np.array_equal(gram[:, positions, symbols], np.eye(3)[after[:, :-2]])
        at = after


@pytest.mark.parametrize("size", [(2, 2, 4), (3, 3, 6)])
def test_constructed_model_makes_every_step_in_whole_numbers(size):
    layout = TapeLayout(*size)
    machine = TuringMachine.random(states=size[0], symbols=size[1], rng=2)
    model = layout.model(machine)
    assert (model.heads, model.dim) == (size[0] * size[2], layout.dim)
    assert {-1.0, 0.0, 1.0} >= set(np.unique(model.v)) | set(np.unique(model.q))
    x, y = layout.examples(layout.draw(300, rng=0), machine)
    assert np.array_equal(model(x), y)


def test_another_machine_is_told_apart():
    first, second = (TuringMachine.random(states=2, symbols=2, rng=seed) for seed in (0, 1))
    start = SMALL.draw(5, rng=0)
    found = SMALL.simulate(SMALL.model(first), start, 50).configurations
    assert np.array_equal(found, first.run(start, 50))
    assert agreement(found, second.run(start, 50)) < 0.9


def test_agreement_asks_tape_position_and_state_at_the_same_step():
    one = np.array([[[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3], [0, 0, 0, 4]]])
    assert agreement(one, one) == 1
    for column in range(4):
        other = one.copy()
        other[0, 2, column] += 1
        assert agreement(one, other) == 0.75
        other[0, 1, 0] += 1
        assert agreement(one, other) == 0.5


def test_whole_histories_have_a_larger_rank_and_what_is_learned_runs_on_by_itself():
    machine = TuringMachine.random(states=2, symbols=2, rng=3)
    start = SMALL.every_configuration()
    learned = learn_from_histories(*history_examples(machine, start, 10))
    longer, _ = history_examples(machine, start, 11)
    used = longer.any(axis=0)
    assert np.linalg.matrix_rank(longer[:, used], tol=1e-8 * np.linalg.norm(longer)) == learned.rank
    assert learned.rank > 40
    found = SMALL.simulate(learned, start, 100)
    assert np.array_equal(found.configurations, machine.run(start, 100))
    assert found.rounding < 1e-10


def test_learned_from_short_contexts_need_not_run_on_whole_histories():
    machine = TuringMachine.random(states=2, symbols=2, rng=3)
    start = SMALL.every_configuration()
    x, y = SMALL.examples(start, machine)
    learned = regress(x, y, method="svd", least_norm=True)
    wanted = machine.run(start, 100)
    short, kept = (SMALL.simulate(learned, start, 100, keep=keep).configurations for keep in (False, True))
    assert np.array_equal(short, wanted)
    assert agreement(kept, wanted) < 0.9


def test_nearest_delta_token_is_the_nearest_of_all():
    layout = TapeLayout(states=2, symbols=3, positions=2)
    deltas = [np.zeros(3)] + [np.eye(3)[w] - np.eye(3)[x] for w in range(3) for x in range(3) if w != x]
    allowed = np.array(
        [
            np.concatenate([delta, np.eye(2)[p], np.eye(4)[place]])
            for delta in deltas
            for p in range(2)
            for place in range(4)
        ]
    )
    outputs = np.random.default_rng(0).standard_normal((200, layout.dim))
    distances = np.linalg.norm(outputs[:, None] - allowed, axis=-1)
    assert np.array_equal(layout.nearest_tokens(outputs), allowed[distances.argmin(axis=1)])


@pytest.mark.bad_input
def test_bad_machines_are_refused_in_sentences():
    one = np.zeros((1, 2), dtype=int)
    machine = TuringMachine.random(states=2, symbols=2, rng=0)
    model = SMALL.model(machine)
    for call, said in (
        (lambda: TuringMachine(one + 2, one, one), "write holds numbers"),
        (lambda: TuringMachine(one, one + 2, one), "move holds numbers"),
        (lambda: TuringMachine(one, one, one.T), "next_state is an array of shape"),
        (lambda: SMALL.contexts(TapeLayout(2, 2, 3).draw(1, rng=0)), "cells: 4 are needed"),
        (lambda: machine.run([[0, 0]], 1), r"P \+ 2 are needed"),
        (
            lambda: SMALL.simulate(model, np.array([[0, 0, 2, 0, 0, 0]]), 2),
            "The tape holds numbers from 0 to 2",
        ),
        (lambda: SMALL.contexts(np.array([[0, 0, 0, 0, -1, 0]])), "The position holds numbers from -1"),
        (lambda: machine.run([[0, 0, 0, 0, 0, 2]], 2), "The state holds numbers from 2"),
        (
            lambda: TapeLayout(2, 1, 3).simulate(model, np.zeros((1, 5), int), 2),
            "10 dimensions and the model 14",
        ),
        (lambda: TapeLayout(4, 3, 10).every_configuration(), "draw some at random"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
