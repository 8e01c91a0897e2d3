"""Regression in cubic features: exact at N = D, of least norm below, whatever the method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upper.linear_attention import (
    FeatureMoments,
    cubic_features,
    feature_count,
    make_linear_attention,
    regress,
    regress_moments,
)
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.regression import regress_blocks


def examples(d, n_examples, *, heads=2, tokens=6, outputs=None, seed=0, boolean=False):
    rng = np.random.default_rng([seed, d, n_examples])
    model = make_linear_attention(heads=heads, dim=d, outputs=outputs, rng=rng)
    x = rng.standard_normal((n_examples, tokens, d))
    x = np.sign(x) if boolean else x
    return model, x, model(x)


def error(learned, model, *, tokens=6, seed=99):
    x = np.random.default_rng(seed).standard_normal((200, tokens, model.dim))
    return np.linalg.norm(learned(x) - model(x)) / np.linalg.norm(model(x))


@pytest.mark.parametrize("method", ["auto", "svd", "cholesky"])
@pytest.mark.parametrize(("d", "heads"), [(3, 9), (5, 4)])
def test_twice_as_many_examples_as_features_determine_the_tensor(method, d, heads):
    model, x, y = examples(d, 2 * feature_count(d), heads=heads)
    learned = regress(x, y, method=method)
    assert learned.unique
    assert learned.residual < 1e-13
    symmetric = (model.tensor() + model.tensor().transpose(0, 2, 1, 3)) / 2
    np.testing.assert_allclose(learned.tensor, symmetric, atol=1e-11)
    # whatever the length: G of other lengths lies in the same space
    assert error(learned, model, tokens=23) < 1e-12


@settings(max_examples=15, deadline=None)
@given(d=st.integers(1, 4), rows=st.integers(1, 60), signs=st.booleans(), seed=st.integers(0, 99))
def test_every_method_finds_the_solution_of_least_norm(d, rows, signs, seed):
    """Signs have dependent features: at d = 4 they span 28 of 40 dimensions."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((rows, 5, d)), rng.standard_normal((rows, 2))
    x = np.sign(x) if signs else x
    phi = cubic_features(x)
    least, _, rank, values = np.linalg.lstsq(phi, y, rcond=1e-10)
    condition = values[0] / values[rank - 1]
    for method in ("auto", "svd", "kernel"):
        learned = regress(x, y, method=method, least_norm=True)
        assert learned.rank == rank
        np.testing.assert_allclose(
            learned.coefficients, least, atol=1e-13 * condition**2 * np.abs(least).max() + 1e-12
        )


def test_least_norm_is_that_in_the_units_given():
    """Signs, one coordinate a thousandth: the rank is 28 of 40, and what is left open is zero."""
    _, x, y = examples(4, 300, boolean=True, tokens=5)
    x = x * [1.0, 1.0, 1.0, 1e-3]
    learned = regress(x, y)
    assert learned.rank == 28
    assert learned.residual < 1e-12
    null = np.linalg.svd(cubic_features(x) / np.abs(cubic_features(x)).max(axis=0))[2][28:]
    null = null / np.abs(cubic_features(x)).max(axis=0)
    null = null / np.linalg.norm(null, axis=1, keepdims=True)
    size = np.linalg.norm(learned.coefficients)
    np.testing.assert_allclose(null @ learned.coefficients, 0, atol=1e-6 * size)


@pytest.mark.parametrize("nearly", [1e-3, 1e-6, 1e-8])
def test_nearly_dependent_features_have_the_rank_of_the_singular_values(nearly):
    """What normal equations cannot tell, as they know squares, goes to the singular values."""
    _, x, y = examples(2, 100)
    x[:, :, 1] = x[:, :, 0] + nearly * x[:, :, 1]
    values = np.linalg.svd(cubic_features(x), compute_uv=False)
    assert regress(x, y).rank == np.sum(values > 1e-10 * values[0])


def test_zero_labels_and_zero_tokens_give_zero():
    x = np.random.default_rng(0).standard_normal((30, 4, 2))
    assert not regress(x, np.zeros((30, 1))).tensor.any()
    nothing = regress(np.zeros((30, 4, 2)), np.ones((30, 1)))
    assert (nothing.rank, nothing.residual) == (0, 1.0)
    assert not nothing.tensor.any()


@pytest.mark.parametrize("number", [6, 100])
@pytest.mark.parametrize("units", [[1.0, 1e-3], [1.0, 1e-9], [1e-90, 1e-90], [1e90, 1e90]], ids=str)
def test_units_of_the_coordinates_do_not_matter(units, number):
    model, x, y = examples(2, number)
    units = np.array(units)
    learned = regress(x * units, y)
    assert learned.rank == 6
    assert learned.residual < 1e-12
    symmetric = (model.tensor() + model.tensor().transpose(0, 2, 1, 3)) / 2
    in_units = symmetric / (units[:, None, None] * units[:, None] * units)
    np.testing.assert_allclose(learned.tensor, in_units, rtol=1e-9)


def test_blocks_moments_and_arrays_give_the_same():
    _model, x, y = examples(3, 90)
    whole = regress(x, y)
    blocked = regress_blocks(
        lambda: ((cubic_features(x[i : i + 7]), y[i : i + 7]) for i in range(0, 90, 7)), 90, 18, 3
    )
    moments = FeatureMoments(18, 3)
    moments.add(x[:50], y[:50])
    moments.add(x[50:], y[50:])
    np.testing.assert_allclose(moments.gram(), cubic_features(x).T @ cubic_features(x), rtol=1e-11)
    for other in (blocked, regress_moments(moments)):
        np.testing.assert_allclose(other.coefficients, whole.coefficients, atol=1e-9)
        assert other.rank == 18


@pytest.mark.bad_input
def test_what_cannot_be_regressed_is_refused():
    _, x, y = examples(2, 100)
    nearly = x.copy()
    nearly[:, :, 1] = x[:, :, 0] + 1e-4 * x[:, :, 1]  # no choice of units helps
    # 200000 examples would take minutes: the refusal looks at shapes alone
    large = np.broadcast_to(1.0, (200_000, 2, 40)), np.broadcast_to(1.0, (200_000, 1))
    moments = FeatureMoments(6, 2)
    moments.add(x, y)
    for call, said in (
        (lambda: regress(*large), r"32800 features.*8\.\d+ GiB, and 2 GiB are allowed"),
        (lambda: regress(x * 1e-110, y), "beyond the range of the numbers"),
        (lambda: moments.add(x, y, average=True), "mixed"),
        (lambda: regress(nearly, y, method="cholesky"), 'use the method "svd"'),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    require_feature_memory(feature_count(24))
