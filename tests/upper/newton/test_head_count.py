"""The number of heads, found: whatever the guess, under noise, and where fewer heads are the same layer."""

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Outcome,
    SliceInputs,
    SphereInputs,
    make_nice_layer,
)
from attention.layer import read_tokens
from attention.testing import check_learner
from upper import Newton, counting_floor
from upper.newton import head_count
from upper.newton.runs import cost_of_each_head


def _find(layer, inputs, *, noise=0.0, seed=0, **settings):
    """The fit, and the number of heads it found."""
    if noise:
        noise *= float(np.std(layer(inputs.sample(500, rng=1))))
    oracle = ExampleOracle(layer, inputs, noise=noise, rng=[seed, 1])
    fit = Newton("auto", **settings).fit(oracle, rng=[seed, 2])
    return fit, int(fit.trace[-1].measures["heads"])


def _tried(fit):
    """The numbers of heads that were tried, in order, a pruned or polished one too."""
    told = [step for step in fit.trace if "heads" in step.measures and "iterate" not in step.name]
    return [int(step.measures["heads"]) for step in told[1:]]


def _guess(monkeypatch, heads):
    class Spectrum:
        values = np.ones(3)

        def head_count(self):
            return heads

    monkeypatch.setattr(head_count, "cross_moment", lambda *_, **__: Spectrum())


@pytest.mark.parametrize(
    ("m", "k", "d", "seed"),
    [
        (2, 2, 16, 0),
        pytest.param(3, 3, 16, 0, marks=pytest.mark.slow),
        pytest.param(4, 4, 16, 1, marks=pytest.mark.slow),
        pytest.param(6, 4, 32, 0, marks=pytest.mark.slow),
    ],
)
def test_the_heads_of_nice_layers_are_counted(m, k, d, seed):
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=[seed, 100]), BooleanInputs(k, d)
    fit, heads = _find(layer, inputs, seed=seed)
    assert heads == fit.layer.heads == m
    assert fit.outcome is Outcome.EXACT
    errors = GroundTruth.draw(layer, inputs, 200, rng=9).measure(layer=fit.layer)
    assert errors["relative_error"] <= 1e-11
    assert errors["theta_error"] <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(("guess", "noise"), [(1, 0.0), (3, 0.1), (7, 0.0)])
def test_a_wrong_guess_costs_time_and_not_the_answer(monkeypatch, guess, noise):
    _guess(monkeypatch, guess)
    for m, k in ((2, 2), (4, 4)):
        layer = make_nice_layer(heads=m, dim=16, rng=[0, 100])
        fit, heads = _find(layer, BooleanInputs(k, 16), noise=noise)
        assert heads == m
        assert fit.outcome is (Outcome.RESIDUAL_FLOOR if noise else Outcome.EXACT)
        assert _tried(fit)[0] == guess


@pytest.mark.parametrize(
    ("m", "k", "noise"),
    [
        pytest.param(2, 2, 0.02, marks=pytest.mark.slow),
        pytest.param(3, 3, 0.1, marks=pytest.mark.slow),
        (4, 4, 0.2),
    ],
)
def test_the_heads_are_counted_under_noise_and_growing_ends(m, k, noise):
    layer, inputs = make_nice_layer(heads=m, dim=16, rng=[1, 100]), BooleanInputs(k, 16)
    fit, heads = _find(layer, inputs, noise=noise, seed=2)  # at (2, 2) and .02 23 of 24 draws count right
    assert heads == fit.layer.heads == m
    assert fit.outcome is Outcome.RESIDUAL_FLOOR
    assert m < max(_tried(fit)) <= 2 * m + 1  # more were tried, and did no better
    scale = float(np.std(layer(inputs.sample(500, rng=1))))
    assert fit.trace[-1].measures["noise_level"] == pytest.approx(noise * scale, rel=0.05)


def test_noise_below_what_sizes_are_compared_at():
    fit, heads = _find(make_nice_layer(heads=2, dim=12, rng=3), BooleanInputs(3, 12), noise=1e-5)
    assert heads == 2
    assert fit.outcome is Outcome.RESIDUAL_FLOOR
    assert fit.trace[-1].measures["residual"] == pytest.approx(1e-5, rel=0.3)


