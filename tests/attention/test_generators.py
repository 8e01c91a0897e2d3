"""Generated layers have the structure they are named after, measured another way than they are made."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    check_conditions,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_transformer_shaped_layer,
)

MAKERS = {
    "nice": lambda **sizes: make_nice_layer(**sizes),
    "block diagonal": lambda **sizes: make_block_diagonal_layer(block=3, **sizes),
    "low rank": lambda **sizes: make_low_rank_layer(rank=2, **sizes),
    "low rank of both": lambda **sizes: make_low_rank_layer(rank=2, w_rank=3, **sizes),
    "close heads": lambda **sizes: make_close_heads_layer(gap=0.1, **sizes),
    "affinely dependent": lambda **sizes: make_affinely_dependent_layer(**sizes),
}
heads_and_dims = {"heads": st.integers(1, 5), "dim": st.integers(2, 12), "seed": st.integers(0, 2**32)}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every
def test_logits_between_different_boolean_tokens_have_the_given_deviation(make):
    # the variance of a logit given Theta is |Theta|^2 exactly; averaged over 40 layers of 3 heads
    energies = [
        np.sum(make(heads=3, dim=24, sigma=1.7, rng=seed).theta ** 2, axis=(1, 2)) for seed in range(40)
    ]
    mean, error = np.mean(energies), np.std(np.mean(energies, axis=1)) / np.sqrt(40)
    assert abs(mean - 1.7**2) < 4 * error + 1e-12
    x = BooleanInputs(2, 24).sample(20_000, rng=0)
    layer = make(heads=3, dim=24, sigma=1.7, rng=0)
    measured = layer.logits(x)[:, :, 0, 1].var(axis=0)
    np.testing.assert_allclose(measured, np.sum(layer.theta**2, axis=(1, 2)), rtol=0.08)


@every
def test_entries_of_w_have_variance_one_over_d(make):
    w = np.stack([make(heads=3, dim=24, rng=seed).w for seed in range(40)])
    assert abs(np.mean(w**2) * 24 - 1) < 0.05
    assert abs(np.mean(w)) * np.sqrt(24) < 0.02


@every
def test_a_seed_fixes_all_bits_and_sigma_scales_theta_alone(make):
    one, other, another = (make(heads=3, dim=6, rng=seed) for seed in (5, np.random.default_rng(5), 6))
    assert one.theta.tobytes() + one.w.tobytes() == other.theta.tobytes() + other.w.tobytes()
    assert one.theta.tobytes() != another.theta.tobytes()
    three = make(heads=3, dim=6, sigma=3.0, rng=5)
    np.testing.assert_allclose(three.theta, 1.5 * one.theta, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(three.w, one.w)
    assert not make(heads=3, dim=6, sigma=0.0, rng=0).theta.any()


@given(**heads_and_dims, block=st.integers(1, 12))
def test_block_diagonal_is_zero_outside_the_blocks_only(heads, dim, seed, block):
    assume(block <= dim)
    theta = make_block_diagonal_layer(heads=heads, dim=dim, block=block, rng=seed).theta
    for i, j in itertools.product(range(dim), repeat=2):
        assert (theta[:, i, j] != 0).all() if i // block == j // block else (theta[:, i, j] == 0).all()


@given(**heads_and_dims, rank=st.integers(1, 12), w_rank=st.none() | st.integers(1, 12))
def test_low_rank_has_that_rank(heads, dim, seed, rank, w_rank):
    assume(rank <= dim and (w_rank or 1) <= dim)
    layer = make_low_rank_layer(heads=heads, dim=dim, rank=rank, w_rank=w_rank, rng=seed)
    assert np.linalg.matrix_rank(layer.theta).tolist() == [rank] * heads
    assert np.linalg.matrix_rank(layer.w).tolist() == [w_rank or dim] * heads


@given(
    **heads_and_dims | {"heads": st.integers(2, 5)}, gap=st.floats(1e-3, np.sqrt(2)), sigma=st.floats(0.1, 9)
)
def test_close_heads_have_the_given_gap_for_every_pair(heads, dim, seed, gap, sigma):
    assume(heads < dim**2)
    theta = make_close_heads_layer(heads=heads, dim=dim, gap=gap, sigma=sigma, rng=seed).theta
    for one in theta:
        assert np.sqrt(np.sum(one**2)) == pytest.approx(sigma, rel=1e-12)
    for one, other in itertools.permutations(theta, 2):
        ratio = np.sqrt(np.sum((one - other) ** 2) / np.sum(one**2))
        assert ratio == pytest.approx(gap, rel=1e-12 / gap)


@given(**heads_and_dims | {"heads": st.integers(3, 9)})
@settings(deadline=None)
def test_affine_hull_has_a_dimension_less(heads, dim, seed):
    assume(heads <= dim**2)
    theta = make_affinely_dependent_layer(heads=heads, dim=dim, rng=seed).theta.reshape(heads, -1)
    values = np.linalg.svd(theta[1:] - theta[0], compute_uv=False)
    assert values[heads - 2] < 1e-12 * values[0]
    assert values[heads - 3] > 1e-4 * values[0]  # and no more than one
    half = (heads + 1) // 2
    np.testing.assert_allclose(theta[:half].mean(axis=0), theta[half:].mean(axis=0), atol=1e-12)


class TestTransformerShaped:
    @given(
        heads=st.integers(1, 5),
        dim=st.integers(2, 12),
        rank=st.integers(1, 12),
        exponent=st.floats(0, 1.5),
        seed=st.integers(0, 2**32),
    )
    @settings(max_examples=40, deadline=None)
    def test_every_matrix_has_the_power_law_spectrum_of_its_rank(self, heads, dim, rank, exponent, seed):
        rank = min(rank, dim)
        layer = make_transformer_shaped_layer(heads=heads, dim=dim, rank=rank, exponent=exponent, rng=seed)
        law = np.zeros(dim)
        law[:rank] = np.arange(1, rank + 1) ** -exponent
        for matrices in (layer.theta, layer.w):
            values = np.linalg.svd(matrices, compute_uv=False)
            np.testing.assert_allclose(values / values[:, :1], np.tile(law, (heads, 1)), atol=1e-10)

    @pytest.mark.parametrize("asked", [0.2, 0.45, 0.9])
    def test_incoherence_is_the_one_asked_for(self, asked):
        layer = make_transformer_shaped_layer(heads=6, dim=48, rank=16, incoherence=asked, rng=0)
        report = check_conditions(layer)
        for name in ("theta_incoherence", "w_incoherence"):
            assert report[name].measured == pytest.approx(asked, abs=1e-9)
        for matrices in (layer.theta, layer.w):  # measured again, from the definition
            flat = matrices.reshape(6, -1)
            cosines = np.abs(flat @ flat.T) / np.outer(*2 * [np.linalg.norm(flat, axis=1)])
            assert np.triu(cosines, 1).max() == pytest.approx(asked, abs=1e-9)
            assert np.median(cosines) < 0.7 * asked  # the most alike pair is not every pair

    def test_strengths_are_the_deviations_of_logits_and_span_the_range(self):
        layer = make_transformer_shaped_layer(heads=5, dim=48, rank=16, strengths=(0.5, 4.0), rng=0)
        sizes = np.linalg.norm(layer.theta, axis=(1, 2))
        np.testing.assert_allclose(np.sort(sizes), np.geomspace(0.5, 4.0, 5))
        measured = layer.logits(BooleanInputs(2, 48).sample(20_000, rng=0))[:, :, 0, 1].std(axis=0)
        np.testing.assert_allclose(measured, sizes, rtol=0.08)
        w_sizes = np.linalg.norm(layer.w, axis=(1, 2))
        assert w_sizes.max() / w_sizes.min() == pytest.approx(8)
        assert np.mean(w_sizes**2) == pytest.approx(48)
