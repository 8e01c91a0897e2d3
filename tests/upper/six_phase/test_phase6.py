"""Phase 6: every tuple of a net in paper mode, and Gauss-Newton over the coordinates of the span in practical mode."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    GroundTruth,
    make_nice_layer,
    parameter_errors,
    relative_error,
)
from tests.upper.six_phase.agreeing import true_span
from upper.six_phase import Net, search_net
from upper.six_phase.phase6_heads import fit_in_span
from upper.six_phase.phase6_net import held_out_examples


def examples(layer, k, n, rng=5):
    x = BooleanInputs(tokens=k, dim=layer.dim).sample(n, rng=rng)
    return x, layer(x)


@pytest.mark.parametrize("over", ["hull", "span"])
def test_the_heads_of_a_true_span_are_found_up_to_the_spacing(over):
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    x, y = examples(layer, 3, 600)
    given = {"hull": {"spacing": 0.05}, "span": {"spacing": 0.3}}[over]
    found = search_net(x, y, true_span(layer), Net(over, **given))
    truth = GroundTruth.draw(layer, BooleanInputs(tokens=3, dim=8), rng=9)
    errors = truth.measure(layer=found.layer)
    unit = np.linalg.norm(true_span(layer).centre) / np.linalg.norm(layer.theta[0])
    dimension = {"hull": 1, "span": 2}[over]
    # the refinements halve the spacing; the best on held-out examples is as near as the nearest
    assert errors["theta_error"] < found.spacing * unit * math.sqrt(dimension)
    assert errors["relative_error"] ** 2 < 2.5 * found.error


def test_the_unit_of_tokens_changes_no_error():
    layer, unit = make_nice_layer(heads=2, dim=8, rng=1), 2.0**-20
    same = AttentionLayer(theta=layer.theta / unit**2, w=layer.w / unit)
    x, y = examples(layer, 3, 600)
    error, again = (
        search_net(tokens, y, true_span(one), Net(spacing=0.1)).error
        for tokens, one in ((x, layer), (unit * x, same))
    )
    assert again == pytest.approx(error, rel=1e-6)


def test_three_heads_by_a_coarse_net():
    layer = make_nice_layer(heads=3, dim=8, rng=3)
    x, y = examples(layer, 3, 800)
    found = search_net(x, y, true_span(layer), Net(spacing=0.5, most=20_000))
    assert math.comb(found.points, 3) <= 15_000
    assert math.comb(found.points, 3) < found.candidates <= 20_000
    assert found.error < 0.01


def test_the_error_surface_of_two_heads_is_the_held_out_error_of_every_pair():
    layer = make_nice_layer(heads=2, dim=6, rng=4)
    span = true_span(layer)
    x, y = examples(layer, 3, 900)
    net = Net(spacing=0.5, refinements=0, most=200)
    found = search_net(x, y, span, net)
    selecting = held_out_examples(net.most)
    fitting = slice(selecting + held_out_examples(1, 0.005), None)
    assert found.surface.shape == (found.points, found.points)
    assert np.array_equal(found.surface, found.surface.T, equal_nan=True)
    assert np.all(np.isnan(np.diag(found.surface)))
    assert np.count_nonzero(np.isfinite(found.surface)) == 2 * found.candidates
    unit = np.linalg.norm(span.centre)
    for i, j in ((0, 1), (1, 4)):
        theta = span.centre + unit * found.grid[[i, j], None, None] * span.directions[0]
        read = AttentionLayer(theta=theta, w=np.zeros_like(theta)).patterns(x) @ x[:, None]
        features = read.transpose(0, 2, 1, 3).reshape(900, 3, 12)
        w = np.linalg.lstsq(features[fitting].reshape(-1, 12), y[fitting].reshape(-1, 6), rcond=None)[0]
        missed = relative_error(features[:selecting] @ w, y[:selecting]) ** 2
        assert np.isclose(found.surface[i, j], missed, rtol=1e-4)


@pytest.mark.parametrize(("m", "over"), [(2, "hull"), (2, "span"), (3, "hull"), (5, "hull")])
@pytest.mark.parametrize("most", [3, 500])
def test_no_more_tuples_are_tried_than_allowed_halvings_included(m, over, most):
    layer = make_nice_layer(heads=m, dim=8, rng=3)
    x, y = examples(layer, 3, 100)
    found = search_net(x, y, true_span(layer), Net(over, most=most))
    assert found.candidates <= most
    assert found.points >= m
    assert found.layer.heads == m
    if m == 2 and most == 500:
        assert found.candidates > math.comb(found.points, 2)


def test_the_judged_error_is_unbiased():
    judged = []
    for seed in range(12):
        layer = make_nice_layer(heads=2, dim=6, rng=seed)
        rng = np.random.default_rng(seed)
        x = BooleanInputs(tokens=3, dim=6).sample(3300, rng=rng)
        y = rng.standard_normal(x.shape)  # nothing to be found: every candidate is equally bad
        found = search_net(x[:300], y[:300], true_span(layer), Net("span", most=500))
        true = relative_error(found.layer(x[300:]), y[300:]) ** 2
        judged.append(found.error - true)
    spread = np.std(judged, ddof=1) / math.sqrt(len(judged))
    assert abs(np.mean(judged)) < 4 * spread


@given(st.integers(1, 10**9), st.floats(1e-9, 0.5))
def test_held_out_examples_bound_the_probability_of_an_underestimate(candidates, delta):
    n = held_out_examples(candidates, delta)
    # the union bound over the lower tail exp(-n / (8 kurtosis)) at half of the expectation, for a kurtosis of 4
    assert candidates * math.exp(-n / 32) <= delta * (1 + 1e-9)
    assert n == 1 or candidates * math.exp(-(n - 1) / 32) > delta * (1 - 1e-6)


@pytest.mark.bad_input
def test_examples_that_do_not_suffice_are_refused():
    layer = make_nice_layer(heads=2, dim=8, rng=0)
    x, y = examples(layer, 3, 100)
    with pytest.raises(ValueError, match="There are 12 examples: 11 to regress on"):
        search_net(x[:12], y[:12], true_span(layer))
    assert search_net(x[:13], y[:13], true_span(layer)).examples == 13


def basis_of(span):
    """A basis of the heads' span, the point of their hull closest to zero last, all of its norm."""
    return np.concatenate([np.linalg.norm(span.centre) * span.directions, span.centre[None]])


