"""Turing machines: the plain simulator, the construction, and what is learned from steps of runs."""

import numpy as np
import pytest

from studies.tasks import TapeLayout, TuringMachine, agreement
from upper.linear_attention.features import cubic_kernel
from upper.linear_attention.regression import regress

SMALL = TapeLayout(states=2, symbols=2, positions=4)


def every_configuration(layout):
    """Every tape with every position and state, A^P P S of them."""
    sizes = (layout.symbols,) * layout.positions + (layout.positions, layout.states)
    return np.indices(sizes).reshape(len(sizes), -1).T.copy()


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


@pytest.mark.parametrize(("size", "rank"), [((2, 2, 4), 40), ((2, 3, 2), 20), ((3, 1, 2), 6)])
def test_rank_of_all_tapes_and_queries(size, rank):
    layout = TapeLayout(*size)
    assert layout.rank == rank
    x = layout.contexts(every_configuration(layout))
    assert np.linalg.matrix_rank(cubic_kernel(x, x), tol=1e-8) == rank


@pytest.mark.parametrize("size", [(2, 2, 4), (3, 3, 6)])
def test_constructed_model_makes_every_step_in_whole_numbers(size):
    layout = TapeLayout(*size)
    machine = TuringMachine.random(states=size[0], symbols=size[1], rng=2)
    model = layout.model(machine)
    assert (model.heads, model.dim) == (size[0] * size[2], layout.dim)
    assert {-1.0, 0.0, 1.0} >= set(np.unique(model.v)) | set(np.unique(model.q))
    x, y = layout.examples(layout.draw(300, rng=0), machine)
    assert np.array_equal(model(x), y)


def test_agreement_asks_tape_position_and_state_at_the_same_step():
    one = np.array([[[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3], [0, 0, 0, 4]]])
    assert agreement(one, one) == 1
    for column in range(4):
        other = one.copy()
        other[0, 2, column] += 1
        assert agreement(one, other) == 0.75
        other[0, 1, 0] += 1
        assert agreement(one, other) == 0.5


def test_learned_from_short_contexts_need_not_run_on_whole_histories():
    machine = TuringMachine.random(states=2, symbols=2, rng=3)
    start = every_configuration(SMALL)
    x, y = SMALL.examples(start, machine)
    learned = regress(x, y, method="svd", least_norm=True)
    wanted = machine.run(start, 100)
    short, kept = (SMALL.simulate(learned, start, 100, keep=keep).configurations for keep in (False, True))
    assert np.array_equal(short, wanted)
    assert agreement(kept, wanted) < 0.9
