"""The learning protocol: clocks, counts and budgets are honest."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import attention.learning
from attention import (
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    Learner,
    Outcome,
    Recorder,
    check_budget,
    make_nice_layer,
    relative_error,
)
from attention.learning import apart

LAYER = make_nice_layer(heads=2, dim=3, rng=0)
INPUTS = BooleanInputs(2, 3)


def oracle(**kwargs):
    return ExampleOracle(LAYER, INPUTS, rng=0, **kwargs)


class TestRecorder:
    def test_counts_only_its_own_draws(self):
        source = oracle()
        source.draw(5)
        recorder = Recorder(source)
        assert recorder.examples == 0
        source.draw(3)
        recorder.step("one")
        source.split(2)[1].draw(4)
        recorder.step("two")
        fit = recorder.fit(Outcome.EXACT, layer=LAYER)
        recorder.step("a later step does not change an earlier fit")
        assert [step.examples for step in fit.trace] == [3, 7]
        assert fit.examples_used == 7
        assert "2 heads, 7 examples, " in repr(fit)

    def test_measuring_stops_the_clock(self, monkeypatch):
        clock = SimpleNamespace(
            now=100.0, perf_counter=lambda: clock.now
        )  # it stands still unless it is moved
        monkeypatch.setattr(attention.learning, "time", clock)

        def slow(x):
            clock.now += 1000
            return LAYER(x)

        def slow_progress(step):
            clock.now += 500

        truth = GroundTruth.draw(LAYER, INPUTS, 10, rng=0)
        recorder = Recorder(oracle(), truth=truth, progress=slow_progress)
        clock.now += 2
        recorder.step("one", predict=slow)
        assert recorder.seconds == 2
        clock.now += 3
        recorder.step("two", predict=slow)
        clock.now += 4
        fit = recorder.fit(Outcome.EXACT, predict=slow)
        assert [step.seconds for step in fit.trace] == [2, 5]
        assert fit.seconds == 9

    def test_measures_against_the_truth_join_those_of_the_step(self):
        truth = GroundTruth.draw(LAYER, INPUTS, 10, rng=0)
        seen = []
        recorder = Recorder(oracle(), truth=truth, progress=seen.append)
        assert recorder.measuring
        recorder.step("half", predict=lambda x: 0.5 * LAYER(x), loss=3, both=[1, 2], phase=3)
        recorder.step("layer", layer=LAYER)
        recorder.step("nothing to measure")
        fit = recorder.fit(Outcome.EXACT, layer=LAYER)
        half, whole, nothing = fit.trace
        errors = {"relative_error": 0.5, "unknown_part_error": 0.5}
        both = half.measures.pop("both")
        assert half.measures == pytest.approx({"loss": 3} | errors)
        assert [type(value) for value in (*half.measures.values(), *both)] == [float] * 5
        assert (both, half.title, whole.title) == ((1, 2), "Phase 3: half", "layer")
        assert set(whole.measures) == {*errors, "theta_error", "w_error"}
        assert max(whole.measures.values()) == 0
        assert nothing.measures == {}
        assert [step.phase for step in fit.trace] == [3, None, None]
        assert half.to_json()["phase"] == 3
        assert "phase" not in whole.to_json()
        assert tuple(seen) == fit.trace


class TestGroundTruth:
    def test_known_part_and_fresh_inputs(self):
        truth = GroundTruth.draw(LAYER, INPUTS, known=lambda x: x @ LAYER.w[0], rng=3)
        np.testing.assert_array_equal(truth.x, INPUTS.sample(2000, rng=3))
        measures = truth.measure(predict=truth.known)
        assert measures["unknown_part_error"] == pytest.approx(1)
        assert measures["relative_error"] == relative_error(truth.known(truth.x), LAYER(truth.x))

    def test_parameters_compare_where_sizes_agree_and_the_worst_head_counts(self):
        truth = GroundTruth.draw(LAYER, INPUTS, 10, rng=0)
        measures = truth.measure(layer=make_nice_layer(heads=3, dim=3, rng=1))
        assert set(measures) == {"relative_error", "unknown_part_error"}
        assert truth.measure() == {}
        layer = LAYER.map(lambda array: array * np.array([1.0, 1.5])[:, None, None])
        measures = truth.measure(layer=layer)
        assert (measures["theta_error"], measures["w_error"]) == pytest.approx((0.5, 0.5))


@dataclass(frozen=True)
class Wants:
    """A learner with a budget and a minimum, as far as `check_budget` looks."""

    examples: int | None = None
    least: int = 0

    def minimum_examples(self, tokens, dim):
        assert (tokens, dim) == (2, 3)
        return self.least

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        raise NotImplementedError


def test_the_budget_is_the_smaller_of_what_is_asked_for_and_what_is_left():
    assert isinstance(Wants(), Learner)
    assert not isinstance(LAYER, Learner)
    four = ExampleOracle.from_arrays(np.zeros((4, 2, 3)), np.zeros((4, 2, 3)))
    for budget, source, expected in [
        (None, oracle(), None),
        (7, oracle(), 7),
        (None, four, 4),
        (7, four, 4),
        (3, four, 3),
    ]:
        assert check_budget(Wants(budget), source) == expected
    assert check_budget(Wants(7, least=7), oracle()) == 7
    with pytest.raises(ValueError, match="Wants has 7 examples of 2 tokens in 3 dimensions: at least 8"):
        check_budget(Wants(7, least=8), oracle())
    with pytest.raises(ValueError, match="Wants has 4 examples"):
        check_budget(Wants(7, least=5), four)


def test_the_stream_of_a_learner_differs_by_its_seed_and_from_that_of_a_target_of_its_seed():
    streams = [
        one for seed in (1, 2) for one in (np.random.default_rng(seed), apart(np.random.default_rng(seed)))
    ]
    assert len({one.random() for one in streams}) == 4
