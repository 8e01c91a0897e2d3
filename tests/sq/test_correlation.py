from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq import ParityFamily
from sq.dimension import gram_matrix
from sq.johnson import OverlapGram
from sq.secret_set import SecretSet


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_eberlein_eigenvalues_are_those_of_the_dense_matrix(points, bits, data):
    bits = min(bits, points)
    values = data.draw(
        st.lists(st.fractions(-2, 2, max_denominator=12), min_size=bits + 1, max_size=bits + 1)
    )
    kernel = OverlapGram(SecretSet(points, bits, first=0), values)
    dimensions = [comb(points, j) - (comb(points, j - 1) if j else 0) for j in range(len(kernel.eigenvalues))]
    expected = np.repeat([float(value) for value in kernel.eigenvalues], dimensions)
    found = np.linalg.eigvalsh(kernel.dense())
    np.testing.assert_allclose(np.sort(expected), found, atol=1e-10)
    assert float(kernel.largest_eigenvalue()) == pytest.approx(found[-1], abs=1e-10)


def test_large_families_are_never_written_out():
    kernel = OverlapGram(SecretSet(40, 4), (0, 0, 0, Fraction(1, 5), 1))
    assert len(kernel) == 82_251
    with pytest.raises(ValueError, match="82251 targets"):
        kernel.dense()
    with pytest.raises(ValueError, match="82251 targets"):
        gram_matrix(ParityFamily(dim=40, bits=4))
    huge = OverlapGram(SecretSet(2000, 600), (*([0] * 600), Fraction(1, 2)))
    assert huge.largest_eigenvalue() == Fraction(1, 2)
    assert huge.size > 10**500
