import dataclasses
import math
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from attention import Outcome, Recorder, draw_examples
from lwe.attacks.attack import Attack
from lwe.attacks.distinguishing import Distinguishing, _scale, distinguish, sufficient_examples
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.outcome import AttackOutcome
from lwe.laws import FlipLaw, TernaryLaw
from lwe.parameters import LWRParameters, rounded
from lwe.samples import make_samples
from upper import LinearBaseline

TOY = LWRParameters(4, 8, 2)


@dataclasses.dataclass(frozen=True)
class Wild:
    """Predicts large random outputs."""

    examples: int | None = None
    size: float = 1e3

    def minimum_examples(self, k, d):
        return 1

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, progress=progress)
        draw_examples(oracle, 10)
        generator = np.random.default_rng(rng)
        recorder.step("Guess")
        return recorder.fit(
            Outcome.LOCAL_MINIMUM, predict=lambda x: self.size * generator.standard_normal(x.shape)
        )


@dataclasses.dataclass(frozen=True)
class Saying(Attack):
    name = "saying"

    def run(self, attempt, generator):
        return attempt.ended(AttackOutcome.DISTINGUISHED, "told apart")


def record(real_detected, random_detected, runs=20, gain=0.0, fresh=1000, confidence=0.95):
    return Distinguishing(
        TOY,
        "one",
        100,
        fresh,
        0.01,
        confidence,
        np.full(runs, gain),
        np.zeros(runs),
        real_detected,
        random_detected,
    )


def test_a_learner_of_the_labels_has_the_full_advantage():
    found = distinguish(ExhaustiveAttack(), TOY, runs=20, examples=400, fresh=300, rng=0)
    assert (found.real_detected, found.random_detected) == (20, 0)
    assert found.advantage == 1
    assert found.interval[0] > 0.55  # 2 (error/8)^(1/20) - 1
    np.testing.assert_allclose(found.real, 1)  # all labels right: E(h - b)^2 = 0
    assert "It distinguishes" in found.conclusion
    assert "nothing follows" in found.conclusion


def test_a_learner_of_nothing_has_none_and_no_security_is_claimed():
    wrapped = LWRParameters(24, 64, 2)
    found = distinguish(LinearBaseline(), wrapped, runs=12, examples=600, fresh=400, rng=0)
    assert found.advantage == pytest.approx(0, abs=0.2)
    assert found.interval[0] <= 0 <= found.interval[1]
    assert "No advantage was shown" in found.conclusion
    assert "nothing of security" in found.conclusion
    assert found.learner == "LinearBaseline"


@pytest.mark.parametrize(
    "learner",
    [
        pytest.param(LinearBaseline(), marks=pytest.mark.slow),
        Wild(),
        pytest.param(LeastSquaresAttack(), marks=pytest.mark.slow),
    ],
    ids=["linear", "wild", "squares"],
)
def test_random_labels_are_taken_for_real_ones_at_most_at_the_level(learner):
    found = distinguish(
        learner, LWRParameters(6, 17, 3), runs=60, examples=60, fresh=60, false_alarm=0.2, rng=1
    )
    # 12 of 60 at the level: binomial, less than four standard deviations above it
    assert found.random_detected <= 12 + 4 * math.sqrt(60 * 0.2 * 0.8)
    assert np.mean(found.random) < 0.02


def test_the_supermartingale_is_one_for_fair_signs():
    # E exp((2 h b - h^2)/2) over b = -1, 1 is exp(-h^2/2) cosh(h) <= 1, the fact that the level rests on
    h = np.linspace(-5, 5, 2001)
    assert np.all(np.exp(-(h**2) / 2) * np.cosh(h) <= 1 + 1e-12)


