"""Certificates do not depend on the units of the tokens' coordinates, and take the memory that is said."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention import (
    cubic_features,
    feature_count,
    make_linear_attention,
    regress,
)
from upper.linear_attention.certificate import another_minimiser, certify, feature_moment


def _signs(rng, count, n, d):
    return rng.choice([-1.0, 1.0], size=(count, n, d))


def _error(model, target, x):
    return np.linalg.norm(model(x) - target(x)) / np.linalg.norm(target(x))


def test_small_units_of_a_coordinate_in_the_data_hide_nothing():
    rng = np.random.default_rng(11)
    x, domain = rng.standard_normal((400, 5, 3)), rng.standard_normal((300, 5, 3))
    certificate = certify(x * [1, 1, 1e-3], domain)
    assert (certificate.rank, certificate.deficit, certificate.borderline) == (18, 0, False)
    assert certificate.identified_everywhere
    assert certificate.smallest_eigenvalue < 1e-12 * certificate.factor
    target = make_linear_attention(heads=2, dim=3, rng=1)
    one = regress(x * [1, 1, 1e-3], target(x * [1, 1, 1e-3]))
    with pytest.raises(ValueError, match="no other minimiser"):
        another_minimiser(one, certificate)


@pytest.mark.parametrize("unit", [1.0, 1e-5, 3e-7, 1e-9])
def test_a_coordinate_that_the_data_lack_counts_on_the_domain_however_small(unit):
    rng = np.random.default_rng(12)
    x, domain = rng.standard_normal((400, 5, 3)) * [1, 1, 0], rng.standard_normal((300, 5, 3)) * [1, 1, unit]
    certificate = certify(x, domain)
    assert (certificate.rank, certificate.deficit, certificate.borderline) == (6, 12, False)
    # two heads that agree on all the data, and differ by a size of 1 on the domain
    one = make_linear_attention(heads=2, dim=3, rng=1)
    units = np.array([1, 1, 1 / unit])
    two = type(one)(one.v * units, units[:, None] * one.q * units)
    np.testing.assert_array_equal(one(x), two(x))
    assert _error(two, one, domain) > 0.5 or unit == 1


COORDINATES = st.lists(st.floats(-4, 4), min_size=3, max_size=3).map(lambda e: 10.0 ** np.array(e))
SETS = {
    "all": lambda r: r.standard_normal((60, 4, 3)),
    "one token": lambda r: r.standard_normal((60, 1, 3)),
    "few": lambda r: r.standard_normal((11, 4, 3)),
    "plane": lambda r: r.standard_normal((60, 4, 3)) * [1, 0, 1],
    "signs": lambda r: _signs(r, 150, 3, 3),
}


@given(
    data=st.sampled_from(list(SETS)),
    domain=st.sampled_from(list(SETS)),
    units=COORDINATES,
    seed=st.integers(0, 9),
)
@settings(max_examples=30, deadline=None)
def test_units_shared_by_data_and_domain_change_no_rank_and_not_the_factor(data, domain, units, seed):
    rng = np.random.default_rng(seed)
    x, inputs = SETS[data](rng), SETS[domain](rng)
    plain, scaled = certify(x, inputs), certify(x * units, inputs * units)
    for name in ("rank", "domain_rank", "joint_rank", "deficit"):
        assert getattr(scaled, name) == getattr(plain, name)
    assert scaled.factor == pytest.approx(plain.factor, rel=1e-6)
    phi, null = cubic_features(x * units), scaled.null_basis
    np.testing.assert_allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-12)
    assert np.abs(phi @ null).max(initial=0) <= 1e-12 * np.linalg.norm(phi, axis=1).max()
    few = scaled.domain_directions
    np.testing.assert_allclose(few.T @ few, np.eye(few.shape[1]), atol=1e-12)
    assert np.abs(few - null @ (null.T @ few)).max(initial=0) < 1e-12


def test_certificates_take_the_matrices_that_are_said():
    rng = np.random.default_rng(14)
    features = feature_count(8)
    few, many = (feature_moment(rng.standard_normal((count, 3, 8))) for count in (10, 400))
    for data, domain in ((many, many), (few, few), (few, many), (np.zeros_like(few), few)):
        tracemalloc.start()
        certify(data, domain)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

        assert peak < 8 * 12 * features**2
