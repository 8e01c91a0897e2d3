"""Phase 5: the span and the hull of a body, and their errors against an independent projection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orth

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from tests.upper.six_phase.agreeing import exact_contrasts, true_span
from upper.six_phase import AttentionSpan, attention_span
from upper.six_phase.convex_body import Ellipsoid


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
