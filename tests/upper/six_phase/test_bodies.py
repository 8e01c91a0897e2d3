"""The convex body and the span of phase 5: membership, least norm, wide directions, errors and margins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orth, subspace_angles
from scipy.optimize import brentq

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from tests.upper.six_phase.agreeing import exact_contrasts, true_span
from upper.six_phase import AttentionSpan, attention_span
from upper.six_phase.convex_body import Ellipsoid, spectral_gap


def _heads(m, d, rng):
    return make_nice_layer(heads=m, dim=d, rng=rng).theta


def _agreeing_rows(d, n, rng, noise=0.05):
    return exact_contrasts(_heads(2, d, rng), n, rng=rng, noise=noise)


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


# ---- against the matrix of all unknowns


def _dense(contrasts):
    """The weighted equations with weights of mean 1 over their number, and their moment matrix."""
    share = np.sqrt(contrasts.weights / contrasts.weights.sum() / contrasts.log_ratios.shape[1])
    vectors = np.einsum("n,ni,nkj->nkij", share, contrasts.rows, contrasts.differences)
    vectors = vectors.reshape(contrasts.equations, -1)
    return vectors, (share[:, None] * contrasts.log_ratios).ravel(), vectors.T @ vectors


@pytest.mark.parametrize("wide", [None, 1])
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("d", [3, 12])
def test_spectrum_centre_and_misfit_are_those_of_the_moment_matrix(d, wide, noise):
    contrasts = _agreeing_rows(d, 6 * d * d, 28, noise=noise)
    body = Ellipsoid.of(contrasts, wide=wide)
    vectors, right, moments = _dense(contrasts)
    values, basis = np.linalg.eigh(moments)
    number = len(body.spectrum)
    np.testing.assert_allclose(body.spectrum[0], max(values[0], 0), rtol=1e-5, atol=1e-9)
    if wide:  # without, the direction of the centre may be left out
        np.testing.assert_allclose(body.spectrum, np.maximum(values[:number], 0), rtol=0.05, atol=1e-9)
    assert abs(np.vdot(body.directions[0], basis[:, 0])) == pytest.approx(1, abs=1e-6)
    centre, *_ = np.linalg.lstsq(vectors, right)
    misfit = float(np.linalg.norm(vectors @ centre - right))
    assert body.misfit_at_centre == pytest.approx(misfit, rel=1e-6, abs=1e-6)
    assert body.explained == pytest.approx(1 - misfit**2 / (right @ right), abs=1e-6)
    if noise:  # without, the equations leave the wide direction open
        np.testing.assert_allclose(body.centre.ravel(), centre, atol=1e-5 * np.linalg.norm(centre))


@given(tolerance=st.floats(1e-3, 1.5), d=st.integers(3, 8), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_point_of_least_norm_has_the_norm_of_the_ridge_solution_that_just_meets_the_tolerance(
    tolerance, d, seed
):
    contrasts = _agreeing_rows(d, 4 * d * d, seed, noise=0.3)
    body = Ellipsoid.of(contrasts, wide=1)
    share = body.misfit_at_centre + tolerance * (contrasts.size - body.misfit_at_centre)
    body = replace(body, tolerance=share, radius=np.inf)
    least = body.min_norm_point()
    assert body.contains(least)
    vectors, right, moments = _dense(contrasts)
    values, basis = np.linalg.eigh(moments)
    values, basis = values[1:], basis[:, 1:]  # no equation has a part along the difference of the two heads

    def ridge(log_shift):
        return basis @ (right @ vectors @ basis / (values + np.exp(log_shift)))

    def excess(log_shift):
        return np.linalg.norm(vectors @ ridge(log_shift) - right) - share

    # with a larger tolerance, zero is the answer
    exact = ridge(brentq(excess, -40, 20)) if excess(20) > 0 else np.zeros(d * d)
    # the norm is stationary at the least one, so an error of the point enters it squared
    scale = np.linalg.norm(body.centre)
    assert np.linalg.norm(least) == pytest.approx(np.linalg.norm(exact), abs=1e-6 * scale)
    np.testing.assert_allclose(least.ravel(), exact, atol=1e-3 * scale)


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


@given(m=st.integers(1, 4), d=st.integers(3, 8), stray=st.floats(0.0, 2.0), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_errors_are_those_of_an_independent_projection(m, d, stray, seed):
    """Any span with its centre across its directions: against least squares, and angles between projectors."""
    rng = np.random.default_rng(seed)
    layer = make_nice_layer(heads=m, dim=d, rng=rng)
    true = true_span(layer)
    flat = true.directions.reshape(m - 1, d * d) + stray / d * rng.standard_normal((m - 1, d * d))
    flat = np.linalg.qr(flat.T)[0].T
    centre = true.centre.ravel() + stray / d * rng.standard_normal(d * d)
    centre = centre - flat.T @ (flat @ centre)
    span = AttentionSpan(centre.reshape(d, d), flat.reshape(m - 1, d, d), 1.0)
    errors = span.errors(layer)
    heads = layer.theta.reshape(m, -1)
    size = np.linalg.norm(heads, axis=1)
    whole = np.vstack([flat, centre])
    off_span = [h - whole.T @ np.linalg.lstsq(whole.T, h, rcond=None)[0] for h in heads]
    off_hull = [h - centre - flat.T @ np.linalg.lstsq(flat.T, h - centre, rcond=None)[0] for h in heads]
    assert errors["span_error"] == pytest.approx(np.max(np.linalg.norm(off_span, axis=1) / size), abs=1e-8)
    assert errors["hull_error"] == pytest.approx(np.max(np.linalg.norm(off_hull, axis=1) / size), abs=1e-8)
    one, other = orth(heads.T), orth(whole.T)
    sine = np.linalg.norm(one @ one.T - other @ other.T, ord=2)
    assert np.sin(errors["span_angle"]) == pytest.approx(min(sine, 1.0), abs=1e-6)
    assert errors["span_error"] <= errors["hull_error"] + 1e-12
    assert errors["span_error"] <= np.sin(errors["span_angle"]) + 1e-8


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_hull_up_to_the_reach_is_in_the_body_and_no_farther_point(m):
    layer = make_nice_layer(heads=m, dim=5, rng=10)
    body = Ellipsoid.of(exact_contrasts(layer.theta, 150, rng=11, noise=0.02), wide=m - 1)
    span = attention_span(body)
    assert (span.reach == 0) == (m == 1)
    assert all(np.linalg.norm(theta - span.centre) < max(span.reach, 0.1) for theta in layer.theta)
    for direction in span.directions:
        for sign in (1, -1):
            assert body.contains(span.centre + sign * span.reach * direction)
            assert not body.contains(span.centre + 1.01 * sign * span.reach * direction)


def test_spans_of_nothing_are_measured_too():
    """Heads without attention span nothing, and lie in every span; a centre of zero spans nothing that heads lie in."""
    nice = make_nice_layer(heads=2, dim=4, rng=22)
    linear = AttentionLayer(theta=0 * nice.theta, w=nice.w)
    one, nothing = AttentionSpan.point(np.eye(4)), AttentionSpan.point(np.zeros((4, 4)))
    assert one.errors(linear) == {"span_error": 0.0, "hull_error": 2.0, "span_angle": 0.0}
    assert nothing.errors(linear) == {"span_error": 0.0, "hull_error": 0.0, "span_angle": 0.0}
    found = nothing.errors(nice)
    assert found["span_error"] == pytest.approx(1)
    assert found["span_angle"] == pytest.approx(np.pi / 2)


# ---- margins over the hull


@pytest.fixture
def ball():
    rng = np.random.default_rng(0)
    flat = np.linalg.qr(rng.standard_normal((25, 2)))[0].T.reshape(2, 5, 5)
    return rng.standard_normal((5, 5)), flat


@pytest.fixture
def x():
    return BooleanInputs(tokens=3, dim=5).sample(40, rng=0)


def worst(x, top, matrices):
    """The least margin of the token `top` under any of the matrices."""
    least = np.full(top.shape, np.inf)
    for theta in matrices:
        logits = (x @ theta) @ np.swapaxes(x, 1, 2)
        gaps = np.take_along_axis(logits, top[..., None], -1) - logits
        np.put_along_axis(gaps, top[..., None], np.inf, -1)
        least = np.minimum(least, gaps.min(axis=-1))
    return least


def test_over_a_disc_it_is_that_of_the_worst_point_of_its_edge(ball, x):
    centre, (first, second) = ball
    hull = AttentionSpan(centre, np.stack([first, second]), 0.7)
    margins, top = hull.margins(x)
    turns = np.linspace(0, 2 * np.pi, 2001)
    edge = [centre + 0.7 * (np.cos(t) * first + np.sin(t) * second) for t in turns]
    np.testing.assert_allclose(margins, worst(x, top, edge), atol=1e-4)
