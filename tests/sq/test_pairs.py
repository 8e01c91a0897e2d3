import math

import numpy as np
import pytest

from lower import all_sign_matrices
from sq import PairFamily

DIM = 6


@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 4.0, 40.0])
def test_one_head_is_known_part_plus_pair_at_every_slope(beta, enumerated):
    checked = enumerated(PairFamily(dim=DIM, beta=beta))
    assert checked.targets == math.comb(DIM - 1, 2)
    assert checked.correlation_error < 1e-12
    assert checked.max_error < 1e-15 * (4 + 1 / math.tanh(beta))


def test_the_hidden_part_is_its_definition_one_input_at_a_time():
    family, x = PairFamily(dim=4), all_sign_matrices(2, 4)
    number = family.secrets.rank([1, 3])
    for one, found in zip(x, family.hidden(number, x), strict=True):
        u = (one[0] - one[1]) / 2
        np.testing.assert_allclose(found, math.sqrt(2) * u[0] * u[3] * one[:, 1], rtol=1e-15)
