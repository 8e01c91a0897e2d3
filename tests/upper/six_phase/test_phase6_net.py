"""Phase 6 in paper mode: every tuple of a net, its projections by regression, chosen on held-out examples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import AttentionLayer, BooleanInputs, GroundTruth, make_nice_layer, relative_error
from tests.upper.six_phase.agreeing import true_span
from upper.six_phase import Net, search_net
from upper.six_phase.phase6_net import Frame, TupleRegression, held_out_examples


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


def test_a_flat_net_is_within_half_a_spacing_and_refinements_only_improve():
    layer = make_nice_layer(heads=2, dim=8, rng=1)
    x, y = examples(layer, 3, 600)
    errors = [search_net(x, y, true_span(layer), Net(spacing=0.1, refinements=n)).error for n in range(5)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02 * errors[0]


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
def test_no_more_tuples_are_tried_than_allowed_halvings_included(m, over, most, monkeypatch):
    solved = []
    real = TupleRegression.errors

    def counted(*given):
        errors = real(*given)
        solved.append(len(errors))
        return errors

    monkeypatch.setattr(TupleRegression, "errors", counted)
    layer = make_nice_layer(heads=m, dim=8, rng=3)
    x, y = examples(layer, 3, 100)
    found = search_net(x, y, true_span(layer), Net(over, most=most))
    assert sum(solved) == found.candidates <= most
    assert found.points >= m
    assert found.layer.heads == m
    if m == 2 and most == 500:
        assert found.candidates > math.comb(found.points, 2)


@pytest.mark.parametrize("over", ["hull", "span"])
@pytest.mark.parametrize("m", [2, 3, 5])
def test_where_no_grid_fits_the_net_is_a_regular_simplex_at_the_reach_around_the_centre(m, over):
    span = true_span(make_nice_layer(heads=m, dim=6, rng=0))
    frame = Frame.of(span, over)
    away = frame.matrices(frame.simplex) - span.centre
    assert np.allclose(away.sum(axis=0), 0)
    assert np.allclose(np.linalg.norm(away, axis=(1, 2)), span.reach)
    apart = np.linalg.norm(away[:, None] - away, axis=(2, 3))
    assert np.allclose(apart[~np.eye(m, dtype=bool)], apart[0, 1])


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
