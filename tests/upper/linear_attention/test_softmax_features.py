"""Features for softmax targets: what they span, and how much of softmax attention they explain."""

import numpy as np

from upper.linear_attention.features import cubic_features, softmax_features

KINDS = ("plain", "aug", "cent", "tokens")


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
