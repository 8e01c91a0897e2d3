"""Certificates of agreement: Y_a regressed on X sum_i W_i with weights of sum 1, and the equations they give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import AttentionLayer, BooleanInputs, GaussianInputs, make_nice_layer
from tests.upper.six_phase.agreeing import agreeing_layer
from upper.six_phase.agreement import (
    certify_agreement,
    contrasts_of,
    has_repeated_tokens,
)


def _agreeing_in_row_zero(layer, k, n, rng):
    """Gaussian tokens moved so that x_0 (Theta_i - Theta_1) (x_b - x_0) = 0: row 0 alone agrees exactly."""
    x = GaussianInputs(tokens=k, dim=layer.dim).sample(n, rng=rng)
    for example in x:
        off = example[0] @ (layer.theta[1:] - layer.theta[0])
        across = np.linalg.qr(off.T)[0]
        differences = example[1:] - example[0]
        example[1:] = example[0] + differences - (differences @ across) @ across.T
    return x


def _random_problem(n, k, d, seed):
    """Labels that no pattern explains: what a certificate must still project correctly."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, k, d)), rng.standard_normal((n, k, d)), rng.standard_normal((d, d))


@pytest.mark.parametrize(("m", "k"), [(2, 2), (2, 3), (3, 3)])
def test_rows_on_which_different_heads_agree_are_told_from_those_on_which_they_do_not(m, k):
    layer = make_nice_layer(heads=m, dim=16, rng=2)
    x = _agreeing_in_row_zero(layer, k, 50, 3)
    patterns = layer.patterns(x)
    found = certify_agreement(x, layer(x), layer.w.sum(axis=0))
    np.testing.assert_allclose(found.pattern[:, 0], patterns[:, 0, 0], atol=1e-8)
    assert found.residual[:, 0].max() < 1e-8
    # where p is tiny its logarithm magnifies the rounding of the regression
    accepted = np.zeros(found.residual.shape, dtype=bool)
    accepted[:, 0] = found.pattern[:, 0].min(axis=-1) > 1e-4
    contrasts = contrasts_of(x, found.pattern, accepted)
    assert len(contrasts) == accepted.sum() > 10
    assert contrasts.equations == (k - 1) * len(contrasts)
    for theta in layer.theta:
        np.testing.assert_allclose(contrasts.apply(theta), contrasts.log_ratios, atol=1e-6)
    assert contrasts.error(layer) < 1e-6
    # no false positive: a row is certified as far as its heads' patterns agree
    stray = np.ptp(patterns, axis=1).max(axis=-1)[:, 1:]
    assert np.median(stray) > 0.1
    assert np.all(found.residual[:, 1:] > 0.05 * stray)


@given(k=st.integers(2, 5), d=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_contrasts_are_equivalent_to_the_log_ratios_of_pairs(k, d, seed):
    rng = np.random.default_rng(seed)
    x, theta = rng.standard_normal((3, k, d)), rng.standard_normal((d, d)) / d
    pattern = AttentionLayer(theta=theta[None], w=np.eye(d)[None]).patterns(x)[:, 0]
    contrasts = contrasts_of(x, pattern, np.ones((3, k), dtype=bool))
    pairs = np.einsum("nai,ij,nabcj->nabc", x, theta, x[:, None, :, None] - x[:, None, None])
    np.testing.assert_allclose(
        pairs, np.log(pattern)[..., :, None] - np.log(pattern)[..., None, :], atol=1e-9, rtol=1e-9
    )
    np.testing.assert_allclose(contrasts.apply(theta), contrasts.log_ratios, atol=1e-9, rtol=1e-9)
    # orthonormal contrasts lose nothing: their squares add up to those of all ordered pairs over 2 k
    by_pairs = np.sum(pairs**2, axis=(2, 3)).ravel() / (2 * k)
    np.testing.assert_allclose(np.sum(contrasts.apply(theta) ** 2, axis=1), by_pairs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        contrasts.weights, 1 / np.sum(pattern.reshape(-1, k) ** -2, axis=1), rtol=1e-12
    )


@given(k=st.integers(2, 5), extra=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_least_squares_certificates_solve_the_constrained_problem_row_by_row(k, extra, seed):
    """Against the Karush-Kuhn-Tucker system and against bounded least squares with the constraint weighted heavily."""
    x, y, w = _random_problem(2, k, k + extra, seed)
    found = certify_agreement(x, y, w)
    for example in range(2):
        read = (x[example] @ w).T
        for row in range(k):
            right = y[example, row]
            system = np.block([[read.T @ read, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
            condition = np.linalg.cond(system)
            p = np.linalg.solve(system, np.append(read.T @ right, 1.0))[:k]
            np.testing.assert_allclose(
                found.pattern[example, row],
                p,
                rtol=1e-6,
                atol=max(1e-8, 1e-9 * condition) * (1 + abs(p).max()),
            )
            missed = np.linalg.norm(right - read @ p) / np.linalg.norm(right)
            assert found.residual[example, row] == pytest.approx(missed, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("inputs", [BooleanInputs, GaussianInputs])
def test_repeated_and_opposite_tokens_certify_nothing(sign, inputs):
    layer = agreeing_layer(2, 8, 17)
    x = inputs(tokens=3, dim=8).sample(4, rng=18)
    assert not has_repeated_tokens(x).any()
    x[1, 2], x[3, 0] = sign * x[1, 0], sign * x[3, 1]
    np.testing.assert_array_equal(has_repeated_tokens(x), [False, True, False, True])
    residual = certify_agreement(x, layer(x), layer.w.sum(axis=0)).residual
    np.testing.assert_array_equal(np.isinf(residual).all(axis=1), [False, True, False, True])
    assert residual[[0, 2]].max() < 1e-7


def test_rows_without_a_label_certify_nothing():
    x, y, w = _random_problem(2, 2, 5, 19)
    y[1, 0] = 0.0
    residual = certify_agreement(x, y, w).residual
    np.testing.assert_array_equal(np.isinf(residual), [[False, False], [True, False]])


@pytest.mark.bad_input
@pytest.mark.parametrize(("k", "d"), [(1, 4), (4, 4), (5, 4), (1, 1)])
def test_too_few_and_too_many_tokens_are_refused(k, d):
    x, y, w = _random_problem(2, k, d, 21)
    with pytest.raises(ValueError, match="2 <= k < d"):
        certify_agreement(x, y, w)


@pytest.mark.bad_input
@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.2, -0.2)])
def test_a_pattern_without_a_logarithm_is_refused(weights):
    x = np.ones((1, 2, 3))
    pattern = np.array([[weights, (0.5, 0.5)]])
    with pytest.raises(ValueError, match="positive"):
        contrasts_of(x, pattern, np.array([[True, False]]))
    assert len(contrasts_of(x, pattern, np.array([[False, True]]))) == 1
