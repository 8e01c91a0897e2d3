import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwe.attacks.prime_field import solve_prime_field


@settings(deadline=None)  # the first call imports sympy
@given(
    q=st.sampled_from([2, 3, 5]),
    rows=st.integers(1, 6),
    unknowns=st.integers(1, 4),
    last=st.integers(1, 4),
    sparse=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_elimination_agrees_with_trying_every_vector(q, rows, unknowns, last, sparse, seed):
    last = min(last, unknowns)
    rng = np.random.default_rng(seed)
    system = rng.integers(q, size=(rows, unknowns + 1))
    if sparse:
        system *= rng.integers(2, size=system.shape)
    vectors = np.array(list(itertools.product(range(q), repeat=unknowns)))
    solves = np.all((vectors @ system[:, :-1].T - system[:, -1]) % q == 0, axis=1)
    kernel = np.all(vectors @ system[:, :-1].T % q == 0, axis=1).sum()
    found = solve_prime_field(system.astype(float), q, last)
    assert found.consistent == solves.any()
    assert q ** (unknowns - found.rank) == kernel
    if found.consistent:
        possible = {tuple(row) for row in vectors[solves][:, -last:].tolist()}
        steps = itertools.product(range(q), repeat=len(found.kernel))
        named = {
            tuple(((found.solution + np.array(one, dtype=np.int64) @ found.kernel) % q).tolist())
            for one in steps
        }
        assert named == possible


@pytest.mark.parametrize("q", [2, 3, 97, 3329, 65537, 16777213])
def test_larger_systems_are_solved_exactly(q):
    rng = np.random.default_rng(q)
    secret = rng.integers(q, size=150)
    matrix = rng.integers(q, size=(170, 150))
    matrix[:, 40] = 3 * matrix[:, 7] % q  # a free column on the way
    right = np.array([sum(int(a) * int(s) for a, s in zip(row, secret, strict=True)) % q for row in matrix])
    system = np.column_stack([matrix, right])
    found = solve_prime_field(system.astype(float), q, 100)
    assert (found.rank, found.consistent, len(found.kernel)) == (149, True, 0)
    np.testing.assert_array_equal(found.solution, secret[-100:])
    system[-1, -1] = (system[-1, -1] + 1) % q
    assert not solve_prime_field(system.astype(float), q, 100).consistent
