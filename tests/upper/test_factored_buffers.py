"""The factored layer and its derivative in reused memory: the layer's numbers, finite differences, adjointness."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs
from upper import read_tokens
from upper.engine import Engine
from upper.factored_buffers import FactoredForward, FactoredJacobian, side_by_side
from upper.factored_heads import FactoredHeads
from upper.jacobian import HeadJacobian

SHAPES = {
    "m": st.integers(1, 3),
    "k": st.integers(1, 4),
    "d": st.integers(1, 6),
    "r": st.integers(1, 6),
    "s": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}


def _heads(m, d, r, s, rng):
    r, s = min(r, d), min(s, d)
    a, b = rng.standard_normal((2, m, d, r))
    return FactoredHeads(a=a, b=b, v=rng.standard_normal((m, d, s)), o=rng.standard_normal((m, s, d)))


def _flat(engine, heads):
    return np.concatenate([side_by_side(engine, one) for one in (heads.a, heads.b, heads.v)], axis=1)


def _apart(flat, heads):
    """The factors' changes in a direction [dA | dB | dV]."""
    m, d, r = heads.a.shape
    cuts = np.split(flat, [m * r, 2 * m * r], axis=1)
    return [np.moveaxis(one.reshape(d, m, -1), 1, 0) for one in cuts]


def _jacobian(x, heads, **options):
    engine = Engine.of(x)
    forward = FactoredForward(engine, x, heads.heads, heads.rank, heads.w_rank)
    jacobian = FactoredJacobian(engine, x, heads.heads, heads.rank, heads.w_rank, **options)
    pattern, _, apart, values = forward(_flat(engine, heads))
    jacobian.move_to(pattern, apart, values, heads.o.reshape(-1, heads.dim))
    return jacobian


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_forward_is_the_layers(m, k, d, r, s, seed):
    rng = np.random.default_rng(seed)
    x = BooleanInputs(k, d).sample(5, rng=rng)
    heads = _heads(m, d, r, s, rng)
    forward = FactoredForward(Engine.of(x), x, m, heads.rank, heads.w_rank)
    for one in (_heads(m, d, r, s, rng), heads):  # the second in the memory of the first
        pattern, read, _, _ = forward(_flat(Engine.of(x), one))
        layer = one.layer()
        np.testing.assert_allclose(pattern.reshape(5, m, k, k), layer.patterns(x), atol=1e-12)
        output = (read @ one.o.reshape(-1, d)).reshape(x.shape)
        np.testing.assert_allclose(output, layer(x), atol=1e-10)


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_products_with_the_derivative_are_finite_differences(m, k, d, r, s, seed):
    rng = np.random.default_rng(seed)
    x = BooleanInputs(k, d).sample(4, rng=rng)
    heads = _heads(m, d, r, s, rng)
    heads = heads.map(lambda one: 0.5 * one)
    jacobian = _jacobian(x, heads)
    direction = rng.standard_normal(_flat(Engine.of(x), heads).shape)
    a, b, v = _apart(direction, heads)

    def at(h):
        return FactoredHeads(heads.a + h * a, heads.b + h * b, heads.v + h * v, heads.o).layer()(x)

    h = 1e-4  # of order four: errors are h^4 and rounding over h
    expected = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    scale = 1 + np.abs(expected).max() + np.abs(direction).max() ** 5
    np.testing.assert_allclose(jacobian.times(direction).reshape(x.shape), expected, atol=1e-7 * scale)