@pytest.mark.parametrize(("gain", "error"), [(0.5, 0.05), (0.3, 0.01), (0.9, 0.1)])
def test_so_many_examples_suffice_for_both_errors(gain, error):
    """A hypothesis of constant size h that is right so often that eps is just the gain."""
    number = sufficient_examples(gain, error)
    generator = np.random.default_rng(0)
    h = 1.0
    right = (gain + h**2) / (4 * h) + 0.5  # 2 h (2 right - 1) - h^2 = gain
    assert right <= 1
    passed = {}
    for kind, chance in (("real", right), ("random", 0.5)):
        agree = 2 * (generator.random((2000, number)) < chance) - 1
        passed[kind] = np.mean((2 * h * agree - h**2).sum(axis=1) >= 2 * math.log(1 / error))
    assert passed["real"] >= 1 - error - 0.02
    assert passed["random"] <= error + 0.02


def test_a_weak_correlation_is_seen_with_enough_fresh_samples_only():
    noisy = LWRParameters(6, 2, 2, noise=FlipLaw(0.4))

    @dataclasses.dataclass(frozen=True)
    class Parity(Attack):
        name = "parity"

        def run(self, attempt, generator):
            return attempt.found(np.ones(6, dtype=np.int64), "told")

    options = {"secret": np.ones(6, dtype=np.int64), "runs": 10, "examples": 20, "rng": 0}

    # signs of full size have eps = 2 (1 - 2/5 2) - 1 < 0: the loss is worse than that of predicting nothing
    assert distinguish(Parity(), noisy, fresh=2000, **options).real_detected == 0
    sure = LWRParameters(6, 2, 2, noise=FlipLaw(0.1))
    assert distinguish(Parity(), sure, fresh=200, **options).real_detected == 10
    assert distinguish(Parity(), sure, fresh=2, **options).real_detected == 0


def test_an_attack_that_says_distinguished_counts_and_is_caught_if_it_always_does():
    found = distinguish(Saying(), TOY, runs=10, examples=20, fresh=20, rng=0)
    assert (found.real_detected, found.random_detected, found.advantage) == (10, 10, 0)


def test_the_interval_is_clopper_and_pearsons_at_a_quarter_of_the_error_each():
    low, high = record(20, 0).interval
    # all of 20: the exact lower end solves p^20 = error/8; none of 20 is its mirror image
    end = (0.05 / 8) ** (1 / 20)
    assert low == pytest.approx(end - (1 - end))
    assert high == 1
    assert record(10, 10).interval[0] == pytest.approx(-record(10, 10).interval[1])


