"""Phase 5: the span, the hull and the reach of a body, and their errors against an independent projection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orth

from attention import AttentionLayer, make_nice_layer
from upper.six_phase import AttentionSpan, Contrasts, attention_span, sculpt
from upper.six_phase.convex_body import SpectralGap


def _exact(theta, n, *, rng, noise=0.0):
    """Equations that hold exactly for all heads `theta`: x_a any row, v orthogonal to x_a (Theta_i - Theta_1)."""
    rng = np.random.default_rng(rng)
    d = theta.shape[1]
    rows, differences = rng.standard_normal((n, d)), rng.standard_normal((n, 1, d))
    if len(theta) > 1:
        across = np.linalg.qr(np.swapaxes(np.einsum("na,iab->nib", rows, theta[1:] - theta[0]), 1, 2))[0]
        differences = differences - differences @ across @ np.swapaxes(across, 1, 2)
    right = np.einsum("na,ab,njb->nj", rows, theta[0], differences)
    return Contrasts(rows, differences, right + noise * rng.standard_normal(right.shape), np.ones(n))


def _true_span(layer):
    """The hull's directions and its point closest to zero, by QR."""
    m, d = layer.heads, layer.dim
    differences = (layer.theta[1:] - layer.theta[0]).reshape(m - 1, d * d)
    flat = np.linalg.qr(differences.T)[0].T
    centre = layer.theta[0].ravel() - flat.T @ (flat @ layer.theta[0].ravel())
    return AttentionSpan(centre.reshape(d, d), flat.reshape(m - 1, d, d), np.full(m - 1, 9.0), 9.0, None)


