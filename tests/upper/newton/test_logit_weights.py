"""Weighted rows near a solution: their equations are those of dense algebra, save passes, and give way to noise."""

from dataclasses import replace

import numpy as np
import pytest

from attention import BooleanInputs, make_nice_layer
from upper import counting_floor, gauss_newton
from upper.engine import Engine
from upper.newton.full_heads import FullHeads
from upper.newton.logit_weights import WeightedEquations, WeightRules


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_step_is_that_of_weighted_least_squares(biased, causal):
    rng = np.random.default_rng(0)
    m, k, d, n = 2, 3, 6, 60
    e = d + biased
    x, theta = rng.standard_normal((n, k, d)), rng.standard_normal((m, e, d)) / d
    engine = replace(Engine.of(x, low=np.dtype(float)), single=np.dtype(float), causal=causal)
    heads = FullHeads(theta, causal=causal).on(engine, x, rng)
    reads = heads.reads(heads.parameters(engine))
    linear = rng.standard_normal((reads.shape[1], d))
    heads.linearise(None, linear)
    equations = WeightedEquations(engine, heads)
    equations.move_to(reads, np.linalg.inv(reads.T @ reads))
    y = rng.standard_normal((n * k, d))
    (step, change), _ = equations.solve(y, accuracy=1e-12, at_most=1000)

    units = np.eye(m * k).reshape(m * k, m, 1, k)
    t = np.stack([heads.outputs(np.tile(unit, (n, k, 1, 1)).reshape(n, -1, k)) for unit in units], axis=2)
    mean = np.sum(t * t) / (n * k * m * (k - 1))
    omega = np.linalg.inv(t @ np.swapaxes(t, 1, 2) + WeightRules().share * mean * np.eye(d))
    root = np.swapaxes(np.linalg.cholesky(omega), 1, 2)
    of_heads = np.stack([heads.times(one.reshape(e, m * d)) for one in np.eye(e * m * d)], axis=2)
    of_factor = np.einsum("rp,de->rdpe", reads, np.eye(d)).reshape(n * k, d, -1)
    matrix = root @ np.concatenate([of_heads, of_factor], axis=2)
    exact = np.linalg.lstsq(matrix.reshape(n * k * d, -1), (root @ y[..., None]).ravel())[0]
    np.testing.assert_allclose(step.ravel(), exact[: step.size], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(change.ravel(), exact[step.size :], rtol=1e-6, atol=1e-8)


def _run(noise, monkeypatch, weighable, until):
    layer, k, d = make_nice_layer(heads=2, dim=16, rng=0), 3, 16
    x = BooleanInputs(k, d).sample(4 * counting_floor(heads=2, tokens=k, dim=d), rng=1)
    y = layer(x) + noise * np.random.default_rng(2).standard_normal(x.shape)
    start = np.random.default_rng(3).standard_normal((2, d, d)) / d
    monkeypatch.setattr(FullHeads, "weighable", weighable)
    run = gauss_newton(x, y, start, rng=np.random.default_rng(4))
    return next(iterate for iterate in run if iterate.residual < until or iterate.passes > 1500)


def test_they_take_at_most_two_thirds_of_the_passes(monkeypatch):
    weighted, plain = (_run(0, monkeypatch, weighable, 1e-12).passes for weighable in (True, False))
    assert weighted < 2 / 3 * plain < 1000


def test_with_noise_a_run_ends_at_least_squares(monkeypatch):
    weighted, plain = (_run(1e-3, monkeypatch, weighable, 0).residual for weighable in (True, False))
    assert weighted < 1e-2
    assert weighted == pytest.approx(plain, rel=1e-5)
