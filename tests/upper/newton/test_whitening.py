"""Tokens far from isotropic: Newton whitens them, and a certificate says what the examples determine."""

from dataclasses import replace

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    make_nice_layer,
    parameter_errors,
    relative_error,
)
from upper import Newton, certify_layer
from upper.newton.whitening import needed_whitening, whitening_of


def layer_with_biases(m, d, rng):
    plain = make_nice_layer(heads=m, dim=d, rng=rng)
    rng = np.random.default_rng(rng)
    return AttentionLayer(plain.theta, plain.w, rng.standard_normal((m, d)), rng.standard_normal(d))


def skewed(n, k, d, rank, rng, *, mean=1.0, widest=10.0, narrowest=0.1):
    """Tokens on an affine subspace, with spreads from the widest to the narrowest along random directions."""
    rng = np.random.default_rng(rng)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    spread = np.geomspace(widest, narrowest, rank)
    return mean * rng.standard_normal(d) + rng.standard_normal((n, k, rank)) * spread @ basis.T


def layer_of_size_one(layer, x):
    """The layer scaled so that its logits on the tokens `x` have standard deviation 1."""
    size = layer.logits(x).std(axis=(0, 2, 3))[:, None]
    key_bias = None if layer.key_bias is None else layer.key_bias / size
    return AttentionLayer(layer.theta / size[:, :, None], layer.w, key_bias, layer.bias)


def of_rank(layer, rank):
    """Theta_i, W_i and [Theta_i; c_i] of this rank, near those of a layer."""
    left, values, right = np.linalg.svd(layer.theta)
    theta = (left[:, :, :rank] * values[:, None, :rank]) @ right[:, :rank]
    w = layer.w[:, :, :rank] @ layer.w[:, :rank]
    return AttentionLayer(theta, w, np.einsum("mij,mi->mj", theta, layer.key_bias), layer.bias)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("rank", [6, 4])
def test_whitened_tokens_are_isotropic_on_their_span_and_layers_go_there_and_back(rank, centred):
    x = skewed(300, 3, 6, rank, 0, mean=float(centred))
    layer = layer_with_biases(2, 6, 1) if centred else make_nice_layer(heads=2, dim=6, rng=1)
    layer = layer_of_size_one(layer, x)
    whitening = whitening_of(x, centred=centred)
    z = whitening(x)
    rows = z.reshape(-1, 6)
    assert np.allclose(rows.T @ rows / len(rows), np.diag([1.0] * rank + [0.0] * (6 - rank)))
    there = whitening.into(layer)
    assert relative_error(there(z), layer(x)) < 1e-12
    again = whitening.back(there)
    assert relative_error(again(x), layer(x)) < 1e-12
    assert again.biased == centred
    if rank == 6:
        assert max(parameter_errors(again, layer).theta) < 1e-9
    else:
        span = whitening.basis @ whitening.basis.T
        assert np.allclose(again.theta, span @ layer.theta @ span)


def test_equal_tokens_stay_equal_to_the_last_bit():
    x = skewed(5, 3, 6, 6, 0)
    x[3:] = x[:2, ::-1]
    z = whitening_of(x, centred=True)(x)
    assert np.array_equal(z[3:], z[:2, ::-1])


def test_a_direction_that_holds_rounding_of_float32_alone_is_not_spanned():
    x = skewed(300, 3, 6, 5, 0)
    assert whitening_of(x, centred=True).rank == 5
    assert whitening_of(x.astype(np.float32), centred=True).rank == 5
    x += 1e-4 * np.random.default_rng(1).standard_normal(x.shape)
    assert whitening_of(x.astype(np.float32), centred=True).rank == 6


@pytest.mark.parametrize("inputs", [BooleanInputs(3, 8), BooleanInputs(2, 16)])
def test_isotropic_tokens_and_few_tokens_are_left_alone(inputs):
    for n in (2, 30, 500):
        assert needed_whitening(inputs.sample(n, rng=0), centred=False) is None
    assert needed_whitening(skewed(500, 3, 8, 8, 0), centred=True) is not None


