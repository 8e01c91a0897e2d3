"""Weightings: the projection on the simplex, sums and supports, closed derivatives, and what a pattern says."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from attention import AttentionLayer, GaussianInputs, make_nice_layer
from attention.weightings import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
    WeightedLayer,
)

WEIGHTINGS = {
    "softmax": Softmax(),
    "warm softmax": Softmax(temperature=2.5),
    "sparsemax": Sparsemax(),
    "warm sparsemax": Sparsemax(temperature=2.0),
    "shifted power": NormalisedPower(power=4.0, shift=4.0),
    "squared positive part": NormalisedPower(power=2.0),
    "square": NormalisedPower(power=2.0, magnitude=True),
    "sigmoid": NormalisedSigmoid(),
}
every = pytest.mark.parametrize("weighting", WEIGHTINGS.values(), ids=WEIGHTINGS.keys())
linear = pytest.mark.parametrize(
    "weighting",
    [one for name, one in WEIGHTINGS.items() if name not in ("square", "sigmoid")],
    ids=[name for name in WEIGHTINGS if name not in ("square", "sigmoid")],
)
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

    @pytest.mark.parametrize("seed", range(3))
    def test_sparsemax_is_the_nearest_point_of_the_simplex(self, seed):
        z = logits_of(seed, 4, scale=0.7)
        found = minimize(
            lambda p: np.sum((p - z) ** 2),
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(Sparsemax().pattern(z), found.x, atol=1e-6)

    def test_sparsemax_of_two_is_clipped_and_sparse(self):
        gaps = np.array([-3.0, -1.0, 0.0, 0.5, 1.0, 3.0])
        p = Sparsemax().pattern(np.stack([gaps, np.zeros(6)], axis=-1))
        np.testing.assert_allclose(p[:, 0], np.clip((1 + gaps) / 2, 0, 1), atol=1e-15)
        assert np.array_equal((p == 0).any(axis=-1), [True, True, False, False, True, True])

    def test_powers_by_hand(self):
        z = np.array([-1.0, 0.5, 1.0])
        np.testing.assert_allclose(NormalisedPower().pattern(z), np.array([0, 0.25, 1]) / 1.25)
        square = NormalisedPower(magnitude=True)
        np.testing.assert_allclose(square.pattern(z), np.array([1, 0.25, 1]) / 2.25)
        np.testing.assert_array_equal(square.pattern(z), square.pattern(-z))
        shifted = NormalisedPower(power=3.0, shift=0.75)
        np.testing.assert_allclose(shifted.pattern(z), np.array([0, 1.25**3, 1.75**3]) / (1.25**3 + 1.75**3))

    def test_power_of_large_order_tends_to_softmax(self):
        z = logits_of(0, 6, 4, scale=1.0)
        gaps = [
            np.abs(NormalisedPower(power=c, shift=c).pattern(z) - Softmax().pattern(z)).max()
            for c in (10.0, 100.0, 1000.0)
        ]
        assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]

    def test_no_positive_weight_is_uniform_and_flat(self):
        z = -np.ones((2, 3))
        np.testing.assert_allclose(NormalisedPower().pattern(z), 1 / 3)
        np.testing.assert_array_equal(NormalisedPower().vjp(z, logits_of(0, 2, 3)), 0.0)

    @pytest.mark.parametrize("weighting", [Softmax(), Sparsemax()], ids=["softmax", "sparsemax"])
    def test_an_equal_shift_changes_nothing(self, weighting):
        z = logits_of(1, 5, 3)
        np.testing.assert_allclose(weighting.pattern(z + 7.0), weighting.pattern(z), atol=1e-13)

    @every
    def test_huge_logits_overflow_nothing(self, weighting):
        p = weighting.pattern(np.array([[1e200, -1e200], [-1e200, -2e200], [0.0, 0.0]]))
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=-1), 1.0)


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
        # at a kink of the weighting, which a row may straddle by chance, they differ
        near = np.abs(given_by - found) <= 1e-4 * (1 + np.abs(found)) / self._distance(weighting, z)
        assert near.mean() >= 0.9

    @staticmethod
    def _distance(weighting, z):
        """How near a row is to a zero sum, where the curvature of the power weighting has no bound."""
        if not isinstance(weighting, NormalisedPower):
            return 1.0
        base = np.abs(z + weighting.shift) if weighting.magnitude else np.maximum(z + weighting.shift, 0)
        return np.clip(base.max(axis=-1), 1e-3, 1.0) ** 3

    @every
    def test_the_vjp_of_a_stack_is_that_of_its_rows(self, weighting):
        z, u = logits_of(0, 2, 4, 3, 5)
        rows = [weighting.vjp(*one) for one in zip(z.reshape(-1, 5), u.reshape(-1, 5), strict=True)]
        np.testing.assert_allclose(weighting.vjp(z, u), np.reshape(rows, z.shape), rtol=1e-12, atol=1e-14)


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

    def test_they_do_not_hold_of_other_logits(self):
        p = Sparsemax().pattern(np.array([0.2, 0.1]))
        equation = Sparsemax().equation(p[0], p[1])
        assert abs(equation.left * 0.3 - equation.right * 0.1 - equation.value) > 0.05

    @pytest.mark.parametrize(
        "weighting", [NormalisedPower(magnitude=True), NormalisedSigmoid()], ids=["square", "sigmoid"]
    )
    def test_none_where_the_logits_of_a_pattern_are_no_line(self, weighting):
        with pytest.raises(ValueError, match="no linear equation"):
            weighting.equation(np.array([0.5]), np.array([0.5]))


class TestWeightedLayer:
    @given(seed=seeds, m=st.integers(1, 3), k=st.integers(1, 4), d=st.integers(1, 5))
    def test_with_softmax_it_is_the_attention_layer(self, seed, m, k, d):
        layer, x = make_nice_layer(heads=m, dim=d, rng=seed), GaussianInputs(k, d).sample(3, rng=seed)
        same = WeightedLayer(theta=layer.theta, w=layer.w, weighting=Softmax())
        np.testing.assert_allclose(same(x), layer(x), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(same.patterns(x), layer.patterns(x), rtol=1e-13)
        np.testing.assert_array_equal(same.logits(x), layer.logits(x))

    @every
    def test_output_is_the_sum_over_heads(self, weighting):
        nice = make_nice_layer(heads=2, dim=4, rng=0)
        layer = WeightedLayer(theta=nice.theta, w=nice.w, weighting=weighting)
        x = GaussianInputs(3, 4).sample(5, rng=1)
        np.testing.assert_allclose(
            layer(x), np.einsum("nmab,nbi,mij->naj", layer.patterns(x), x, layer.w), atol=1e-13
        )
        assert (layer.heads, layer.dim) == (2, 4)

    @every
    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    def test_array_type_in_is_array_type_out(self, weighting, library):
        if library == "torch":
            torch = pytest.importorskip("torch", reason="PyTorch is an extra")
            convert = lambda array: torch.from_numpy(np.array(array))  # noqa: E731
        else:
            convert = array_api_strict.asarray
        nice, x = make_nice_layer(heads=2, dim=4, rng=0), GaussianInputs(3, 4).sample(5, rng=1)
        layer = WeightedLayer(theta=nice.theta, w=nice.w, weighting=weighting)
        other = WeightedLayer(
            theta=convert(np.array(nice.theta)), w=convert(np.array(nice.w)), weighting=weighting
        )
        found = other(convert(x))
        assert type(found).__module__.split(".")[0] == library
        np.testing.assert_allclose(np.asarray(found), layer(x), atol=1e-12)
        z, u = logits_of(2, 2, 5, 3)
        np.testing.assert_allclose(
            np.asarray(weighting.vjp(convert(z), convert(u))), weighting.vjp(z, u), atol=1e-12
        )

    def test_temperature_is_a_smaller_theta(self):
        nice, x = make_nice_layer(heads=2, dim=4, rng=0), GaussianInputs(3, 4).sample(5, rng=1)
        warm = WeightedLayer(theta=nice.theta, w=nice.w, weighting=Softmax(temperature=4.0))
        np.testing.assert_allclose(warm(x), AttentionLayer(theta=nice.theta / 4, w=nice.w)(x), atol=1e-13)

    @pytest.mark.bad_input
    def test_what_is_no_weighting_is_refused(self):
        for wrong, kind in (("softmax", "str"), (Softmax, "Softmax")):
            with pytest.raises(ValueError, match=f"weighting is a {kind}"):
                WeightedLayer(theta=np.eye(2)[None], w=np.eye(2)[None], weighting=wrong)


class TestParameters:
    @pytest.mark.parametrize("kind", [Softmax, Sparsemax], ids=["softmax", "sparsemax"])
    def test_temperatures_are_positive(self, kind):
        with pytest.raises(ValueError, match="temperature is 0"):
            kind(temperature=0.0)

    def test_powers_below_one_have_no_derivative(self):
        with pytest.raises(ValueError, match=r"power is 0\.5"):
            NormalisedPower(power=0.5)
        with pytest.raises(ValueError, match="shift is -1"):
            NormalisedPower(shift=-1.0)

    def test_logits_are_finite(self):
        for weighting in WEIGHTINGS.values():
            with pytest.raises(ValueError, match="NaN or infinite"):
                weighting.pattern(np.array([np.nan, 0.0]))


EVERY_WEIGHTING = [Softmax(), Sparsemax(), NormalisedPower(), NormalisedPower(4.0, 4.0), NormalisedSigmoid()]


@pytest.mark.parametrize("weighting", EVERY_WEIGHTING, ids=repr)
def test_half_precision_shares_among_more_tokens_than_it_counts_to(weighting):
    pattern = weighting.pattern(np.zeros(70_000, np.float16))
    assert pattern.dtype == np.float16
    assert (pattern == np.float16(1 / 70_000)).all()


@pytest.mark.bad_input
@pytest.mark.parametrize("weighting", [Softmax, Sparsemax])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("temperature", "wanted"), [(1e-300, [0, 1, 0]), (1.0, [0, 1, 0]), (1e300, [1 / 3, 1 / 3, 1 / 3])]
)
def test_extreme_temperatures_are_right_in_every_type(weighting, dtype, temperature, wanted):
    logits = np.array([-60_000, 60_000, 50_000], dtype)
    pattern = weighting(temperature=temperature).pattern(logits)
    assert pattern.dtype == dtype
    np.testing.assert_allclose(pattern, wanted, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_extreme_temperatures_are_right_in_tensors(dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    logits = torch.tensor([-300.0, 300.0, 200.0], dtype=getattr(torch, dtype))
    for weighting in (Softmax(temperature=1e-300), Sparsemax(temperature=1e-300)):
        assert weighting.pattern(logits).tolist() == [0, 1, 0]
        assert weighting.pattern(logits).dtype == logits.dtype


def test_logits_whose_difference_is_no_number():
    logits = np.array([1.7e308, -1.7e308, 0.0])
    for weighting in (Softmax(), Sparsemax(), NormalisedPower()):
        assert weighting.pattern(logits).tolist() == [1, 0, 0]
    wide = (logits.astype(np.longdouble) / 1e308).astype(float)
    np.testing.assert_allclose(
        Softmax(temperature=1e308).pattern(logits), Softmax().pattern(wide), rtol=1e-12
    )


@pytest.mark.bad_input
def test_a_derivative_or_a_layer_that_overflows_is_refused():
    with pytest.raises(ValueError, match="derivative overflowed in float64"):
        Softmax(temperature=1e-10).vjp(np.zeros(2), np.array([1e300, -1e300]))
    eye = np.eye(2)[None]
    for theta, w, what in ((1e200 * eye, eye, "logits"), (eye, 1e300 * eye, "output")):
        layer = WeightedLayer(theta=theta, w=w, weighting=Sparsemax())
        with pytest.raises(ValueError, match=f"{what} of the layer overflowed"):
            layer(np.full((1, 2, 2), 1e100))


@pytest.mark.bad_input
@pytest.mark.parametrize("magnitude", ["True", None, 1])
def test_magnitude_is_true_or_false(magnitude):
    with pytest.raises(ValueError, match=r"magnitude is .*: True or False is needed"):
        NormalisedPower(magnitude=magnitude)
