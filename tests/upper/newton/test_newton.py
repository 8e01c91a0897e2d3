"""Newton: exact recovery at four times the counting floor, and honesty where there is nothing to recover."""

import subprocess
import sys
from itertools import islice, pairwise

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    SphereInputs,
    make_nice_layer,
)
from attention.testing import check_learner
from upper import Newton, counting_floor, gauss_newton


def _learn(layer, inputs, learner, seed=0):
    truth = GroundTruth.draw(layer, inputs, 500, rng=seed + 1)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=seed + 2), rng=seed + 3, truth=truth)
    return fit, truth.measure(layer=fit.layer)


@pytest.mark.parametrize(("m", "k", "d"), [(2, 2, 32), pytest.param(4, 4, 32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_exact_at_four_times_the_counting_floor(m, k, d, seed):
    fit, errors = _learn(make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d), Newton(m), seed)
    assert fit.outcome is Outcome.EXACT
    assert fit.examples_used <= 4 * counting_floor(heads=m, tokens=k, dim=d)
    assert errors["relative_error"] <= 1e-12
    assert errors["theta_error"] <= 1e-11
    assert errors["w_error"] <= 1e-11


@pytest.mark.parametrize(
    "inputs",
    [GaussianInputs(3, 12), pytest.param(SphereInputs(3, 12), marks=pytest.mark.slow)],
    ids=["gaussian", "sphere"],
)
def test_exact_under_other_inputs(inputs):
    fit, errors = _learn(make_nice_layer(heads=2, dim=12, rng=5), inputs, Newton(2))
    assert fit.outcome is Outcome.EXACT
    assert errors["relative_error"] <= 1e-12


def test_one_token_is_linear_regression():
    fit, errors = _learn(make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(1, 6), Newton(2))
    assert fit.outcome is Outcome.EXACT
    assert errors["relative_error"] <= 1e-12


def test_one_coordinate():
    fit, errors = _learn(
        AttentionLayer(np.ones((1, 1, 1)), np.ones((1, 1, 1))), GaussianInputs(2, 1), Newton(1)
    )
    assert errors["relative_error"] <= 1e-8, fit.outcome


def test_zero_target_is_learned_without_warning():
    layer = AttentionLayer(np.zeros((1, 4, 4)), np.zeros((1, 4, 4)))
    fit = Newton(1).fit(ExampleOracle(layer, BooleanInputs(2, 4), rng=0), rng=0)
    assert fit.outcome is Outcome.EXACT
    assert not np.any(fit.layer.w)


def test_work_budget_is_kept_and_said():
    learner = Newton(2, work=100)
    fit, _ = _learn(make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(2, 16), learner)
    assert fit.outcome is Outcome.WORK_SPENT
    # a trial once begun is finished: at most one inner solve beyond the budget
    assert fit.trace[-2].measures["passes"] <= 100 + 2 * 60 + 3


def test_a_start_that_stalls_alone_is_a_local_minimum():
    fit, errors = _learn(make_nice_layer(heads=3, dim=8, rng=1), BooleanInputs(3, 8), Newton(1, starts=1))
    assert fit.outcome is Outcome.LOCAL_MINIMUM
    assert errors["relative_error"] > 0.1


def test_starts_that_agree_are_a_floor_of_the_residual():
    fit, _ = _learn(make_nice_layer(heads=3, dim=8, rng=1), BooleanInputs(3, 8), Newton(1, starts=10))
    assert fit.outcome is Outcome.RESIDUAL_FLOOR
    assert fit.trace[-1].measures["starts"] < 10


def test_the_tolerance_ends_the_first_start():
    fit, errors = _learn(
        make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(2, 16), Newton(2, tolerance=1e-3)
    )
    assert fit.outcome is Outcome.REACHED_TOLERANCE
    assert fit.trace[-1].measures["starts"] == 1
    assert 1e-12 < errors["relative_error"] < 4e-3


@pytest.mark.parametrize(
    "scale",
    [
        1e-170,
        pytest.param(1e160, marks=pytest.mark.slow),
    ],
)
def test_the_scale_of_the_labels_changes_nothing(scale):
    nice = make_nice_layer(heads=2, dim=8, rng=0)
    fit, errors = _learn(AttentionLayer(nice.theta, scale * nice.w), BooleanInputs(3, 8), Newton(2))
    assert fit.outcome is Outcome.EXACT
    assert errors["relative_error"] < 1e-12
    assert errors["w_error"] < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_one_coordinate_on_signs_leaves_theta_open_and_ends(seed):
    # the two tokens are equal or opposite, so that heads coincide on the probe
    fit, errors = _learn(make_nice_layer(heads=2, dim=1, rng=seed), BooleanInputs(2, 1), Newton(2), seed)
    assert np.isfinite(errors["relative_error"]), fit.outcome


def test_rejected_trials_change_the_damping_alone():
    # large logits: the quadratic model is trusted too far, and trials fail
    layer = make_nice_layer(heads=2, dim=8, sigma=16.0, rng=2)
    x, y = ExampleOracle(layer, BooleanInputs(3, 8), rng=4).draw(60)
    rng = np.random.default_rng(5)
    run = list(islice(gauss_newton(x, y, 0.2 * rng.standard_normal((2, 8, 8)), rng=rng), 40))
    rejected = [after for before, after in pairwise(run) if after.theta is before.theta]
    assert rejected
    assert all(after.damping > before.damping for before, after in pairwise(run) if after in rejected)
    residuals = [iterate.residual for iterate in run]
    assert residuals == sorted(residuals, reverse=True)


def test_superlinear_near_the_solution():
    layer = make_nice_layer(heads=2, dim=16, rng=0)
    fit, _ = _learn(layer, BooleanInputs(3, 16), Newton(2))
    residuals = np.array([step.measures["residual"] for step in fit.trace[:-1]])
    near = np.flatnonzero((residuals < 1e-3) & (residuals > 1e-11))
    assert len(near) >= 2
    assert np.all(residuals[near + 1] < 0.1 * residuals[near])


def test_a_layer_to_start_from_is_where_it_starts():
    layer, inputs, rng = (
        make_nice_layer(heads=2, dim=16, rng=0),
        BooleanInputs(3, 16),
        np.random.default_rng(1),
    )
    near = AttentionLayer(layer.theta + 0.01 * rng.standard_normal(layer.theta.shape), layer.w)
    fit, _ = _learn(layer, inputs, Newton(2, start=near))
    away, _ = _learn(layer, inputs, Newton(2))
    assert fit.outcome is Outcome.EXACT
    first = [step.measures["relative_error"] for step in (fit.trace[0], away.trace[0])]
    assert first[0] < 0.2 < first[1]
    assert fit.trace[-2].measures["passes"] < away.trace[-2].measures["passes"]


def test_a_learner_seeded_like_its_target_does_not_draw_it():
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=5), BooleanInputs(3, 16)
    truth = GroundTruth.draw(layer, inputs, 200, rng=6)
    fit = Newton(2).fit(ExampleOracle(layer, inputs, rng=7), rng=5, truth=truth)
    # the target's own numbers, at half the strength of nice layers, would be one half off
    assert fit.trace[0].measures["theta_error"] > 0.9


def test_starts_after_the_layer_are_others_and_counted():
    learner = Newton(1, starts=3, start=make_nice_layer(heads=1, dim=8, rng=9))
    fit, _ = _learn(make_nice_layer(heads=3, dim=8, rng=1), BooleanInputs(3, 8), learner)
    assert not fit.outcome.succeeded
    beginnings = [step.measures["residual"] for step in fit.trace if step.name.endswith(", iterate 0")]
    assert len(beginnings) == fit.trace[-1].measures["starts"] > 1
    assert len(set(beginnings)) == len(beginnings)


def test_a_spectral_start_is_asked_for_on_the_examples_to_fit(monkeypatch):
    layer, asked = make_nice_layer(heads=2, dim=8, rng=0), []

    def spectral_start(x, y, m, *, rng):
        asked.append((x.shape, y.shape, m))
        return np.array(layer.theta)

    monkeypatch.setattr("upper.newton.learner.spectral_start", spectral_start)
    fit, _ = _learn(layer, BooleanInputs(3, 8), Newton(2, start="spectral"))
    assert fit.outcome is Outcome.EXACT
    assert asked == [((42, 3, 8), (42, 3, 8), 2)]
    assert fit.trace[0].measures["residual"] < 1e-3  # the projections follow from the examples


@pytest.mark.parametrize("seed", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_where_a_random_start_fails_the_spectral_one_is_exact(seed, monkeypatch):
    inputs, layer = BooleanInputs(8, 16), make_nice_layer(heads=4, dim=16, rng=seed)
    few = 3 * counting_floor(heads=4, tokens=8, dim=16)

    def starts(learner):
        fit = learner.fit(ExampleOracle(layer, inputs, rng=seed + 100), rng=seed + 200)
        assert fit.outcome is Outcome.EXACT
        return fit.trace[-1].measures["starts"]

    assert starts(Newton(4, examples=few, starts=2)) == 2
    monkeypatch.setattr("upper.newton.learner._SPECTRAL", None)
    assert starts(Newton(4, examples=few)) > 2


@pytest.mark.slow
def test_many_heads_on_many_tokens_are_exact_at_four_times_the_counting_floor():
    # random starts all end alike there, far above zero
    fit, errors = _learn(make_nice_layer(heads=12, dim=48, rng=0), BooleanInputs(16, 48), Newton(12))
    assert fit.outcome is Outcome.EXACT
    assert errors["theta_error"] <= 1e-11


@pytest.mark.parametrize("engine", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
def test_every_engine_learns_the_same_layer(engine):
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    layer, inputs = make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(3, 16)
    fit, errors = _learn(layer, inputs, Newton(2, engine=engine))
    assert fit.outcome is Outcome.EXACT
    assert isinstance(fit.layer.theta, np.ndarray)
    assert {step.engine.split()[0] for step in fit.trace} == {engine}
    assert errors["theta_error"] <= 1e-11


def test_small_problems_leave_torch_alone():
    program = (
        "import sys; from attention import *; from upper import Newton;"
        "oracle = ExampleOracle(make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8), rng=1);"
        "fit = Newton(2, engine='auto').fit(oracle, rng=2);"
        "assert fit.outcome.succeeded and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
@pytest.mark.bad_input
def test_contract():
    fit = check_learner(Newton(2), make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(3, 6))
    assert fit.outcome is Outcome.EXACT


@pytest.mark.bad_input
@pytest.mark.parametrize("wrong", [{"m": 0}, {"m": 2.5}, {"starts": 0}, {"work": -1}, {"tolerance": -1.0}])
def test_wrong_parameters(wrong):
    with pytest.raises(ValueError, match="is needed"):
        Newton(**({"m": 2} | wrong))


@pytest.mark.bad_input
@pytest.mark.parametrize("wrong", [{"start": "warm"}, {"engine": "jax"}, {"device": 7}])
def test_wrong_words(wrong):
    with pytest.raises(ValueError, match="is needed"):
        Newton(m=2, **wrong)


@pytest.mark.bad_input
def test_a_layer_of_another_shape_to_start_from():
    oracle = ExampleOracle(make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8), rng=0)
    with pytest.raises(ValueError, match="3 heads in 8 dimensions: 2 in 8 are needed"):
        Newton(2, start=make_nice_layer(heads=3, dim=8, rng=0)).fit(oracle, rng=0)
