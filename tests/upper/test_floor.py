"""The counting floor of heads of known rank: unknowns counted as dimensions, full rank as before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upper import counting_floor
from upper.floor import LayerClass


def test_it_counts_equations():
    for m, k, d in [(2, 2, 32), (4, 4, 32), (8, 4, 32), (4, 4, 64), (8, 8, 64)]:
        floor = counting_floor(heads=m, tokens=k, dim=d)
        assert floor * k * (k - 1) >= d * d
        assert floor * k >= 2 * m * d
        assert (floor - 1) * k * (k - 1) < d * d or (floor - 1) * k < 2 * m * d


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
    count = np.linalg.matrix_rank(tangent.reshape(2 * d * r, d * d))
    # with one head and k = 2 tokens, the floor is unknowns / 2 for Theta while d >= 2
    assert counting_floor(heads=1, tokens=2, dim=d, rank=r) == -(-count // 2)
    assert [LayerClass(r).unknowns(heads, 2, d) for heads in (0, 1, 3)] == [0, 2 * count, 6 * count]
    with_biases = LayerClass(r, True).unknowns(3, 4, d)
    assert with_biases - LayerClass(r).unknowns(3, 4, d) == 3 * r + d
    if r == d:
        assert counting_floor(heads=1, tokens=2, dim=d) == -(-count // 2)


@pytest.mark.parametrize(("m", "d", "r"), [(3, 8, 2), (4, 8, 3), (1, 5, 2)])
def test_of_one_token_the_sum_of_the_projections_alone_is_determined(m, d, r):
    rng = np.random.default_rng(0)
    v, o = rng.standard_normal((d, m * r)), rng.standard_normal((m * r, d))  # side by side, below one another
    tangent = np.concatenate([np.kron(np.eye(d), o), np.kron(v.T, np.eye(d))])
    assert LayerClass(r).unknowns(m, 1, d) == np.linalg.matrix_rank(tangent)
