"""Tasks: machines, automata and memories as linear attention, by construction and learned."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.tasks import TapeLayout, TuringMachine, agreement
from studies.tasks.automata import Automaton
from studies.tasks.key_value import Keys, KeyValueMemory
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


def test_learned_from_short_contexts_need_not_run_on_whole_histories():
    machine = TuringMachine.random(states=2, symbols=2, rng=3)
    start = every_configuration(SMALL)
    x, y = SMALL.examples(start, machine)
    learned = regress(x, y, method="svd", least_norm=True)
    wanted = machine.run(start, 100)
    short, kept = (SMALL.simulate(learned, start, 100, keep=keep).configurations for keep in (False, True))
    assert np.array_equal(short, wanted)
    assert agreement(kept, wanted) < 0.9


def test_learned_automaton_fails_at_the_unseen_transition_only():
    automaton = Automaton(np.array([[1, 0], [0, 0]]))  # of (1, 1) nothing is known
    x, y = automaton.examples(np.array([0, 1, 2]))
    learned = regress(x, y, least_norm=True)
    found = automaton.answered(learned)
    assert np.array_equal(found.transitions.ravel()[:3], automaton.transitions.ravel()[:3])
    x, y = automaton.examples(np.array([3]))
    assert np.abs(learned(x) - y).max() > 0.1


@given(
    keys=st.sampled_from(get_args(Keys)), dk=st.integers(2, 5), dv=st.integers(1, 3), seed=st.integers(0, 99)
)
@settings(max_examples=15, deadline=None)
def test_one_head_returns_the_values_weighted_by_overlap(keys, dk, dv, seed):
    memory = KeyValueMemory(keys, dk, dv)
    x, y = memory.examples(20, rng=seed)
    overlaps = np.einsum("nik,nk->ni", x[:, :-1, :dk], x[:, -1, :dk])
    np.testing.assert_allclose(y, np.einsum("ni,niv->nv", overlaps, x[:, :-1, dk:]), atol=1e-12)
    assert memory.model().heads == 1
    if keys != "gaussian":  # orthonormal: the value of the key that is queried
        gram = x[:, :-1, :dk] @ x[:, :-1, :dk].transpose(0, 2, 1)
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-12)
        np.testing.assert_allclose(y, x[np.arange(20), np.argmax(overlaps, axis=1), dk:], atol=1e-12)


def test_haar_keys_have_no_preferred_direction():
    """Entries of a Haar matrix have mean 0 and mean square 1/dk; those of a QR factor alone do not."""
    x, _ = KeyValueMemory("haar").examples(20_000, rng=2)
    keys = x[:, :4, :4]
    assert np.all(np.abs(keys.mean(axis=0)) < 5 * 0.5 / np.sqrt(20_000))
    assert np.all(np.abs((keys**2).mean(axis=0) - 0.25) < 5 * 0.25 / np.sqrt(20_000))
