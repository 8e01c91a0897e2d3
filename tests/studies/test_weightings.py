"""The study of weightings: patterns, derivatives and equations, and its measurements against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer, relative_error
from studies.weightings_descent import descend
from studies.weightings_hull import (
    agreement_counts,
    equations_of,
    is_homogeneous,
    one_hot_sum,
    phase_one_bias,
    span_basis,
    span_error,
    usable_rows,
)
from studies.weightings_layers import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
    WeightedLayer,
)

LINEAR = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "shifted power": NormalisedPower(power=4.0, shift=4.0),
    "positive square": NormalisedPower(),
}
WEIGHTINGS = LINEAR | {"square": NormalisedPower(power=2.0, magnitude=True), "sigmoid": NormalisedSigmoid()}
every = pytest.mark.parametrize("weighting", WEIGHTINGS.values(), ids=WEIGHTINGS.keys())
linear = pytest.mark.parametrize("weighting", LINEAR.values(), ids=LINEAR.keys())
seeds = st.integers(0, 2**32)


def logits_of(seed, *shape, scale=2.0):
    return scale * np.random.default_rng(seed).standard_normal(shape)


def layer_of(weighting, heads=2, dim=6, rng=0, sigma=2.0):
    nice = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    return WeightedLayer(theta=nice.theta, w=nice.w, weighting=weighting)


class TestBias:
    @pytest.mark.parametrize("weighting", [Softmax(), Sparsemax()], ids=["softmax", "sparsemax"])
    def test_it_is_the_one_of_the_mean_over_all_inputs(self, weighting):
        layer = layer_of(weighting, dim=2)
        every = np.array(list(itertools.product([-1.0, 1.0], repeat=4))).reshape(-1, 2, 2)
        total = layer.w.sum(axis=0)
        exact = np.mean(
            [x.sum(0)[:, None] * y.sum(0) / 2 for x, y in zip(every, layer(every), strict=True)], axis=0
        )
        bias = phase_one_bias(layer, BooleanInputs(2, 2), examples=40_000, rng=np.random.default_rng(1))
        assert bias == pytest.approx(np.linalg.norm(exact - total) / np.linalg.norm(total), rel=0.05)


class TestAgreement:
    @pytest.mark.parametrize(
        "weighting", [Sparsemax(), NormalisedPower()], ids=["sparsemax", "positive square"]
    )
    def test_counts_are_those_of_a_loop(self, weighting):
        layer, x = layer_of(weighting), BooleanInputs(3, 6).sample(200, rng=2)
        p, z = layer.patterns(x), layer.logits(x)
        exact = useful = uniform = equations = 0
        for n, a in itertools.product(range(200), range(3)):
            one, two = p[n, 0, a], p[n, 1, a]
            told = isinstance(weighting, Sparsemax) or min(z[n, 0, a].max(), z[n, 1, a].max()) > 0
            equal = bool(np.abs(one - two).max() < 1e-12)
            exact += equal and told
            uniform += equal and not told
            shared = {*np.flatnonzero(one)} == {*np.flatnonzero(two)} and len(np.flatnonzero(one)) > 1
            large = min(one[one > 0].min(), two[two > 0].min()) >= 0.05
            here = bool(told and shared and large and np.abs(one - two).max() <= 0.2)
            useful += here
            equations += here * (len(np.flatnonzero(one)) - 1)
        counts = agreement_counts(layer, x, np.array([0.2]))
        assert (counts["exact"], counts["useful"][0], counts["rows"]) == (exact, useful, 600)
        assert (counts["uniform"], counts["equations"][0]) == (uniform, equations)
        assert (uniform > 0) == (not isinstance(weighting, Sparsemax))
        assert exact > 10
        assert useful > 0


class TestSpan:
    @linear
    def test_one_head_satisfies_its_own_equations_and_they_give_it_back(self, weighting):
        layer, x = layer_of(weighting, heads=1, dim=5, sigma=1.0), BooleanInputs(3, 5).sample(600, rng=3)
        pattern = layer.patterns(x)[:, 0]
        contrasts = equations_of(x, pattern, usable_rows(pattern, weighting), weighting)
        np.testing.assert_allclose(contrasts.apply(layer.theta[0]), contrasts.log_ratios, atol=1e-12)
        basis = span_basis(contrasts, 1, homogeneous=is_homogeneous(weighting))
        assert span_error(basis, layer.theta) < 1e-6

    def test_one_hot_rows_of_sparsemax_give_the_sum_to_rounding(self):
        layer, inputs = layer_of(Sparsemax(), dim=12), BooleanInputs(2, 12)
        total = layer.w.sum(axis=0)
        crude = total + 0.02 * np.random.default_rng(0).standard_normal((12, 12))
        found = one_hot_sum(layer, inputs, crude, examples=4000, rng=np.random.default_rng(1))
        np.testing.assert_allclose(found, total, atol=1e-12)
        soft = WeightedLayer(theta=layer.theta, w=layer.w, weighting=Softmax())
        found = one_hot_sum(soft, inputs, crude, examples=4000, rng=np.random.default_rng(1))
        assert np.abs(found - total).max() > 1e-4


class TestDescent:
    @pytest.mark.parametrize("weighting", [Softmax(), NormalisedSigmoid()], ids=["softmax", "sigmoid"])
    def test_a_head_is_found_from_a_random_start(self, weighting):
        layer, rng = layer_of(weighting, heads=1, dim=5), np.random.default_rng(4)
        x, fresh = BooleanInputs(3, 5).sample(120, rng=5), BooleanInputs(3, 5).sample(100, rng=6)
        end, passes = descend(x, layer(x), rng.standard_normal((1, 5, 5)) / 5, weighting, passes=300)
        assert relative_error(end(fresh), layer(fresh)) < 1e-5
        assert passes <= 310


class TestPatterns:
    @every
    @given(seed=seeds, k=st.integers(1, 6), scale=st.sampled_from([1e-3, 1.0, 30.0]))
    def test_rows_are_probability_vectors(self, weighting, seed, k, scale):
        p = weighting.pattern(logits_of(seed, 5, k, scale=scale))
        assert p.min() >= 0
        np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-14)

    @given(seed=seeds, k=st.integers(1, 6), scale=st.sampled_from([0.1, 1.0, 5.0]))
    def test_sparsemax_is_the_projection_that_bisection_finds(self, seed, k, scale):
        z = logits_of(seed, k, scale=scale)
        low, high = z.min() - 1.0, z.max()
        for _ in range(200):  # of sum max(z - tau, 0) = 1, decreasing in tau
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(z - middle, 0).sum() > 1 else (low, middle)
        np.testing.assert_allclose(Sparsemax().pattern(z), np.maximum(z - low, 0), atol=1e-13)


class TestDerivative:
    @every
    @given(seed=seeds, k=st.integers(1, 5))
    def test_vjp_is_the_difference_quotient(self, weighting, seed, k):
        z, u, direction = logits_of(seed, 3, 20, k, scale=1.5)
        step = 1e-6
        change = (weighting.pattern(z + step * direction) - weighting.pattern(z - step * direction)) / (
            2 * step
        )
        given_by, found = np.sum(u * change, axis=-1), np.sum(weighting.vjp(z, u) * direction, axis=-1)
        # a row may straddle a kink of the weighting
        near = np.abs(given_by - found) <= 1e-4 * (1 + np.abs(found)) / self._distance(weighting, z)
        assert near.mean() >= 0.9

    @staticmethod
    def _distance(weighting, z):
        """How far a row is from a zero sum, where the curvature of the power weighting has no bound."""
        if not isinstance(weighting, NormalisedPower):
            return 1.0
        base = np.abs(z + weighting.shift) if weighting.magnitude else np.maximum(z + weighting.shift, 0)
        return np.clip(base.max(axis=-1), 1e-3, 1.0) ** 3


class TestEquations:
    @linear
    @given(seed=seeds, k=st.integers(2, 5))
    def test_positive_entries_of_a_pattern_fix_their_logits_up_to_one_number(self, weighting, seed, k):
        z = logits_of(seed, 30, k, scale=0.7)
        if isinstance(weighting, NormalisedPower):
            z = z[(z + weighting.shift).max(axis=-1) > 0]
        p = weighting.pattern(z)
        for b in range(k):
            for c in range(k):
                both = (p[:, b] > 1e-3) & (p[:, c] > 1e-3)
                equation = weighting.equation(p[both, b], p[both, c])
                left = equation.left * z[both, b] - equation.right * z[both, c]
                np.testing.assert_allclose(left, equation.value, atol=1e-9)
