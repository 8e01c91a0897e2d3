"""What Gauss-Newton moves: reads are the layer's, products are with the true derivative, memory is reused safely."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from upper import gauss_newton
from upper.engine import Engine
from upper.newton.full_heads import FullHeads, PairMoments
from upper.newton.inner_solve import NormalEquations
from upper.newton.low_rank import LowRankHeads
from upper.six_phase.phase6_heads import SpanHeads

KINDS = ("full", "low rank", "span", "biased", "biased low rank")
SHAPES = {
    "kind": st.sampled_from(KINDS),
    "m": st.integers(1, 3),
    "k": st.integers(1, 4),
    "d": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}


def _setting(kind, m, k, d, rng, *, convert=np.asarray, low=np.float64, n=5, scale=1.0):
    """Heads on tokens, parameters, and linear factors."""
    x = BooleanInputs(k, d).sample(n, rng=rng)
    engine = Engine.of(convert(x), low=low)
    r, biased = max(1, d // 2), kind.startswith("biased")
    if kind in ("full", "biased"):
        heads = FullHeads(rng.standard_normal((m, d + biased, d)))
        parameters = rng.standard_normal((d + biased, m * d))
    elif kind == "span":
        basis = np.linalg.qr(rng.standard_normal((d * d, min(m, d * d))))[0].T.reshape(-1, d, d) * 2
        heads = SpanHeads(basis, rng.standard_normal((m, len(basis))))
        parameters = heads.coordinates.T
    else:
        a, b, v = rng.standard_normal((m, d + biased, r)), *rng.standard_normal((2, m, d, r))
        heads = LowRankHeads(a, b, v, np.zeros((m, r, d)))
        parameters = heads.side_by_side()
    heads = heads.map(convert).on(engine, convert(x), rng)
    heads.go_to(engine.double)
    return heads, convert(scale * parameters), convert(rng.standard_normal((heads.columns + biased, d)))


def _direction(heads, kind, shape, rng):
    """A direction of the parameters; with biases and factors, the last row of B and V is fixed."""
    direction = rng.standard_normal(shape)
    if kind == "biased low rank":
        direction[-1, heads.columns :] = 0
    return direction


def _outputs(heads, parameters, linear):
    return np.asarray(heads.reads(parameters)) @ np.asarray(linear)


@given(**SHAPES)
@settings(max_examples=60, deadline=None)
def test_reads_are_the_layers_and_products_are_with_its_derivative(kind, m, k, d, seed):
    rng = np.random.default_rng(seed)
    heads, parameters, linear = _setting(kind, m, k, d, rng, scale=0.5)
    other = parameters + _direction(heads, kind, parameters.shape, rng)
    for at in (other, parameters):  # the second in the memory of the first
        layer = AttentionLayer(*heads.matrices(at, linear))
        found = _outputs(heads, at, linear).reshape(heads.x.shape)
        np.testing.assert_allclose(found, layer(heads.x), atol=1e-10, rtol=1e-10)
    heads.linearise(parameters, linear)

    direction = _direction(heads, kind, parameters.shape, rng)
    change = np.asarray(heads.times(direction)).copy()
    residual = rng.standard_normal(change.shape)
    back = np.vdot(direction, heads.transpose_times(residual))
    assert np.vdot(change, residual) == pytest.approx(back, rel=1e-9, abs=1e-8)

    h = 1e-4  # of order four: errors are h^4 and rounding over h
    one, two = (
        _outputs(heads, parameters + step * direction, linear)
        - _outputs(heads, parameters - step * direction, linear)
        for step in (h, 2 * h)
    )
    scale = (1 + np.abs(change).max()) * (1 + np.abs(direction).max() ** 5)
    np.testing.assert_allclose(change, (8 * one - two) / (12 * h), atol=1e-7 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_same_numbers_on_every_array_library(kind, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")

    def numbers(convert, low):
        rng = np.random.default_rng(0)
        heads, parameters, linear = _setting(kind, 3, 2, 5, rng, convert=convert, low=low)
        # copied at once: the next product lies in the same memory
        found = [np.asarray(heads.reads(parameters)).copy()]
        heads.linearise(parameters, linear)
        direction = convert(rng.standard_normal(parameters.shape))
        found.append(np.asarray(heads.times(direction)).copy())
        found.append(np.asarray(heads.transpose_times(convert(rng.standard_normal((10, 5))))).copy())
        single = heads.engine.cast(direction, heads.engine.single)
        found.append(np.asarray(heads.damping_term(0.1)(single)).copy())
        found.append(np.asarray(heads.preconditioner(0.1)(single)).copy())
        return found

    both = zip(numbers(np.asarray, np.float64), numbers(xp.asarray, xp.float64), strict=True)
    for number, (ours, theirs) in enumerate(both):  # the last two in single precision
        close = 1e-11 if number < 3 else 1e-4
        np.testing.assert_allclose(theirs, ours, atol=close * (1 + np.abs(ours).max()))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "biased low rank"])
def test_the_normal_equations_are_solved_with_the_linear_factor_eliminated(kind):
    m, k, d, n = 2, 3, 4, 30
    rng = np.random.default_rng(3)
    heads, parameters, linear = _setting(kind, m, k, d, rng, n=n, scale=0.7)
    read = np.asarray(heads.reads(parameters)).copy()
    inverse = np.linalg.inv(read.T @ read + 1e-8 * np.eye(read.shape[1]))
    heads.linearise(parameters, linear)
    unit = np.eye(parameters.size).reshape(-1, *parameters.shape)
    jacobian = np.stack([heads.times(one).copy() for one in unit], axis=-1)
    damped = np.stack([heads.damping_term(1.0)(one).ravel() for one in unit], axis=-1)
    projected = jacobian - np.einsum("rp,pq,sq,sef->ref", read, inverse, read, jacobian, optimize=True)
    normal = np.einsum("ref,reg->fg", jacobian, projected, optimize=True)
    residual = rng.standard_normal((n * k, d))
    right = np.einsum("ref,re->f", jacobian, residual)
    equations = NormalEquations(heads.engine, heads)
    equations.move_to(read, inverse)
    np.testing.assert_allclose(damped, damped.T, atol=1e-5 * np.abs(damped).max())
    for damping in (1.0, 1e-1, 1e-2):  # the later solves use the directions of those before
        step, steps = equations.solve(residual, damping, accuracy=1e-6, at_most=600)
        expected = np.linalg.solve(normal + damping * damped, right)
        assert 0 < steps < 600
        np.testing.assert_allclose(step.ravel(), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch"])
@pytest.mark.parametrize(("n", "k", "d"), [(30, 2, 4), (7, 3, 5), (4, 2, 2)])
def test_pair_moments_invert_the_normal_equations_of_logits(library, n, k, d):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(n)
    x = BooleanInputs(k, d).sample(n, rng=rng)
    # the rows of the map from Theta to all logits without their mean
    rows = np.einsum("nap,nbq->nabpq", x, x - x.mean(axis=1, keepdims=True)).reshape(-1, d, d)
    turned = np.swapaxes(rows, 1, 2)
    both = [one.reshape(len(rows), -1) for one in (rows, turned)]
    moments = sum(one.T @ one for one in both)
    moments *= len(moments) / np.trace(moments)
    theta = rng.standard_normal((3, d * d))
    found = PairMoments(Engine.of(xp.asarray(x)), xp.asarray(x)).solve(xp.asarray(theta, dtype=xp.float32))
    back = np.asarray(found, dtype=np.float64) @ moments
    ridge = np.sum((theta - back) * np.asarray(found)) / np.sum(np.asarray(found) ** 2)
    np.testing.assert_allclose(back + ridge * np.asarray(found), theta, atol=1e-3)
    assert 0.05 < ridge < 0.2


def test_with_few_examples_pair_moments_halve_the_passes(monkeypatch):
    layer, x = make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(2, 16).sample(190, rng=1)
    y, start = layer(x), np.random.default_rng(2).standard_normal((2, 16, 16)) / 16
    passes = []
    for largest in (64, 0):  # with and without them
        monkeypatch.setattr(FullHeads, "largest", largest)
        run = gauss_newton(x, y, start, priors=True, rng=np.random.default_rng(3))
        passes.append(next(one.passes for one in run if one.residual < 1e-9 or one.passes > 4000))
    assert passes[0] < 0.6 * passes[1]


def _heads(m, d, r, seed):
    rng = np.random.default_rng(seed)
    r = min(r, d)
    return LowRankHeads(*rng.standard_normal((3, m, d, r)), o=rng.standard_normal((m, r, d)))


@given(st.integers(1, 4), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_a_layer_and_its_factors_are_the_same_heads_and_the_factors_balanced(m, d, r, seed):
    heads = _heads(m, d, r, seed)
    layer = heads.layer()
    np.testing.assert_allclose(layer.theta, np.einsum("idr,ier->ide", heads.a, heads.b), atol=1e-12)
    np.testing.assert_allclose(layer.w, np.einsum("ids,ise->ide", heads.v, heads.o), atol=1e-12)
    balanced = LowRankHeads.of(layer, heads.rank)
    np.testing.assert_allclose(balanced.layer().theta, layer.theta, atol=1e-10)
    np.testing.assert_allclose(balanced.layer().w, layer.w, atol=1e-10)
    of_a, of_b, of_v = (np.swapaxes(one, 1, 2) @ one for one in (balanced.a, balanced.b, balanced.v))
    np.testing.assert_allclose(of_a, of_b, atol=1e-9)
    np.testing.assert_allclose(of_v, np.broadcast_to(np.eye(of_v.shape[1]), of_v.shape), atol=1e-10)


def test_factors_of_a_layer_of_higher_rank_are_the_nearest_of_lower():
    layer = make_nice_layer(heads=3, dim=8, rng=0)
    near = LowRankHeads.of(layer, 3).layer()
    for matrices, nearest in ((layer.theta, near.theta), (layer.w, near.w)):
        left_out = np.linalg.svd(matrices, compute_uv=False)[:, 3:]
        np.testing.assert_allclose(
            np.linalg.norm(matrices - nearest, axis=(1, 2)), np.linalg.norm(left_out, axis=1)
        )
        assert set(np.linalg.matrix_rank(nearest)) == {3}
