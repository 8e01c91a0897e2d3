"""Transformer-shaped layers have the ranks, spectra, strengths and likeness they were asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import BooleanInputs, check_conditions
from attention.transformer_shaped import make_transformer_shaped_layer


@given(
    heads=st.integers(1, 5),
    dim=st.integers(2, 12),
    rank=st.integers(1, 12),
    exponent=st.floats(0, 1.5),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_every_matrix_has_the_power_law_spectrum_of_its_rank(heads, dim, rank, exponent, seed):
    rank = min(rank, dim)
    layer = make_transformer_shaped_layer(heads=heads, dim=dim, rank=rank, exponent=exponent, rng=seed)
    law = np.zeros(dim)
    law[:rank] = np.arange(1, rank + 1) ** -exponent
    for matrices in (layer.theta, layer.w):
        values = np.linalg.svd(matrices, compute_uv=False)
        np.testing.assert_allclose(values / values[:, :1], np.tile(law, (heads, 1)), atol=1e-10)


@pytest.mark.parametrize("asked", [0.2, 0.45, 0.9])
def test_incoherence_is_the_one_asked_for(asked):
    layer = make_transformer_shaped_layer(heads=6, dim=48, rank=16, incoherence=asked, rng=0)
    report = check_conditions(layer)
    for name in ("theta_incoherence", "w_incoherence"):
        assert report[name].measured == pytest.approx(asked, abs=1e-9)
    for matrices in (layer.theta, layer.w):  # measured again, from the definition
        flat = matrices.reshape(6, -1)
        cosines = np.abs(flat @ flat.T) / np.outer(*2 * [np.linalg.norm(flat, axis=1)])
        assert np.triu(cosines, 1).max() == pytest.approx(asked, abs=1e-9)
        assert np.median(cosines) < 0.7 * asked  # the most alike pair is not every pair


def test_independent_heads_that_are_more_alike_than_asked_stay_as_they_are():
    none, some = (
        make_transformer_shaped_layer(heads=4, dim=4, rank=2, incoherence=asked, rng=0)
        for asked in (0.0, 0.1)
    )
    assert check_conditions(none)["theta_incoherence"].measured > 0.1
    np.testing.assert_array_equal(none.theta, some.theta)


def test_strengths_are_the_deviations_of_logits_and_span_the_range():
    layer = make_transformer_shaped_layer(heads=5, dim=48, rank=16, strengths=(0.5, 4.0), rng=0)
    sizes = np.linalg.norm(layer.theta, axis=(1, 2))
    np.testing.assert_allclose(np.sort(sizes), np.geomspace(0.5, 4.0, 5))
    measured = layer.logits(BooleanInputs(2, 48).sample(20_000, rng=0))[:, :, 0, 1].std(axis=0)
    np.testing.assert_allclose(measured, sizes, rtol=0.08)
    w_sizes = np.linalg.norm(layer.w, axis=(1, 2))
    assert w_sizes.max() / w_sizes.min() == pytest.approx(8)
    assert np.mean(w_sizes**2) == pytest.approx(48)


def test_the_default_is_as_uneven_as_a_trained_layer():
    report = check_conditions(make_transformer_shaped_layer(rng=0), tokens=16)
    assert (report.heads, report.dim) == (12, 96)
    assert report["theta_incoherence"].measured == pytest.approx(0.45)
    assert 3 < report["theta_stable_rank"].measured < 5
    assert report["theta_norms_comparable"].measured == pytest.approx(4)


def test_same_seed_same_bits():
    one, other, another = (
        make_transformer_shaped_layer(heads=3, dim=12, rank=4, rng=seed)
        for seed in (5, np.random.default_rng(5), 6)
    )
    assert one.theta.tobytes() == other.theta.tobytes()
    assert one.w.tobytes() == other.w.tobytes()
    assert one.theta.tobytes() != another.theta.tobytes()


def test_one_head_has_the_least_strength_and_projections_as_in_a_nice_layer():
    layer = make_transformer_shaped_layer(heads=1, dim=9, rank=3, strengths=(0.5, 4.0), rng=0)
    assert np.linalg.norm(layer.theta) == pytest.approx(0.5)
    assert np.linalg.norm(layer.w) == pytest.approx(3)


@pytest.mark.bad_input
@pytest.mark.parametrize("strengths", [(), (1.0,), (1.0, 2.0, 3.0)], ids=["none", "one", "three"])
def test_strengths_that_are_not_two_are_said(strengths):
    with pytest.raises(ValueError, match="two numbers are needed, the least and the largest"):
        make_transformer_shaped_layer(heads=3, dim=12, rank=4, strengths=strengths)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "wrong",
    [
        {"heads": 0},
        {"dim": 0},
        {"rank": 0},
        {"rank": 13},
        {"exponent": -1.0},
        {"incoherence": 1.0},
        {"incoherence": -0.1},
        {"strengths": (0.0, 1.0)},
        {"strengths": (2.0, 1.0)},
        {"strengths": (1.0, np.inf)},
    ],
)
def test_arguments_out_of_range(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make_transformer_shaped_layer(**{"heads": 3, "dim": 12, "rank": 4, **wrong})
