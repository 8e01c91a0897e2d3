import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from lower import all_sign_matrices
from lower.walsh import walsh_hadamard


@given(bits=st.integers(0, 9), batch=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_the_transform_is_the_average_against_every_character(bits, batch, seed):
    values = np.random.default_rng(seed).normal(size=(batch, 1 << bits))
    found = walsh_hadamard(values)
    np.testing.assert_allclose(found, values @ hadamard(1 << bits) / (1 << bits), atol=1e-12)
    np.testing.assert_allclose(walsh_hadamard(found) * (1 << bits), values, atol=1e-12)


def test_all_sign_matrices_are_all_of_them_once():
    x = all_sign_matrices(2, 3)
    assert len(np.unique(x.reshape(64, 6), axis=0)) == 64
    assert set(np.unique(x)) == {-1.0, 1.0}
