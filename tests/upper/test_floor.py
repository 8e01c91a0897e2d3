"""The counting floor of heads of known rank: unknowns counted as dimensions, full rank as before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper import counting_floor


@given(m=st.integers(1, 12), k=st.integers(1, 16), d=st.integers(1, 128))
def test_full_rank_gives_the_floor_without_a_rank(m, k, d):
    assert counting_floor(heads=m, tokens=k, dim=d, rank=d) == counting_floor(heads=m, tokens=k, dim=d)


@given(m=st.integers(1, 12), k=st.integers(1, 16), d=st.integers(2, 128), data=st.data())
def test_the_floor_never_falls_with_the_rank(m, k, d, data):
    r = data.draw(st.integers(1, d - 1))
    lower, higher = (counting_floor(heads=m, tokens=k, dim=d, rank=rank) for rank in (r, r + 1))
    assert 1 <= lower <= higher


@pytest.mark.parametrize(("d", "r"), [(4, 1), (5, 2), (6, 6), (7, 4)])
def test_the_unknowns_of_a_matrix_are_the_dimension_of_the_matrices_of_its_rank(d, r):
    # the differential of A B^T at a random point: its rank is the dimension of what it reaches
    a, b = np.random.default_rng(0).standard_normal((2, d, r))
    moves = np.eye(d * r).reshape(-1, d, r)
    tangent = np.concatenate([move @ b.T for move in moves] + [a @ move.T for move in moves])
    unknowns = np.linalg.matrix_rank(tangent.reshape(2 * d * r, d * d))
    # with one head and k = 2 tokens, the floor is unknowns / 2 for Theta while d >= 2
    assert counting_floor(heads=1, tokens=2, dim=d, rank=r) == -(-unknowns // 2)


@pytest.mark.bad_input
@pytest.mark.parametrize("rank", [0, 9, 2.5])
def test_ranks_out_of_range(rank):
    with pytest.raises(ValueError, match="rank"):
        counting_floor(heads=2, tokens=2, dim=8, rank=rank)
