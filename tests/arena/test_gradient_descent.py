"""Gradient descent on hidden parities: one bit is learned, and the comparison shows where that ends."""

from importlib.util import find_spec

import pytest

from arena import parity_target
from runs import single_thread
from upper import GradientDescent


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_one_hidden_bit_is_learned_below_two_per_cent_in_a_thousand_steps():
    target = parity_target(dim=32, bits=1, construction="B", seed=1)
    learner = GradientDescent(8, work=1000, learning_rate=0.01)
    with single_thread(torch=True):
        fit = learner.fit(target.oracle(rng=0), rng=0, truth=target.ground_truth(rng=1))
    assert fit.trace[-1].measures["unknown_part_error"] < 0.02
