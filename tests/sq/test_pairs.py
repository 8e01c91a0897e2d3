import math

import numpy as np
import pytest

from lower import all_sign_matrices, query_lower_bound
from sq import PairFamily

DIM = 6


@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 4.0, 40.0])
def test_one_head_is_known_part_plus_pair_at_every_slope(beta, enumerated):
    checked = enumerated(PairFamily(dim=DIM, beta=beta))
    assert checked.targets == math.comb(DIM - 1, 2)
    assert checked.correlation_error < 1e-12
    assert checked.max_error < 1e-15 * (4 + 1 / math.tanh(beta))


def test_gram_at_slope_one_is_the_shared_energy_and_one_half():
    family, x = PairFamily(dim=DIM), all_sign_matrices(2, DIM)
    instances = [family.instance(number) for number in range(len(family.secrets))]
    outputs = np.array([one.layer(x).ravel() for one in instances])
    matrix = outputs @ outputs.T / len(x)
    np.testing.assert_allclose(matrix, 1 / math.tanh(1) ** 2 + np.eye(len(matrix)) / 2, atol=1e-10)
    assert matrix[0, 0] == pytest.approx(2.224, abs=5e-4)
    assert matrix[0, 1] == pytest.approx(1.724, abs=5e-4)
    known = instances[0].known(x).ravel()
    hidden = outputs - known
    np.testing.assert_allclose(hidden @ hidden.T / len(x), np.eye(len(matrix)) / 2, atol=1e-10)
    certificate = instances[0].certificate
    assert certificate["Gram diagonal"].value == pytest.approx(matrix[0, 0], abs=1e-12)
    assert certificate["Gram off the diagonal"].value == pytest.approx(matrix[0, 1], abs=1e-12)
    assert certificate["queries at tolerance 0.3"].value == query_lower_bound(10, "0.3")


def test_the_hidden_part_is_its_definition_one_input_at_a_time():
    family, x = PairFamily(dim=4), all_sign_matrices(2, 4)
    number = family.secrets.rank([1, 3])
    for one, found in zip(x, family.hidden(number, x), strict=True):
        u = (one[0] - one[1]) / 2
        np.testing.assert_allclose(found, math.sqrt(2) * u[0] * u[3] * one[:, 1], rtol=1e-15)


def test_whether_a_label_is_zero_gives_the_second_coordinate_away():
    family, x = PairFamily(dim=DIM), all_sign_matrices(2, DIM)
    a, b = family.secrets.unrank(4)
    assert a != b
    label = family.instance(4).layer(x)[:, 0, 0]
    gate = x[:, 0, 0] != x[:, 1, 0]
    for j in range(1, DIM):
        query = (gate & (np.abs(label) > 0.5)) * x[:, 0, j] * x[:, 1, j]
        assert query.mean() == (-0.25 if j == b else 0)
