"""Key-value memory: the construction, the ranks of its data, and what they leave open on orthonormal keys."""

from typing import get_args

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.tasks.key_value import Keys, KeyValueMemory


@given(
    keys=st.sampled_from(get_args(Keys)), dk=st.integers(2, 5), dv=st.integers(1, 3), seed=st.integers(0, 99)
)
@settings(max_examples=15, deadline=None)
def test_one_head_returns_the_values_weighted_by_overlap(keys, dk, dv, seed):
    memory = KeyValueMemory(keys, dk, dv)
    x, y = memory.examples(20, rng=seed)
    overlaps = np.einsum("nik,nk->ni", x[:, :-1, :dk], x[:, -1, :dk])
    np.testing.assert_allclose(y, np.einsum("ni,niv->nv", overlaps, x[:, :-1, dk:]), atol=1e-12)
    assert memory.model().heads == 1
    if keys != "gaussian":  # orthonormal: the value of the key that is queried
        gram = x[:, :-1, :dk] @ x[:, :-1, :dk].transpose(0, 2, 1)
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-12)
        np.testing.assert_allclose(y, x[np.arange(20), np.argmax(overlaps, axis=1), dk:], atol=1e-12)


def test_haar_keys_have_no_preferred_direction():
    """Entries of a Haar matrix have mean 0 and mean square 1/dk; those of a QR factor alone do not."""
    x, _ = KeyValueMemory("haar").examples(20_000, rng=2)
    keys = x[:, :4, :4]
    assert np.all(np.abs(keys.mean(axis=0)) < 5 * 0.5 / np.sqrt(20_000))
    assert np.all(np.abs((keys**2).mean(axis=0) - 0.25) < 5 * 0.25 / np.sqrt(20_000))
