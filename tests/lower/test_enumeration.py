import numpy as np
import pytest

from lower import all_sign_matrices


def test_all_sign_matrices_are_all_of_them_once():
    x = all_sign_matrices(2, 3)
    assert len(np.unique(x.reshape(64, 6), axis=0)) == 64
    assert set(np.unique(x)) == {-1.0, 1.0}
    np.testing.assert_array_equal(
        np.concatenate([all_sign_matrices(2, 3, s, s + 10) for s in range(0, 64, 10)]), x
    )


@pytest.mark.bad_input
def test_hopeless_sizes_are_explained():
    with pytest.raises(ValueError, match="hopeless"):
        all_sign_matrices(2, 32)
