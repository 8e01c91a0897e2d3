"""Gauss-Newton on every engine: array type in, array type out; exactness; the memory it says it takes."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    MixedArraysError,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from attention.metrics import relative_error
from upper import HeadJacobian, Newton, counting_floor, gauss_newton, read_tokens
from upper._conjugate_gradients import two_level
from upper._elimination import Elimination
from upper.engine import Engine
from upper.inner_solver import InnerSolver


def _problem(m, k, d, seed=0, times=4):
    layer = make_nice_layer(heads=m, dim=d, rng=seed)
    x = BooleanInputs(k, d).sample(times * counting_floor(heads=m, tokens=k, dim=d), rng=[seed, 1])
    start = np.random.default_rng([seed, 2]).standard_normal((m, d, d)) / d
    return layer, x, layer(x), start


def _last(iterates, *, at_most=40):
    for iterate in islice(iterates, at_most):
        if iterate.residual < 1e-13:
            break
    return iterate


@pytest.mark.parametrize(
    "library",
    [
        "numpy",
        pytest.param("torch", marks=pytest.mark.slow),
        pytest.param("array_api_strict", marks=pytest.mark.slow),
    ],
)
def test_exact_on_every_engine_and_of_its_array_type(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    layer, x, y, start = _problem(2, 3, 8)
    run = gauss_newton(*(xp.asarray(array) for array in (x, y, start)), rng=np.random.default_rng(0))
    last = _last(run)
    assert last.residual < 1e-13
    for array in (last.theta, last.w):
        assert type(array) is type(xp.asarray(x))
        assert array.dtype == xp.float64
    fitted = AttentionLayer(*(np.asarray(array) for array in (last.theta, last.w)))
    fresh = BooleanInputs(3, 8).sample(100, rng=3)
    assert relative_error(fitted(fresh), layer(fresh)) < 1e-11


@pytest.mark.parametrize(
    "low",
    [
        pytest.param("float32", marks=pytest.mark.slow),
        pytest.param("bfloat16", marks=pytest.mark.slow),
        "float64",
    ],
)
def test_the_precision_of_the_inner_products_changes_the_way_and_not_the_end(low):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    _, x, y, start = _problem(3, 3, 12)
    run = gauss_newton(
        *map(torch.from_numpy, (x, y, start)), inner_dtype=getattr(torch, low), rng=np.random.default_rng(0)
    )
    assert _last(run).residual < 1e-13


def test_what_it_is_given_stays_as_it_was():
    _, x, y, start = _problem(2, 3, 8)
    before = [array.copy() for array in (x, y, start)]
    list(islice(gauss_newton(x, y, start, rng=np.random.default_rng(0)), 6))
    for now, then in zip((x, y, start), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_iterates_keep_their_parameters_while_the_run_goes_on():
    _, x, y, start = _problem(2, 3, 8)
    seen = []
    for iterate in islice(gauss_newton(x, y, start, rng=np.random.default_rng(0)), 8):
        seen.append((iterate, iterate.theta.copy(), iterate.w.copy()))
    for iterate, theta, w in seen:
        np.testing.assert_array_equal(iterate.theta, theta)
        np.testing.assert_array_equal(iterate.w, w)
        residual = y - AttentionLayer(theta, w)(x)
        assert np.linalg.norm(residual) / np.linalg.norm(y) == pytest.approx(
            iterate.residual, rel=1e-2, abs=1e-6
        )


@pytest.mark.parametrize(
    "differentiated", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_tensors_that_are_differentiated_are_taken_as_numbers(differentiated):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    _, x, y, start = _problem(2, 3, 6)
    arrays = [torch.from_numpy(array) for array in (x, y, start)]
    arrays[differentiated].requires_grad_()
    last = _last(gauss_newton(*arrays, rng=np.random.default_rng(0)))
    assert last.residual < 1e-13
    assert not last.theta.requires_grad
    assert not last.w.requires_grad
    assert arrays[differentiated].requires_grad


# from sizes at which the examples take most of it, down to the counting floor, where the kept directions do
@pytest.mark.parametrize(
    ("n", "m", "k", "d", "inner_steps"),
    [
        pytest.param(288, 4, 4, 32, 60, marks=pytest.mark.slow),
        pytest.param(32, 1, 2, 8, 60, marks=pytest.mark.slow),
        pytest.param(40, 2, 4, 48, 200, marks=pytest.mark.slow),
        (96, 1, 2, 96, 60),
    ],
)
def test_memory_is_a_stated_multiple_of_the_problem(n, m, k, d, inner_steps):
    layer = make_nice_layer(heads=m, dim=d, rng=0)
    x = BooleanInputs(k, d).sample(n, rng=[0, 1])
    y, start = layer(x), np.random.default_rng([0, 2]).standard_normal((m, d, d)) / d
    numbers = 6 * n * k * m * (d + 3 * k) + 16 * n * k * d + 160 * m * d * d + 8 * (m * d) ** 2

    def run(at_most):
        rng = np.random.default_rng(0)
        return _last(gauss_newton(x, y, start, inner_steps=inner_steps, rng=rng), at_most=at_most)

    run(2)  # imports are no part of it
    tracemalloc.start()
    try:
        run(16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * numbers + 2**16


def test_the_inner_solver_solves_the_projected_normal_equations():
    m, k, d = 2, 3, 5
    layer, x, _, _ = _problem(m, k, d)
    rng = np.random.default_rng(3)
    pattern, read = read_tokens(x, layer.theta)
    plain = HeadJacobian.at(x, pattern, layer.w)
    columns = [plain.times(one.reshape(m, d, d)).ravel() for one in np.eye(m * d * d)]
    jacobian = np.stack(columns, axis=1).reshape(len(read), d, -1)
    inverse = np.linalg.inv(read.T @ read + 1e-8 * np.eye(m * d))
    projected = jacobian - np.einsum("rp,pq,sq,sef->ref", read, inverse, read, jacobian, optimize=True)
    normal = np.einsum("ref,reg->fg", jacobian, projected)
    residual = rng.standard_normal((len(read), d))
    solver = InnerSolver(Engine.of(x, low=np.float64), x, m, rng)
    solver.move_to(pattern, read, layer.w.reshape(m * d, d), inverse)
    for damping in (1.0, 1e-1, 1e-2):  # the later solves use the directions of those before
        step, steps = solver.solve(residual, damping, forcing=1e-6, at_most=400)
        ours = np.moveaxis(step.reshape(d, m, d), 1, 0).ravel()
        shift = damping * np.trace(solver._coupling) / m
        right = np.einsum("ref,re->f", jacobian, residual)
        expected = np.linalg.solve(normal + shift * np.eye(len(normal)), right)
        assert 0 < steps < 400
        np.testing.assert_allclose(ours, expected, atol=1e-4 * np.abs(expected).max())


def test_directions_kept_from_the_last_solve_save_steps():
    m, k, d = 3, 3, 12
    layer, x, _, _ = _problem(m, k, d)
    pattern, read = read_tokens(x, layer.theta)
    inverse = np.linalg.inv(read.T @ read)
    residual = np.random.default_rng(0).standard_normal((len(read), d))
    steps = []
    solver = InnerSolver(Engine.of(x), x, m, np.random.default_rng(1))
    for _ in range(2):
        solver.move_to(pattern, read, layer.w.reshape(m * d, d), inverse.astype(np.float32))
        steps.append(solver.solve(residual, 1e-6, forcing=1e-2, at_most=100)[1])
    assert steps[1] < 0.7 * steps[0]


@pytest.mark.parametrize("seed", [2])
def test_the_coupling_of_heads_keeps_passes_few_where_their_weights_differ(seed):
    nice = make_nice_layer(heads=4, dim=16, rng=seed)
    sizes = np.array([1, 0.3, 0.1, 0.03]) / np.linalg.norm(nice.w, axis=(1, 2))
    layer = AttentionLayer(nice.theta, sizes[:, None, None] * nice.w)
    x = BooleanInputs(4, 16).sample(4 * counting_floor(heads=4, tokens=4, dim=16), rng=[seed, 1])
    start = np.random.default_rng([seed, 2]).standard_normal((4, 16, 16)) / 16
    for iterate in gauss_newton(x, layer(x), start, rng=np.random.default_rng(0)):
        if iterate.residual < 1e-10 or iterate.passes > 1800:
            break
    # 1114 passes, of seeds 0 and 1 fewer; with the same weight for all heads more than 4000
    assert iterate.residual < 1e-10


def test_a_head_that_is_all_but_saturated_takes_wild_steps_without_a_warning():
    oracle = ExampleOracle(make_nice_layer(heads=1, dim=1, rng=5), SphereInputs(k=2, d=1), rng=1)
    assert Newton(1, start="spectral").fit(oracle, rng=3).outcome is Outcome.EXACT


@pytest.mark.parametrize(
    ("n", "k", "d"),
    [
        (2, 2, 1),
        pytest.param(1, 8, 1, marks=pytest.mark.slow),
        pytest.param(2, 3, 2, marks=pytest.mark.slow),
    ],
)
def test_a_descent_that_is_stuck_goes_on_without_a_warning(n, k, d):
    layer = make_nice_layer(heads=1, dim=d, rng=0)
    for inputs in (BooleanInputs(k, d), SphereInputs(k, d)):
        x = inputs.sample(n, rng=[0, 1])
        start = np.random.default_rng([0, 2]).standard_normal((1, d, d)) / d
        last = _last(gauss_newton(x, layer(x), start, rng=np.random.default_rng(0)), at_most=80)
        assert np.isfinite(last.theta).all()
        assert np.isfinite(last.w).all()


@pytest.mark.parametrize(
    ("damping", "expected"), [(0.0, 1e-6), (1e-4, 1e-6), (1e-2, 1e-5), (1.0, 1e-3), (50.0, 1e-3)]
)
def test_the_ridge_on_the_projections_follows_the_damping_between_its_bounds(damping, expected):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((20, 2, 3))
    read = rng.standard_normal((40, 4)) * np.array([1.0, 1.0, 1.0, 1e-4])
    gram = read.T @ read
    fit = Elimination(Engine.of(y), y, ridge=1e-6).fit(read.astype(np.float32), None, damping)
    shifted = gram + expected * np.trace(gram) / 4 * np.eye(4)
    np.testing.assert_allclose(fit.inverse @ shifted, np.eye(4), atol=1e-3)
    factor = np.linalg.solve(shifted, read.T @ (y / np.abs(y).max()).reshape(40, 3))
    np.testing.assert_allclose(fit.factor, factor, atol=1e-2 * np.abs(factor).max())


def test_directions_that_left_the_numbers_are_dropped():
    engine = Engine.of(np.zeros(1))
    kept = [(np.full((2, 2), np.inf, dtype=np.float32), np.ones((2, 2), dtype=np.float32))]

    def first(r):
        return 2 * r

    assert two_level(engine, kept, first, lambda p, product: product) is first
    assert not kept


@pytest.mark.bad_input
def test_arrays_of_two_libraries_are_an_error():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    _, x, y, start = _problem(1, 2, 4)
    with pytest.raises(MixedArraysError, match="arrays of one library"):
        next(gauss_newton(x, torch.from_numpy(y), start, rng=np.random.default_rng(0)))


@pytest.mark.bad_input
def test_a_start_beyond_the_numbers_is_an_error():
    _, x, y, start = _problem(1, 2, 4)
    with pytest.raises(ValueError, match="beyond float32"):
        next(gauss_newton(x, y, 1e300 * start, rng=np.random.default_rng(0)))
