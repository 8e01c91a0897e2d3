import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lower import solve_gf2
from lower.gf2 import pack_gf2, unpack_gf2


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


@given(rows=st.integers(1, 5), columns=st.integers(0, 200), seed=st.integers(0, 2**32))
def test_packing_and_unpacking_are_inverse(rows, columns, seed):
    matrix = np.random.default_rng(seed).integers(2, size=(rows, columns)).astype(bool)
    words = pack_gf2(matrix)
    assert words.shape == (rows, -(-columns // 64))
    np.testing.assert_array_equal(unpack_gf2(words, columns), matrix)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        assert int(words[row, column // 64]) >> int(column % 64) & 1
