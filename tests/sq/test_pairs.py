import math

import mpmath
import numpy as np
import pytest
from scipy.linalg import hadamard

from lower import all_sign_matrices, query_lower_bound
from sq import PairFamily

DIM = 6


@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 4.0, 40.0])
def test_one_head_is_known_part_plus_pair_at_every_slope(beta, enumerated):
    checked = enumerated(PairFamily(dim=DIM, beta=beta))
    assert checked.targets == math.comb(DIM - 1, 2)
    assert checked.correlation_error < 1e-12
    assert checked.max_error < 1e-15 * (4 + 1 / math.tanh(beta))


def test_pairs_of_more_coordinates_hold_on_random_inputs(enumerated):
    assert enumerated(PairFamily(dim=25), targets=8, samples=4000).correlation_error < 0.1


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


def test_lowest_fourier_degree_is_three():
    family, x = PairFamily(dim=5), all_sign_matrices(2, 5)
    coefficients = hadamard(1024) @ family.hidden(2, x) / 1024
    present = np.abs(coefficients).max(axis=1) > 1e-9
    assert {index.bit_count() for index in np.flatnonzero(present)} == {3} == {family.lowest_degree}


def test_a_pair_and_its_reverse_would_be_correlated():
    x = all_sign_matrices(2, 4)
    u = (x[:, 0] - x[:, 1]) / 2
    one = math.sqrt(2) * (u[:, 0] * u[:, 2])[:, None] * x[:, :, 1]
    reverse = math.sqrt(2) * (u[:, 0] * u[:, 1])[:, None] * x[:, :, 2]
    assert (one * reverse).sum() / len(x) == pytest.approx(0.5)


def test_whether_a_label_is_zero_gives_the_second_coordinate_away():
    family, x = PairFamily(dim=DIM), all_sign_matrices(2, DIM)
    a, b = family.secrets.unrank(4)
    assert a != b
    label = family.instance(4).layer(x)[:, 0, 0]
    gate = x[:, 0, 0] != x[:, 1, 0]
    for j in range(1, DIM):
        query = (gate & (np.abs(label) > 0.5)) * x[:, 0, j] * x[:, 1, j]
        assert query.mean() == (-0.25 if j == b else 0)


@pytest.mark.parametrize("beta", [0.01, 1.0, 3.7])
def test_the_error_bounds_what_the_stored_coefficient_and_scale_miss(beta):
    family = PairFamily(dim=5, beta=beta)
    with mpmath.workdps(80):
        ideal = mpmath.mpf(family.scale) * mpmath.mpf(1 / family.scale)
        missed = abs(mpmath.mpf(family.c) * mpmath.tanh(beta) - ideal)
        assert missed <= family.error() <= missed * (1 + 1e-15) + 1e-60
