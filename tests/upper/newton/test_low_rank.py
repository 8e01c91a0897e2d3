"""Factored heads: the layer they are, the freedom in them, and the nearest ones of a layer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, make_nice_layer
from upper.newton.low_rank import LowRankHeads, random_factors


def _heads(m, d, r, seed):
    rng = np.random.default_rng(seed)
    r = min(r, d)
    return LowRankHeads(*rng.standard_normal((3, m, d, r)), o=rng.standard_normal((m, r, d)))


@given(st.integers(1, 4), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_a_layer_and_its_factors_are_the_same_heads_and_the_factors_balanced(m, d, r, seed):
    heads = _heads(m, d, r, seed)
    layer = heads.layer()
    np.testing.assert_allclose(layer.theta, np.einsum("idr,ier->ide", heads.a, heads.b), atol=1e-12)
    np.testing.assert_allclose(layer.w, np.einsum("ids,ise->ide", heads.v, heads.o), atol=1e-12)
    balanced = LowRankHeads.of(layer, heads.rank)
    np.testing.assert_allclose(balanced.layer().theta, layer.theta, atol=1e-10)
    np.testing.assert_allclose(balanced.layer().w, layer.w, atol=1e-10)
    of_a, of_b, of_v = (np.swapaxes(one, 1, 2) @ one for one in (balanced.a, balanced.b, balanced.v))
    np.testing.assert_allclose(of_a, of_b, atol=1e-9)
    np.testing.assert_allclose(of_v, np.broadcast_to(np.eye(of_v.shape[1]), of_v.shape), atol=1e-10)


def test_factors_of_a_layer_of_higher_rank_are_the_nearest_of_lower():
    layer = make_nice_layer(heads=3, dim=8, rng=0)
    near = LowRankHeads.of(layer, 3).layer()
    for matrices, nearest in ((layer.theta, near.theta), (layer.w, near.w)):
        left_out = np.linalg.svd(matrices, compute_uv=False)[:, 3:]
        np.testing.assert_allclose(
            np.linalg.norm(matrices - nearest, axis=(1, 2)), np.linalg.norm(left_out, axis=1)
        )
        assert set(np.linalg.matrix_rank(nearest)) == {3}


def test_random_factors_have_logits_of_deviation_one_and_no_output():
    x = BooleanInputs(2, 32).sample(2000, rng=1)
    layer = random_factors(heads=20, dim=32, rank=8, rng=0).layer()
    assert abs(np.mean(layer.logits(x)[:, :, 0, 1] ** 2) - 1) < 0.2
    assert not layer.w.any()
    same = random_factors(heads=20, dim=32, rank=8, rng=np.random.default_rng(0))
    assert same.layer().theta.tobytes() == layer.theta.tobytes()
