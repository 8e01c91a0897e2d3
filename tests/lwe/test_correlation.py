import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwe.correlation import label_correlation, root_mean_square_correlation, sampled_correlations
from lwe.laws import TernaryLaw
from lwe.parameters import LWRParameters, centred, rounded


@given(
    pairs=st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=5),
    modulus=st.integers(2, 12),
    ternary=st.booleans(),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_correlations_agree_with_enumeration(pairs, modulus, ternary, data):
    levels = data.draw(st.integers(2, modulus))
    matrix = "ternary" if ternary else "binary"
    parameters = LWRParameters(secret_dim=len(pairs), modulus=modulus, levels=levels, matrix=matrix)
    form, other = np.array(pairs).T
    values = [-1, 0, 0, 1] if ternary else [0, 1]
    a = np.array(list(itertools.product(values, repeat=len(pairs))))
    own, others = (rounded(a @ one, modulus, levels) * 1.0 for one in (form, other))
    deviations = own.std() * others.std()
    expected = (
        np.mean((own - own.mean()) * (others - others.mean())) / deviations if deviations > 1e-9 else 0.0
    )
    assert label_correlation(form, other, parameters) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(
    ("n", "modulus", "levels"), [(2, 4, 2), (3, 3, 2), (2, 6, 3), (3, 4, 3), (1, 5, 2), (4, 4, 2)]
)
def test_root_mean_square_over_all_pairs_of_secrets_is_the_closed_form(n, modulus, levels):
    secrets = np.array(list(itertools.product(range(modulus), repeat=n)))
    bits = np.array(list(itertools.product([0, 1], repeat=n)))
    label = rounded(np.arange(modulus), modulus, levels) * 1.0
    label -= label.mean()
    values = label[secrets @ bits.T % modulus]
    products = values @ values.T / len(bits)
    found = np.sqrt(np.mean(products**2)) / np.mean(label**2)
    parameters = LWRParameters(secret_dim=n, modulus=modulus, levels=levels)
    assert root_mean_square_correlation(parameters) == pytest.approx(found, rel=1e-12)


def test_two_levels_and_an_even_modulus_give_exactly_two_to_minus_half_n():
    for n in (4, 24, 100):
        parameters = LWRParameters(secret_dim=n, modulus=64, levels=2)
        assert root_mean_square_correlation(parameters) == pytest.approx(2.0 ** (-n / 2), rel=1e-15)


def test_the_closed_form_takes_no_time_at_a_modulus_of_2_to_the_31():
    q = 1 << 31
    start = time.perf_counter()
    assert root_mean_square_correlation(LWRParameters(4, q, 2)) == 0.25
    # many levels are close to the uniform law on an interval: E (x - 1/2)^4 at 0 over the squared variance is 9
    for levels in (q, 1 << 20, (1 << 20) + 1):
        found = root_mean_square_correlation(LWRParameters(4, q, levels))
        assert found == pytest.approx(0.25 * (1 + 8 / 16) ** 0.5, rel=1e-3)
    assert time.perf_counter() - start < 1
    with pytest.raises(ValueError, match="fewer levels"):
        root_mean_square_correlation(LWRParameters(4, q, q - 1))


@pytest.mark.slow
@pytest.mark.parametrize("n", [8])
def test_sampled_pairs_correlate_as_much(n):
    parameters = LWRParameters(secret_dim=n, modulus=16, levels=2)
    found = sampled_correlations(parameters, 600, rng=n)
    assert np.sqrt(np.mean(found**2)) == pytest.approx(2.0 ** (-n / 2), rel=0.15)
    # few pairs make up the mean
    assert np.median(np.abs(found)) < 0.8 * 2.0 ** (-n / 2)


def test_a_label_correlates_with_itself_fully():
    for matrix in ("binary", "ternary"):
        parameters = LWRParameters(secret_dim=30, modulus=17, levels=3, matrix=matrix)
        form = centred(np.random.default_rng(0).integers(17, size=30), 17)
        assert label_correlation(form, form, parameters) == pytest.approx(1.0, rel=1e-12)
        assert abs(label_correlation(form, form[::-1].copy(), parameters)) < 1e-3


@pytest.mark.bad_input
def test_other_families_and_sizes_are_explained():
    for changes in ({"matrix": "ternary"}, {"secret": TernaryLaw()}):
        with pytest.raises(ValueError, match="sampled_correlations"):
            root_mean_square_correlation(LWRParameters(4, 8, 2).updated(**changes))
    for form in (np.array([1, 2]), np.array([0.5])):
        with pytest.raises(ValueError, match="The form has"):
            label_correlation(np.array([1]), form, LWRParameters(1, 8, 2))
    with pytest.raises(ValueError, match="smaller modulus"):
        label_correlation(np.array([1]), np.array([1]), LWRParameters(1, 1 << 20, 2))
