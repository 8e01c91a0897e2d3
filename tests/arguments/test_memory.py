"""A learner that needs more memory than there is refuses with the numbers, before it draws an example."""

from importlib.util import find_spec

import pytest

import upper
from attention import BooleanInputs, ExampleOracle, make_nice_layer
from attention.memory import memory_limited_to

MUCH = 10**7
LEARNERS = [
    upper.Newton(heads=2, examples=MUCH, engine="numpy"),
    upper.LBFGS(heads=2, examples=MUCH),
    *([upper.GradientDescent(heads=10**6)] if find_spec("torch") else []),
    upper.LinearBaseline(examples=MUCH),
    upper.OneGradientStep(examples=MUCH),
    upper.SixPhase(heads=2),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_a_learner_that_needs_too_much_draws_nothing(learner):
    source = ExampleOracle(make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3), rng=0)
    with memory_limited_to(1 << 16), pytest.raises(ValueError, match=r"\d (K|M|G|T|P)iB"):
        learner.fit(source, rng=0)
    assert source.drawn == 0
