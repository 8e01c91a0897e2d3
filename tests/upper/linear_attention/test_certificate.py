"""The certificate against brute force: minimisers that differ where it says so, and none that do where it does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import NotEnoughMemoryError
from attention.memory import memory_limited_to
from upper.linear_attention import (
    cubic_features,
    feature_count,
    make_linear_attention,
    regress,
)
from upper.linear_attention.certificate import another_minimiser, certify, feature_moment
from upper.linear_attention.populations import exact_rank, population_moment


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


@given(scale=st.sampled_from([1e-6, 1e-2, 1e4, 1e8]), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_ranks_do_not_depend_on_scales_and_the_factor_is_their_ratio(scale, seed):
    rng = np.random.default_rng(seed)
    x, domain = _signs(rng, 150, 3, 3), _signs(rng, 150, 4, 3)
    data, on_domain = feature_moment(x), feature_moment(domain)
    plain, scaled = certify(data, on_domain), certify(data, scale * on_domain)
    assert (plain.rank, plain.deficit) == (scaled.rank, scaled.deficit) == (exact_rank("boolean", 3, 3), 0)
    assert scaled.factor == pytest.approx(scale * plain.factor, rel=1e-9)


def test_the_factor_bounds_the_distance_of_two_models_and_its_direction_attains_it():
    rng = np.random.default_rng(0)
    x, domain = rng.standard_normal((60, 4, 3)), 2 * rng.standard_normal((200, 3, 3))
    certificate = certify(x, domain)
    phi, phi_domain = cubic_features(x), cubic_features(domain)

    def ratio(directions):
        return np.mean((phi_domain @ directions) ** 2, axis=0) / np.mean((phi @ directions) ** 2, axis=0)

    pairs = rng.standard_normal((feature_count(3), 500)) - rng.standard_normal((feature_count(3), 500))
    assert np.all(ratio(pairs) <= certificate.factor * (1 + 1e-10))
    worst = certificate.worst_direction
    assert ratio(worst[:, None])[0] == pytest.approx(certificate.factor, rel=1e-9)
    assert np.linalg.norm(worst) == pytest.approx(1)
    # a neighbourhood of the worst direction has smaller ratios: it is the largest
    assert np.all(ratio(worst[:, None] + 0.05 * pairs) < certificate.factor)


def test_a_worst_direction_is_unseen_where_the_deficit_is_not_zero():
    data, domain = population_moment("boolean", 4, 3), population_moment("gaussian", 4, 3)
    certificate = certify(data, domain)
    worst = certificate.worst_direction
    assert certificate.factor == np.inf
    assert abs(worst @ data @ worst) < 1e-12 < worst @ domain @ worst


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


def test_where_all_minimisers_agree_no_other_is_made():
    rng = np.random.default_rng(10)
    x = _signs(rng, 100, 3, 3)
    certificate = certify(x, _signs(rng, 100, 5, 3))
    learned = regress(x, x[:, -1])
    with pytest.raises(ValueError, match="The deficit is 0"):
        another_minimiser(learned, certificate)
    with pytest.raises(ValueError, match="6 features and the certificate 18"):
        another_minimiser(regress(x[..., :2], x[:, -1]), certificate, on_domain=False)


@pytest.mark.bad_input
def test_what_is_no_moment_is_refused():
    good = np.eye(3)
    for bad, message in (
        (np.ones((3, 2)), "shape"),
        (np.full((3, 3), np.nan), "NaN"),
        (np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "not symmetric"),
        (np.diag([1.0, 1.0, -0.5]), "below 0"),
        (-np.eye(3), "below 0"),
        (np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "below 0"),
        (np.array([[1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]]), "below 0"),
    ):
        with pytest.raises(ValueError, match=message):
            certify(bad, good)
        with pytest.raises(ValueError, match=message):
            certify(good, bad)
    with pytest.raises(ValueError, match="tolerance"):
        certify(good, good, tolerance=1.0)
    with (
        memory_limited_to(1 << 20),
        pytest.raises(NotEnoughMemoryError, match="A certificate for 900 features needs"),
    ):
        certify(np.eye(900), np.eye(900))
