"""How Newton ends: by its work, in a local minimum or at a floor, and what a start changes."""

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    make_low_rank_layer,
    make_nice_layer,
)
from attention.layer import read_tokens
from upper import Newton, counting_floor, gauss_newton
from upper.floor import LayerClass
from upper.newton.loop import Iterate
from upper.newton.noise import Noise, depends_on_tokens, no_worse
from upper.newton.starts import Stopping, last_iterate


def _learn(layer, inputs, learner, seed=0):
    truth = GroundTruth.draw(layer, inputs, 500, rng=seed + 1)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=seed + 2), rng=seed + 3, truth=truth)
    return fit, truth.measure(layer=fit.layer)


def test_with_many_tokens_the_first_start_anneals_a_prior_where_random_ones_fail():
    few, exact = 3 * counting_floor(heads=4, tokens=8, dim=10), 0
    for seed in (2, 3, 4, 5, 7, 12):  # which minimum a start ends in depends on the processor's rounding
        oracle = ExampleOracle(
            make_nice_layer(heads=4, dim=10, rng=seed), BooleanInputs(8, 10), rng=seed + 100
        )
        exact += Newton(4, examples=few, starts=1).fit(oracle, rng=seed + 200).outcome is Outcome.EXACT
    assert exact >= 5  # a random start at most one


def test_heads_of_a_known_rank_start_wider_where_narrow_factors_fail():
    few, exact = 3 * counting_floor(heads=4, tokens=4, dim=32, rank=8), 0
    for seed in (0, 2, 4, 5):
        layer = make_low_rank_layer(heads=4, dim=32, rank=8, w_rank=8, rng=seed)
        oracle = ExampleOracle(layer, BooleanInputs(4, 32), rng=[seed, 2])
        exact += Newton(4, rank=8, examples=few, starts=1).fit(oracle, rng=[seed, 3]).outcome is Outcome.EXACT
    assert exact >= 3  # factors of rank 8 none


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(1, 6)),
        (AttentionLayer(*np.zeros((2, 1, 4, 4))), BooleanInputs(2, 4)),
    ],
    ids=["one token", "zero"],
)
def test_targets_that_determine_no_parameters_are_learned_without_a_warning(layer, inputs):
    fit = Newton(layer.heads).fit(ExampleOracle(layer, inputs, rng=2), rng=3)
    x = inputs.sample(200, rng=1)
    assert fit.outcome.succeeded
    np.testing.assert_allclose(fit.layer(x), layer(x), atol=1e-8)


def test_the_work_budget_is_kept():
    fit, _ = _learn(make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(2, 16), Newton(2, work=100))
    assert fit.outcome is Outcome.WORK_SPENT
    # a trial once begun is finished: at most one inner solve beyond the budget
    assert fit.trace[-2].measures["passes"] <= 100 + 2 * 60 + 3


@pytest.mark.parametrize(
    ("starts", "outcome"), [(1, Outcome.LOCAL_MINIMUM), (10, Outcome.RESIDUAL_FLOOR)], ids=["alone", "agree"]
)
def test_a_start_that_stalls_is_a_local_minimum_and_several_that_agree_a_floor(starts, outcome):
    layer = make_nice_layer(heads=3, dim=8, rng=1)
    fit, errors = _learn(layer, BooleanInputs(3, 8), Newton(1, starts=starts))
    assert fit.outcome is outcome
    assert errors["relative_error"] > 0.1
    assert fit.trace[-1].measures["starts"] < 10
    first = [step.measures["residual"] for step in fit.trace if step.name.endswith(", iterate 0")]
    assert len(set(first)) == len(first)  # every start is another


def test_a_learner_seeded_like_its_target_does_not_draw_it():
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=5), BooleanInputs(3, 16)
    truth = GroundTruth.draw(layer, inputs, 200, rng=6)
    fit = Newton(2, work=1).fit(ExampleOracle(layer, inputs, rng=7), rng=5, truth=truth)
    # the target's own numbers, at half the strength of nice layers, would be one half off
    assert fit.trace[0].measures["theta_error"] > 0.9


def _noisy(m, k, d, *, floors, relative, seed):
    """A target, fresh inputs with their clean labels, noisy examples, and the noise on an entry of a label."""
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=[seed, 7]), BooleanInputs(k, d)
    fresh = inputs.sample(1500, rng=9)
    clean = layer(fresh)
    noise = relative * float(clean.std())
    n = floors * counting_floor(heads=m, tokens=k, dim=d)
    x, y = ExampleOracle(layer, inputs, noise=noise, rng=[seed, 1]).draw(n)
    return layer, (fresh, clean), (x, y), noise


def _fit(x, y, m, seed, **settings):
    return Newton(m, examples=len(x), **settings).fit(ExampleOracle.from_arrays(x, y), rng=[seed, 2])


