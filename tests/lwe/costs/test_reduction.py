import math

import numpy as np
import pytest

from lwe.costs import (
    block_size_for,
    block_sizes,
    core_svp_exponent,
    gaussian_gap,
    gram_schmidt_profile,
    root_hermite_factor,
)


def test_root_hermite_factors_are_those_of_the_lattice_estimator():
    # its documentation: block size 406 at 1.003941, 624 at 1.002902, 50 at 1.0121, 100 at 1.0093
    for block_size, factor, digits in (
        (406, 1.003941, 6),
        (624, 1.002902, 6),
        (50, 1.0121, 4),
        (100, 1.0093, 4),
    ):
        assert round(root_hermite_factor(block_size), digits) == factor


def test_root_hermite_factor_falls_with_the_block_size_and_its_two_branches_meet():
    factors = [root_hermite_factor(beta) for beta in range(2, 1000)]
    assert np.all(np.diff(factors) < 0.0003)
    assert np.all(np.diff(factors[60:]) < 0)
    assert abs(root_hermite_factor(40) - root_hermite_factor(41)) < 5e-4
    np.testing.assert_allclose(np.exp(block_sizes(300)[1]), factors[:299])


def test_profile_has_the_volume_and_the_hermite_factor():
    profile = gram_schmidt_profile(200, 321.0, 90)
    assert profile.sum() == pytest.approx(321.0)
    assert profile[0] == pytest.approx(199 * math.log(root_hermite_factor(90)) + 321 / 200)
    np.testing.assert_allclose(np.diff(profile), -2 * math.log(root_hermite_factor(90)))


def test_block_size_is_the_least_whose_last_block_shows_the_planted_vector():
    dim, log_volume, sigma = 999, 486 * math.log(3329), math.sqrt(1.5)
    beta = block_size_for(dim, log_volume, sigma)
    for size, found in ((beta, True), (beta - 1, False)):
        last = gram_schmidt_profile(dim, log_volume, size)[dim - size]
        assert (math.log(sigma) + 0.5 * math.log(size) <= last) == found
    assert block_size_for(10, 1.0, 1e6) is None


def test_exponents_and_gaps():
    assert core_svp_exponent(1000) == pytest.approx(292)
    assert core_svp_exponent(1000, quantum=True) == pytest.approx(265)
    assert gaussian_gap(100, 0.0, 1 / math.sqrt(2 * math.pi * math.e)) == pytest.approx(0)


@pytest.mark.bad_input
def test_block_sizes_below_two_are_refused():
    with pytest.raises(ValueError, match="at least 2"):
        root_hermite_factor(1)