@pytest.mark.parametrize(
    "weight", [pytest.param(1e-2, marks=pytest.mark.slow), 1e-4, pytest.param(1e-6, marks=pytest.mark.slow)]
)
def test_a_weak_head_is_a_head(weight):
    nice = make_nice_layer(heads=2, dim=12, rng=3)
    layer = AttentionLayer(nice.theta, nice.w * np.array([1, weight])[:, None, None])
    fit, heads = _find(layer, BooleanInputs(3, 12))
    assert heads == 2
    assert fit.outcome is Outcome.EXACT


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("equal theta", marks=pytest.mark.slow),
        pytest.param("zero w", marks=pytest.mark.slow),
        "no attention",
    ],
)
def test_heads_that_are_fewer_in_truth_are_counted_as_fewer(kind):
    nice = make_nice_layer(heads=2, dim=12, rng=3)
    layer = {
        "equal theta": AttentionLayer(np.stack([nice.theta[0]] * 2), nice.w),
        "zero w": AttentionLayer(nice.theta, nice.w * np.array([1, 0])[:, None, None]),
        "no attention": AttentionLayer(0 * nice.theta, nice.w),
    }[kind]
    fit, heads = _find(layer, BooleanInputs(3, 12))
    assert heads == fit.layer.heads == 1
    assert fit.outcome is Outcome.EXACT


def test_one_token_has_one_head():
    fit, heads = _find(make_nice_layer(heads=3, dim=6, rng=0), BooleanInputs(1, 6))
    assert heads == 1
    assert fit.outcome is Outcome.EXACT


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_labels_without_signal_have_no_head(noise):
    oracle = ExampleOracle(lambda x: 0 * x, BooleanInputs(3, 12), noise=noise, rng=0)
    fit = Newton("auto").fit(oracle, rng=1)
    assert fit.trace[-1].measures["heads"] == 0
    assert not np.any(fit.layer.w)
    assert fit.outcome is (Outcome.NOTHING_LEARNED if noise else Outcome.EXACT)


@pytest.mark.slow
def test_a_parity_has_no_head_that_can_be_found():
    def parity(x):
        return np.ones_like(x) * x[:, :1, :4].prod(axis=2, keepdims=True)

    fit, heads = _find(parity, BooleanInputs(3, 12))
    assert heads == 0
    assert not fit.outcome.succeeded
    assert fit.outcome is not Outcome.RESIDUAL_FLOOR  # larger students fit what they saw: no noise looks so


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(GaussianInputs(3, 12), marks=pytest.mark.slow),
        pytest.param(SphereInputs(3, 12), marks=pytest.mark.slow),
        SliceInputs((6, 6), ((3, 3),) * 3),
    ],
    ids=["gaussian", "sphere", "slice"],
)
def test_other_inputs(inputs):
    fit, heads = _find(make_nice_layer(heads=2, dim=12, rng=5), inputs)
    truth = GroundTruth.draw(make_nice_layer(heads=2, dim=12, rng=5), inputs, 200, rng=3)
    assert truth.measure(predict=fit.predict)["relative_error"] < 1e-10, fit.outcome
    assert heads == 2


@pytest.mark.slow
def test_examples_are_drawn_as_more_heads_need_them(monkeypatch):
    _guess(monkeypatch, 1)
    drawn = []

    class Counted(ExampleOracle):
        def draw(self, n):
            drawn.append(n)
            return super().draw(n)

    layer = make_nice_layer(heads=4, dim=16, rng=[0, 100])
    fit = Newton("auto").fit(Counted(layer, BooleanInputs(4, 16), rng=1), rng=2)
    floors = [counting_floor(heads=m, tokens=4, dim=16) for m in [1, *_tried(fit)]]
    assert drawn[0] == 4 * floors[0]
    assert sum(drawn) == fit.examples_used == 4 * max(floors) > 4 * floors[0]
    assert len(drawn) < len(floors)
    assert 0 not in drawn


