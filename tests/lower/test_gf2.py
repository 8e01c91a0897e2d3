import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lower import solve_gf2


@given(rows=st.integers(1, 8), columns=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_elimination_agrees_with_trying_every_vector(rows, columns, seed):
    rng = np.random.default_rng(seed)
    matrix, bits = rng.integers(2, size=(rows, columns)), rng.integers(2, size=rows)
    vectors = np.array(list(itertools.product([0, 1], repeat=columns)))
    solves = np.all(vectors @ matrix.T % 2 == bits, axis=1)
    kernel = np.all(vectors @ matrix.T % 2 == 0, axis=1).sum()
    found = solve_gf2(matrix, bits)
    assert found.consistent == solves.any()
    assert 2 ** (columns - found.rank) == kernel
    assert found.unique == (solves.sum() == 1)
    if found.consistent:
        np.testing.assert_array_equal(matrix @ found.solution % 2, bits)


@pytest.mark.parametrize("columns", [63, 64, 65, 127, 128, 129, 300])
def test_solutions_are_found_across_word_borders(columns):
    rng = np.random.default_rng(columns)
    secret = rng.integers(2, size=columns).astype(bool)
    matrix = rng.integers(2, size=(columns + 20, columns), dtype=np.uint8)
    found = solve_gf2(matrix, matrix @ secret % 2)
    assert found.unique
    np.testing.assert_array_equal(found.solution, secret)
    bits = matrix @ secret % 2
    bits[-1] ^= 1
    assert not solve_gf2(matrix, bits).consistent


def test_full_rank_probability_of_random_systems():
    rng = np.random.default_rng(0)
    trials, columns = 400, 30
    for surplus, probability in ((0, 0.289), (2, 0.770)):
        full = sum(
            solve_gf2(m := rng.integers(2, size=(columns + surplus, columns)), m[:, 0]).rank == columns
            for _ in range(trials)
        )
        assert abs(full / trials - probability) < 4 * np.sqrt(probability * (1 - probability) / trials)


def test_the_arguments_are_left_alone():
    matrix, bits = np.eye(3, dtype=bool)[::-1].copy(), np.array([True, False, True])
    before = matrix.copy(), bits.copy()
    solve_gf2(matrix, bits)
    np.testing.assert_array_equal(matrix, before[0])
    np.testing.assert_array_equal(bits, before[1])


@pytest.mark.bad_input
def test_bad_arguments_are_explained():
    with pytest.raises(ValueError, match="shape"):
        solve_gf2(np.ones((3, 2)), np.ones(2))
    with pytest.raises(ValueError, match="0 and 1"):
        solve_gf2(np.full((2, 2), 2), np.ones(2))
