"""Phase 3 by large margins: what a margin over the body binds, and the sum regressed on nearly one-hot rows."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GaussianInputs, Outcome, make_nice_layer
from upper.six_phase import (
    AttentionSpan,
    Contrasts,
    PhaseFailedError,
    attention_span,
    estimate_projection_sum,
    refine_by_margin,
    sculpt,
    sculpt_affine_hull,
)


def _exact(theta, n, *, rng):
    """Equations that hold exactly for all heads `theta`: x_a any row, v orthogonal to x_a (Theta_i - Theta_1)."""
    rng = np.random.default_rng(rng)
    d = theta.shape[1]
    rows, differences = rng.standard_normal((n, d)), rng.standard_normal((n, 1, d))
    if len(theta) > 1:
        across = np.linalg.qr(np.swapaxes(np.einsum("na,iab->nib", rows, theta[1:] - theta[0]), 1, 2))[0]
        differences = differences - differences @ across @ np.swapaxes(across, 1, 2)
    return Contrasts(rows, differences, np.einsum("na,ab,njb->nj", rows, theta[0], differences), np.ones(n))


def _found(x, hull, least):
    """Rows of that margin at least: their margins, the tokens attended to, their examples and their places."""
    margins, top = hull.margins(x)
    example, row = np.nonzero(margins >= least)
    return margins[example, row], x[example, top[example, row]], example, row


def _margins_of(theta, x, example, row, attended):
    """x_a Theta (x_b - x_c), the least over the other tokens c, b the token attended to."""
    margins = []
    for e, a, token in zip(example, row, attended, strict=True):
        others = [c for c in x[e] if not np.array_equal(c, token)]
        margins.append(min(x[e, a] @ theta @ (token - c) for c in others))
    return np.array(margins)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_margin_of_one_matrix_is_top_logit_less_the_next(k):
    theta = make_nice_layer(heads=1, dim=9, rng=0).theta[0]
    x = GaussianInputs(k=k, d=9).sample(200, rng=1)
    logits = np.sort(np.einsum("nai,ij,nbj->nab", x, theta, x), axis=-1)
    expected = logits[..., -1] - logits[..., -2]
    margins, attended, example, row = _found(x, AttentionSpan.point(theta), 1.5)
    assert len(margins) == np.sum(expected >= 1.5)
    np.testing.assert_allclose(margins, expected[example, row], rtol=1e-9)
    np.testing.assert_allclose(margins, _margins_of(theta, x, example, row, attended), rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("k", [2, 3])
def test_margin_over_the_body_bounds_every_matrix_of_its_hull_from_below(m, k):
    layer = make_nice_layer(heads=m, dim=12, rng=2)
    body = sculpt(_exact(layer.theta, 600, rng=3), wide=m - 1)
    span = attention_span(body, m - 1)
    x = GaussianInputs(k=k, d=12).sample(1_000, rng=4)
    margins, attended, example, row = _found(x, span, 0.5)
    assert len(margins) > 20
    least = np.full(len(margins), np.inf)
    rng = np.random.default_rng(5)
    for place in range(20):
        way = rng.standard_normal(m - 1)
        way *= (1.0 if place % 2 else rng.uniform()) / np.linalg.norm(way)
        member = span.centre + np.tensordot(way * span.reach, span.directions, 1)
        assert np.linalg.norm(member) <= body.radius * (1 + 1e-6)
        least = np.minimum(least, _margins_of(member, x, example, row, attended))
    assert np.all(least >= margins - 1e-6)
    if k > 2:
        return
    # and it is no lower than it must be: the worst matrix of the hull for a row has just this margin
    for place in range(20):
        e, a, token = example[place], row[place], attended[place]
        contrast = np.outer(x[e, a], token - x[e].sum(axis=0) + token)
        way = span.reach * np.tensordot(span.directions, contrast, 2)
        worst = span.centre - np.tensordot(way / np.linalg.norm(way) * span.reach, span.directions, 1)
        assert np.vdot(worst, contrast) == pytest.approx(margins[place], abs=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_rows_with_a_margin_have_every_heads_pattern_one_hot_up_to_its_exponential(m):
    layer = make_nice_layer(heads=m, dim=12, rng=6)
    radius = 1.01 * float(np.linalg.norm(layer.theta, axis=(1, 2)).max())
    body = sculpt(_exact(layer.theta, 600, rng=7), wide=m - 1, radius=radius)
    assert all(body.contains(theta) for theta in layer.theta)
    span = attention_span(body, m - 1)
    k = 3
    x = GaussianInputs(k=k, d=12).sample(4_000, rng=8)
    margins, attended, example, row = _found(x, span, 1.0)
    assert len(margins) > 30
    patterns = layer.patterns(x[example])
    top = np.argmax(np.all(x[example] == attended[:, None], axis=-1), axis=1)
    for place, (bound, b, a) in enumerate(zip(np.exp(-margins), top, row, strict=True)):
        for pattern in patterns[place, :, a]:
            assert np.all(np.delete(pattern, b) <= pattern[b] * bound * (1 + 1e-6))
            assert 1 - pattern[b] <= (k - 1) * bound * (1 + 1e-6)


def test_heads_keep_the_margin_up_to_their_distance_from_the_hull():
    """Across the hull the body has a thickness, which the margin leaves out: a head off the hull keeps what is left."""
    layer = make_nice_layer(heads=2, dim=16, rng=9)
    oracle = ExampleOracle(layer, BooleanInputs(k=2, d=16), rng=10)
    crude = estimate_projection_sum(oracle, 30_000)
    hull = sculpt_affine_hull(oracle, crude.w, wide=1, accept=0.05)
    span = attention_span(hull.body, 1)
    x = BooleanInputs(k=2, d=16).sample(20_000, rng=11)
    margins, attended, example, row = _found(x, span, 1.0)
    assert len(margins) > 30
    for theta in layer.theta:
        along = np.tensordot(span.directions, theta, 2)
        assert np.all(np.abs(along) <= span.reach)
        off = theta - span.centre - np.tensordot(along, span.directions, 1)
        # two tokens: the other's contrast is minus the margin's
        stray = _margins_of(off, x, example, row, attended)
        kept = _margins_of(theta, x, example, row, attended)
        assert np.all(kept >= margins + stray - 1e-9)
        assert np.mean(kept > 0) > 0.9


def test_hard_attention_gives_the_sum_exactly():
    """With logits of hundreds every pattern is one-hot: Y_a = x_b sum_i W_i to rounding."""
    nice = make_nice_layer(heads=2, dim=10, rng=12)
    layer = AttentionLayer(theta=300 * np.stack([nice.theta[0]] * 2), w=nice.w)
    body = sculpt(_exact(layer.theta[:1], 300, rng=13), wide=0)
    for over in ("body", "proxy"):
        oracle = ExampleOracle(layer, BooleanInputs(k=3, d=10), rng=14)
        found = refine_by_margin(oracle, body, wide=0, examples=500, margin=40.0, over=over)
        assert found.error(layer) < 1e-12
        assert found.series["margins"].min() >= 40
        assert (oracle.drawn, found.examples) == (500, 500)


def test_error_is_of_the_order_of_the_exponential_of_the_margin(monkeypatch):
    """One head: |Y_a - x_b W| <= sum_(c != b) p_c |(x_c - x_b) W|, so that the error falls as e^-margin."""
    monkeypatch.setattr("upper.six_phase.phase3_refine_sum._ROWS", 10_000)
    layer = make_nice_layer(heads=1, dim=8, rng=15, sigma=4.0)
    body = sculpt(_exact(layer.theta, 300, rng=16), wide=0)
    errors = []
    for margin in (2.0, 5.0, 8.0):
        oracle = ExampleOracle(layer, BooleanInputs(k=2, d=8), rng=17)
        found = refine_by_margin(oracle, body, wide=0, examples=20_000, margin=margin)
        assert found.series["margins"][-1] >= margin
        assert np.all(np.diff(found.series["margins"]) <= 0)
        errors.append(found.error(layer))
        assert found.error(layer) < 4 * np.exp(-margin)
    assert errors[2] < 0.1 * errors[1] < 0.01 * errors[0]


def test_error_falls_as_measured():
    """From about .083 to about .003 at (m, k, d) = (2, 2, 32)."""
    layer = make_nice_layer(heads=2, dim=32, rng=0)
    oracle = ExampleOracle(layer, BooleanInputs(k=2, d=32), rng=10)
    crude = estimate_projection_sum(oracle, 32_000)
    assert 0.07 < crude.error(layer) < 0.1
    hull = sculpt_affine_hull(oracle, crude.w, wide=1, accept=0.05)
    found = refine_by_margin(oracle, hull.body, wide=1, examples=100_000)
    assert found.error(layer) < 0.006
    assert found.series["margins"].shape == (8 * 32,)
    assert 1 <= found.measures["condition"] < 5


@pytest.mark.parametrize("over", ["body", "proxy"])
def test_a_margin_that_no_row_has_fails_with_margin(over):
    layer = make_nice_layer(heads=2, dim=8, rng=18)
    body = sculpt(_exact(layer.theta, 300, rng=19), wide=1)
    oracle = ExampleOracle(layer, BooleanInputs(k=2, d=8), rng=20)
    with pytest.raises(PhaseFailedError, match="margin of 100 logits") as failure:
        refine_by_margin(oracle, body, wide=1, examples=300, margin=100.0, over=over)
    assert failure.value.outcome is Outcome.NO_LARGE_MARGIN
    assert failure.value.outcome.name == "NO_LARGE_MARGIN"


def test_no_example_left_fails_with_budget():
    layer = make_nice_layer(heads=1, dim=6, rng=21)
    body = sculpt(_exact(layer.theta, 200, rng=22), wide=0)
    oracle = ExampleOracle.from_arrays(*ExampleOracle(layer, BooleanInputs(k=2, d=6), rng=23).draw(5))
    oracle.draw(5)
    with pytest.raises(PhaseFailedError, match="no example is left") as failure:
        refine_by_margin(oracle, body, wide=0, examples=10)
    assert failure.value.outcome is Outcome.EXAMPLES_SPENT


def test_attended_tokens_that_do_not_span_fail_with_margin():
    layer = make_nice_layer(heads=1, dim=6, rng=24)
    body = sculpt(_exact(layer.theta, 200, rng=25), wide=0)
    x = GaussianInputs(k=2, d=6).sample(400, rng=26)
    x[..., -1] = 0.0
    with pytest.raises(PhaseFailedError, match="rank 5 of 6") as failure:
        refine_by_margin(ExampleOracle.from_arrays(x, layer(x)), body, wide=0, examples=400, margin=0.1)
    assert failure.value.outcome is Outcome.NO_LARGE_MARGIN


def test_given_examples_are_used_as_far_as_they_go():
    layer = make_nice_layer(heads=1, dim=6, rng=27)
    body = sculpt(_exact(layer.theta, 200, rng=28), wide=0)
    oracle = ExampleOracle.from_arrays(*ExampleOracle(layer, BooleanInputs(k=2, d=6), rng=29).draw(500))
    found = refine_by_margin(oracle, body, wide=0, examples=10_000, margin=1.0)
    assert (found.examples, oracle.remaining) == (500, 0)
    assert len(found.series["margins"]) == found.measures["rows"] == 48


def test_bits_do_not_depend_on_jobs():
    layer = make_nice_layer(heads=2, dim=8, rng=30)
    body = sculpt(_exact(layer.theta, 300, rng=31), wide=1)
    one, two = (
        refine_by_margin(
            ExampleOracle(layer, GaussianInputs(k=2, d=8), rng=32),
            body,
            wide=1,
            examples=70_000,
            margin=0.5,
            jobs=jobs,
        )
        for jobs in (1, 2)
    )
    assert np.array_equal(one.w, two.w)
    assert np.array_equal(one.series["margins"], two.series["margins"])


@pytest.fixture
def ball():
    rng = np.random.default_rng(0)
    flat = np.linalg.qr(rng.standard_normal((25, 2)))[0].T.reshape(2, 5, 5)
    return rng.standard_normal((5, 5)), flat


@pytest.fixture
def x():
    return BooleanInputs(k=3, d=5).sample(40, rng=0)


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
    hull = AttentionSpan(centre, np.stack([first, second]), np.full(2, 0.7), 0.7, None)
    margins, top = hull.margins(x)
    turns = np.linspace(0, 2 * np.pi, 2001)
    edge = [centre + 0.7 * (np.cos(t) * first + np.sin(t) * second) for t in turns]
    np.testing.assert_allclose(margins, worst(x, top, edge), atol=1e-4)


def test_over_a_box_it_is_that_of_the_worst_corner(ball, x):
    centre, flat = ball
    reach = np.array([0.3, 0.8])
    margins, top = AttentionSpan(centre, flat, reach, float(np.hypot(*reach)), None).margins(x)
    signs = [(a, b) for a in (-1, 1) for b in (-1, 1)]
    corners = [centre + np.tensordot(np.multiply(sign, reach), flat, 1) for sign in signs]
    np.testing.assert_allclose(margins, worst(x, top, corners), atol=1e-12)


def test_under_one_matrix_it_is_the_margin_of_its_logits(ball, x):
    centre, _ = ball
    margins, top = AttentionSpan.point(centre).margins(x)
    ordered = np.sort((x @ centre) @ np.swapaxes(x, 1, 2), axis=-1)
    np.testing.assert_allclose(margins, ordered[..., -1] - ordered[..., -2], atol=1e-12)
    assert np.all(margins >= 0)
    assert top.shape == (40, 3)