@pytest.mark.parametrize("relative", [0.01, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_run_ends_promptly_at_the_level_of_the_noise(relative):
    m, k, d = 4, 4, 16
    _, _, (x, y), _ = _noisy(m, k, d, floors=8, relative=relative, seed=3)
    fit = _fit(x, y, m, 3)
    share = 2 * m * d * d / x.size
    assert fit.outcome is Outcome.NOISE_FLOOR
    starts = int(fit.trace[-1].measures["starts"])
    assert 3 <= starts <= 4
    for start in range(1, starts + 1):
        steps = [step for step in fit.trace if step.name.startswith(f"Start {start},")]
        squared = np.array([step.measures["residual"] for step in steps]) ** 2
        assert np.sum(squared < (1 + 0.01 * share) * squared[-1]) <= 3


def test_the_examples_held_out_are_fitted_in_the_end():
    _, _, (x, y), _ = _noisy(2, 3, 8, floors=16, relative=0.2, seed=1)
    fit = _fit(x, y, 2, 1)
    residual = np.linalg.norm(fit.layer(x) - y) / np.linalg.norm(y)
    assert fit.trace[-1].measures["residual"] == pytest.approx(residual, rel=1e-5)
    _, read = read_tokens(x, fit.layer.theta)
    optimum = np.linalg.lstsq(read, y.reshape(-1, 8), rcond=None)[0]
    away = read @ (optimum - fit.layer.w.reshape(-1, 8))
    assert np.linalg.norm(away) < 1e-3 * np.linalg.norm(fit.layer(x) - y)


def test_two_starts_in_one_local_minimum_are_no_floor():
    # both of the first two end at a third of the labels, and held-out examples have that too
    m, k, d = 2, 2, 6
    _, (fresh, clean), (x, y), _ = _noisy(m, k, d, floors=6, relative=0.01, seed=6)
    fit = _fit(x, y, m, 6)
    assert fit.outcome is Outcome.NOISE_FLOOR
    assert np.linalg.norm(fit.predict(fresh) - clean) < 0.02 * np.linalg.norm(clean)


def test_low_precision_inside_has_no_bias():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    m, k, d = 2, 2, 8
    layer, (fresh, _), (x, y), noise = _noisy(m, k, d, floors=16, relative=0.05, seed=4)
    count = LayerClass().unknowns(m, k, d)
    near = layer.theta + 0.02 * np.random.default_rng(5).standard_normal((m, d, d))
    outputs = []
    for put, low in ((np.asarray, None), (torch.tensor, torch.bfloat16)):
        iterates = gauss_newton(
            *map(put, (x, y, near)), inner_dtype=low, rng=np.random.default_rng(6), tolerance=0.0
        )
        end = last_iterate(iterates, Stopping(0.0, 3000, share=count / x.size))
        outputs.append(end.layer(fresh))
    apart = np.mean((outputs[0] - outputs[1]) ** 2)
    assert 0 < apart < 0.01 * noise**2 * count / x.size


def _run(residuals, *, share=0.0, rejected=()):
    """The end of a run with given residuals, of which some are of rejected trials."""
    layer = AttentionLayer(*np.zeros((2, 1, 2, 2)))
    iterates = (
        Iterate(layer, float(residual), passes=number, accepted=number not in rejected)
        for number, residual in enumerate(residuals)
    )
    return last_iterate(iterates, Stopping(0.0, 99, share=share))


def test_a_run_ends_where_the_steps_to_come_are_worth_little():
    squared = 1 + 0.5 ** np.arange(30)  # the falls halve: what is to come is the last of them
    to_come = _run(np.sqrt(squared), share=0.2).residual ** 2 - 1
    # the first at which less than a hundredth of the share is to come
    assert to_come < 0.01 * 0.2 * 1.01 < 2 * to_come
    # without a share it goes on until it stalls
    assert _run(np.sqrt(squared)).passes == 10
    # a rejected step is no convergence
    assert _run([1.0, 0.9, 0.9, 0.8999, 0.7, 0.2, 0.01, 0.0], share=0.2, rejected=(2,)).residual == 0


def test_two_minima_are_one_where_they_differ_by_less_than_the_noise_decides():
    ends = [Iterate(AttentionLayer(*np.zeros((2, 1, 1, 1))), r) for r in (1.0, 1.0005)]
    assert Noise().same_residual(ends, share=0.02)
    assert not Noise().same_residual(ends, share=0.005)
    assert not Noise().same_residual(ends[:1], share=0.5)


def test_errors_are_compared_in_pairs():
    rng = np.random.default_rng(0)
    common = rng.exponential(1.0, 100)
    # the difference is a hundredth of the spread, and clear all the same
    assert not no_worse(common + 0.01 + 0.001 * rng.standard_normal(100), common)
    assert no_worse(common, common + 0.01)
    assert no_worse(common + 0.001 * rng.standard_normal(100), common)
    assert not no_worse(np.full(100, np.inf), common)
    assert not no_worse(common, np.full(100, 1e-30))  # nothing is as good as exact, but exact


@pytest.mark.parametrize(("relative", "heads"), [(0.0, 1), (0.3, 1), (0.3, 2)])
def test_a_student_too_small_is_told_from_noise(relative, heads):
    _, _, (x, y), _ = _noisy(2, 3, 12, floors=8, relative=relative, seed=0)
    fit = _fit(x, y, heads, 0, work=4000)
    assert fit.outcome is (Outcome.NOISE_FLOOR if heads == 2 else Outcome.RESIDUAL_FLOOR)
    assert fit.outcome.succeeded == (heads == 2)
    assert ("noise_level" in fit.trace[-1].measures) == (heads == 2)


@pytest.mark.parametrize("kind", ["constant", "linear", "head"])
def test_a_residual_that_is_a_function_of_the_tokens_is_no_noise(kind):
    rng, layer = np.random.default_rng(0), make_nice_layer(heads=1, dim=8, rng=1)
    x = GaussianInputs(3, 8).sample(200, rng=rng)
    part = {"constant": np.ones_like(x), "linear": x, "head": layer(x) - x @ layer.w[0] / 3}[kind]
    noise = 1.5 * part.std() * rng.standard_normal(x.shape) * rng.lognormal(size=(200, 1, 1))
    assert depends_on_tokens(x, part + noise)
    assert not depends_on_tokens(x, noise)
