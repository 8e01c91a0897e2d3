"""What Newton says of itself holds: in any units, with heads to spare, weak or dead, with copies, with few examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    Outcome,
    make_nice_layer,
    relative_error,
)
from attention.evaluation import verdict
from upper import Newton
from upper.newton.loop import Iterate
from upper.newton.runs import Runner, SplitExamples, draw_split

INPUTS = BooleanInputs(k=4, d=16)


def fit(layer, m, *, inputs=INPUTS, seed=0, **settings):
    oracle = ExampleOracle(layer, inputs, rng=[seed, 1])
    return Newton(m, **settings).fit(oracle, rng=[seed, 2])


def fresh_error(found, layer, inputs=INPUTS):
    x = inputs.sample(1000, rng=77)
    return relative_error(found.layer(x), layer(x))


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(st.floats(-30, 30))
def test_units_of_the_tokens_change_nothing_but_the_units_of_the_layer(exponent):
    scale = 10.0**exponent
    layer, x = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8).sample(120, rng=1)
    there = AttentionLayer(layer.theta / scale / scale, layer.w / scale)
    here = Newton(2).fit(ExampleOracle.from_arrays(x, layer(x)), rng=2)
    scaled = Newton(2).fit(ExampleOracle.from_arrays(scale * x, layer(x)), rng=2)
    assert scaled.outcome is here.outcome is Outcome.EXACT
    np.testing.assert_allclose(scaled.layer(scale * x), layer(x), atol=1e-9)
    np.testing.assert_allclose(there(scale * x), layer(x), atol=1e-9)
    assert scaled.trace[-1].measures["total_passes"] == pytest.approx(
        here.trace[-1].measures["total_passes"], rel=0.5
    )


def test_a_layer_to_start_from_is_taken_in_the_units_of_the_tokens():
    layer, x = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8).sample(120, rng=1)
    passes = []
    for scale in (1, 5):
        there = AttentionLayer(layer.theta / scale**2, layer.w / scale)
        found = Newton(2, start=there).fit(ExampleOracle.from_arrays(scale * x, there(scale * x)), rng=2)
        assert found.outcome is Outcome.EXACT
        assert found.trace[0].measures["residual"] < 1e-4
        passes.append(found.trace[-1].measures["total_passes"])
    assert passes[1] == pytest.approx(passes[0], rel=0.5)


def test_the_sizes_of_tokens_labels_and_layers_in_units_are_undone():
    x = 7 * GaussianInputs(3, 5).sample(40, rng=0)
    layer = AttentionLayer(*np.random.default_rng(1).standard_normal((2, 2, 5, 5)))
    examples = draw_split(ExampleOracle.from_arrays(x, layer(x)), 40, least=10)
    assert np.mean(np.concatenate([examples.x, examples.x_held]) ** 2) == pytest.approx(1)
    assert max(np.abs(examples.y).max(), np.abs(examples.y_held).max()) == 1
    inside = examples.scaled(layer)
    np.testing.assert_allclose(inside(examples.x), examples.y, atol=1e-12)
    back = examples.layer(Iterate(inside.theta, inside.w, 0.0, 0.0, 0))
    np.testing.assert_allclose(back.theta, layer.theta, rtol=1e-12)
    np.testing.assert_allclose(back.w, layer.w, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "d", "heads", "m"), [(4, 16, 2, 3), (3, 12, 1, 2)])
def test_a_student_with_heads_to_spare_is_exact_to_the_precision_of_its_conditioning(k, d, heads, m):
    layer, inputs = make_nice_layer(heads=heads, dim=d, rng=0), BooleanInputs(k, d)
    found = fit(layer, m, inputs=inputs)
    assert found.outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR)
    assert fresh_error(found, layer, inputs) < 1e-7


@pytest.mark.parametrize("tolerance", [0.5, pytest.param(0.1, marks=pytest.mark.slow)])
def test_a_tolerance_reached_is_reached_on_fresh_examples(tolerance):
    for seed in range(3):
        layer = make_nice_layer(heads=4, dim=16, rng=seed)
        found = fit(layer, 4, seed=seed, tolerance=tolerance)
        assert found.outcome is Outcome.REACHED_TOLERANCE
        # ten examples are held out: their error is within a quarter of that on all
        assert fresh_error(found, layer) < 1.25 * tolerance


@pytest.mark.slow
def test_a_tolerance_is_not_reached_where_examples_are_too_few_to_generalise():
    layer = make_nice_layer(heads=4, dim=16, rng=5)
    found = fit(layer, 4, tolerance=0.5, examples=33)
    assert found.outcome is Outcome.OVERFITTED
    assert fresh_error(found, layer) > 0.5


@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 1), st.booleans())
def test_no_outcome_claims_more_than_held_out_examples_have(fitted, held_out, tolerance, spent):
    otherwise = Outcome.WORK_SPENT if spent else Outcome.LOCAL_MINIMUM
    outcome = verdict(
        fitted=fitted, held_out=held_out, tolerance=tolerance, otherwise=otherwise, evidence=lambda: 10
    )
    if outcome is Outcome.REACHED_TOLERANCE:
        assert held_out <= tolerance
    if outcome in (Outcome.EXACT, Outcome.PRECISION_FLOOR):
        assert held_out < 1e-6
    if held_out > max(tolerance, 1e-6):
        assert not outcome.succeeded


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1e-3, 1e-5])
def test_a_head_a_thousand_times_weaker_than_the_others_is_found_and_not_taken_for_noise(strength):
    for seed in range(1):
        nice = make_nice_layer(heads=3, dim=16, rng=seed)
        layer = AttentionLayer(nice.theta, nice.w * np.array([1, 1, strength])[:, None, None])
        found = fit(layer, 3, seed=seed)
        assert found.outcome is Outcome.EXACT
        assert fresh_error(found, layer) < 1e-9


def test_real_noise_stays_a_floor_after_the_weakest_head_began_anew():
    layer = make_nice_layer(heads=2, dim=12, rng=0)
    oracle = ExampleOracle(
        layer,
        BooleanInputs(3, 12),
        noise=lambda y, rng: y + 1e-3 * rng.standard_normal(y.shape),
        rng=1,
    )
    found = Newton(2).fit(oracle, rng=2)
    assert found.outcome is Outcome.RESIDUAL_FLOOR
    assert found.trace[-1].measures["noise_level"] == pytest.approx(1e-3, rel=0.1)
    assert any(step.name.startswith("Weakest head anew") for step in found.trace)


@pytest.mark.slow
def test_auto_returns_no_dead_heads():
    for seed in (6,):
        nice = make_nice_layer(heads=2, dim=16, rng=seed)
        layer = AttentionLayer(nice.theta, np.stack([nice.w[0], -nice.w[0]]))
        found = fit(layer, "auto", inputs=GaussianInputs(4, 16), seed=seed)
        assert found.outcome is Outcome.EXACT
        assert found.layer.heads == 2
        assert np.linalg.norm(found.layer.w, axis=(1, 2)).min() > 1e-2


@pytest.mark.slow
def test_inputs_rounded_to_float32_are_noise_of_that_size_and_not_a_local_minimum():
    layer = make_nice_layer(heads=4, dim=32, rng=1)
    x = np.random.default_rng(0).standard_normal((400, 4, 32))
    for m in (4, "auto"):
        found = Newton(m).fit(ExampleOracle.from_arrays(x.astype(np.float32), layer(x)), rng=0)
        assert found.outcome is Outcome.RESIDUAL_FLOOR
        assert found.layer.heads == 4
        assert 1e-9 < found.trace[-1].measures["noise_level"] < 1e-6


@pytest.mark.parametrize("m", [4, pytest.param("auto", marks=pytest.mark.slow)])
def test_copies_of_fitted_examples_are_no_evidence(m):
    x = np.tile(INPUTS.sample(20, rng=1), (8, 1, 1))
    layer = make_nice_layer(heads=4, dim=16, rng=5)
    found = Newton(m).fit(ExampleOracle.from_arrays(x, layer(x)), rng=0)
    assert not found.outcome.succeeded


@given(st.integers(1, 12), st.integers(5, 60), st.integers(0, 1000))
def test_no_input_is_both_fitted_and_held_out_where_others_can_be_fitted(distinct, n, seed):
    rng = np.random.default_rng(seed)
    x = GaussianInputs(2, 2).sample(distinct, rng=seed)[rng.integers(distinct, size=n)]
    oracle = ExampleOracle.from_arrays(x, x)
    first = draw_split(oracle, n // 2 + 1, least=1)
    both = draw_split(oracle, n, least=1, before=first)
    apart = len({one.tobytes() for one in x[: n // 2 + 1]}) > 2  # at most two are held out at first
    for examples in (first, both):
        fitted = {one.tobytes() for one in examples.x}
        held = {one.tobytes() for one in examples.x_held}
        assert fitted
        assert held
        assert len(examples.x) + len(examples.x_held) == examples.drawn
        if apart:
            assert not fitted & held


def test_starts_that_agree_are_at_no_floor_while_held_out_examples_are_not():
    # a fit that reproduces a third of its labels and nothing of the others
    x = BooleanInputs(2, 3).sample(30, rng=0)
    examples = SplitExamples(x[:28], x[:28], x[28:], -x[28:], 1.0)
    zero, one = np.zeros((1, 3, 3)), np.eye(3)[None]

    def iterates(*_):
        while True:
            yield Iterate(zero, one, residual=0.3, damping=0.0, passes=1)

    runner = Runner(iterates=iterates, start=lambda *_: zero, tolerance=1e-14)
    run = {"starts": 4, "work": 10**6, "tell": lambda *_: None}
    ends = runner.several(examples, 1, **run)
    assert len(ends.iterates) == 4
    assert not ends.at_floor


def slow(share_a_step, rest):
    """Iterates that lose this share a step of what is above the rest, from where they are resumed."""

    def iterates(x, y, start, tolerance):
        residual, passes = float(start[0, 0, 0]), 0
        while True:
            passes += 1
            yield Iterate(np.full((1, 3, 3), residual), np.zeros((1, 3, 3)), residual, 0.0, passes)
            residual = rest + (1 - share_a_step) * (residual - rest)

    return iterates


@pytest.mark.parametrize(
    ("step", "rest", "starts", "floor"),
    [(1e-4, 0.0, 3, True), (0.02, 0.0, 3, False), (0.1, 0.75, 5, True)],
    ids=["at rest", "on the way to zero", "on the way to a floor"],
)
def test_starts_that_agree_are_at_no_floor_while_the_best_goes_on(step, rest, starts, floor):
    # held-out examples say little where there are few: at W = 0 they have the residual 1
    x = BooleanInputs(2, 3).sample(30, rng=0)
    examples = SplitExamples(x[:28], x[:28], x[28:], x[28:], 1.0)
    runner = Runner(
        iterates=slow(step, rest),
        start=lambda *_: np.full((1, 3, 3), 0.9),
        tolerance=1e-14,
        resume=lambda end: end.theta,
    )
    ends = runner.several(examples, 1, starts=9, work=10**6, tell=lambda *_: None)
    assert (len(ends.iterates), ends.at_floor) == (starts, floor)
    # what goes on does so to its end, and the starts after it have the patience for it
    assert floor or ends.best.residual < 1e-10
    assert not rest or ends.best.residual < 1.05 * rest
