"""Weightings: the projection on the simplex, sums and supports, closed derivatives, and what a pattern says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.weightings_layers import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
)

LINEAR = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "shifted power": NormalisedPower(power=4.0, shift=4.0),
    "squared positive part": NormalisedPower(power=2.0),
}
WEIGHTINGS = LINEAR | {"square": NormalisedPower(power=2.0, magnitude=True), "sigmoid": NormalisedSigmoid()}
every = pytest.mark.parametrize("weighting", WEIGHTINGS.values(), ids=WEIGHTINGS.keys())
linear = pytest.mark.parametrize("weighting", LINEAR.values(), ids=LINEAR.keys())
seeds = st.integers(0, 2**32)


def logits_of(seed, *shape, scale=2.0):
    return scale * np.random.default_rng(seed).standard_normal(shape)


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

    def test_powers_by_hand(self):
        z = np.array([-1.0, 0.5, 1.0])
        np.testing.assert_allclose(NormalisedPower().pattern(z), np.array([0, 0.25, 1]) / 1.25)
        square = NormalisedPower(magnitude=True)
        np.testing.assert_allclose(square.pattern(z), np.array([1, 0.25, 1]) / 2.25)
        shifted = NormalisedPower(power=3.0, shift=0.75)
        np.testing.assert_allclose(shifted.pattern(z), np.array([0, 1.25**3, 1.75**3]) / (1.25**3 + 1.75**3))


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
