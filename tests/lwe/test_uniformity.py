import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwe import (
    LWRParameters,
    covariate_form,
    make_lwr_instance,
    residue_counts,
    total_variation_from_uniform,
    wrap_ratio,
)


@given(form=st.lists(st.integers(-20, 20), min_size=1, max_size=8), modulus=st.integers(2, 17))
def test_counts_and_distance_agree_with_enumeration(form, modulus):
    sums = [int(np.dot(a, form)) % modulus for a in itertools.product([0, 1], repeat=len(form))]
    counts = np.bincount(sums, minlength=modulus)
    np.testing.assert_array_equal(residue_counts(np.array(form), modulus), counts)
    distance = sum(abs(Fraction(int(one), 2 ** len(form)) - Fraction(1, modulus)) for one in counts) / 2
    assert total_variation_from_uniform(np.array(form), modulus) == distance


def test_distance_agrees_with_the_characters_far_below_machine_precision():
    # the deviation of residue r is (1/q) sum over w != 0 of prod_j cos(pi w v_j / q) times a phase
    form, q = centred_form(120, 31, 0), 31
    omega = np.arange(1, q)
    magnitude = np.abs(np.cos(np.pi * np.multiply.outer(omega, form) / q)).prod(axis=1)
    phase = np.pi * omega * form.sum() / q
    signs = np.sign(np.cos(np.pi * np.multiply.outer(omega, form) / q)).prod(axis=1)
    r = np.arange(q)[:, None]
    deviation = (signs * magnitude * np.cos(phase - 2 * np.pi * omega * r / q)).sum(axis=1) / q
    exact = total_variation_from_uniform(form, q)
    assert 0 < exact < Fraction(1, 10**20)
    assert float(exact) == pytest.approx(np.abs(deviation).sum() / 2, rel=1e-6)


def centred_form(n, q, seed):
    secret = np.random.default_rng(seed).integers(q, size=n)
    return covariate_form(secret, LWRParameters(secret_dim=n, modulus=q, levels=2))


def test_an_odd_secret_entry_makes_the_gadget_sum_exactly_uniform():
    parameters = LWRParameters(secret_dim=3, modulus=32, levels=2, gadget=True)
    assert total_variation_from_uniform(covariate_form([4, 7, 2], parameters), 32) == 0
    assert total_variation_from_uniform(covariate_form([4, 6, 2], parameters), 32) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("n", "low", "high"), [(8, 0.05, 0.4), (16, 1e-3, 2e-2), (24, 1e-6, 1e-3), (32, 1e-8, 1e-4)]
)
def test_median_distance_of_uniform_secrets_falls_with_the_number_of_covariates(n, low, high):
    distances = [float(total_variation_from_uniform(centred_form(n, 64, seed), 64)) for seed in range(25)]
    assert low < np.median(distances) < high
    if n == 24:
        assert np.median(distances) < 1e-2


def test_wrap_ratio_is_the_standard_deviation_in_units_of_the_modulus():
    form = centred_form(20, 64, 1)
    a = np.random.default_rng(0).integers(2, size=(40_000, 20))
    assert wrap_ratio(form, 64) == pytest.approx((a @ form).std() / 64, rel=0.02)


def test_the_certificate_carries_them():
    instance = make_lwr_instance(secret_dim=12, modulus=17, levels=3, rng=0)
    form = instance.secret
    assert instance.certificate["rho"].value == wrap_ratio(form, 17)
    assert instance.certificate["distance from uniform"].value == float(
        total_variation_from_uniform(form, 17)
    )
