"""The error measures: their fixed points, their symmetries, and the matching of heads."""

import itertools

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    GaussianInputs,
    GroundTruth,
    make_nice_layer,
    parameter_errors,
    relative_error,
    unknown_part_error,
)

seeds = st.integers(0, 2**32)


def outputs(seed, n=3):
    """Three independent sets of outputs: predicted, target, known."""
    return np.random.default_rng(seed).standard_normal((3, n, 2, 4))


class TestFunctions:
    @given(seed=seeds)
    def test_zero_predictor_has_error_one_and_the_target_none(self, seed):
        _, target, known = outputs(seed)
        assert relative_error(np.zeros_like(target), target) == 1
        assert relative_error(target, target) == 0
        assert unknown_part_error(known, target, known) == pytest.approx(1, rel=1e-15)
        assert unknown_part_error(target, target, known) == 0

    @given(seed=seeds)
    def test_values_are_those_of_the_definition(self, seed):
        predicted, target, known = outputs(seed)
        missed = sum((p - t) ** 2 for p, t in zip(predicted.ravel(), target.ravel(), strict=True))
        whole = sum(t**2 for t in target.ravel())
        unknown = sum((t - k) ** 2 for t, k in zip(target.ravel(), known.ravel(), strict=True))
        assert relative_error(predicted, target) == pytest.approx((missed / whole) ** 0.5)
        assert unknown_part_error(predicted, target, known) == pytest.approx((missed / unknown) ** 0.5)
        assert unknown_part_error(predicted, target, None) == relative_error(predicted, target)

    @given(seed=seeds, scale=st.floats(1e-3, 1e3), shift=st.floats(-5, 5))
    def test_scale_and_a_shift_by_the_known_part_change_nothing(self, seed, scale, shift):
        predicted, target, known = outputs(seed)
        assert relative_error(scale * predicted, scale * target) == pytest.approx(
            relative_error(predicted, target)
        )
        moved = (predicted + shift, target + shift, known + shift)
        assert unknown_part_error(*moved) == pytest.approx(unknown_part_error(predicted, target, known))

    def test_a_multiple_of_the_target_misses_by_that(self):
        _, target, _ = outputs(0)
        assert relative_error(1.25 * target, target) == pytest.approx(0.25)

    def test_other_libraries(self):
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        expected = unknown_part_error(*outputs(0))
        for convert in (torch.from_numpy, array_api_strict.asarray):
            value = unknown_part_error(*(convert(one) for one in outputs(0)))
            assert isinstance(value, float)
            assert value == pytest.approx(expected)

    def test_a_target_without_unknown_part_has_no_relative_error(self):
        predicted, target, _ = outputs(0)
        with pytest.raises(ValueError, match="no unknown part"):
            relative_error(predicted, np.zeros_like(target))
        with pytest.raises(ValueError, match="no unknown part"):
            unknown_part_error(predicted, target, target)

    @pytest.mark.bad_input
    def test_wrong_shapes(self):
        predicted, target, known = outputs(0)
        with pytest.raises(ValueError, match="one shape of all outputs"):
            relative_error(predicted[:1], target)
        with pytest.raises(ValueError, match="one shape of all outputs"):
            unknown_part_error(predicted, target, known[:, :1])


class TestParameters:
    @given(seed=seeds, heads=st.integers(1, 6), dim=st.integers(1, 5))
    def test_permuted_heads_have_no_error(self, seed, heads, dim):
        truth = make_nice_layer(heads=heads, dim=dim, rng=seed)
        order = np.random.default_rng(seed).permutation(heads)
        errors = parameter_errors(AttentionLayer(theta=truth.theta[order], w=truth.w[order]), truth)
        assert not errors.theta.any()
        assert not errors.w.any()
        np.testing.assert_array_equal(order[errors.matching], np.arange(heads))

    @given(seed=seeds, heads=st.integers(1, 5))
    def test_matching_is_the_best_of_all(self, seed, heads):
        fitted, truth = (make_nice_layer(heads=heads, dim=2, rng=[seed, one]) for one in (0, 1))

        def errors(i, j):
            return [
                np.linalg.norm(getattr(fitted, name)[i] - getattr(truth, name)[j])
                / np.linalg.norm(getattr(truth, name)[j])
                for name in ("theta", "w")
            ]

        best = min(
            sum(sum(errors(i, j)) for j, i in enumerate(order))
            for order in itertools.permutations(range(heads))
        )
        found = parameter_errors(fitted, truth)
        assert sum(found.theta) + sum(found.w) == pytest.approx(best)
        for j, i in enumerate(found.matching):
            assert [found.theta[j], found.w[j]] == pytest.approx(errors(i, j))

    @given(seed=seeds, error=st.floats(1e-12, 0.1))
    def test_a_known_error_is_found(self, seed, error):
        truth, rng = make_nice_layer(heads=3, dim=4, rng=seed), np.random.default_rng(seed)
        theta, w = np.array(truth.theta), np.array(truth.w)
        step = rng.standard_normal((4, 4))
        theta[1] += error * np.linalg.norm(theta[1]) * step / np.linalg.norm(step)
        w[2] *= 1 + error
        order = rng.permutation(3)
        errors = parameter_errors(AttentionLayer(theta=theta[order], w=w[order]), truth)
        np.testing.assert_allclose(errors.theta, [0, error, 0], rtol=1e-3, atol=1e-15)
        np.testing.assert_allclose(errors.w, [0, 0, error], rtol=1e-3, atol=1e-15)

    def test_a_zero_head_has_its_error_relative_to_one(self):
        zeros = np.zeros((1, 2, 2))
        errors = parameter_errors(
            AttentionLayer(theta=zeros + 3, w=zeros), AttentionLayer(theta=zeros, w=zeros)
        )
        assert (errors.theta[0], errors.w[0]) == (6, 0)

    def test_other_libraries_may_meet(self):
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        layer = make_nice_layer(heads=2, dim=3, rng=0)
        assert not parameter_errors(layer.map(torch.from_numpy), layer).theta.any()

    def test_other_sizes_do_not_compare(self):
        one = make_nice_layer(heads=2, dim=3, rng=0)
        for heads, dim in ((3, 3), (2, 4)):
            with pytest.raises(ValueError, match="compare the functions instead"):
                parameter_errors(make_nice_layer(heads=heads, dim=dim, rng=0), one)


