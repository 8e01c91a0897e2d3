"""What Newton says of itself holds: in any units, with heads to spare, weak or dead, with copies, with few examples."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    Outcome,
    make_nice_layer,
    relative_error,
)
from upper import Newton
from upper.floor import LayerClass
from upper.newton.full_heads import FullHeads
from upper.newton.loop import Iterate
from upper.newton.problem import Problem, SplitExamples
from upper.newton.starts import Start, StartRules, run_starts

INPUTS = BooleanInputs(tokens=4, dim=16)


def fit(layer, m, *, inputs=INPUTS, seed=0, **settings):
    oracle = ExampleOracle(layer, inputs, rng=[seed, 1])
    return Newton(m, **settings).fit(oracle, rng=[seed, 2])


def fresh_error(found, layer, inputs=INPUTS):
    x = inputs.sample(1000, rng=77)
    return relative_error(found.layer(x), layer(x))


def test_real_noise_stays_a_floor_after_the_weakest_head_began_anew():
    layer = make_nice_layer(heads=2, dim=12, rng=0)
    oracle = ExampleOracle(
        layer,
        BooleanInputs(3, 12),
        noise=lambda x, y, rng: y + 1e-3 * rng.standard_normal(y.shape),
        rng=1,
    )
    found = Newton(2).fit(oracle, rng=2)
    assert found.outcome is Outcome.NOISE_FLOOR
    assert found.trace[-1].measures["noise_level"] == pytest.approx(1e-3, rel=0.1)
    assert any(step.name.startswith("Weakest head anew") for step in found.trace)


@pytest.mark.parametrize("exponent", [pytest.param(-30, marks=pytest.mark.slow), 30])
def test_units_of_the_tokens_change_nothing_but_the_units_of_the_layer(exponent):
    scale = 10.0**exponent
    layer, x = make_nice_layer(heads=2, dim=8, rng=0), BooleanInputs(3, 8).sample(120, rng=1)
    passes = {}
    for unit in (1, scale):
        there = AttentionLayer(layer.theta / unit / unit, layer.w / unit)
        oracle = ExampleOracle.from_arrays(unit * x, layer(x))
        found = Newton(2).fit(oracle, rng=2)
        assert found.outcome is Outcome.EXACT
        np.testing.assert_allclose(found.layer(unit * x), layer(x), atol=1e-9)
        passes[unit] = found.trace[-1].measures["total_passes"]
        # a layer to start from is taken in these units, and is where the run starts
        begun = Newton(2, start=there).fit(ExampleOracle.from_arrays(unit * x, layer(x)), rng=2)
        assert begun.outcome is Outcome.EXACT
        assert begun.trace[0].measures["residual"] < 1e-4
    assert passes[scale] == pytest.approx(passes[1], rel=0.5)


def test_a_tolerance_reached_is_reached_on_fresh_examples():
    layer, tolerance = make_nice_layer(heads=4, dim=16, rng=0), 0.1
    found = fit(layer, 4, tolerance=tolerance)
    assert found.outcome is Outcome.REACHED_TOLERANCE
    # ten examples are held out: their error is within a quarter of that on all
    assert 1e-12 < fresh_error(found, layer) < 1.25 * tolerance


def test_a_tolerance_is_not_reached_where_examples_are_too_few_to_generalise():
    # a head more than the student has: with as many heads, an annealed prior generalises from 12 examples
    layer, inputs = make_nice_layer(heads=3, dim=8, rng=5), BooleanInputs(3, 8)
    found = fit(layer, 2, inputs=inputs, tolerance=0.5, examples=12, starts=2)
    assert found.outcome is Outcome.OVERFITTED
    assert fresh_error(found, layer, inputs) > 0.5


@dataclass(frozen=True, eq=False)
class Made(Problem):
    """A problem whose runs are made up: they begin at the residual of their start, and lose `share` of it a step.

    What is above `rest` is lost. A layer makes the outputs; without one the heads are silent. `annealed` keeps whether
    each run anneals a prior.
    """

    share_a_step: float = 0.0
    rest: float = 0.0
    layer: AttentionLayer | None = None
    annealed: list[bool] = field(default_factory=list)

    def iterates(self, start, *, priors=False):
        self.annealed.append(priors)
        residual, passes = float(start.array[0, 0, 0]), 0
        while True:
            passes += 1
            silent = AttentionLayer(np.full((1, 3, 3), residual), np.zeros((1, 3, 3)))
            yield Iterate(silent if self.layer is None else self.layer, residual, passes=passes)
            residual = self.rest + (1 - self.share_a_step) * (residual - self.rest)


def made(*begins, layer=None, learned=1.0, **settings):
    """A made problem on thirty inputs, two of them held out, and starts at these residuals."""
    x = BooleanInputs(2, 3).sample(30, rng=0)
    y = x if layer is None else layer(x)
    fitted = None if layer is None else AttentionLayer(layer.theta, learned * layer.w)
    examples, rng = SplitExamples(x[:28], y[:28], x[28:], y[28:], 1.0), np.random.default_rng(0)
    starts = (Start("Start", FullHeads(np.full((1, 3, 3), begin))) for begin in begins)
    return Made(examples, LayerClass(), 1e-14, rng, layer=fitted, **settings), starts


@pytest.mark.parametrize(
    ("step", "rest", "begin", "starts", "floor"),
    [
        (1e-4, 0.0, 0.9, 3, True),
        (0.02, 0.0, 0.9, 3, False),
        (0.1, 0.75, 0.9, 5, True),
        (0.0, 0.3, 0.3, 9, False),
        (0.0, 0.1, 0.1, 9, False),
    ],
    ids=[
        "at rest",
        "on the way to zero",
        "on the way to a floor",
        "held-out examples are not",
        "and overfit",
    ],
)
def test_starts_that_agree_are_at_a_floor_where_the_best_rests_and_held_out_examples_are_there(
    step, rest, begin, starts, floor
):
    # at W = 0 held-out examples have the residual 1: that is no floor of runs which end at .3
    problem, begins = made(*[begin] * 9, share_a_step=step, rest=rest)
    ends = run_starts(problem, begins, StartRules(9, confirm=True), work=10**6)
    assert (len(ends.iterates), ends.at_floor) == (starts, floor)
    # what goes on does so to its end, and the starts after it have the patience for it
    assert floor or rest or ends.best.residual < 1e-10
    assert not rest or ends.best.residual < 1.05 * rest


@pytest.mark.parametrize(("error", "starts"), [(0.4, 3), (0.6, 9)])
def test_with_few_examples_starts_that_agree_are_enough_if_they_have_learned(error, starts):
    # fitted examples have the residual .1, held-out ones more: that is no floor
    layer = make_nice_layer(heads=1, dim=3, rng=0)
    problem, begins = made(*[0.1] * 9, layer=layer, learned=1 - error)
    ends = run_starts(problem, begins, StartRules(9), work=10**6)
    assert len(ends.iterates) == starts
    assert not ends.at_floor


@pytest.mark.parametrize(
    ("begins", "priors"), [([0.9] * 3, [False] * 3), ([0.9, 0.8, 0.8, 0.8], [False, False, True, True])]
)
def test_starts_anneal_a_prior_once_random_ones_disagree(begins, priors):
    problem, starts = made(*begins)
    run_starts(problem, starts, StartRules(len(begins), random=1), work=10**6)
    assert problem.annealed == priors
