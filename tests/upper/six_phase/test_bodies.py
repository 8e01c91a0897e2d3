"""The convex body: membership, least norm, maximisers and wide directions."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from agreeing import exact_contrasts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from attention import make_nice_layer
from upper.six_phase import convex_body
from upper.six_phase.convex_body import AxisBody, Ellipsoid, spectral_gap


def _heads(m, d, rng):
    return make_nice_layer(heads=m, dim=d, rng=rng).theta


def _agreeing_rows(d, n, rng, noise=0.05):
    return exact_contrasts(_heads(2, d, rng), n, rng=rng, noise=noise)


# ---- an ellipsoid cut by a ball, in its axes


def _is_member(body, point):
    rounding = 4 * np.finfo(float).eps * body.radius * np.sqrt(body.curvature.max(initial=0.0))
    inside = np.sqrt(body.misfit_squared(point)) <= body.tolerance * (1 + 1e-7) + rounding
    return inside and np.linalg.norm(point) <= body.radius * (1 + 1e-7)


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(-9, 0), st.floats(-4, 1))
@settings(max_examples=40, deadline=None)
def test_axis_body_maximisers_have_no_duality_gap(size, seed, log_tolerance, log_excess):
    """max over misfit + nu |z|^2 <= t^2 + nu R^2 bounds the maximum from above for every nu; the best nu meets it."""
    rng = np.random.default_rng(seed)
    curvature = 10 ** rng.uniform(-2, 1, size)
    curvature[1 : rng.integers(1, 4)] = 0  # directions no equation sees
    centre = rng.standard_normal(size) * (curvature > 0)
    tolerance = 10.0**log_tolerance
    whole = AxisBody(curvature=curvature, centre=centre, floor=0.0, tolerance=tolerance, radius=1e9)
    least = whole.min_norm()
    # as far towards zero as the tolerance allows
    nearest = min(tolerance**2, whole.misfit_squared(0 * centre))
    assert whole.misfit_squared(least) == pytest.approx(nearest, rel=1e-6, abs=1e-15)
    radius = max(float(np.linalg.norm(least)), 0.1) * (1 + 10**log_excess)
    body = replace(whole, radius=radius)
    goal = rng.standard_normal(size)
    goal /= np.linalg.norm(goal)
    found = body.maximise(goal)
    assert _is_member(body, found)

    def bound(log_shift):
        shifted = curvature + np.exp(log_shift)
        slack = tolerance**2 + np.exp(log_shift) * (radius**2 - np.sum(curvature * centre**2 / shifted))
        return np.sum(goal * curvature * centre / shifted) + np.sqrt(
            max(slack, 0.0) * np.sum(goal**2 / shifted)
        )

    left, right = np.log(1e-30), np.log(1e14)
    for _ in range(120):  # the bound is quasi-convex in nu
        third = (right - left) / 3
        if bound(left + third) <= bound(right - third):
            right -= third
        else:
            left += third
    assert goal @ found == pytest.approx(bound((left + right) / 2), abs=2e-5 * radius)


# ---- the body


@pytest.mark.parametrize("m", [1, 2, 3])
def test_exact_equations_keep_every_head_and_their_hull_in_the_body(m):
    theta = _heads(m, 6, 8)
    body = Ellipsoid.of(exact_contrasts(theta, 120, rng=9), wide=m - 1)
    body = replace(body, radius=3 * float(np.linalg.norm(theta)))
    shares = np.random.default_rng(10).dirichlet(np.ones(m), size=10)
    for point in [*theta, *np.tensordot(shares, theta, 1)]:
        assert body.contains(point)
    assert not body.contains(theta[0] + 0.1 * np.random.default_rng(11).standard_normal((6, 6)))
    assert not body.contains(theta[0] * 1e3)


@pytest.mark.parametrize("m", [2, 3])
def test_wide_directions_are_orthonormal_and_span_the_differences_of_the_heads(m):
    theta = _heads(m, 6, 12)
    body = Ellipsoid.of(exact_contrasts(theta, 150, rng=13), wide=m - 1)
    found = body.directions[: m - 1].reshape(m - 1, -1)
    np.testing.assert_allclose(found @ found.T, np.eye(m - 1), atol=1e-9)
    differences = (theta[1:] - theta[0]).reshape(m - 1, -1)
    assert subspace_angles(found.T, differences.T).max() < 1e-5
    # and the centre lies on the affine hull
    off = (body.centre - theta[0]).ravel()
    assert np.linalg.norm(off - found.T @ (found @ off)) < 1e-5 * np.linalg.norm(theta[0])


def test_a_tight_radius_binds():
    loose = Ellipsoid.of(_agreeing_rows(5, 80, 19))
    least = loose.min_norm_point()
    body = replace(loose, radius=1.02 * float(np.linalg.norm(least)))
    for direction in [least, body.centre, *np.random.default_rng(20).standard_normal((10, 5, 5))]:
        found = body.maximise(direction)
        assert body.contains(found)
        assert np.vdot(direction, found) <= np.vdot(direction, loose.maximise(direction)) + 1e-9


# ---- decomposed, and by products alone


def _both_ways(contrasts, monkeypatch, **options):
    dense = Ellipsoid.of(contrasts, **options)
    monkeypatch.setattr(convex_body, "RULES", replace(convex_body.RULES, dense_up_to=0))
    return dense, Ellipsoid.of(contrasts, **options)


@pytest.mark.parametrize("wide", [None, 1])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_dense_and_matrix_free_ellipsoids_are_the_same(monkeypatch, wide, noise):
    contrasts = _agreeing_rows(12, 900, 28, noise=noise)
    dense, free = _both_ways(contrasts, monkeypatch, wide=wide)
    number = min(len(dense.spectrum), len(free.spectrum))
    np.testing.assert_allclose(free.spectrum[0], dense.spectrum[0], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(free.spectrum[:number], dense.spectrum[:number], rtol=0.05, atol=1e-9)
    assert abs(np.vdot(free.directions[:1], dense.directions[:1])) == pytest.approx(1, abs=1e-6)
    assert free.misfit_at_centre == pytest.approx(dense.misfit_at_centre, rel=1e-6, abs=1e-6)
    assert free.explained == pytest.approx(dense.explained, abs=1e-6)
    if noise:  # without, both tolerances are of the size of rounding
        np.testing.assert_allclose(free.centre, dense.centre, atol=1e-5 * np.linalg.norm(dense.centre))
        assert free.radius == pytest.approx(dense.radius, rel=1e-5)
        assert free.tolerance == pytest.approx(dense.tolerance, rel=1e-5)


def test_dense_and_matrix_free_ellipsoids_have_the_same_extreme_points(monkeypatch):
    contrasts = _agreeing_rows(12, 900, 29)
    size = 3 * float(np.linalg.norm(_heads(2, 12, 29)[0]))
    both = _both_ways(contrasts, monkeypatch, wide=1)
    dense, free = (replace(body, tolerance=0.3, radius=size) for body in both)
    np.testing.assert_allclose(free.min_norm_point(), dense.min_norm_point(), atol=1e-4 * size)
    for direction in [*np.random.default_rng(30).standard_normal((3, 12, 12)), dense.directions[0]]:
        ours, theirs = free.maximise(direction), dense.maximise(direction)
        assert dense.contains(ours)
        assert free.contains(theirs)
        assert np.vdot(direction, ours) == pytest.approx(np.vdot(direction, theirs), rel=1e-5)


def test_ellipsoid_tells_equations_that_explain_from_those_that_contradict():
    contrasts = exact_contrasts(_heads(2, 8, 33), 500, rng=34)
    shuffled = replace(contrasts, log_ratios=np.random.default_rng(35).permutation(contrasts.log_ratios))
    assert Ellipsoid.of(contrasts).explained > 1 - 1e-9
    assert Ellipsoid.of(shuffled).explained < 0.5


def test_explained_is_the_share_of_the_weighted_equations_that_least_squares_explains():
    contrasts = _agreeing_rows(4, 60, 36, noise=0.3)
    scale = np.sqrt(contrasts.weights)
    equations = np.einsum("n,ni,nkj->nkij", scale, contrasts.rows, contrasts.differences).reshape(-1, 16)
    right = (scale[:, None] * contrasts.log_ratios).ravel()
    left = right - equations @ np.linalg.lstsq(equations, right, rcond=None)[0]
    share = 1 - np.sum(left**2) / np.sum(right**2)
    assert 0.1 < share < 0.99
    assert Ellipsoid.of(contrasts).explained == pytest.approx(share, abs=1e-9)


def test_no_square_matrix_of_all_unknowns_is_formed_above_the_dense_size():
    d = 48
    contrasts = _agreeing_rows(d, 3 * d * d, 37)
    tracemalloc.start()
    body = Ellipsoid.of(contrasts, wide=1)
    body.min_norm_point()
    body.maximise(body.centre)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < d**4 * 8 / 2
    theta = _heads(2, d, 37)
    difference = (theta[1] - theta[0]) / np.linalg.norm(theta[1] - theta[0])
    assert abs(np.vdot(body.directions[0], difference)) > 0.99


# ---- the gap of a spectrum


SPECTRUM = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12).map(
    lambda values: np.sort(np.array(values))
)


@given(SPECTRUM)
def test_is_the_largest_ratio_of_neighbours(spectrum):
    found = spectral_gap(spectrum)
    ratios = spectrum[1:] / spectrum[:-1]
    if found.wide == 0:
        assert np.all(ratios < 1.5)
    else:
        assert found.ratio == ratios.max() >= 1.5
        assert found.ratio == ratios[found.wide - 1]
    assert 0 <= found.wide < len(spectrum)


@given(SPECTRUM, st.integers(-40, 40))
def test_does_not_depend_on_the_unit(spectrum, exponent):
    assert spectral_gap(2.0**exponent * spectrum) == spectral_gap(spectrum)
