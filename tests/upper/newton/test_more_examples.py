"""Heads that overfit are fitted to more examples."""

from dataclasses import replace

from attention import BooleanInputs, ExampleOracle, Outcome, make_low_rank_layer
from upper import Newton


def test_a_sharp_head_becomes_exact_on_more_examples():
    # the first head has logits of deviation 12, so that nearly every row is on one token
    layer = make_low_rank_layer(heads=3, dim=32, rank=4, w_rank=4, rng=0)
    sharp, blurred = (replace(layer, theta=layer.theta * [[[f]], [[1]], [[1]]]) for f in (6, 2))
    newton = Newton(3, rank=4, start=blurred, starts=1, work=4000)
    few = newton.default_examples(3, 8, 32)
    fit, crawling = (
        learner.fit(ExampleOracle(sharp, BooleanInputs(tokens=8, dim=32), rng=1), rng=0)
        for learner in (newton, replace(newton, examples=few))
    )
    assert fit.outcome is Outcome.EXACT
    assert few < fit.examples_used <= 4 * few
    assert (crawling.outcome, crawling.examples_used) == (Outcome.WORK_SPENT, few)
