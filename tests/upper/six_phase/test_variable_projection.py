"""Phase 6 in practical mode: Levenberg-Marquardt over the coordinates of the span."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from attention import AttentionLayer, BooleanInputs, make_nice_layer, parameter_errors
from upper.six_phase import AttentionSpan, fit_in_span, variable_projection
from upper.six_phase.variable_projection import _Problem, _simplex


def true_span(layer):
    heads = layer.theta.reshape(layer.heads, -1)
    flat = np.linalg.svd(heads[1:] - heads[0], full_matrices=False)[2]
    centre = heads[0] - (heads[0] @ flat.T) @ flat
    d = layer.dim
    return AttentionSpan(
        centre=centre.reshape(d, d),
        directions=flat.reshape(-1, d, d),
        reach=np.ones(len(flat)),
        extent=1.0,
        gap=None,
    )


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_the_heads_of_a_true_span_are_found_to_rounding(heads):
    layer = make_nice_layer(heads=heads, dim=16, rng=heads)
    x = BooleanInputs(k=4, d=16).sample(200, rng=1)
    found = fit_in_span(x, layer(x), true_span(layer), starts=8, rng=2)
    assert found.residual < 1e-7
    assert found.residual == min(found.residuals)
    errors = parameter_errors(AttentionLayer(theta=found.theta, w=found.w), layer)
    assert errors.theta.max() < 1e-6
    assert errors.w.max() < 1e-6


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


def test_the_derivative_is_kaufmans():
    layer = make_nice_layer(heads=2, dim=6, rng=0)
    x = BooleanInputs(k=3, d=6).sample(40, rng=1)
    problem = _Problem(x, layer(x).reshape(-1, 6), true_span(layer).basis)
    at = np.random.default_rng(2).standard_normal(4)
    theta = problem.theta(at)
    read = (
        (AttentionLayer(theta=theta, w=theta).patterns(x) @ x[:, None]).transpose(0, 2, 1, 3).reshape(-1, 12)
    )
    w = np.linalg.lstsq(read, layer(x).reshape(-1, 6), rcond=None)[0]
    projector = np.eye(len(read)) - read @ np.linalg.pinv(read)

    def outputs(flat):
        return AttentionLayer(theta=problem.theta(flat), w=w.reshape(2, 6, 6))(x).ravel()

    exact = approx_fprime(at, outputs, 1e-7).reshape(-1, 6, 4)
    wanted = -np.einsum("ab,bdc->adc", projector, exact).reshape(-1, 4)
    point = problem.evaluate(at)
    moments, gradient = problem.normal_equations(point)
    assert np.allclose(moments, wanted.T @ wanted, rtol=1e-5, atol=1e-5 * np.trace(moments))
    assert np.allclose(gradient, wanted.T @ point.residual.ravel(), atol=1e-4 * np.abs(gradient).max())
    assert np.allclose(point.residual, projector @ layer(x).reshape(-1, 6))
    assert problem.passes == 1 + 2**2


def test_the_derivative_is_never_held_whole(monkeypatch):
    layer = make_nice_layer(heads=8, dim=8, rng=0)
    x = BooleanInputs(k=4, d=8).sample(2000, rng=1)
    problem = _Problem(x, layer(x).reshape(-1, 8), true_span(layer).basis)
    point = problem.evaluate(np.random.default_rng(2).standard_normal(64))
    whole = problem.normal_equations(point)
    monkeypatch.setattr(variable_projection, "_MOST_NUMBERS", 1 << 17)
    tracemalloc.start()
    in_parts = problem.normal_equations(point)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.size * 64 / 4
    for one, other in zip(whole, in_parts, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(one).max())


@pytest.mark.parametrize("heads", [2, 3, 5])
@pytest.mark.parametrize("work", [1, 2, 5, 14, 60])
def test_no_more_passes_are_made_than_work_allows(heads, work, monkeypatch):
    made = {"evaluate": 0, "normal_equations": 0}

    def count(name, real):
        def counted(self, at):
            made[name] += 1
            return real(self, at)

        monkeypatch.setattr(_Problem, name, counted)

    for name in made:
        count(name, getattr(_Problem, name))
    layer = make_nice_layer(heads=heads, dim=8, rng=0)
    x = BooleanInputs(k=3, d=8).sample(100, rng=1)
    noise = np.random.default_rng(3).standard_normal(x.shape)  # no start is good, so that all are tried
    found = fit_in_span(x, noise, true_span(layer), work=work, rng=2)
    assert made["evaluate"] + heads**2 * made["normal_equations"] == found.passes <= work
    assert len(found.residuals) >= 1
    assert found.theta.shape == (heads, 8, 8)


def test_many_more_heads_than_there_are_end_within_the_work():
    layer = make_nice_layer(heads=2, dim=12, rng=0)
    x = BooleanInputs(k=2, d=12).sample(400, rng=1)
    span = true_span(make_nice_layer(heads=12, dim=12, rng=1))
    found = fit_in_span(x, layer(x), span, work=500, rng=2)
    assert found.passes <= 500
    assert found.residual < 1


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_labels_may_be_in_any_unit(unit):
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    x = BooleanInputs(k=3, d=8).sample(100, rng=1)
    found = fit_in_span(x, unit * layer(x), true_span(layer), rng=2)
    assert found.residual < 1e-7
    assert parameter_errors(AttentionLayer(theta=found.theta, w=found.w / unit), layer).w.max() < 1e-6


@pytest.mark.bad_input
def test_wrong_shapes_are_sentences():
    layer = make_nice_layer(heads=2, dim=6, rng=0)
    x = BooleanInputs(k=3, d=6).sample(40, rng=1)
    with pytest.raises(ValueError, match="y has shape"):
        fit_in_span(x, layer(x)[:-1], true_span(layer))
    with pytest.raises(ValueError, match="starts is 0"):
        fit_in_span(x, layer(x), true_span(layer), starts=0)
    with pytest.raises(ValueError, match="work is 0"):
        fit_in_span(x, layer(x), true_span(layer), work=0)
