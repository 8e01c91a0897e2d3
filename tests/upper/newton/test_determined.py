"""What Newton calls exact or determined is: error bars hold, and no fit is exact that other inputs contradict."""

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, Outcome, make_nice_layer, parameter_errors
from upper import Newton, certify_layer


def one_hot(rng, n, k, d):
    return np.eye(d)[rng.integers(d, size=(n, k))]


def rare(rng, n, k, d, share):
    """Gaussian tokens whose first coordinate is zero but on this share of the inputs."""
    x = rng.standard_normal((n, k, d))
    x[:, :, 0] *= (rng.random(n) < share)[:, None]
    return x


def marked(rng, n, k, d):
    """Boolean tokens; the first coordinates say the place of a token."""
    x = rng.choice([-1.0, 1.0], (n, k, d))
    x[:, :, :k] = np.eye(k)
    return x


TOKENS = {
    **{
        f"scale {exponent}": lambda rng, n, k, d, exponent=exponent: (
            10.0**exponent * rng.standard_normal((n, k, d))
        )
        for exponent in (-9, -6, -3, 3)
    },
    **{
        f"one coordinate {exponent}": lambda rng, n, k, d, exponent=exponent: (
            rng.standard_normal((n, k, d)) * np.append(np.ones(d - 1), 10.0**exponent)
        )
        for exponent in (-9, -6, -3, 3)
    },
    "one-hot": one_hot,
    "Boolean": lambda rng, n, k, d: rng.choice([-1.0, 1.0], (n, k, d)),
    "Gaussian": lambda rng, n, k, d: rng.standard_normal((n, k, d)),
    "rare": lambda rng, n, k, d: rare(rng, n, k, d, 0.01),
    "marked": marked,
    "float32": lambda rng, n, k, d: rng.standard_normal((n, k, d)).astype(np.float32).astype(float),
    "a few": lambda rng, n, k, d: rng.standard_normal((3, k, d))[rng.integers(3, size=n)],
    "subspace": lambda rng, n, k, d: rng.standard_normal((n, k, d - 1)) @ rng.standard_normal((d - 1, d)),
}
# logits of these standard deviations
SIZES = [1.0, 30.0, 1e6]


def make_layer(rng, x, heads, size, biased):
    d = x.shape[2]
    layer = AttentionLayer(rng.standard_normal((heads, d, d)), rng.standard_normal((heads, d, d)))
    if biased:
        layer = AttentionLayer(layer.theta, layer.w, rng.standard_normal((heads, d)), rng.standard_normal(d))
    return (
        layer
        if size is None
        else AttentionLayer(layer.theta * (size / layer.logits(x).std()), layer.w, layer.key_bias, layer.bias)
    )


def beyond_bars(certificate, fitted, layer):
    """The largest error of what is determined of a head, as a multiple of its error bar; heads in the better order."""
    seen, most = certificate.project(fitted), []
    for order in (slice(None), slice(None, None, -1)):
        key_bias = None if layer.key_bias is None else layer.key_bias[order]
        known = certificate.project(AttentionLayer(layer.theta[order], layer.w[order], key_bias, layer.bias))
        ratios = [0.0]
        for name, unit, bars in (
            ("theta", None, certificate.theta_error),
            ("key_bias", certificate.units[:, 1], certificate.key_bias_error),
            ("w", None, certificate.w_error),
        ):
            for i, bar in enumerate(bars):
                part = getattr(seen, name)
                if part is not None and np.isfinite(bar):
                    size = np.linalg.norm(part[i]) if unit is None else unit[i]
                    ratios.append(np.linalg.norm(part[i] - getattr(known, name)[i]) / size / bar)
        most.append(max(ratios))
    return min(most)


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "biased"), [(1, False), (1, True), (2, False)])
@pytest.mark.parametrize("tokens", TOKENS)
def test_what_is_determined_is_wrong_by_no_more_than_its_error_bar(tokens, heads, biased):
    for seed, size in enumerate(SIZES):
        rng = np.random.default_rng([seed, 5])
        x = TOKENS[tokens](rng, 120, 3, 4)
        layer = make_layer(rng, x, heads, size, biased)
        fit = Newton(heads, biases=biased, work=2000, starts=2).fit(
            ExampleOracle.from_arrays(x, layer(x)), rng=seed
        )
        if fit.outcome.succeeded or fit.outcome is Outcome.UNCONFIRMED:
            certificate = certify_layer(fit.layer, x, y=layer(x))
            assert beyond_bars(certificate, fit.layer, layer) < 1


