"""How Newton ends: by its work, in a local minimum or at a floor, and what a start changes."""

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    Outcome,
    make_nice_layer,
)
from upper import Newton, counting_floor


def _learn(layer, inputs, learner, seed=0):
    truth = GroundTruth.draw(layer, inputs, 500, rng=seed + 1)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=seed + 2), rng=seed + 3, truth=truth)
    return fit, truth.measure(layer=fit.layer)


def test_where_a_random_start_fails_the_annealed_prior_is_exact():
    few, exact = 3 * counting_floor(heads=4, tokens=8, dim=10), {1: 0, 2: 0}
    for seed in (2, 3, 4, 5, 7, 12):  # which minimum a start ends in depends on the processor's rounding
        layer = make_nice_layer(heads=4, dim=10, rng=seed)
        for starts in exact:
            oracle = ExampleOracle(layer, BooleanInputs(8, 10), rng=seed + 100)
            fit = Newton(4, examples=few, starts=starts).fit(oracle, rng=seed + 200)
            exact[starts] += fit.outcome is Outcome.EXACT
    assert exact[1] <= 1
    assert exact[2] >= 5


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
