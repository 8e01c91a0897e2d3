"""Heads a hundredth apart: a run that stalls goes on in double precision, and ends exact."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer, parameter_errors, relative_error
from upper import gauss_newton


def _end(x, y, start, *, trials):
    residuals = []
    for iterate in gauss_newton(x, y, start, tolerance=1e-14, rng=np.random.default_rng(0)):
        residuals.append(iterate.residual)
        if iterate.residual < 1e-13 or len(residuals) > trials:
            return iterate, residuals
    raise AssertionError


def _pair(seed, gap=0.01):
    layer = make_nice_layer(heads=2, dim=16, rng=seed)
    theta = layer.theta.copy()
    apart = np.random.default_rng([seed, 1]).standard_normal((16, 16))
    theta[1] = theta[0] + gap * np.linalg.norm(theta[0]) * apart / np.linalg.norm(apart)
    return AttentionLayer(theta, layer.w)


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_parameters_of_a_pair_a_hundredth_apart_are_recovered(seed):
    layer, inputs = _pair(seed), BooleanInputs(3, 16)
    x = inputs.sample(400, rng=[seed, 2])
    start = np.random.default_rng([seed, 3]).standard_normal((2, 16, 16)) / 16
    end, _ = _end(x, layer(x), start, trials=150)
    found = AttentionLayer(end.theta, end.w)
    fresh = inputs.sample(200, rng=[seed, 4])
    assert relative_error(found(fresh), layer(fresh)) < 1e-10
    # of the gap itself, not only of the heads
    assert parameter_errors(found, layer).theta.max() < 1e-8


def test_torch_goes_over_to_double_too():
    torch = pytest.importorskip("torch")
    layer, x = _pair(0), BooleanInputs(3, 16).sample(400, rng=[0, 2])
    start = np.random.default_rng([0, 3]).standard_normal((2, 16, 16)) / 16
    end, _ = _end(*map(torch.from_numpy, (x, layer(x), start)), trials=150)
    assert end.residual < 1e-12