@given(**SHAPES, values_move=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_transpose_is_the_adjoint(m, k, d, r, s, seed, values_move):
    rng = np.random.default_rng(seed)
    x = BooleanInputs(k, d).sample(4, rng=rng)
    heads = _heads(m, d, r, s, rng)
    jacobian = _jacobian(x, heads, values_move=values_move)
    columns = m * (2 * heads.rank + values_move * heads.w_rank)
    for _ in range(2):
        direction, residual = rng.standard_normal((d, columns)), rng.standard_normal((4 * k, d))
        through = np.vdot(jacobian.times(direction), residual)
        back = np.vdot(direction, jacobian.transpose_times(residual))
        assert through == pytest.approx(back, rel=1e-9, abs=1e-8)


def test_at_full_rank_the_derivative_is_that_of_the_full_solver():
    rng = np.random.default_rng(0)
    m, k, d = 2, 3, 5
    x = BooleanInputs(k, d).sample(6, rng=rng)
    theta, w, change = rng.standard_normal((3, m, d, d))
    heads = FactoredHeads(theta, np.stack(m * [np.eye(d)]), np.stack(m * [np.eye(d)]), w)
    direction = np.concatenate([side_by_side(Engine.of(x), change), np.zeros((d, 2 * m * d))], axis=1)
    pattern, _ = read_tokens(x, theta)
    expected = HeadJacobian.at(x, pattern, w).times(change)
    np.testing.assert_allclose(_jacobian(x, heads).times(direction).reshape(x.shape), expected, atol=1e-12)


def test_without_moving_values_it_is_the_derivative_in_the_first_two_factors():
    rng = np.random.default_rng(0)
    x = BooleanInputs(3, 5).sample(6, rng=rng)
    heads = _heads(2, 5, 2, 3, rng)
    direction = rng.standard_normal((5, 8))
    both = np.concatenate([direction, np.zeros((5, 6))], axis=1)
    ours, expected = _jacobian(x, heads, values_move=False).times(direction), _jacobian(x, heads).times(both)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_all_changes_of_logits_one_head_at_a_time_add_up_to_the_change():
    rng = np.random.default_rng(0)
    x = BooleanInputs(3, 5).sample(6, rng=rng)
    heads = _heads(2, 5, 2, 3, rng)
    h = 1e-6
    logits = rng.standard_normal((4, 3, 3))  # of the first four examples
    each = _jacobian(x, heads).times_each_head(logits).reshape(2, 4, 3, 5)
    for i in range(2):
        w = (heads.v @ heads.o)[i]
        plain = np.einsum("nad,de,nbe->nab", x[:4], (heads.a @ np.swapaxes(heads.b, 1, 2))[i], x[:4])

        def output(step, plain=plain, w=w):
            weights = np.exp(plain + step * logits)
            return (weights / weights.sum(axis=-1, keepdims=True)) @ x[:4] @ w

        expected = (output(h) - output(-h)) / (2 * h)
        np.testing.assert_allclose(each[i], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_same_numbers_on_every_array_library(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(0)
    x, heads = BooleanInputs(2, 5).sample(5, rng=rng), _heads(3, 5, 2, 3, rng)
    flat, o = _flat(Engine.of(x), heads), heads.o.reshape(-1, 5)
    direction, residual = rng.standard_normal(flat.shape), rng.standard_normal((10, 5))

    def numbers(convert):
        tokens = convert(x)
        engine = Engine.of(tokens)
        pattern, read, apart, values = FactoredForward(engine, tokens, 3, 2, 3)(convert(flat))
        jacobian = FactoredJacobian(engine, tokens, 3, 2, 3)
        jacobian.move_to(pattern, apart, values, convert(o))
        # copied at once: the next product lies in the same memory
        found = [np.array(engine.get(one)) for one in (pattern, read)]
        found.append(np.array(engine.get(jacobian.times(convert(direction)))))
        found.append(np.array(engine.get(jacobian.transpose_times(convert(residual)))))
        return found

    for ours, theirs in zip(numbers(np.asarray), numbers(xp.asarray), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-12)


def test_extreme_logits_leave_no_denormals():
    rng = np.random.default_rng(0)
    x, heads = BooleanInputs(3, 8).sample(5, rng=rng).astype(np.float32), _heads(2, 8, 4, 4, rng)
    flat = (1000 * _flat(Engine.of(x), heads)).astype(np.float32)
    pattern, read, _, _ = FactoredForward(Engine.of(x), x, 2, 4, 4)(flat)
    assert np.all(pattern >= 1e-21)
    np.testing.assert_allclose(pattern.sum(axis=-1), 1, atol=1e-6)
    assert np.all(np.isfinite(read))