@pytest.mark.parametrize(("heads", "unit"), [(1, 1e-200), (2, 1e200), (3, 1.0), (4, 1.0)])
def test_the_heads_of_a_true_span_are_found_to_rounding_in_any_unit_of_the_labels(heads, unit):
    layer = make_nice_layer(heads=heads, dim=16, rng=heads)
    x = BooleanInputs(tokens=4, dim=16).sample(200, rng=1)
    found, starts = fit_in_span(x, unit * layer(x), basis_of(true_span(layer)), starts=8, rng=2)
    assert found.residual < 1e-7
    assert 1 <= starts <= 8
    errors = parameter_errors(AttentionLayer(theta=found.layer.theta, w=found.layer.w / unit), layer)
    assert errors.theta.max() < 1e-6
    assert errors.w.max() < 1e-6


@pytest.mark.parametrize(("heads", "work"), [(2, 1), (3, 60), (12, 500)])
def test_no_start_or_step_begins_when_the_work_is_spent(heads, work):
    span = basis_of(true_span(make_nice_layer(heads=heads, dim=8, rng=0)))
    x = BooleanInputs(tokens=3, dim=8).sample(100, rng=1)
    noise = np.random.default_rng(3).standard_normal(x.shape)  # no start is good, so that all are tried
    found, starts = fit_in_span(x, noise, span, work=work, rng=2)
    assert found.passes <= work + 2 * 60 + 4  # the last step, of sixty inner steps at most
    assert starts >= 1
    assert found.layer.theta.shape == (heads, 8, 8)
    assert found.residual < 1