@pytest.mark.parametrize(("biases", "rank"), [(True, None), (True, 2), (False, None)])
def test_newton_learns_on_tokens_that_are_far_from_isotropic(biases, rank):
    x = skewed(700, 4, 8, 7, 3, mean=float(biases), widest=30.0, narrowest=0.03)
    layer = layer_with_biases(2, 8, 4) if biases else make_nice_layer(heads=2, dim=8, rng=4)
    if rank is not None:
        layer = of_rank(layer, rank)
    layer = layer_of_size_one(layer, x)
    y = layer(x)
    learner = Newton(heads=2, biases=biases, rank=rank, work=6000, starts=4)
    fit = learner.fit(ExampleOracle.from_arrays(x[:600], y[:600]), rng=5)
    assert fit.outcome.succeeded
    assert relative_error(fit.layer(x[600:]), y[600:]) < 1e-10
    certificate = certify_layer(layer, x)
    assert certificate.whitening.rank == 7
    assert certificate.determined
    # across the span, nothing is made up
    across = np.eye(8) - certificate.whitening.basis @ certificate.whitening.basis.T
    assert np.abs(across @ fit.layer.theta).max() < 1e-9 * np.abs(fit.layer.theta).max()
    errors = parameter_errors(certificate.project(fit.layer), certificate.project(layer))
    assert max(*errors.theta, *errors.w) < 1e-6


@pytest.mark.parametrize("rank", [None, 1, 2])
def test_the_certificate_is_that_of_the_whole_derivative(rank):
    x = skewed(40, 3, 4, 3, 0, widest=2.0, narrowest=1.0)
    layer = layer_with_biases(2, 4, 1)
    layer = layer_of_size_one(layer if rank is None else of_rank(layer, rank), x)
    certificate = certify_layer(layer, x, rank=rank)
    whitening, (theta_unit, key_bias_unit) = certificate.whitening, certificate.units.T
    span = whitening.basis
    # relative changes on the span: of Theta in units of its norm there, of W and b in units of theirs
    theta = span.T @ layer.theta @ span
    assert np.allclose(theta_unit, np.linalg.norm(theta, axis=(1, 2)))
    w_unit = np.linalg.norm(span.T @ layer.w, axis=(1, 2))
    shapes = (2, 3, 3), (2, 3), (2, 3, 4), (4,)
    places = np.cumsum([np.prod(shape) for shape in shapes])

    def outputs(changes):
        parts = zip(np.split(changes, places[:-1]), shapes, strict=True)
        theta, key_bias, w, bias = (part.reshape(shape) for part, shape in parts)
        moved = AttentionLayer(
            layer.theta + span @ (theta * theta_unit[:, None, None]) @ span.T,
            layer.w + span @ (w * w_unit[:, None, None]),
            layer.key_bias + (key_bias * key_bias_unit[:, None]) @ span.T,
            layer.bias + bias,
        )
        return moved(x).ravel()

    steps = 1e-6 * np.eye(places[-1])
    jacobian = np.array([outputs(step) - outputs(-step) for step in steps]).T / 2e-6
    of_theta, of_w = jacobian[:, : places[1]], jacobian[:, places[1] :]
    reach = np.ptp(layer.logits(x), axis=-1).max(axis=(0, 2))  # above 1 here
    of_theta /= np.concatenate([np.repeat(reach, 9), np.repeat(reach, 3)])
    if rank is not None:  # changes of the factors [A_i; a_i] and B_i only
        # what the mean off the span does through Theta is a part of c
        off = layer.theta.transpose(0, 2, 1) @ (whitening.mean - span @ (span.T @ whitening.mean))
        key_bias = (layer.key_bias + off) @ span
        stacked = np.concatenate(
            [theta / theta_unit[:, None, None], (key_bias / key_bias_unit[:, None])[:, None]], 1
        )
        changes = []
        for i, (left, values, right) in enumerate(
            zip(*np.linalg.svd(stacked, full_matrices=False), strict=True)
        ):
            a, b = left[:, :rank] * values[:rank], right[:rank]
            steps = [np.outer(one, row) for one in np.eye(4) for row in b]
            steps += [np.outer(column, one) for one in np.eye(3) for column in a.T]
            for step in steps:
                full = np.zeros((2, 4, 3))
                full[i] = step
                changes.append(np.concatenate([full[:, :3].ravel(), full[:, 3].ravel()]))
        left, values, _ = np.linalg.svd(np.array(changes).T, full_matrices=False)
        of_theta = of_theta @ left[:, values > 1e-9]
    basis = np.linalg.qr(of_w)[0]
    left = of_theta - basis @ (basis.T @ of_theta)
    rows = np.sqrt(len(left) / 4)
    assert np.allclose(np.linalg.svd(left / rows)[1], certificate.theta_values, rtol=1e-4)
    w_values = np.linalg.svd(of_w[:, :24] / rows)[1][::4]
    assert np.all(w_values <= certificate.w_values[:6] * (1 + 1e-4))  # and b more


