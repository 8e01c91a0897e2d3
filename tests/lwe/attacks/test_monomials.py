import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower.gf2 import unpack_gf2
from lwe.attacks.linearisation import BinomialMonomials


@settings(deadline=None)
@given(
    columns=st.integers(1, 4), degree=st.integers(1, 5), largest=st.integers(1, 7), seed=st.integers(0, 2**32)
)
def test_values_are_products_of_binomial_coefficients(columns, degree, largest, seed):
    monomials = BinomialMonomials(columns, degree, largest)
    rng = np.random.default_rng(seed)
    public = rng.integers(8, size=(70, columns))
    expected = [
        [math.prod(math.comb(int(a), int(k)) for a, k in zip(row, powers, strict=True)) % 2 for row in public]
        for powers in monomials.table()
    ]
    np.testing.assert_array_equal(unpack_gf2(monomials.packed(public), 70), expected)
    bits = rng.integers(2, size=70).astype(bool)
    rows = unpack_gf2(monomials.rows(public, bits), monomials.size + 1)
    np.testing.assert_array_equal(rows, np.vstack([np.array(expected), bits]).T)
    chosen = rng.integers(2, size=monomials.size).astype(bool)
    np.testing.assert_array_equal(
        monomials.evaluate(chosen, public), np.array(expected)[chosen].sum(axis=0) % 2 == 1
    )


@pytest.mark.parametrize("largest", [1, 2, 1 << 29])
def test_sizes_beyond_every_index_are_whole_numbers_found_at_once(largest):
    degree, n = 1 << 29, 1024
    expected = {1: 2**n, 2: 3**n}.get(largest, math.comb(n + degree, n))
    assert BinomialMonomials(n, degree, largest).size == expected
