"""The layer and its derivative in reused memory: the numbers of the plain functions, call after call."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer
from upper import HeadJacobian, read_tokens
from upper.buffers import StackedForward, StackedJacobian
from upper.engine import Engine

SHAPES = {
    "m": st.integers(1, 4),
    "k": st.integers(1, 4),
    "d": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}
LIBRARIES = ["numpy", "torch", "array_api_strict"]


def _setting(m, k, d, seed):
    rng = np.random.default_rng(seed)
    return make_nice_layer(heads=m, dim=d, rng=rng), BooleanInputs(k, d).sample(5, rng=rng), rng


def _side_by_side(matrices):
    m, d, _ = matrices.shape
    return np.ascontiguousarray(np.moveaxis(matrices, 0, 1).reshape(d, m * d))


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_forward_in_reused_memory_is_the_forward_pass(m, k, d, seed):
    layer, x, rng = _setting(m, k, d, seed)
    forward = StackedForward(Engine.of(x), x, m)
    for theta in (rng.standard_normal(layer.theta.shape), np.array(layer.theta)):
        for ours, expected in zip(forward(_side_by_side(theta)), read_tokens(x, theta), strict=True):
            np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_products_in_reused_memory_are_those_of_the_jacobian(m, k, d, seed):
    layer, x, rng = _setting(m, k, d, seed)
    jacobian = StackedJacobian(Engine.of(x), x, m)
    for theta in (rng.standard_normal(layer.theta.shape), np.array(layer.theta)):
        pattern, _ = read_tokens(x, theta)
        w = rng.standard_normal(layer.w.shape)
        jacobian.move_to(pattern, w.reshape(m * d, d))
        plain = HeadJacobian.at(x, pattern, w)
        for _ in range(2):
            direction, residual = rng.standard_normal(theta.shape), rng.standard_normal(x.shape)
            np.testing.assert_allclose(
                jacobian.times(_side_by_side(direction)).reshape(x.shape), plain.times(direction), atol=1e-10
            )
            np.testing.assert_allclose(
                jacobian.transpose_times(residual.reshape(-1, d)),
                _side_by_side(plain.transpose_times(residual)),
                atol=1e-10,
            )


def test_extreme_logits_leave_no_denormals():
    layer, x, _ = _setting(2, 3, 8, 0)
    pattern, read = StackedForward(Engine.of(x), x.astype(np.float32), 2)(
        _side_by_side(1000 * layer.theta).astype(np.float32)
    )
    assert np.all(pattern >= 1e-21)
    np.testing.assert_allclose(pattern.sum(axis=-1), 1, atol=1e-6)
    assert np.all(np.isfinite(read))


@pytest.mark.parametrize("library", LIBRARIES)
def test_same_numbers_on_every_array_library_in_reused_memory(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    layer, x, rng = _setting(3, 2, 5, 0)
    residual, direction = rng.standard_normal((x.shape[0] * 2, 5)), rng.standard_normal((5, 15))

    def numbers(convert):
        tokens = convert(x)
        engine = Engine.of(tokens)
        pattern, read = StackedForward(engine, tokens, 3)(convert(_side_by_side(layer.theta)))
        jacobian = StackedJacobian(engine, tokens, 3)
        jacobian.move_to(pattern, convert(np.array(layer.w).reshape(15, 5)))
        found = pattern, read, jacobian.times(convert(direction)), jacobian.transpose_times(convert(residual))
        return [np.array(one) for one in map(engine.get, found)]

    for ours, theirs in zip(numbers(np.asarray), numbers(xp.asarray), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-12)
