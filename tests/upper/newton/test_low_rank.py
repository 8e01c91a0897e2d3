"""Factored heads: the layer they are, the freedom in them, and the nearest ones of a layer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import AttentionLayer, BooleanInputs, make_low_rank_layer, make_nice_layer
from upper.newton.low_rank import FactoredHeads, random_factors

SIZES = {
    "m": st.integers(1, 4),
    "d": st.integers(1, 7),
    "r": st.integers(1, 7),
    "seed": st.integers(0, 2**32 - 1),
}


def _heads(m, d, r, seed):
    rng = np.random.default_rng(seed)
    r = min(r, d)
    return FactoredHeads(*rng.standard_normal((3, m, d, r)), o=rng.standard_normal((m, r, d)))


@given(**SIZES)
@settings(max_examples=30, deadline=None)
def test_the_layer_is_the_products_of_the_factors(m, d, r, seed):
    heads = _heads(m, d, r, seed)
    layer = heads.layer()
    np.testing.assert_allclose(layer.theta, np.einsum("idr,ier->ide", heads.a, heads.b), atol=1e-12)
    np.testing.assert_allclose(layer.w, np.einsum("ids,ise->ide", heads.v, heads.o), atol=1e-12)
    assert (heads.heads, heads.dim, heads.rank) == (m, d, min(r, d))


@given(**SIZES)
@settings(max_examples=30, deadline=None)
def test_balancing_changes_the_factors_and_not_the_heads(m, d, r, seed):
    heads = _heads(m, d, r, seed)
    balanced = heads.balanced()
    for name in ("theta", "w"):
        one, other = (getattr(each.layer(), name) for each in (heads, balanced))
        np.testing.assert_allclose(one, other, atol=1e-10)
    of_a, of_b, of_v = (
        np.swapaxes(one, 1, 2) @ one for one in (np.array(x) for x in (balanced.a, balanced.b, balanced.v))
    )
    np.testing.assert_allclose(of_a, of_b, atol=1e-9)
    np.testing.assert_allclose(of_a, of_a * np.eye(of_a.shape[1]), atol=1e-9)
    np.testing.assert_allclose(of_v, np.broadcast_to(np.eye(of_v.shape[1]), of_v.shape), atol=1e-10)


@given(**SIZES)
@settings(max_examples=30, deadline=None)
def test_factors_of_a_layer_of_that_rank_are_the_layer(m, d, r, seed):
    layer = _heads(m, d, r, seed).layer()
    heads = FactoredHeads.of(layer, min(r, d))
    np.testing.assert_allclose(heads.layer().theta, layer.theta, atol=1e-10)
    np.testing.assert_allclose(heads.layer().w, layer.w, atol=1e-10)


def test_factors_of_a_layer_of_higher_rank_are_the_nearest_of_lower():
    layer = make_nice_layer(heads=3, dim=8, rng=0)
    near = FactoredHeads.of(layer, 3).layer()
    for matrices, nearest in ((layer.theta, near.theta), (layer.w, near.w)):
        left_out = np.linalg.svd(matrices, compute_uv=False)[:, 3:]
        np.testing.assert_allclose(
            np.linalg.norm(matrices - nearest, axis=(1, 2)), np.linalg.norm(left_out, axis=1)
        )
        assert set(np.linalg.matrix_rank(nearest)) == {3}


def test_a_zero_head_has_factors():
    zero = np.zeros((2, 4, 4))
    heads = FactoredHeads.of(AttentionLayer(zero, zero), 2)
    assert not heads.layer().theta.any()
    assert not heads.balanced().layer().w.any()


def test_random_factors_have_logits_of_deviation_one_and_no_output():
    x = BooleanInputs(2, 32).sample(2000, rng=1)
    layer = random_factors(heads=20, dim=32, rank=8, rng=0).layer()
    assert abs(np.mean(layer.logits(x)[:, :, 0, 1] ** 2) - 1) < 0.2
    assert not layer.w.any()
    same = random_factors(heads=20, dim=32, rank=8, rng=np.random.default_rng(0))
    assert same.layer().theta.tobytes() == layer.theta.tobytes()


def test_random_values_of_full_rank_are_the_tokens_themselves():
    heads = random_factors(heads=2, dim=4, rank=4, rng=0)
    np.testing.assert_array_equal(heads.v, np.stack(2 * [np.eye(4)]))


def test_the_array_type_stays():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    heads = random_factors(heads=2, dim=4, rank=2, rng=0).map(torch.from_numpy)
    for array in (heads.layer().theta, heads.balanced().a, heads.balanced().o):
        assert isinstance(array, torch.Tensor)
    of_torch = FactoredHeads.of(make_low_rank_layer(heads=2, dim=4, rank=2, rng=0).map(torch.from_numpy), 2)
    assert isinstance(of_torch.a, np.ndarray)


@pytest.mark.bad_input
@pytest.mark.parametrize("rank", [0, 5])
def test_ranks_out_of_range(rank):
    with pytest.raises(ValueError, match="rank"):
        random_factors(heads=2, dim=4, rank=rank)
    with pytest.raises(ValueError, match="rank"):
        FactoredHeads.of(make_nice_layer(heads=2, dim=4, rng=0), rank)