def test_examples_that_determine_heads_of_a_known_rank_only():
    """Counted: 2 (9 + 8 - 2) directions a head against 72, in (8 n - 17) numbers for each output coordinate."""
    x = np.random.default_rng(0).standard_normal((200, 4, 8))
    layer = of_rank(layer_with_biases(2, 8, 4), 2)
    few = x[:8]
    full, low = certify_layer(layer, few), certify_layer(layer, few, rank=2)
    assert full.free == [72, 72]
    assert low.free == low.theta == [30, 30]
    assert low.determined
    assert not full.determined
    assert "30 of 30 directions" in str(low)
    # from nearby, those of the rank come back, and those of full rank fit as well and are others
    near = AttentionLayer(layer.theta * 1.01, layer.w, layer.key_bias)
    errors = {}
    for rank in (2, None):
        learner = Newton(heads=2, rank=rank, biases=True, starts=1, start=near)
        fit = learner.fit(ExampleOracle.from_arrays(x[:10], layer(x[:10])), rng=0)
        errors[rank] = max(parameter_errors(fit.layer, layer).theta)
    assert errors[2] < 1e-9
    assert errors[None] > 1e-4
    # a head of another rank is at no smooth point, and all its directions count
    assert certify_layer(layer, few, rank=3).free == [72, 72]


def test_the_certificate_names_the_head_that_examples_do_not_determine():
    x = np.random.default_rng(0).standard_normal((200, 3, 4))
    layer = make_nice_layer(heads=2, dim=4, rng=1)
    silent = AttentionLayer(layer.theta, layer.w * np.array([1.0, 0.0])[:, None, None])
    certificate = certify_layer(silent, x)
    assert certificate.theta == [16, 0]
    assert certificate.w == [4, 4]
    assert not certificate.determined
    assert "Head 1: 0 of 16" in str(certificate)
    # one token alone determines the sum of the W only, and no Theta
    one = certify_layer(layer, x[:, :1])
    assert one.theta == [0, 0]
    assert one.w == [0, 0]
    # what is not determined is no part of the projected layer
    assert not certificate.project(silent).theta[1].any()


def test_rounding_determines_nothing():
    x = np.random.default_rng(0).standard_normal((200, 1, 4))
    layer = make_nice_layer(heads=2, dim=4, rng=1)
    # with equal tokens a pattern averages copies, so Theta does not matter
    assert certify_layer(layer, np.repeat(x, 3, axis=1)).theta == [0, 0]
    # a change of the W undoes whatever a Theta does to three outputs
    one = certify_layer(layer, x[:3].reshape(1, 3, 4))
    assert one.theta == one.w == [0, 0]


def test_the_certificate_of_a_causal_layer_sees_what_its_mask_lets_through():
    """With two tokens, row 1 tells nothing of Theta. Row 2 tells all, or nothing where its token is zero."""
    layer = make_nice_layer(heads=1, dim=4, rng=0)
    causal = replace(layer, causal=True)
    x = GaussianInputs(2, 4).sample(60, rng=1)
    assert certify_layer(causal, x).determined
    x[:, 1] = 0
    unseen = [certify_layer(one, x).theta_unseen[0].shape[1] for one in (layer, causal)]
    assert unseen[0] < unseen[1] == 16
