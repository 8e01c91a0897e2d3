"""Newton with heads of a known low rank: fewer examples than unknown matrices would need, and what it refuses."""

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, GroundTruth, Outcome, make_low_rank_layer
from attention.testing import check_learner
from upper import Newton, counting_floor
from upper.newton.runs import draw_split

M, K, D, R = 2, 3, 16, 2


@pytest.fixture
def layer():
    return make_low_rank_layer(heads=M, dim=D, rank=R, w_rank=R, rng=0)


def measured(layer, learner, *, k=K, noise=None, seed=1):
    inputs = BooleanInputs(k=k, d=layer.dim)
    truth = GroundTruth.draw(layer, inputs, 2000, rng=seed)
    kinds = {} if noise is None else {"noise": noise}
    fit = learner.fit(ExampleOracle(layer, inputs, rng=seed + 1, **kinds), rng=seed + 2, truth=truth)
    return fit, truth.measure(layer=fit.layer)


@pytest.mark.slow
def test_layers_of_rank_r_are_exact_below_two_floors_of_full_rank():
    learner = Newton(4, rank=4)
    for seed in (0,):
        layer = make_low_rank_layer(heads=4, dim=32, rank=4, w_rank=4, rng=seed)
        fit, found = measured(layer, learner, k=4, seed=seed + 10)
        assert fit.outcome is Outcome.EXACT
        assert found["relative_error"] < 1e-10
        assert found["theta_error"] < 1e-10
        assert fit.examples_used < 2 * counting_floor(heads=4, tokens=4, dim=32)
        assert fit.examples_used == 8 * counting_floor(heads=4, tokens=4, dim=32, rank=4)


def test_the_heads_found_have_the_rank(layer):
    fit, _ = measured(layer, Newton(M, rank=R))
    for matrices in (fit.layer.theta, fit.layer.w):
        values = np.linalg.svd(matrices, compute_uv=False)
        assert np.all(values[:, R:] < 1e-12 * values[:, :1])


@pytest.mark.slow
def test_a_rank_above_that_of_the_target_contains_it(layer):
    fit, found = measured(layer, Newton(M, rank=R + 2, examples=900))
    assert fit.outcome is Outcome.EXACT
    assert found["relative_error"] < 1e-10


@pytest.mark.slow
def test_excess_error_is_that_of_the_unknowns_of_the_factors():
    # the mean over five layers, of chi-squares of p / 2 = 120 degrees of freedom or so, whose spread is .06
    x_share, excess = 2 * M * (2 * D * R - R * R) / (600 * K * D), []
    for seed in range(5):
        layer = make_low_rank_layer(heads=M, dim=D, rank=R, w_rank=R, rng=seed)
        _, y = ExampleOracle(layer, BooleanInputs(k=K, d=D), rng=9).draw(600)
        size = float(y.std())
        fit, found = measured(
            layer,
            Newton(M, rank=R, examples=600),
            noise=lambda y, rng, size=size: y + 0.1 * size * rng.standard_normal(y.shape),
            seed=seed,
        )
        assert fit.outcome is Outcome.RESIDUAL_FLOOR
        assert fit.trace[-1].measures["noise_level"] == pytest.approx(0.1 * size, rel=0.03)
        excess.append(found["relative_error"] ** 2 / (0.1**2 * x_share))
    assert 0.85 < np.mean(excess) < 1.2


@pytest.mark.parametrize("start", [pytest.param("spectral", marks=pytest.mark.slow), "layer"])
def test_it_starts_where_it_is_told_to(layer, start):
    fit, found = measured(layer, Newton(M, rank=R, start=layer if start == "layer" else start, examples=600))
    assert fit.outcome is Outcome.EXACT
    assert found["relative_error"] < 1e-10
    if start == "layer":
        assert fit.trace[0].measures["residual"] < 1e-4  # the ridge leaves 1e-5


def test_the_spectral_start_reads_other_values_with_every_head(layer):
    examples = draw_split(ExampleOracle(layer, BooleanInputs(k=K, d=D), rng=1), 600, least=1)
    start = Newton(M, rank=R, start="spectral")._start(examples, M, 1, np.random.default_rng(2))
    assert (start.heads, start.rank, start.v.shape[2]) == (M, R, R)
    one, other = (np.linalg.qr(v)[0] for v in start.v)
    assert np.linalg.norm(one.T @ other, 2) < 0.95  # heads that begin alike would have to come apart first


@pytest.mark.slow
@pytest.mark.bad_input
def test_contract():
    layer = make_low_rank_layer(heads=2, dim=8, rank=2, w_rank=2, rng=0)
    check_learner(Newton(2, rank=2, work=2000), layer, BooleanInputs(k=2, d=8))


@pytest.mark.bad_input
def test_what_does_not_go_together_is_a_sentence(layer):
    with pytest.raises(ValueError, match="with a rank a number of heads is needed"):
        Newton("auto", rank=2)
    with pytest.raises(ValueError, match="rank is 0"):
        Newton(2, rank=0)
    with pytest.raises(ValueError, match="rank is 17: at most the dimension, 16"):
        Newton(2, rank=17).fit(ExampleOracle(layer, BooleanInputs(k=K, d=D), rng=0))
