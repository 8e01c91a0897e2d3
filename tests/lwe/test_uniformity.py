import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwe.labels import low_degree_weights
from lwe.parameters import LWRParameters, covariate_form
from lwe.uniformity import log2_distance_from_uniform, total_variation_from_uniform, wrap_ratio


@given(
    form=st.lists(st.integers(-20, 20), min_size=1, max_size=5),
    modulus=st.integers(2, 17),
    ternary=st.booleans(),
)
def test_distances_agree_with_enumeration(form, modulus, ternary):
    values, matrix = ([-1, 0, 0, 1], "ternary") if ternary else ([0, 1], "binary")
    sums = [int(np.dot(a, form)) % modulus for a in itertools.product(values, repeat=len(form))]
    counts = np.bincount(sums, minlength=modulus)
    distance = sum(abs(Fraction(int(one), len(sums)) - Fraction(1, modulus)) for one in counts) / 2
    assert total_variation_from_uniform(np.array(form), modulus, matrix) == distance
    assert 2.0 ** log2_distance_from_uniform(np.array(form), modulus, matrix) == pytest.approx(
        float(distance), rel=1e-12
    )


@given(form=st.lists(st.integers(-20, 20), min_size=1, max_size=2), modulus=st.integers(2, 8))
def test_a_uniform_matrix_is_uniform_on_the_multiples_of_the_common_divisor(form, modulus):
    sums = [int(np.dot(a, form)) % modulus for a in itertools.product(range(modulus), repeat=len(form))]
    counts = np.bincount(sums, minlength=modulus)
    distance = sum(abs(Fraction(int(one), len(sums)) - Fraction(1, modulus)) for one in counts) / 2
    assert total_variation_from_uniform(np.array(form), modulus, "uniform") == distance
    assert 2.0 ** log2_distance_from_uniform(np.array(form), modulus, "uniform") == pytest.approx(
        float(distance)
    )


@pytest.mark.parametrize("matrix", ["binary", "ternary"])
@pytest.mark.parametrize(("n", "q"), [(62, 64), (63, 31), (200, 17), (150, 12), (300, 256)])
def test_characters_agree_with_exact_counts_far_below_machine_precision(n, q, matrix):
    for seed in range(3):
        form = centred_form(n, q, seed)
        exact = total_variation_from_uniform(form, q, matrix)
        logarithm = log2_distance_from_uniform(form, q, matrix)
        if not exact:
            assert logarithm == -math.inf
            continue
        assert exact < 1e-8
        # Python's integers have logarithms of any size
        assert logarithm == pytest.approx(math.log2(exact.numerator) - math.log2(exact.denominator), abs=1e-9)


def test_a_thousand_covariates_mod_4096_take_seconds():
    form = centred_form(1024, 4096, 0)
    start = time.perf_counter()
    logarithm = log2_distance_from_uniform(form, 4096)
    weights = low_degree_weights(form, LWRParameters(secret_dim=1024, modulus=4096, levels=2))
    assert time.perf_counter() - start < 10
    exact = total_variation_from_uniform(form, 4096)
    assert logarithm == pytest.approx(math.log2(exact.numerator) - math.log2(exact.denominator), abs=1e-9)
    assert logarithm < -800
    assert -2 * 1024 < weights.log2_first < weights.log2_second < 2 * logarithm + 40


def centred_form(n, q, seed):
    secret = np.random.default_rng(seed).integers(q, size=n)
    return covariate_form(secret, LWRParameters(secret_dim=n, modulus=q, levels=2))


def test_an_odd_secret_entry_makes_the_gadget_sum_exactly_uniform():
    parameters = LWRParameters(secret_dim=3, modulus=32, levels=2, matrix="gadget")
    assert total_variation_from_uniform(covariate_form([4, 7, 2], parameters), 32) == 0
    assert total_variation_from_uniform(covariate_form([4, 6, 2], parameters), 32) == Fraction(1, 2)


MEDIANS = {8: (0.16, 5e-3, 5e-2), 16: (5e-3, 5e-6, 1e-4), 24: (5e-5, 3e-9, 1e-7), 32: (1.3e-6, 8e-13, 7e-11)}


@pytest.mark.parametrize("n", MEDIANS)
def test_medians_over_uniform_secrets_fall_with_the_number_of_covariates(n):
    parameters = LWRParameters(secret_dim=n, modulus=64, levels=2)
    found = []
    for seed in range(40):
        form = centred_form(n, 64, seed)
        weights = low_degree_weights(form, parameters)
        found.append((2.0 ** log2_distance_from_uniform(form, 64), weights.first, weights.second))
    medians = np.median(found, axis=0)
    for median, expected in zip(medians, MEDIANS[n], strict=True):
        # of 40 secrets whose numbers spread over orders of magnitude
        assert expected / 3.5 < median < 3.5 * expected
    if n == 24:
        assert np.median(found[:25], axis=0)[0] < 1e-2
        assert np.median(found[:25], axis=0)[1] < 1e-5


def test_wrap_ratio_is_the_standard_deviation_in_units_of_the_modulus():
    form = centred_form(20, 64, 1)
    a = np.random.default_rng(0).integers(2, size=(40_000, 20))
    assert wrap_ratio(form, 64) == pytest.approx((a @ form).std() / 64, rel=0.02)
    u = a - np.random.default_rng(1).integers(2, size=a.shape)
    assert wrap_ratio(form, 64, "ternary") == pytest.approx((u @ form).std() / 64, rel=0.02)
