"""Heads that overfit, fitted alone on more examples."""

from dataclasses import replace

import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, ExampleOracle, Outcome, make_low_rank_layer
from upper import Newton, counting_floor
from upper.newton.heads_alone import wrong_heads
from upper.newton.problem import Problem, Supply


def sharp_layer(heads=3, dim=32, rank=4, *, rng=0):
    """A layer whose first head has logits of deviation 12, so that nearly every row is on one token."""
    layer = make_low_rank_layer(heads=heads, dim=dim, rank=rank, w_rank=rank, rng=rng)
    theta = layer.theta.copy()
    theta[0] *= 6
    return replace(layer, theta=theta)


def blurred(layer, factor=0.3):
    """The same layer with a first head that is less sharp."""
    theta = layer.theta.copy()
    theta[0] *= factor
    return replace(layer, theta=theta)


@pytest.fixture
def examples():
    """An oracle of examples of a layer with a sharp head."""
    return lambda layer: ExampleOracle(layer, BooleanInputs(tokens=8, dim=layer.dim), rng=1)


def test_a_sharp_head_becomes_exact_on_more_examples(examples):
    layer = sharp_layer()
    newton = Newton(3, rank=4, start=blurred(layer), starts=1, work=4000)
    fit = newton.fit(examples(layer), rng=0)
    few = newton.default_examples(3, 8, 32)
    assert fit.outcome is Outcome.EXACT
    assert fit.examples_used == 4 * few
    # without more examples it crawls
    crawling = replace(newton, examples=few).fit(examples(layer), rng=0)
    assert (crawling.outcome, crawling.examples_used) == (Outcome.WORK_SPENT, few)


def test_the_wrong_heads_are_those_of_the_held_out_error(examples):
    layer = sharp_layer()
    floor = counting_floor(heads=3, tokens=8, dim=32, rank=4)
    newton = Newton(3, rank=4)
    supply = Supply(examples(layer), newton._known, 8, None)
    drawn = supply.draw(3)
    problem = Problem(drawn, newton._known, 1e-14, np.random.default_rng(0))
    here = drawn.scaled(blurred(layer))
    assert wrong_heads(problem, here).tolist() == [True, False, False]
    two = AttentionLayer(here.theta, here.w * np.array([1.0, 1.5, 1.0])[:, None, None])
    assert wrong_heads(problem, two).tolist() == [False, True, False]
    assert drawn.drawn == 8 * floor
    more = supply.more(drawn, 4)
    assert more.drawn == 32 * floor
    assert np.array_equal(more.x[: len(drawn.x)], drawn.x)
