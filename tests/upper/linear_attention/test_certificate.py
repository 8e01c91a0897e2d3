"""The certificate against brute force: minimisers that differ where it says so, and none that do where it does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention import cubic_features, make_linear_attention, regress
from upper.linear_attention.certificate import another_minimiser, certify, feature_moment


def _signs(rng, count, n, d):
    return rng.choice([-1.0, 1.0], size=(count, n, d))


def _error(model, target, x):
    return np.linalg.norm(model(x) - target(x)) / np.linalg.norm(target(x))


def _misfit(model, x, y):
    return np.mean((model(x) - y) ** 2)


# what the data see, what the domain is, and whether the data determine it
CASES = {
    "boolean, longer": (lambda r: _signs(r, 300, 3, 4), lambda r: _signs(r, 300, 6, 4), 0),
    "boolean, gaussian": (lambda r: _signs(r, 300, 3, 4), lambda r: r.standard_normal((300, 4, 4)), 12),
    "one token, several": (
        lambda r: r.standard_normal((200, 1, 3)),
        lambda r: r.standard_normal((200, 3, 3)),
        8,
    ),
    "several tokens, one": (
        lambda r: r.standard_normal((200, 3, 3)),
        lambda r: r.standard_normal((200, 1, 3)),
        0,
    ),
    "few examples": (lambda r: r.standard_normal((11, 4, 3)), lambda r: r.standard_normal((100, 4, 3)), 7),
    "a plane, all": (
        lambda r: r.standard_normal((200, 4, 2)) @ np.eye(2, 3),
        lambda r: r.standard_normal((200, 4, 3)),
        12,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_minimisers_differ_on_the_domain_exactly_if_the_deficit_is_not_zero(case):
    draw_data, draw_domain, deficit = CASES[case]
    rng = np.random.default_rng(7)
    x, domain = draw_data(rng), draw_domain(rng)
    target = make_linear_attention(heads=2, dim=x.shape[-1], outputs=2, rng=rng)
    y = target(x) + 0.3 * rng.standard_normal((len(x), 2))  # minimisers need not fit
    certificate = certify(x, domain)
    assert certificate.deficit == deficit
    one = regress(x, y, least_norm=True)
    if deficit:
        for seed in range(5):
            two = another_minimiser(one, certificate, rng=seed)
            assert _misfit(two, x, y) == pytest.approx(_misfit(one, x, y), rel=1e-10, abs=1e-12)
            assert np.linalg.norm(two(domain) - one(domain)) > 0.05 * np.linalg.norm(one(domain))
    elif certificate.rank < certificate.features:
        for seed in range(5):
            two = another_minimiser(one, certificate, on_domain=False, rng=seed)
            assert np.linalg.norm(two.tensor - one.tensor) > 0.5 * np.linalg.norm(one.tensor)
            for inputs in (x, domain):
                np.testing.assert_allclose(two(inputs), one(inputs), atol=1e-11 * np.abs(one(inputs)).max())
    else:
        assert certificate.identified_everywhere
        with pytest.raises(ValueError, match="no other minimiser"):
            another_minimiser(one, certificate, on_domain=False)


@given(rows=st.integers(1, 9), seen=st.integers(1, 9), size=st.integers(2, 8), seed=st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_deficit_is_the_rank_of_both_less_that_of_the_data(rows, seen, size, seed):
    rng = np.random.default_rng(seed)
    data, domain = rng.integers(-1, 2, size=(rows, size)), rng.integers(-1, 2, size=(seen, size))
    certificate = certify(data.T @ data / rows, domain.T @ domain / seen)
    assert certificate.rank == np.linalg.matrix_rank(data)
    assert certificate.domain_rank == np.linalg.matrix_rank(domain)
    assert certificate.joint_rank == np.linalg.matrix_rank(np.vstack([data, domain]))
    assert certificate.domain_directions.shape[1] == certificate.deficit
    np.testing.assert_allclose(data @ certificate.null_basis, 0, atol=1e-7)
    # what the domain sees of the unseen directions is all in the few given
    basis, few = certificate.null_basis, certificate.domain_directions
    np.testing.assert_allclose(domain @ (basis - few @ (few.T @ basis)), 0, atol=1e-7)
    np.testing.assert_allclose(few.T @ few, np.eye(certificate.deficit), atol=1e-10)


def test_the_moment_is_the_mean_of_the_products_of_features():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40, 3, 3))
    phi = cubic_features(x)
    np.testing.assert_allclose(feature_moment(x), phi.T @ phi / 40, atol=1e-12)
    np.testing.assert_allclose(feature_moment(x, average=True), phi.T @ phi / 40 / 9, atol=1e-12)
    counts = rng.integers(-3, 4, size=(20, 2, 2))
    np.testing.assert_array_equal(feature_moment(counts), feature_moment(counts.astype(float)))


def test_an_eigenvalue_near_the_tolerance_is_told():
    clear = certify(np.diag([1.0, 0.5, 0.0]), np.eye(3))
    assert (clear.gap, clear.borderline, clear.margin) == (np.inf, False, pytest.approx(1e10))
    turn = np.kron([[1, 1], [1, -1]], [[1, 1], [1, -1]]) / 2  # the diagonal is that of a multiple of 1

    def moment(*values):
        return turn * values @ turn

    data = moment(1.0, 0.5, 3e-10, 2e-11)
    near = certify(data, moment(1.0, 1.0, 1.0, 0.0))
    assert (near.rank, near.deficit) == (3, 0)
    assert near.gap == pytest.approx(15, rel=1e-4)
    assert near.margin == pytest.approx(3, rel=1e-4)
    assert near.borderline
    assert "borderline" in str(near)
    assert certify(data, np.eye(4), tolerance=1e-12).rank == 4


def test_matrices_that_are_no_moments_are_refused():
    good = np.eye(3)
    for bad, message in (
        (np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "not symmetric"),
        (np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "below 0"),
        (np.array([[1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]]), "below 0"),
    ):
        for data, domain in ((bad, good), (good, bad)):
            with pytest.raises(ValueError, match=message):
                certify(data, domain)


# ---- units


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