@given(m=st.integers(1, 4), d=st.integers(3, 8), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_true_span_has_no_error(m, d, seed):
    layer = make_nice_layer(heads=m, dim=d, rng=seed)
    span = _true_span(layer)
    np.testing.assert_allclose(np.tensordot(span.basis, span.basis, ((1, 2), (1, 2))), np.eye(m), atol=1e-7)
    assert max(span.errors(layer).values()) < 1e-6


@given(m=st.integers(1, 4), d=st.integers(3, 8), stray=st.floats(0.0, 2.0), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_errors_are_those_of_an_independent_projection(m, d, stray, seed):
    """Any span with its centre across its directions: against least squares, and angles between projectors."""
    rng = np.random.default_rng(seed)
    layer = make_nice_layer(heads=m, dim=d, rng=rng)
    true = _true_span(layer)
    flat = true.directions.reshape(m - 1, d * d) + stray / d * rng.standard_normal((m - 1, d * d))
    flat = np.linalg.qr(flat.T)[0].T
    centre = true.centre.ravel() + stray / d * rng.standard_normal(d * d)
    centre = centre - flat.T @ (flat @ centre)
    span = AttentionSpan(centre.reshape(d, d), flat.reshape(m - 1, d, d), np.ones(m - 1), 1.0, None)
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
@pytest.mark.parametrize("kind", ["ellipsoid", "polytope"])
def test_exact_equations_give_the_span_and_the_hull(m, kind):
    layer = make_nice_layer(heads=m, dim=6, rng=m)
    span = attention_span(sculpt(_exact(layer.theta, 150, rng=7), body=kind, wide=m - 1), m - 1)
    errors = span.errors(layer)
    assert max(errors["span_error"], errors["hull_error"]) < 1e-4
    assert span.basis.shape == (m, 6, 6)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_span_is_orthonormal_and_its_centre_is_across_and_on_the_hull_of_the_body(m, noise):
    layer = make_nice_layer(heads=m, dim=6, rng=8)
    body = sculpt(_exact(layer.theta, 200, rng=9, noise=noise), wide=m - 1)
    span = attention_span(body, m - 1)
    basis = span.basis.reshape(m, -1)
    np.testing.assert_allclose(basis @ basis.T, np.eye(m), atol=1e-9)
    off = (span.centre - body.centre).ravel()
    np.testing.assert_allclose(off, basis[:-1].T @ (basis[:-1] @ off), atol=1e-9)


@pytest.mark.parametrize("kind", ["ellipsoid", pytest.param("polytope", marks=pytest.mark.slow)])
def test_reach_is_the_farthest_member_along_each_direction(kind):
    layer = make_nice_layer(heads=3, dim=5, rng=10)
    body = sculpt(_exact(layer.theta, 150, rng=11, noise=0.02), body=kind, wide=2)
    span = attention_span(body, 2)
    rng = np.random.default_rng(12)
    members = np.array([body.maximise(direction) for direction in rng.standard_normal((30, 5, 5))])
    for direction, reach in zip(span.directions, span.reach, strict=True):
        farthest = max(abs(np.vdot(direction, body.maximise(sign * direction))) for sign in (1, -1))
        assert reach == pytest.approx(farthest, rel=1e-9)
        assert np.all(np.abs(np.tensordot(members, direction, 2)) <= reach * (1 + 1e-6))


def test_heads_in_the_body_are_within_reach():
    layer = make_nice_layer(heads=3, dim=6, rng=13)
    radius = 1.05 * float(np.linalg.norm(layer.theta, axis=(1, 2)).max())
    body = sculpt(_exact(layer.theta, 200, rng=14), wide=2, radius=radius)
    span = attention_span(body, 2)
    assert all(body.contains(theta) for theta in layer.theta)
    assert np.all(
        np.abs(np.tensordot(layer.theta, span.directions, ((1, 2), (1, 2)))) <= span.reach * (1 + 1e-6)
    )
    # the ball cuts the hull at the distance Pythagoras says
    half_chord = np.sqrt(radius**2 - np.linalg.norm(span.centre) ** 2)
    np.testing.assert_allclose(span.reach, half_chord, rtol=1e-2)


def test_one_head_spans_a_line():
    layer = make_nice_layer(heads=1, dim=5, rng=15)
    span = attention_span(sculpt(_exact(layer.theta, 60, rng=16), wide=0), 0)
    assert span.directions.shape == (0, 5, 5)
    assert span.reach.shape == (0,)
    np.testing.assert_allclose(span.centre, layer.theta[0], atol=1e-7)
    assert span.gap == SpectralGap(0, np.inf)


def test_gap_is_the_step_of_the_bodys_spectrum():
    layer = make_nice_layer(heads=2, dim=6, rng=17)
    contrasts = _exact(layer.theta, 200, rng=18, noise=0.1)
    body = sculpt(contrasts, wide=1)
    gap = attention_span(body, 1).gap
    assert gap is not None
    assert gap.ratio == body.spectrum[1] / body.spectrum[0] if body.spectrum[0] > 0 else np.isinf(gap.ratio)
    assert gap.ratio > 1e6
    assert attention_span(sculpt(contrasts, body="polytope"), 1).gap is None


def test_a_head_without_attention_is_measured_absolutely():
    """|Theta_i| = 0 would divide by zero: then the error is the distance itself."""
    nice = make_nice_layer(heads=2, dim=4, rng=19)
    layer = AttentionLayer(theta=np.stack([nice.theta[0], np.zeros((4, 4))]), w=nice.w)
    size = float(np.linalg.norm(nice.theta[0]))
    span = AttentionSpan(nice.theta[0], np.zeros((0, 4, 4)), np.zeros(0), 0.0, None)
    errors = span.errors(layer)
    assert errors["span_error"] == pytest.approx(0, abs=1e-12)
    assert errors["hull_error"] == pytest.approx(size)


def test_spans_of_nothing_are_measured_too():
    """Heads without attention span nothing, and lie in every span; a centre of zero spans nothing that heads lie in."""
    nice = make_nice_layer(heads=2, dim=4, rng=22)
    linear = AttentionLayer(theta=0 * nice.theta, w=nice.w)
    one, nothing = (
        AttentionSpan(centre, np.zeros((0, 4, 4)), np.zeros(0), 0.0, None)
        for centre in (np.eye(4), np.zeros((4, 4)))
    )
    assert one.errors(linear) == {"span_error": 0.0, "hull_error": 2.0, "span_angle": 0.0}
    assert nothing.errors(linear) == {"span_error": 0.0, "hull_error": 0.0, "span_angle": 0.0}
    found = nothing.errors(nice)
    assert found["span_error"] == pytest.approx(1)
    assert found["span_angle"] == pytest.approx(np.pi / 2)


@pytest.mark.bad_input
def test_more_wide_directions_than_the_body_knows_are_refused():
    layer = make_nice_layer(heads=2, dim=5, rng=20)
    with pytest.raises(ValueError, match="wide directions"):
        attention_span(sculpt(_exact(layer.theta, 80, rng=21), wide=1), 40)
