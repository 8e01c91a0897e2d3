"""A start by moments: estimates of the attention matrices that are near enough for a run to skip its first part."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer
from upper import Newton, counting_floor, gauss_newton
from upper.newton.moment_start import heads_by_moments


def _examples(m, k, d, *, causal=False):
    nice = make_nice_layer(heads=m, dim=d, rng=m)
    layer = AttentionLayer(nice.theta, nice.w, causal=causal)
    x = BooleanInputs(k, d).sample(4 * counting_floor(heads=m, tokens=k, dim=d), rng=1)
    return layer, x, layer(x)


def _cosines(estimates, theta):
    """Of each true matrix with the nearest estimate."""
    flat = [a.reshape(len(a), -1) / np.linalg.norm(a, axis=(1, 2))[:, None] for a in (theta, estimates)]
    return (flat[0] @ flat[1].T).max(axis=1)


@pytest.mark.parametrize("causal", [False, True])
def test_every_attention_matrix_has_an_estimate(causal):
    layer, x, y = _examples(8, 4, 32, causal=causal)
    estimates = heads_by_moments(x, y, 8, causal=causal, rng=np.random.default_rng(0))
    assert np.sort(_cosines(estimates, layer.theta))[1] > 0.4


def test_estimates_follow_the_units_of_tokens_and_not_of_labels():
    _, x, y = _examples(2, 4, 8)
    one, other = (heads_by_moments(x, unit * y, 2, rng=np.random.default_rng(0)) for unit in (1.0, 1e-3))
    assert other == pytest.approx(one, rel=1e-3)


def test_a_run_from_estimates_takes_fewer_passes_to_a_tenth():
    _, x, y = _examples(8, 4, 32)
    rng = np.random.default_rng(0)

    def passes(start):
        return next(at.passes for at in gauss_newton(x, y, start, rng=rng) if at.residual < 0.1)

    assert 2 * passes(heads_by_moments(x, y, 8, rng=rng)) < passes(rng.standard_normal((8, 32, 32)) / 32)


def test_a_stalled_start_by_moments_is_followed_by_random_ones():
    layer = make_nice_layer(heads=8, dim=16, rng=0)
    stuck = AttentionLayer(30 * layer.theta, layer.w)  # logits that saturate every row
    oracle = ExampleOracle(stuck, BooleanInputs(4, 16), rng=1)
    fit = Newton(8, work=4000, starts=3).fit(oracle, rng=2)
    assert {step.name.split(",")[0] for step in fit.trace} >= {"Start 1", "Start 2"}


def test_a_hidden_token_of_a_large_logit_takes_no_weight_from_the_visible_ones():
    nice = make_nice_layer(heads=2, dim=8, rng=7)
    layer = AttentionLayer(nice.theta, nice.w, causal=True)
    x = 3 * np.random.default_rng(7).standard_normal((400, 5, 8))
    assert np.isfinite(heads_by_moments(x, layer(x), 2, causal=True, rng=np.random.default_rng(7))).all()
