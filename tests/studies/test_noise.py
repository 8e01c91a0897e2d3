"""The study of noise on labels: the derivative of a layer, and the law of least squares."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, make_nice_layer
from studies.inputs import measure
from studies.noise import derivative, squared_law

_M, _K, _D = 2, 3, 4
_P = 2 * _M * _D * _D


@pytest.fixture(scope="module")
def layer() -> AttentionLayer:
    return make_nice_layer(heads=_M, dim=_D, rng=0)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return BooleanInputs(_K, _D).sample(60, rng=1)


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
    fitted = np.linalg.lstsq(rows, rng.standard_normal((x.size, 400)), rcond=1e-9)[0]
    errors = np.mean((derivative(layer, fresh).reshape(-1, _P) @ fitted) ** 2)
    assert errors == pytest.approx(squared_law(layer, x, fresh), rel=0.05)


def test_newton_is_exact_on_every_distribution_once_it_has_enough_examples():
    cell = {"learner": "newton", "heads": 1, "tokens": 2, "dim": 6, "examples": 81, "draws": 2}
    for inputs in ("boolean", "gaussian", "sphere"):
        row = measure(rng=np.random.default_rng(3), inputs=inputs, **cell)
        assert (row["floors"], row["exact"]) == (4.5, 2)