@pytest.mark.parametrize("scale", [np.full(4, 1e-9), np.array([1, 1, 1, 1e-9])])
def test_what_rounding_hides_is_not_determined(scale):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3, 4)) * scale
    layer = make_layer(rng, x, 1, None, False)
    fit = Newton(1).fit(ExampleOracle.from_arrays(x, layer(x)), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert max(parameter_errors(fit.layer, layer).theta) > 10  # and no input shows it
    certificate = certify_layer(fit.layer, x, y=layer(x))
    assert certificate.theta == ([0] if scale[0] < 1 else [15])
    assert beyond_bars(certificate, fit.layer, layer) < 1
    assert certificate.w == [4]


def test_error_bars_hold_for_noise_and_are_no_more_than_cautious():
    layer, x = make_nice_layer(heads=2, dim=4, rng=0), np.random.default_rng(1).standard_normal((250, 4, 4))
    y = layer(x) + 1e-4 * np.random.default_rng(2).standard_normal(x.shape)
    fit = Newton(2).fit(ExampleOracle.from_arrays(x, y), rng=0)
    assert fit.outcome is Outcome.NOISE_FLOOR
    certificate = certify_layer(fit.layer, x, y=y)
    assert certificate.theta == [16, 16]
    assert 0.01 < beyond_bars(certificate, fit.layer, layer) < 1


@pytest.mark.parametrize("seed", [1, 2, pytest.param(11, marks=pytest.mark.slow)])
def test_a_saturated_head_that_other_inputs_contradict_is_not_exact(seed):
    rng = np.random.default_rng(seed)
    layer = AttentionLayer(1e6 * rng.standard_normal((1, 3, 3)), rng.standard_normal((1, 3, 3)))
    x = rng.standard_normal((200, 4, 3))
    near = AttentionLayer(layer.theta * (1 + 5e-4 * rng.standard_normal((1, 3, 3))), layer.w)
    fit = Newton(1, start=near, starts=1).fit(ExampleOracle.from_arrays(x, layer(x)), rng=seed)
    fresh = rng.standard_normal((20_000, 4, 3))
    assert np.any(np.abs(fit.layer(fresh) - layer(fresh)).max(axis=(1, 2)) > 1e-6)
    assert not fit.outcome.succeeded
    assert fit.error_rate_bound is None
    assert certify_layer(fit.layer, x).theta == [0]


@pytest.mark.parametrize(
    "seed", [6, 17, pytest.param(1, marks=pytest.mark.slow), pytest.param(22, marks=pytest.mark.slow)]
)
def test_a_coordinate_that_few_examples_show_is_confirmed_only_if_they_determine_it(seed):
    """At seed 17, four of the examples show it, at seeds 6 and 22 one, and at seed 1 two."""
    rng = np.random.default_rng(seed)
    layer, x = make_nice_layer(heads=2, dim=6, rng=seed), rare(rng, 300, 3, 6, 0.003)
    fit = Newton(2).fit(ExampleOracle.from_arrays(x, layer(x)), rng=seed)
    fresh = rare(rng, 100, 3, 6, 1.0)
    if np.sum(x[:, :, 0].any(axis=1)) == 4:
        assert fit.outcome is Outcome.EXACT
        np.testing.assert_allclose(fit.layer(fresh), layer(fresh), atol=1e-6)
    else:
        assert not fit.outcome.succeeded
        assert np.abs(fit.layer(fresh) - layer(fresh)).max() > 0.01


@pytest.mark.parametrize("tokens", ["one-hot", "Boolean", "subspace", "marked", "sign pairs"])
def test_directions_that_no_input_sees_cost_no_success(tokens):
    rng = np.random.default_rng(3)
    if tokens == "sign pairs":  # F sees the symmetric part of Theta alone
        x = rng.standard_normal((150, 1, 6)) * np.array([1.0, -1.0])[:, None]
    else:
        x = TOKENS[tokens](rng, 200, 3, 7)
    layer = make_layer(rng, x, 1, 1.0, False)
    fit = Newton(1, starts=4).fit(ExampleOracle.from_arrays(x, layer(x)), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert tokens == "Boolean" or not certify_layer(fit.layer, x).determined or tokens == "subspace"


def test_a_silent_head_may_be_saturated_without_harm():
    nice = make_nice_layer(heads=2, dim=6, rng=0)
    layer = AttentionLayer(
        nice.theta * np.array([1, 1e6])[:, None, None], nice.w * np.array([1, 0])[:, None, None]
    )
    oracle = ExampleOracle(layer, BooleanInputs(3, 6), rng=1)
    assert Newton(2, examples=80, start=layer).fit(oracle, rng=2).outcome is Outcome.EXACT


@pytest.mark.parametrize("settings", [{"rank": 1}, {"rank": 2, "biases": True}, {"biases": True}, {}])
def test_zero_labels_are_learned(settings):
    x = np.random.default_rng(0).standard_normal((300, 3, 4))
    fit = Newton(2, **settings).fit(ExampleOracle.from_arrays(x, np.zeros_like(x)), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert not fit.layer(x).any()


def test_a_fit_that_more_work_would_improve_is_out_of_work_and_not_overfitted():
    layer, rng = make_nice_layer(heads=2, dim=12, rng=1), np.random.default_rng(1)
    near = AttentionLayer(layer.theta * (1 + 0.3 * rng.standard_normal(layer.theta.shape)), layer.w)
    errors = []
    for work in (800, 1600):
        oracle = ExampleOracle(layer, BooleanInputs(3, 12), rng=[1, 1])
        fit = Newton(2, examples=29, start=near, starts=1, work=work).fit(oracle, rng=[1, 2])
        assert fit.outcome is Outcome.WORK_SPENT
        assert fit.trace[-1].measures["residual"] < 0.1 * fit.held_out_error
        errors.append(fit.held_out_error)
    assert errors[1] < 0.5 * errors[0]
