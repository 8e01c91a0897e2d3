"""Gauss-Newton over the coordinates of a span: heads of a true span, the start, the work."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer, parameter_errors
from upper.six_phase.phase6_heads import _simplex, fit_in_span


def true_span(layer):
    """A basis of the heads' span, the point of their hull closest to zero last, all of its norm."""
    heads = layer.theta.reshape(layer.heads, -1)
    flat = np.linalg.svd(heads[1:] - heads[0], full_matrices=False)[2]
    centre = heads[0] - (heads[0] @ flat.T) @ flat
    size = np.linalg.norm(centre)
    return np.concatenate([size * flat, centre[None]]).reshape(-1, layer.dim, layer.dim)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_a_start_is_a_regular_simplex_around_the_centre(m):
    corners = _simplex(m, np.random.default_rng(0))
    assert corners.shape == (m, m)
    assert np.allclose(corners[:, -1], 1)  # on the hull
    away = corners[:, :-1]
    assert np.allclose(away.sum(axis=0), 0)
    assert np.allclose(np.linalg.norm(away, axis=1), np.sqrt(m - 1))
    gram = corners @ corners.T
    assert np.allclose(gram, m * np.eye(m))  # orthogonal heads of equal norm


@pytest.mark.parametrize(("heads", "unit"), [(1, 1e-200), (2, 1e200), (3, 1.0), (4, 1.0)])
def test_the_heads_of_a_true_span_are_found_to_rounding_in_any_unit_of_the_labels(heads, unit):
    layer = make_nice_layer(heads=heads, dim=16, rng=heads)
    x = BooleanInputs(tokens=4, dim=16).sample(200, rng=1)
    found, starts = fit_in_span(x, unit * layer(x), true_span(layer), starts=8, rng=2)
    assert found.residual < 1e-7
    assert 1 <= starts <= 8
    errors = parameter_errors(AttentionLayer(theta=found.layer.theta, w=found.layer.w / unit), layer)
    assert errors.theta.max() < 1e-6
    assert errors.w.max() < 1e-6


@pytest.mark.parametrize(("heads", "work"), [(2, 1), (3, 60), (12, 500)])
def test_no_start_or_step_begins_when_the_work_is_spent(heads, work):
    span = true_span(make_nice_layer(heads=heads, dim=8, rng=0))
    x = BooleanInputs(tokens=3, dim=8).sample(100, rng=1)
    noise = np.random.default_rng(3).standard_normal(x.shape)  # no start is good, so that all are tried
    found, starts = fit_in_span(x, noise, span, work=work, rng=2)
    assert found.passes <= work + 2 * 60 + 4  # the last step, of sixty inner steps at most
    assert starts >= 1
    assert found.layer.theta.shape == (heads, 8, 8)
    assert found.residual < 1