@pytest.mark.parametrize(("real", "random"), [(0.01, 0.01), (0.5, 0.5), (0.9, 0.2), (0.05, 0.0)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_of_the_advantage_has_half_of_the_error(real, random, confidence):
    """All pairs of counts of 12 runs, each with its exact probability."""
    counts = np.arange(13)
    weights = np.multiply.outer(binom.pmf(counts, 12, real), binom.pmf(counts, 12, random))
    missed = 0.0
    for one, other in np.ndindex(weights.shape):
        low, high = record(one, other, runs=12, confidence=confidence).interval
        missed += 0.0 if low <= real - random <= high else weights[one, other]
    assert missed <= (1 - confidence) / 2


@pytest.mark.parametrize("confidence", [0.5, pytest.param(0.95, marks=pytest.mark.slow)])
def test_both_intervals_hold_together_as_often_as_it_is_said(confidence):
    """A learner of nothing: no advantage, and means of eight random signs have eps = -1/8 whatever the labels."""
    held = [_both_hold(Wild(size=1e6), confidence, seed) for seed in range(20)]
    assert np.mean(held) >= confidence - 3 * math.sqrt(confidence * (1 - confidence) / 20)
    # the interval of eps is Hoeffding's at half of the error, for terms in [-3, 1]
    radius = np.diff(record(1, 1, confidence=confidence).gain_interval)[0] / 2
    assert 2 * math.exp(-2 * 20 * 1000 * radius**2 / 16) == pytest.approx((1 - confidence) / 2)


def _both_hold(learner, confidence, seed):
    found = distinguish(
        learner, LWRParameters(3, 2, 2), runs=3, examples=20, fresh=20, confidence=confidence, rng=seed
    )
    low, high = found.interval
    eps_low, eps_high = found.gain_interval
    return low <= 0 <= high and eps_low <= -1 / 8 <= eps_high


def test_conclusions_say_no_more_than_the_intervals():
    assert "No advantage was shown" in record(11, 9).conclusion
    assert "something is wrong" in record(0, 20).conclusion
    sure = record(20, 0, gain=0.5)
    assert "fresh samples, up to errors" in sure.conclusion
    assert "fresh samples, up to errors" not in record(20, 0, gain=0.001).conclusion
    assert sure.gain_interval == pytest.approx((0.5 - 0.0419, 0.5 + 0.0419), abs=1e-4)
    assert "20 of 20 runs on labels of secrets and 0 of 20" in str(sure)


def test_one_secret_that_was_given_is_all_that_a_conclusion_is_of():
    options = {"runs": 10, "examples": 300, "fresh": 200, "rng": 0}
    drawn = distinguish(ExhaustiveAttack(), TOY, **options)
    assert not drawn.fixed_secret
    assert "labels of these parameters are not pseudorandom" in drawn.conclusion
    fixed = distinguish(ExhaustiveAttack(), TOY, secret=make_samples(TOY, 5, rng=3)[1], **options)
    assert fixed.fixed_secret
    assert "labels of this secret are not pseudorandom" in fixed.conclusion
    assert "these parameters are not" not in fixed.conclusion
    assert "of others nothing follows" in fixed.conclusion
    assert "this secret" in replace(record(11, 9), fixed_secret=True).conclusion
    assert "this secret" not in record(11, 9).conclusion


@given(q=st.integers(2, 400), p=st.integers(2, 400))
@example(q=17, p=5)
@example(q=64, p=64)
@example(q=12, p=8)
def test_the_mean_of_random_labels_is_that_of_all_residues(q, p):
    if p > q:
        q, p = p, q
    labels = rounded(np.arange(q), q, p)
    mean, largest = _scale(LWRParameters(2, q, p))
    assert mean == pytest.approx(labels.mean(), rel=1e-13)
    assert largest == pytest.approx(np.abs(labels - labels.mean()).max() * 2 / (p - 1), rel=1e-12)


def test_2_to_the_31_levels_take_no_memory():
    tracemalloc.start()
    mean, largest = _scale(LWRParameters(4, 1 << 31, 1 << 31))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (mean, largest) == ((2**31 - 1) / 2, 1.0)
    assert peak < 1 << 16


def test_it_is_reproducible():
    options = {"runs": 4, "examples": 200, "fresh": 100, "rng": 7}
    one, two = (distinguish(LeastSquaresAttack(), TOY, **options) for _ in range(2))
    assert str(one) == str(two)
    np.testing.assert_array_equal(one.real, two.real)


def test_a_uniform_matrix_goes_to_attacks_with_any_modulus():
    made = LWRParameters(5, 13, 4, matrix="uniform", secret=TernaryLaw())
    found = distinguish(ExhaustiveAttack(), made, runs=5, examples=300, fresh=200, rng=0)
    assert (found.real_detected, found.random_detected) == (5, 0)


@pytest.mark.bad_input
def test_gains_that_would_take_more_samples_than_can_be_counted_are_explained():
    for gain in (5e-324, 1e-200, 1e-160, 1e-9):
        with pytest.raises(ValueError, match=r"more than 2\^62 samples") as refused:
            sufficient_examples(gain, 0.1)
    least = float(re.search(r"above ([\d.e-]+)\.$", str(refused.value))[1])
    assert sufficient_examples(1.001 * least, 0.1) <= 1 << 62
    assert sufficient_examples(1.0, 5e-324) == math.ceil(32 * 1074 * math.log(2))


def test_a_gain_that_is_hardly_there_ends_no_conclusion():
    for gain in (0.0419 + 1e-12, 0.042):
        assert "It distinguishes" in record(20, 0, gain=gain).conclusion
