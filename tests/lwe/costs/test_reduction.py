import math

import pytest

from lwe.costs import COST_MODELS
from lwe.costs.reduction import block_size_for, root_hermite_factor


def test_root_hermite_factors_are_those_of_the_lattice_estimator():
    # its documentation: block size 406 at 1.003941, 624 at 1.002902, 50 at 1.0121, 100 at 1.0093
    for block_size, factor, digits in (
        (406, 1.003941, 6),
        (624, 1.002902, 6),
        (50, 1.0121, 4),
        (100, 1.0093, 4),
    ):
        assert round(root_hermite_factor(block_size), digits) == factor


def test_block_size_is_the_least_whose_last_block_shows_the_planted_vector():
    dim, log_volume, log_sigma = 999, 486 * math.log(3329), math.log(1.5) / 2
    beta = block_size_for(dim, log_volume, log_sigma)
    for size, found in ((beta, True), (beta - 1, False)):
        last = (2 * size - dim - 1) * math.log(root_hermite_factor(size)) + log_volume / dim
        assert (log_sigma + 0.5 * math.log(size) <= last) == found
    assert block_size_for(10, 1.0, math.log(1e6)) is None


def test_core_svp_counts_one_sieve_and_no_less_than_a_pass_over_the_basis():
    assert COST_MODELS["core-SVP"].cost(1000, 2000) == pytest.approx(292)
    assert COST_MODELS["quantum core-SVP"].cost(1000, 2000) == pytest.approx(265)
    assert COST_MODELS["core-SVP"].cost(40, 1024) == pytest.approx(30)