@pytest.mark.slow
def test_a_budget_of_examples_bounds_the_heads():
    layer = make_nice_layer(heads=4, dim=12, rng=0)
    fit, _ = _find(layer, BooleanInputs(3, 12), examples=60)
    assert fit.examples_used == 60
    assert all(2 * 2 * m * 12 * 12 <= 60 * 3 * 12 for m in _tried(fit))
    assert not fit.outcome.succeeded


def test_the_work_is_bounded_over_all_students():
    layer = make_nice_layer(heads=4, dim=16, rng=[0, 100])
    learner = Newton("auto", work=150)
    fit = learner.fit(ExampleOracle(layer, BooleanInputs(4, 16), rng=1), rng=2)
    assert fit.trace[-1].measures["total_passes"] <= 150 + 2 * (2 * 60 + 4)
    assert not fit.outcome.succeeded


def test_the_trace_has_the_evidence(monkeypatch):
    _guess(monkeypatch, 3)
    fit, _ = _find(make_nice_layer(heads=2, dim=16, rng=[0, 100]), BooleanInputs(3, 16))
    spectrum, *others = [step for step in fit.trace if "iterate" not in step.name]
    assert spectrum.name == "Spectrum of the cross-moments"
    assert spectrum.measures["heads"] == 3
    assert spectrum.measures["value_3"] == 1.0
    names = [step.name for step in others]
    assert names == [
        "3 heads",
        "Pruned to 2 heads",
        "Pruned to 1 head",
        "2 heads, to the last digit",
        "Held-out examples",
    ]
    errors = [step.measures["held_out_error"] for step in others]
    assert errors[2] > 0.1 > errors[1] > errors[3]
    assert all({"residual", "heads", "total_passes"} <= step.measures.keys() for step in others)


def test_the_layer_to_start_from_is_the_guess():
    fit, heads = _find(
        make_nice_layer(heads=2, dim=12, rng=3),
        BooleanInputs(3, 12),
        start=make_nice_layer(heads=3, dim=12, rng=8),
    )
    assert _tried(fit)[0] == 3
    assert heads == 2


def test_the_cost_of_a_head_is_what_dropping_it_costs():
    layer = make_nice_layer(heads=3, dim=6, rng=0)
    x, y = ExampleOracle(layer, BooleanInputs(3, 6), noise=0.1, rng=1).draw(200)
    _, read = read_tokens(x, layer.theta)

    def squared_residual(heads):
        columns = np.concatenate([np.arange(6) + 6 * head for head in heads])
        w, rest, *_ = np.linalg.lstsq(read[:, columns], y.reshape(-1, 6), rcond=None)
        return float(np.sum(rest)), w

    whole, w = squared_residual([0, 1, 2])
    costs = cost_of_each_head(x, layer.theta, w.reshape(3, 6, 6))
    dropped = [squared_residual([i for i in range(3) if i != head])[0] - whole for head in range(3)]
    assert np.allclose(costs, dropped, rtol=1e-8)


def test_heads_that_others_can_stand_in_for_cost_nothing():
    layer = make_nice_layer(heads=2, dim=6, rng=0)
    x = BooleanInputs(3, 6).sample(100, rng=1)
    theta = np.stack([layer.theta[0], layer.theta[0], layer.theta[1]])
    w = np.stack([layer.w[0], -0.5 * layer.w[0], layer.w[1]])
    scale = np.sum(layer(x) ** 2)
    costs = cost_of_each_head(x, theta, w)
    assert np.all(costs[:2] < 1e-8 * scale)
    assert costs[2] > 1e-2 * scale
    assert cost_of_each_head(x, layer.theta, layer.w * np.array([0, 1])[:, None, None])[0] == 0


def test_fewest_examples_are_those_of_one_head():
    assert Newton("auto").minimum_examples(3, 12) == counting_floor(heads=1, tokens=3, dim=12) + 1


@pytest.mark.bad_input
def test_contract():
    fit = check_learner(Newton("auto"), make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(3, 6))
    assert fit.outcome is Outcome.EXACT


@pytest.mark.bad_input
def test_another_word_than_auto():
    with pytest.raises(ValueError, match="m is 'many': a whole number"):
        Newton("many")