def test_permuting_the_heads_changes_no_error_at_all():
    layer = make_nice_layer(heads=3, dim=4, rng=0)
    truth = GroundTruth.draw(layer, GaussianInputs(2, 4), 50, rng=1)
    measures = truth.measure(layer=AttentionLayer(theta=layer.theta[::-1], w=layer.w[::-1]))
    assert measures["theta_error"] == measures["w_error"] == 0
    assert max(measures.values()) < 1e-15


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_errors_are_free_of_scale(scale):
    rng = np.random.default_rng(0)
    target, error = rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 2, 3))
    expected = relative_error(target + error, target)
    np.testing.assert_allclose(relative_error(scale * (target + error), scale * target), expected, rtol=1e-12)
    nice, other = make_nice_layer(heads=2, dim=3, rng=0), make_nice_layer(heads=2, dim=3, rng=1)
    large, larger = (AttentionLayer(scale * layer.theta, layer.w) for layer in (nice, other))
    np.testing.assert_allclose(
        parameter_errors(larger, large).theta, parameter_errors(other, nice).theta, rtol=1e-12
    )
    assert np.isfinite(parameter_errors(larger, nice).theta).all()


@pytest.mark.parametrize(("prediction", "scale"), [(1.0, 1e-200), (1e-200, 1.0), (1e200, 1.0), (1.0, 1e200)])
def test_errors_of_outputs_of_very_different_size_are_their_ratio(prediction, scale):
    target = np.random.default_rng(0).standard_normal((5, 2, 3))
    expected = max(prediction / scale, 1.0)  # beside the larger the smaller is nothing
    found = relative_error(prediction * target, scale * target)
    assert found == pytest.approx(expected, rel=1e-12)
    assert unknown_part_error(prediction * target, scale * target, 0 * target) == found


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_has_no_finite_error(value):
    _, target, _ = outputs(0)
    predicted = target.copy()
    predicted[0, 0, 0] = value
    np.testing.assert_equal(relative_error(predicted, target), value)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("predicted", "target", "error"),
    [
        (np.uint8(1), np.uint8(2), 0.5),
        (np.int8(100), np.int8(-100), 2.0),
        (np.int8(0), np.int8(-128), 1.0),
        (np.float16(60_000), np.float16(-60_000), 2.0),
        (np.float64(1.7e308), np.float64(-1.7e308), 2.0),
        (np.int64(2**62), np.int64(-(2**62)), 2.0),
    ],
)
def test_differences_that_their_type_cannot_hold_are_right(predicted, target, error):
    predicted, target = (np.full((2, 1, 3), one) for one in (predicted, target))
    assert relative_error(predicted, target) == pytest.approx(error)


def test_half_precision_sums_many_squares():
    target = np.ones((300, 20, 20), np.float16)
    assert relative_error(0 * target, target) == 1


@pytest.mark.bad_input
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_target_that_is_not_finite_is_refused(value):
    predicted, target, known = outputs(0)
    for name in ("target", "known"):
        given = {"predicted": predicted, "target": target.copy(), "known": known.copy()}
        given[name][0, 0, 0] = value
        with pytest.raises(ValueError, match=f"{name} is an array with NaN or infinite entries"):
            unknown_part_error(**given)


def test_a_head_beside_one_that_is_far_larger_keeps_its_own_error():
    eye, size = np.eye(2), np.array([1.0, 1e-200])[:, None, None]
    truth = AttentionLayer(theta=size * eye, w=np.stack([eye, eye]))
    fitted = AttentionLayer(theta=size * [[[1.0]], [[3.0]]] * eye, w=truth.w)
    np.testing.assert_allclose(parameter_errors(fitted, truth).theta, [0, 2])
