"""The stacked layout: the same layer, its true derivative, and an exact adjoint."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer
from upper import HeadJacobian, read_tokens, stack_projections

SHAPES = {
    "m": st.integers(1, 4),
    "k": st.integers(1, 4),
    "d": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}


def _setting(m, k, d, seed):
    rng = np.random.default_rng(seed)
    return make_nice_layer(heads=m, dim=d, rng=rng), BooleanInputs(k, d).sample(5, rng=rng), rng


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_reads_times_projections_are_the_layer(m, k, d, seed):
    layer, x, _ = _setting(m, k, d, seed)
    pattern, read = read_tokens(x, layer.theta)
    np.testing.assert_allclose(
        (read @ stack_projections(layer.w)).reshape(x.shape), layer(x), atol=1e-12, rtol=1e-12
    )
    np.testing.assert_allclose(np.moveaxis(pattern, 2, 1), layer.patterns(x), atol=1e-13)


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_jacobian_is_the_derivative(m, k, d, seed):
    layer, x, rng = _setting(m, k, d, seed)
    direction, step = rng.standard_normal(layer.theta.shape), 1e-5
    pattern, _ = read_tokens(x, layer.theta)
    w = stack_projections(layer.w)
    ahead, behind = (
        (read_tokens(x, layer.theta + sign * step * direction)[1] @ w).reshape(x.shape) for sign in (1, -1)
    )
    np.testing.assert_allclose(
        HeadJacobian.at(x, pattern, layer.w).times(direction),
        (ahead - behind) / (2 * step),
        atol=2e-6,
        rtol=2e-6,
    )


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_adjoint_identity(m, k, d, seed):
    layer, x, rng = _setting(m, k, d, seed)
    jacobian = HeadJacobian.at(x, read_tokens(x, layer.theta)[0], layer.w)
    direction, residual = rng.standard_normal(layer.theta.shape), rng.standard_normal(x.shape)
    there = np.vdot(jacobian.times(direction), residual)
    back = np.vdot(direction, jacobian.transpose_times(residual))
    np.testing.assert_allclose(there, back, atol=1e-10, rtol=1e-10)


@given(**SHAPES)
@settings(max_examples=20, deadline=None)
def test_jacobian_is_the_sum_of_its_heads(m, k, d, seed):
    layer, x, rng = _setting(m, k, d, seed)
    jacobian = HeadJacobian.at(x, read_tokens(x, layer.theta)[0], layer.w)
    direction = rng.standard_normal((d, d))
    together = jacobian.times(np.broadcast_to(direction, (m, d, d)))
    np.testing.assert_allclose(jacobian.times_each_head(direction).sum(axis=0), together, atol=1e-11)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_same_numbers_on_every_array_library(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    layer, x, rng = _setting(3, 2, 5, 0)
    residual = rng.standard_normal(x.shape)

    def products(convert):
        tokens, theta, w = convert(x), convert(np.array(layer.theta)), convert(np.array(layer.w))
        pattern, read = read_tokens(tokens, theta)
        jacobian = HeadJacobian.at(tokens, pattern, w)
        return pattern, read, jacobian.times(theta), jacobian.transpose_times(convert(residual))

    for ours, theirs in zip(products(np.asarray), products(xp.asarray), strict=True):
        assert type(theirs) is type(xp.asarray(x))
        np.testing.assert_allclose(np.asarray(theirs), ours, atol=1e-12)
