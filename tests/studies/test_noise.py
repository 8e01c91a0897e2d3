"""Label noise: the derivative, the laws, cross-entropy, and what is said of the rows."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer, relative_error
from attention.layer import softmax
from studies.noise_law import (
    centred,
    class_laws,
    derivative,
    squared_law,
)
from studies.noise_likelihood import cross_entropy, drawn_classes, most_likely_layer
from upper.baselines.descent import stack_heads

_M, _K, _D = 2, 3, 4
_P = 2 * _M * _D * _D


@pytest.fixture(scope="module")
def layer() -> AttentionLayer:
    return make_nice_layer(heads=_M, dim=_D, rng=0)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return BooleanInputs(_K, _D).sample(60, rng=1)


def _flat(layer: AttentionLayer) -> np.ndarray:
    return np.concatenate([part.reshape(-1) for part in stack_heads(layer.theta, layer.w)])


def test_derivative_is_that_of_the_layer(layer, x):
    rng = np.random.default_rng(2)
    step_theta, step_w = rng.standard_normal((2, _M, _D, _D))
    moved = [
        AttentionLayer(theta=layer.theta + t * step_theta, w=layer.w + t * step_w)(x) for t in (1e-5, -1e-5)
    ]
    along = derivative(layer, x) @ np.concatenate([step_theta.reshape(-1), step_w.reshape(-1)])
    np.testing.assert_allclose(along.reshape(x.shape), (moved[0] - moved[1]) / 2e-5, atol=1e-8)


def test_white_noise_on_the_measured_inputs_themselves_costs_unknowns_over_equations(layer, x):
    rank = np.linalg.matrix_rank(derivative(layer, x).reshape(-1, _P))
    assert squared_law(layer, x, x) == pytest.approx(rank / x.size)


def test_least_squares_has_the_covariance_of_its_law(layer, x):
    # of the linear model at the target, noise drawn anew
    rng = np.random.default_rng(3)
    rows = derivative(layer, x).reshape(-1, _P)
    fresh = BooleanInputs(_K, _D).sample(200, rng=4)
    found = np.linalg.lstsq(rows, rng.standard_normal((x.size, 400)), rcond=1e-9)[0]
    errors = np.mean((derivative(layer, fresh).reshape(-1, _P) @ found) ** 2)
    assert errors == pytest.approx(squared_law(layer, x, fresh), rel=0.05)


def test_small_gains_cost_likelihood_unknowns_over_rows_and_squared_gain(layer, x):
    target = centred(layer)
    many = BooleanInputs(_K, _D).sample(600, rng=5)
    gain = 1e-3
    # the sums of the rows of W cannot be told, and are not missed
    rank = _P - _M * _D - (_P - np.linalg.matrix_rank(derivative(layer, many).reshape(-1, _P)))
    assert class_laws(target, many, gain)[1] * _K * gain**2 == pytest.approx(rank, rel=0.02)


def test_least_squares_on_classes_has_the_spread_of_its_law(layer):
    # of the linear model at the target, classes drawn anew
    gain, target = 2.0, centred(layer)
    rng = np.random.default_rng(10)
    x = BooleanInputs(_K, _D).sample(2000, rng=rng)
    shares = softmax(gain * target(x), np)
    noise = [(_D / gain) * (np.eye(_D)[drawn_classes(shares, rng)] - shares).reshape(-1) for _ in range(200)]
    rows = derivative(target, x).reshape(-1, _P)
    found = rows @ np.linalg.lstsq(rows, np.array(noise).T, rcond=1e-9)[0]
    assert np.mean(found**2) * len(x) == pytest.approx(class_laws(target, x, gain)[0], rel=0.05)


def test_gradient_of_cross_entropy_by_differences(layer, x):
    rng = np.random.default_rng(6)
    classes = rng.integers(0, _D, (len(x), _K))
    flat, step = _flat(layer), rng.standard_normal(_P)
    _, gradient = cross_entropy(flat, x, classes, 1.5)
    ahead, behind = (cross_entropy(flat + t * step, x, classes, 1.5)[0] for t in (1e-5, -1e-5))
    assert gradient @ step == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_most_likely_layer_is_likelier_than_the_target_and_near_it(layer):
    gain, target = 3.0, centred(layer)
    rng = np.random.default_rng(7)
    x = BooleanInputs(_K, _D).sample(1500, rng=rng)
    classes = drawn_classes(softmax(gain * target(x), np), rng)
    found, loss = most_likely_layer(x, classes, target, gain=gain)
    assert loss < cross_entropy(_flat(target), x, classes, gain)[0]
    law = np.sqrt(class_laws(target, x, gain)[1] / 1500 / np.mean(target(x) ** 2))
    assert 0.6 * law < relative_error(found(x), target(x)) < 1.6 * law


def test_the_bound_of_likelihood_is_above_the_spread_of_least_squares(record):
    sampled = [row for row in record("noise").rows if row["kind"] == "sampled"]
    assert all(max(row["squared_law"]) < min(row["likelihood_law"]) for row in sampled)
