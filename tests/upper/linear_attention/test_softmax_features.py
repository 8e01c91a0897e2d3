"""Features for softmax targets: what they span, and how much of softmax attention they explain."""

import numpy as np
import pytest

from attention import AttentionLayer
from upper.linear_attention.features import (
    cubic_features,
    softmax_feature_count,
    softmax_features,
)

KINDS = ("plain", "aug", "cent", "tokens")


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_features_as_are_counted(kind):
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 4))
    every = softmax_features(x, kind)
    assert every.shape == (2, 5, 3, softmax_feature_count(kind, 4))
    np.testing.assert_array_equal(softmax_features(x, kind, every_row=False), every[..., -1, :])


def test_the_features_are_what_their_names_say():
    x = np.random.default_rng(1).standard_normal((6, 3, 4))
    mean = x.mean(axis=1)
    last = {kind: softmax_features(x, kind, every_row=False) for kind in KINDS}
    plain = cubic_features(x)
    np.testing.assert_allclose(last["plain"], plain)
    np.testing.assert_allclose(last["aug"], np.hstack([plain, mean]))
    np.testing.assert_allclose(last["tokens"], np.hstack([x[:, -1], mean]))
    centred = np.einsum("nkb,nkc->nbc", x - mean[:, None], x - mean[:, None])
    b, c = np.triu_indices(4)
    weighted = centred[:, b, c] * np.where(b == c, 1, np.sqrt(2))
    cubic = np.einsum("np,ne->npe", weighted, x[:, -1]).reshape(6, -1)
    np.testing.assert_allclose(last["cent"], np.hstack([cubic, x[:, -1], mean]))


def test_softmax_to_first_order_is_in_the_span_of_the_centred_features():
    """softmax(eps x_q^T Theta X^T) X = mean + eps x_q^T Theta (centred G)/k + O(eps^2)."""
    rng = np.random.default_rng(3)
    x, theta = rng.standard_normal((50, 4, 3)), rng.standard_normal((1, 3, 3))
    phi = softmax_features(x, "cent").reshape(200, -1)
    left_over = []
    for eps in (1e-2, 1e-3):
        y = AttentionLayer(eps * theta, np.eye(3)[None])(x).reshape(200, 3)
        left_over.append(np.linalg.norm(y - phi @ np.linalg.lstsq(phi, y, rcond=None)[0]))
    assert 80 < left_over[0] / left_over[1] < 125  # second order: a hundredth
    plain = np.hstack([softmax_features(x, kind).reshape(200, -1) for kind in ("plain", "tokens")])
    y = AttentionLayer(1e-3 * theta, np.eye(3)[None])(x).reshape(200, 3)
    assert np.linalg.norm(y - plain @ np.linalg.lstsq(plain, y, rcond=None)[0]) > 50 * left_over[1]
