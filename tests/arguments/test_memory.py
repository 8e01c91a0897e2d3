"""What does not fit into memory is refused with the numbers, before any work and before an example is drawn."""

import numpy as np
import pytest
from subjects import LAYER, oracle

import upper
from attention import NotEnoughMemoryError
from attention.memory import available_memory, memory_limited_to, require_memory

MUCH = 10**7
LEARNERS = [
    upper.Newton(m=2, examples=MUCH, engine="numpy"),
    upper.LBFGS(m=2, examples=MUCH),
    upper.SGD(m=10**6),
    upper.FrozenAttention(heads=10**6),
    upper.LinearBaseline(examples=MUCH),
    upper.OneGradientStep(examples=MUCH),
    upper.SixPhase(m=2),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_a_learner_that_needs_too_much_draws_nothing(learner):
    source = oracle()
    with memory_limited_to(1 << 16), pytest.raises(ValueError, match=r"\d (K|M|G|T|P)iB"):
        learner.fit(source, rng=0)
    assert source.drawn == 0


def test_layers_and_oracles_refuse_what_does_not_fit():
    source = oracle()
    with memory_limited_to(1 << 20):
        for call in (lambda: LAYER(np.ones((10**5, 2, 3))), lambda: source.draw(10**6)):
            with pytest.raises(NotEnoughMemoryError):
                call()
        assert len(source.draw(100)[0]) == 100


@pytest.mark.parametrize(("needed", "fits"), [(90, True), (91, False), (10**400, False)])
def test_nine_tenths_of_what_is_free_may_be_taken(needed, fits):
    with memory_limited_to(100):
        assert available_memory() == 100
        if fits:
            require_memory("It", needed)
        else:
            with pytest.raises(NotEnoughMemoryError, match=r"It needs .* of memory"):
                require_memory("It", needed)
    assert available_memory() != 100
