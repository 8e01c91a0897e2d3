"""Structured layers have the structure they are named after, measured another way than they are made."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_diagonal_layer,
    make_low_rank_layer,
    make_repeated_singular_values_layer,
)

MAKERS = {
    "diagonal": lambda **sizes: make_diagonal_layer(**sizes),
    "block diagonal": lambda **sizes: make_block_diagonal_layer(block=3, **sizes),
    "low rank": lambda **sizes: make_low_rank_layer(rank=2, **sizes),
    "low rank of both": lambda **sizes: make_low_rank_layer(rank=2, w_rank=3, **sizes),
    "close heads": lambda **sizes: make_close_heads_layer(gap=0.1, **sizes),
    "repeated singular values": lambda **sizes: make_repeated_singular_values_layer(multiplicity=4, **sizes),
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
def test_same_seed_same_bits(make):
    one, other, another = (make(heads=3, dim=6, rng=seed) for seed in (5, np.random.default_rng(5), 6))
    assert one.theta.tobytes() == other.theta.tobytes()
    assert one.w.tobytes() == other.w.tobytes()
    assert one.theta.tobytes() != another.theta.tobytes()


@every
def test_sigma_scales_theta_alone(make):
    one, three, zero = (make(heads=3, dim=6, sigma=sigma, rng=0) for sigma in (1.0, 3.0, 0.0))
    np.testing.assert_allclose(three.theta, 3 * one.theta, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(three.w, one.w)
    assert not zero.theta.any()


@pytest.mark.bad_input
@every
@pytest.mark.parametrize(
    "wrong", [{"heads": 0}, {"dim": 0}, {"sigma": -1.0}, {"sigma": np.inf}, {"heads": 2.5}]
)
def test_sizes_out_of_range(make, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make(**{"heads": 3, "dim": 6, **wrong})


@given(**heads_and_dims)
def test_diagonal_is_zero_off_the_diagonal_only(heads, dim, seed):
    theta = make_diagonal_layer(heads=heads, dim=dim, rng=seed).theta
    for head in theta:
        np.testing.assert_array_equal(head, np.diag(np.diag(head)))
        assert np.diag(head).all()


@given(**heads_and_dims, block=st.integers(1, 12))
def test_block_diagonal_is_zero_outside_the_blocks_only(heads, dim, seed, block):
    assume(block <= dim)
    theta = make_block_diagonal_layer(heads=heads, dim=dim, block=block, rng=seed).theta
    for i, j in itertools.product(range(dim), repeat=2):
        assert (theta[:, i, j] != 0).all() if i // block == j // block else (theta[:, i, j] == 0).all()


def test_one_block_is_a_nice_theta():
    theta = make_block_diagonal_layer(heads=1, dim=4, block=4, sigma=2.0, rng=3).theta
    np.testing.assert_allclose(theta, np.random.default_rng(3).standard_normal((1, 4, 4)) * 0.5, rtol=1e-15)


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


def test_close_heads_at_the_ends_of_the_range():
    equal = make_close_heads_layer(heads=3, dim=4, gap=0.0, rng=0).theta
    np.testing.assert_array_equal(equal[0], equal[2])
    orthogonal = make_close_heads_layer(heads=3, dim=4, gap=np.sqrt(2), rng=0).theta.reshape(3, -1)
    np.testing.assert_allclose(orthogonal @ orthogonal.T, 4 * np.eye(3), atol=1e-14)


@given(**heads_and_dims, multiplicity=st.integers(2, 12))
@settings(deadline=None)
def test_singular_values_come_in_runs(heads, dim, seed, multiplicity):
    assume(multiplicity <= dim)
    layer = make_repeated_singular_values_layer(heads=heads, dim=dim, multiplicity=multiplicity, rng=seed)
    for head in layer.theta:
        # by the eigenvalues of the Gram matrix, not by the decomposition it was made with
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(head.T @ head)[::-1], 0))
        for first in range(0, dim, multiplicity):
            run = values[first : first + multiplicity]
            assert np.ptp(run) < 1e-6 * values[0]
        lone = np.linalg.matrix_rank(head.T @ head - values[0] ** 2 * np.eye(dim), tol=1e-9 * values[0] ** 2)
        assert lone == dim - multiplicity


def test_multiplicity_of_the_dimension_is_a_multiple_of_an_orthogonal_matrix():
    (head,) = make_repeated_singular_values_layer(heads=1, dim=7, multiplicity=7, rng=0).theta
    gram = head.T @ head
    np.testing.assert_allclose(gram, gram[0, 0] * np.eye(7), atol=1e-14)


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


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("make", "kwargs", "match"),
    [
        (make_block_diagonal_layer, {"heads": 1, "dim": 4, "block": 5}, "block is 5: at most 4"),
        (
            make_block_diagonal_layer,
            {"heads": 1, "dim": 4, "block": 0},
            "block is 0: a whole number of at least 1",
        ),
        (make_low_rank_layer, {"heads": 1, "dim": 4, "rank": 5}, "rank is 5: at most 4"),
        (
            make_low_rank_layer,
            {"heads": 1, "dim": 4, "rank": 1, "w_rank": 0},
            "w_rank is 0: a whole number of at least 1",
        ),
        (
            make_close_heads_layer,
            {"heads": 1, "dim": 4, "gap": 0.1},
            "heads is 1: at least 2",
        ),
        (make_close_heads_layer, {"heads": 2, "dim": 4, "gap": 1.5}, r"gap is 1\.5: at most sqrt"),
        (make_close_heads_layer, {"heads": 2, "dim": 4, "gap": -0.1}, r"gap is -0\.1"),
        (make_close_heads_layer, {"heads": 4, "dim": 2, "gap": 0.1}, "fewer than dim"),
        (make_repeated_singular_values_layer, {"heads": 1, "dim": 4, "multiplicity": 1}, "at least 2"),
        (make_repeated_singular_values_layer, {"heads": 1, "dim": 4, "multiplicity": 5}, "at most 4"),
        (make_affinely_dependent_layer, {"heads": 2, "dim": 4}, "heads is 2: from 3"),
        (make_affinely_dependent_layer, {"heads": 5, "dim": 2}, "heads is 5: from 3"),
    ],
)
def test_knobs_out_of_range(make, kwargs, match):
    with pytest.raises(ValueError, match=match):
        make(**kwargs)
