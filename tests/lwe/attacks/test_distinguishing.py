import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import binom

from attention import Outcome, Recorder, draw_examples
from lwe.attacks.distinguishing import Distinguishing, distinguish
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

TOY = LWEParameters(4, 8, 2)


@dataclasses.dataclass(frozen=True)
class Wild:
    """Predicts large random outputs."""

    examples: int | None = None
    size: float = 1e3

    def minimum_examples(self, tokens, dim):
        return 1

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, progress=progress)
        draw_examples(oracle, 10)
        generator = np.random.default_rng(rng)
        recorder.step("Guess")
        return recorder.fit(
            Outcome.LOCAL_MINIMUM, predict=lambda x: self.size * generator.standard_normal(x.shape)
        )


def record(real_detected, random_detected, runs):
    zeros = np.zeros(runs)
    return Distinguishing(TOY, "one", zeros, zeros, real_detected, random_detected)


def test_a_learner_of_the_labels_has_the_full_advantage():
    found = distinguish(ExhaustiveAttack(), TOY, runs=20, examples=200, fresh=100, rng=0)
    assert (found.real_detected, found.random_detected) == (20, 0)
    assert found.advantage == 1
    assert found.interval[0] > 0.55  # 2 (error/8)^(1/20) - 1
    np.testing.assert_allclose(found.real, 1)  # all labels right: E(h - b)^2 = 0
    assert "labels of these parameters are not pseudorandom" in str(found)
    fixed = distinguish(ExhaustiveAttack(), TOY, secret=make_samples(TOY, 5, rng=3)[1], runs=10, rng=0)
    assert "labels of this secret are not pseudorandom" in str(fixed)


def test_random_labels_are_taken_for_real_ones_at_most_at_the_level():
    made = LWEParameters(6, 17, 3)
    found = distinguish(Wild(), made, runs=60, examples=60, fresh=60, rng=1)
    # at the level of .01: binomial, less than four standard deviations above it
    assert found.random_detected <= 0.6 + 4 * math.sqrt(60 * 0.01 * 0.99)
    assert np.mean(found.random) < 0.02


@pytest.mark.parametrize(("real", "random"), [(0.5, 0.5), (0.9, 0.2), (0.05, 0.0)])
def test_the_interval_of_the_advantage_misses_it_at_most_as_often_as_said(real, random):
    """All pairs of counts of 6 runs, each with its exact probability."""
    counts = np.arange(7)
    weights = np.multiply.outer(binom.pmf(counts, 6, real), binom.pmf(counts, 6, random))
    missed = 0.0
    for one, other in np.ndindex(weights.shape):
        low, high = record(one, other, runs=6).interval
        missed += 0.0 if low <= real - random <= high else weights[one, other]
    assert missed <= 0.05
