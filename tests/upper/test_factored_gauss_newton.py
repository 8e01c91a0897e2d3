"""Factored Gauss-Newton: exact where the full solver has too few examples, and the same where ranks are full."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_low_rank_layer, make_nice_layer
from attention.metrics import relative_error
from upper import counting_floor, gauss_newton
from upper.engine import Engine
from upper.factored_buffers import FactoredForward, FactoredJacobian, side_by_side
from upper.factored_gauss_newton import factored_gauss_newton
from upper.factored_heads import FactoredHeads, random_factors
from upper.factored_solver import FactoredSolver


def _problem(m, k, d, r, *, floors, seed=0):
    layer = make_low_rank_layer(heads=m, dim=d, rank=r, w_rank=r, rng=seed)
    n = floors * counting_floor(heads=m, tokens=k, dim=d, rank=r)
    x = BooleanInputs(k, d).sample(n, rng=[seed, 1])
    return layer, x, layer(x), random_factors(heads=m, dim=d, rank=r, rng=[seed, 2])


def _last(iterates, *, at_most=150, least=1e-11):
    for iterate in islice(iterates, at_most):
        if iterate.residual < least:
            break
    return iterate


def _error(iterate, layer, k):
    fitted = iterate.factors.map(np.asarray).layer()
    fresh = BooleanInputs(k, layer.dim).sample(100, rng=3)
    return relative_error(fitted(fresh), layer(fresh))


# (m, k, d, r) and examples in counting floors of that rank, each from one random start; fewer floors are enough where
# d / r and k are small
@pytest.mark.parametrize(
    ("m", "k", "d", "r", "floors", "library"),
    [
        (2, 2, 32, 4, 4, "numpy"),
        pytest.param(2, 2, 32, 4, 4, "torch", marks=pytest.mark.slow),
        pytest.param(4, 4, 32, 4, 8, "numpy", marks=pytest.mark.slow),
    ],
)
def test_exact_below_the_examples_the_full_solver_needs(m, k, d, r, floors, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    exact = 0
    for seed in range(2):
        layer, x, y, start = _problem(m, k, d, r, floors=floors, seed=seed)
        assert len(x) < 4 * counting_floor(heads=m, tokens=k, dim=d)
        run = factored_gauss_newton(
            xp.asarray(x), xp.asarray(y), start.map(xp.asarray), rng=np.random.default_rng(seed)
        )
        exact += _error(_last(run), layer, k) < 1e-9
    assert exact == 2


@pytest.mark.slow
def test_the_full_solver_fails_on_those_examples():
    layer, x, y, _ = _problem(4, 4, 32, 4, floors=8)
    start = np.random.default_rng(0).standard_normal((4, 32, 32)) / 32
    end = _last(gauss_newton(x, y, start, rng=np.random.default_rng(0)), at_most=60)
    fresh = BooleanInputs(4, 32).sample(100, rng=3)
    assert relative_error(AttentionLayer(end.theta, end.w)(fresh), layer(fresh)) > 0.5


@pytest.mark.parametrize(
    "library",
    [
        "numpy",
        pytest.param("torch", marks=pytest.mark.slow),
        pytest.param("array_api_strict", marks=pytest.mark.slow),
    ],
)
def test_of_the_array_type_it_is_given(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    layer, x, y, start = _problem(2, 3, 8, 4, floors=8)
    run = factored_gauss_newton(
        xp.asarray(x), xp.asarray(y), start.map(xp.asarray), rng=np.random.default_rng(0)
    )
    last = _last(run)
    assert _error(last, layer, 3) < 1e-9
    for array in (last.factors.a, last.factors.b, last.factors.v, last.factors.o):
        assert type(array) is type(xp.asarray(x))
        assert array.dtype == xp.float64


def test_at_full_rank_it_ends_where_the_full_solver_does():
    m, k, d = 2, 3, 8
    layer = make_nice_layer(heads=m, dim=d, rng=0)
    x = BooleanInputs(k, d).sample(6 * counting_floor(heads=m, tokens=k, dim=d), rng=1)
    y = layer(x) + 0.05 * np.random.default_rng(2).standard_normal(
        x.shape
    )  # no layer fits: the limit is a minimum
    theta = layer.theta + 0.05 * np.random.default_rng(3).standard_normal((m, d, d)) / d
    start = FactoredHeads.of(AttentionLayer(theta, layer.w), d)
    full = list(islice(gauss_newton(x, y, theta, rng=np.random.default_rng(0)), 40))[-1]
    ours = list(islice(factored_gauss_newton(x, y, start, rng=np.random.default_rng(0)), 40))[-1]
    assert ours.residual == pytest.approx(full.residual, rel=1e-5)
    plain = ours.multiplied_out()
    np.testing.assert_allclose(plain.theta, full.theta, atol=2e-3)
    np.testing.assert_allclose(plain.w, full.w, atol=5e-3)


@pytest.mark.parametrize("w_rank", [pytest.param(3, marks=pytest.mark.slow), 8])
def test_ranks_of_theta_and_w_may_differ(w_rank):
    layer = make_low_rank_layer(heads=2, dim=8, rank=5, w_rank=w_rank, rng=0)
    x = BooleanInputs(3, 8).sample(200, rng=1)
    start = random_factors(heads=2, dim=8, rank=5, w_rank=w_rank, rng=2)
    last = _last(factored_gauss_newton(x, layer(x), start, rng=np.random.default_rng(0)))
    assert _error(last, layer, 3) < 1e-9
    assert (last.factors.rank, last.factors.w_rank) == (5, w_rank)


def test_a_higher_rank_than_the_targets_is_enough():
    layer, x, y, _ = _problem(2, 3, 12, 3, floors=20)
    start = random_factors(heads=2, dim=12, rank=5, rng=2)
    assert _error(_last(factored_gauss_newton(x, y, start, rng=np.random.default_rng(0))), layer, 3) < 1e-9


def test_the_start_in_other_factors_of_the_same_heads_makes_no_difference():
    _, x, y, start = _problem(2, 3, 12, 3, floors=8)
    rng = np.random.default_rng(5)
    g, h = rng.standard_normal((2, 2, 3, 3))
    turned = FactoredHeads(
        a=100 * start.a @ g,
        b=0.01 * start.b @ np.swapaxes(np.linalg.inv(g), 1, 2),
        v=start.v @ h,
        o=start.o,
    )
    runs = [
        [one.residual for one in islice(factored_gauss_newton(x, y, s, rng=np.random.default_rng(0)), 4)]
        for s in (start, turned)
    ]
    np.testing.assert_allclose(*runs, rtol=1e-2)  # inner solves are in low precision


def test_iterates_have_the_residual_they_say_and_keep_their_factors():
    _, x, y, start = _problem(2, 3, 12, 3, floors=8)
    before = [array.copy() for array in (x, y, start.a, start.v)]
    seen = [
        (iterate, iterate.factors.map(np.copy))
        for iterate in islice(factored_gauss_newton(x, y, start, rng=np.random.default_rng(0)), 12)
    ]
    for iterate, factors in seen:
        for name in ("a", "b", "v", "o"):
            np.testing.assert_array_equal(getattr(iterate.factors, name), getattr(factors, name))
        assert relative_error(factors.layer()(x), y) == pytest.approx(iterate.residual, rel=1e-2, abs=1e-6)
        plain = iterate.multiplied_out()
        np.testing.assert_array_equal(plain.theta, factors.layer().theta)
        assert (plain.residual, plain.passes) == (iterate.residual, iterate.passes)
    for now, then in zip((x, y, start.a, start.v), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("w_rank", [2, 5])
def test_the_inner_solver_solves_the_projected_normal_equations(w_rank):
    m, k, d, r, n = 2, 3, 5, 2, 40
    rng = np.random.default_rng(3)
    x = BooleanInputs(k, d).sample(n, rng=rng)
    heads = FactoredHeads(
        *rng.standard_normal((2, m, d, r)) / 2,
        v=rng.standard_normal((m, d, w_rank)),
        o=rng.standard_normal((m, w_rank, d)),
    )
    engine = Engine.of(x, low=np.float64)
    flat = np.concatenate([side_by_side(engine, one) for one in (heads.a, heads.b, heads.v)], axis=1)
    o = heads.o.reshape(-1, d)
    pattern, read, apart, values = FactoredForward(engine, x, m, r, w_rank)(flat)
    moves = w_rank < d
    plain = FactoredJacobian(engine, x, m, r, w_rank, values_move=moves)
    plain.move_to(pattern, apart, values, o)
    columns = m * (2 * r + moves * w_rank)
    jacobian = np.stack([plain.times(one.reshape(d, -1)).copy() for one in np.eye(d * columns)], axis=-1)
    inverse = np.linalg.inv(read.T @ read + 1e-8 * np.eye(m * w_rank))
    projected = jacobian - np.einsum("rp,pq,sq,sef->ref", read, inverse, read, jacobian, optimize=True)
    normal = np.einsum("ref,reg->fg", jacobian, projected, optimize=True)
    residual = rng.standard_normal((n * k, d))
    right = np.einsum("ref,re->f", jacobian, residual)
    solver = FactoredSolver(engine, x, m, r, w_rank, rng)
    solver.move_to(pattern, read, apart, values, flat, o, inverse)
    for damping in (1.0, 1e-1, 1e-2):  # the later solves use the directions of those before
        step, steps = solver.solve(residual, damping, forcing=1e-6, at_most=600)
        blocks = np.zeros((columns, columns))
        first = 0
        for one in solver._damped:
            blocks[first : first + len(one), first : first + len(one)] = one
            first += len(one)
        damped = normal + damping * np.kron(np.eye(d), blocks)
        expected = np.linalg.solve(damped, right)
        assert 0 < steps < 600
        np.testing.assert_allclose(step.ravel(), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(("m", "k", "d", "r"), [(4, 4, 16, 4), (2, 2, 16, 8)])
def test_memory_is_a_stated_multiple_of_the_problem(m, k, d, r):
    _, x, y, start = _problem(m, k, d, r, floors=8)
    n = len(x)
    numbers = n * k * m * (30 * r + 9 * k) + 16 * n * k * d + 240 * 3 * m * r * d + 8 * (2 * m * r) ** 2
    list(
        islice(factored_gauss_newton(x, y, start, rng=np.random.default_rng(0)), 2)
    )  # imports are no part of it
    tracemalloc.start()
    try:
        _last(factored_gauss_newton(x, y, start, rng=np.random.default_rng(0)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * numbers


@pytest.mark.bad_input
def test_a_start_beyond_the_numbers_is_an_error():
    _, x, y, start = _problem(1, 2, 4, 2, floors=4)
    with pytest.raises(ValueError, match="beyond float32"):
        next(factored_gauss_newton(x, y, start.map(lambda one: 1e150 * one), rng=np.random.default_rng(0)))
