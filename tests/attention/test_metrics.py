"""The error measures: their fixed points, their symmetries, and the matching of heads."""

import itertools
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    GaussianInputs,
    GroundTruth,
    Norm,
    make_nice_block,
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
    @given(seed=seeds, scale=st.floats(1e-3, 1e3), shift=st.floats(-5, 5))
    def test_values_are_those_of_the_definition(self, seed, scale, shift):
        predicted, target, known = outputs(seed)
        missed = sum((p - t) ** 2 for p, t in zip(predicted.ravel(), target.ravel(), strict=True))
        whole = sum(t**2 for t in target.ravel())
        unknown = sum((t - k) ** 2 for t, k in zip(target.ravel(), known.ravel(), strict=True))
        relative, beyond = (missed / whole) ** 0.5, (missed / unknown) ** 0.5
        assert relative_error(predicted, target) == pytest.approx(relative)
        assert unknown_part_error(predicted, target, known) == pytest.approx(beyond)
        assert unknown_part_error(predicted, target, None) == relative_error(predicted, target)
        # of zero, of the known part and of the target itself
        assert relative_error(0 * target, target) == 1
        assert unknown_part_error(known, target, known) == pytest.approx(1, rel=1e-15)
        assert relative_error(target, target) == unknown_part_error(target, target, known) == 0
        # scale, and a shift by the known part, change nothing
        assert relative_error(scale * predicted, scale * target) == pytest.approx(relative)
        assert unknown_part_error(predicted + shift, target + shift, known + shift) == pytest.approx(beyond)

    @pytest.mark.parametrize(
        ("prediction", "scale"), [(1.0, 1e-200), (1e-200, 1.0), (1e200, 1.0), (1.0, 1e200), (1e200, 1e200)]
    )
    def test_outputs_of_very_different_size(self, prediction, scale):
        target = outputs(0)[1]
        expected = abs(prediction / scale - 1.0)
        assert relative_error(prediction * target, scale * target) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.bad_input
    def test_types_that_hold_no_difference_or_no_sum(self):
        for predicted, target, error in [
            (np.uint8(1), np.uint8(2), 0.5),
            (np.int8(0), np.int8(-128), 1.0),
            (np.float16(60_000), np.float16(-60_000), 2.0),
        ]:
            predicted, target = (np.full((300, 20, 20), one) for one in (predicted, target))
            assert relative_error(predicted, target) == pytest.approx(error)

    @pytest.mark.bad_input
    def test_what_has_no_error(self):
        predicted, target, known = outputs(0)
        infinite = np.where(np.arange(4) == 2, np.inf, target)
        assert relative_error(infinite, target) == np.inf
        assert np.isnan(relative_error(np.nan * target, target))
        for arguments, words in [
            ((predicted, 0 * target, None), "no unknown part"),
            ((predicted, target, target), "no unknown part"),
            ((predicted[:1], target, None), "one shape of all outputs"),
            ((predicted, target, known[:, :1]), "one shape of all outputs"),
            ((predicted, infinite, known), "target is an array with NaN or infinite entries"),
            ((predicted, target, infinite), "known is an array with NaN or infinite entries"),
        ]:
            with pytest.raises(ValueError, match=words):
                unknown_part_error(*arguments)


class TestParameters:
    @given(seed=seeds, heads=st.integers(1, 6), dim=st.integers(1, 5))
    def test_permuted_heads_have_no_error(self, seed, heads, dim):
        layer = make_nice_layer(heads=heads, dim=dim, rng=seed)
        order = np.random.default_rng(seed).permutation(heads)
        permuted = AttentionLayer(theta=layer.theta[order], w=layer.w[order])
        np.testing.assert_array_equal(order[parameter_errors(permuted, layer).matching], np.arange(heads))
        measures = GroundTruth.draw(layer, GaussianInputs(2, dim), 50, rng=1).measure(layer=permuted)
        assert measures["theta_error"] == measures["w_error"] == 0
        assert max(measures.values()) < 1e-14

    @given(seed=seeds, heads=st.integers(1, 5))
    def test_matching_is_the_best_of_all(self, seed, heads):
        fitted, truth = (make_nice_layer(heads=heads, dim=2, rng=[seed, one]) for one in (0, 1))

        def errors(i, j):
            pairs = [(getattr(fitted, name)[i], getattr(truth, name)[j]) for name in ("theta", "w")]
            return [np.linalg.norm(found - wanted) / np.linalg.norm(wanted) for found, wanted in pairs]

        orders = itertools.permutations(range(heads))
        best = min(sum(sum(errors(i, j)) for j, i in enumerate(order)) for order in orders)
        found = parameter_errors(fitted, truth)
        assert sum(found.theta) + sum(found.w) == pytest.approx(best)
        for j, i in enumerate(found.matching):
            assert [found.theta[j], found.w[j]] == pytest.approx(errors(i, j))

    def test_zero_heads_and_heads_beside_far_larger_ones(self):
        zeros, eye = np.zeros((1, 2, 2)), np.eye(2)
        errors = parameter_errors(AttentionLayer(zeros + 3, zeros), AttentionLayer(zeros, zeros))
        assert (errors.theta[0], errors.w[0]) == (6, 0)  # relative to 1
        for scale in (1e-200, 1e200):
            sizes = np.array([1.0, scale])[:, None, None]
            truth = AttentionLayer(theta=sizes * eye, w=np.stack([eye, eye]))
            fitted = AttentionLayer(theta=sizes * [[[1.0]], [[3.0]]] * eye, w=truth.w)
            np.testing.assert_allclose(parameter_errors(fitted, truth).theta, [0, 2])

    def test_layers_of_other_libraries_and_of_other_sizes(self):
        layer = make_nice_layer(heads=2, dim=3, rng=0)
        strict = layer.map(lambda array: array_api_strict.asarray(np.array(array)))
        assert not parameter_errors(strict, layer).theta.any()
        for heads, dim in ((3, 3), (2, 4)):
            with pytest.raises(ValueError, match="compare the functions instead"):
                parameter_errors(make_nice_layer(heads=heads, dim=dim, rng=0), layer)


def test_gains_behind_the_sums_have_an_error_and_those_before_the_network_none():
    plain = Norm.plain(5)
    norms = (replace(plain, gain=np.arange(1.0, 6.0)), replace(plain, gain=np.arange(2.0, 7.0)))
    block = replace(make_nice_block(heads=1, dim=5, width=7, rng=0), norms=norms, norm_first=False)
    moved = replace(block, norms=(norms[0], replace(plain, gain=1.1 * norms[1].gain)))
    truth = GroundTruth.draw(block, GaussianInputs(2, 5), 10, rng=1)
    assert truth.measure(layer=block)["norm_error"] < 1e-14
    assert truth.measure(layer=moved)["norm_error"] == pytest.approx(0.1)
    assert "norm_error" not in truth.measure(layer=replace(block, norm_first=True))
