import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lower import solve_gf2
from lower.gf2 import pack_gf2, solve_packed_gf2, unpack_gf2


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


@given(
    columns=st.integers(1, 200),
    rank=st.integers(0, 200),
    surplus=st.integers(0, 100),
    seed=st.integers(0, 2**32),
)
def test_rank_and_solutions_of_matrices_of_a_given_rank(columns, rank, surplus, seed):
    rng = np.random.default_rng(seed)
    rank = min(rank, columns)
    # a product of factors with an identity inside has exactly that rank
    left = np.vstack([np.eye(rank, dtype=np.int64), rng.integers(2, size=(surplus, rank))])
    right = np.hstack([np.eye(rank, dtype=np.int64), rng.integers(2, size=(rank, columns - rank))])
    matrix = rng.permutation(left, axis=0) @ rng.permutation(right, axis=1) % 2
    bits = matrix @ rng.integers(2, size=columns) % 2
    found = solve_gf2(matrix, bits)
    assert found.rank == rank
    assert found.consistent
    np.testing.assert_array_equal(matrix @ found.solution % 2, bits)


def test_an_inconsistent_system_is_solved_in_as_many_equations_as_its_rank():
    rng = np.random.default_rng(3)
    matrix, bits = rng.integers(2, size=(300, 130)), rng.integers(2, size=300)
    found = solve_gf2(matrix, bits)
    assert not found.consistent
    assert np.sum(matrix @ found.solution % 2 == bits) >= found.rank == 130


@given(rows=st.integers(1, 5), columns=st.integers(0, 200), seed=st.integers(0, 2**32))
def test_packing_and_unpacking_are_inverse(rows, columns, seed):
    matrix = np.random.default_rng(seed).integers(2, size=(rows, columns)).astype(bool)
    words = pack_gf2(matrix)
    assert words.shape == (rows, -(-columns // 64))
    np.testing.assert_array_equal(unpack_gf2(words, columns), matrix)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        assert int(words[row, column // 64]) >> int(column % 64) & 1


def test_later_bits_are_ignored_and_the_system_is_kept_unless_it_may_be_overwritten():
    rng = np.random.default_rng(4)
    system = rng.integers(1 << 63, size=(90, 3), dtype=np.uint64)
    before, found = system.copy(), solve_packed_gf2(system, 70)
    np.testing.assert_array_equal(system, before)
    bits = unpack_gf2(system, 71)
    other = solve_gf2(bits[:, :70], bits[:, 70])
    np.testing.assert_array_equal(found.solution, other.solution)
    assert (found.rank, found.consistent) == (other.rank, other.consistent)
    solve_packed_gf2(system, 70, overwrite=True)
    assert np.any(system != before)


def test_what_is_called_between_panels_can_end_the_elimination():
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        solve_packed_gf2(
            np.random.default_rng(0).integers(1 << 63, size=(400, 7), dtype=np.uint64), 400, on_panel=stop
        )
    assert len(calls) == 3


@pytest.mark.bad_input
def test_bad_arguments_are_explained():
    with pytest.raises(ValueError, match="shape"):
        solve_gf2(np.ones((3, 2)), np.ones(2))
    with pytest.raises(ValueError, match="0 and 1"):
        solve_gf2(np.full((2, 2), 2), np.ones(2))
    with pytest.raises(ValueError, match="need 2"):
        solve_packed_gf2(np.zeros((3, 1), dtype=np.uint64), 64)
    with pytest.raises(ValueError, match="64 bits"):
        unpack_gf2(np.zeros((3, 1), dtype=np.uint64), 65)
