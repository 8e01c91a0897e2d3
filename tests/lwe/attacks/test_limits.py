"""The attacks of least squares and of searches at the ends of what parameters, samples and budgets can be."""

import tracemalloc

import numpy as np
import pytest

from lwe.attacks.attack import Attempt
from lwe.attacks.candidates import Judge
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.attacks.outcome import AttackOutcome, Budget
from lwe.laws import (
    NO_NOISE,
    BinomialLaw,
    FlipLaw,
    GaussianLaw,
    SparseLaw,
    TernaryLaw,
    UniformLaw,
    ZeroLaw,
)
from lwe.parameters import LWRParameters
from lwe.presets import PRESETS
from lwe.samples import LWRSamples, make_samples

SEARCHES = [ExhaustiveAttack(), MeetInTheMiddleAttack()]
ATTACKS = [*SEARCHES, LeastSquaresAttack()]
IDS = ["exhaustive", "meet in the middle", "least squares"]

HUGE = ["plain-256", "kyber512", "kyber768", "kyber1024", "lightsaber", "saber", "firesaber"]
ENDED = (
    AttackOutcome.BROKEN,
    AttackOutcome.PREDICTS,
    AttackOutcome.NOTHING,
    AttackOutcome.BUDGET_SPENT,
    AttackOutcome.REFUSED,
    AttackOutcome.TOO_FEW_SAMPLES,
    AttackOutcome.NOT_APPLICABLE,
)


def parameters(n=6, q=16, p=4, **other):
    return LWRParameters(**{"secret_dim": n, "modulus": q, "levels": p, "matrix": "uniform", **other})


@pytest.mark.parametrize("name", HUGE)
def test_numbers_of_candidates_beyond_floating_point_are_said_as_powers_of_two(name):
    made = PRESETS[name]
    samples, _ = make_samples(made, 20, rng=0)
    for attack in SEARCHES:
        result = attack(samples, made, rng=0)
        assert result.outcome is AttackOutcome.REFUSED
        assert (
            f"There are 2^{made.secret.secrets(made.secret_dim, made.modulus):.1f} cand" in result.explanation
        )


@pytest.mark.parametrize("attack", SEARCHES, ids=IDS[:2])
@pytest.mark.parametrize("noise", [NO_NOISE, pytest.param(GaussianLaw(3.0), marks=pytest.mark.slow)], ids=str)
def test_the_largest_modulus_takes_little_memory(attack, noise):
    made = parameters(5, 1 << 31, 1 << 31, secret=TernaryLaw(), noise=noise)
    samples, secret = make_samples(made, 1000, rng=0)
    tracemalloc.start()
    result = attack(samples, made, rng=0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.outcome is AttackOutcome.BROKEN
    np.testing.assert_array_equal(result.secret, secret)
    assert most < 1 << 27


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
@pytest.mark.parametrize(
    ("q", "p", "noise"), [(2, 2, FlipLaw(0.01)), (16, 2, BinomialLaw(1)), (3329, 3329, BinomialLaw(1))]
)
@pytest.mark.parametrize("label", [0, 1])
def test_constant_labels_are_never_predicted_better_than_by_chance(attack, q, p, noise, label):
    made = parameters(4, q, p, secret=TernaryLaw(), noise=noise)
    samples, _ = make_samples(made, 600, rng=0)
    constant = LWRSamples(samples.public, np.full(600, label))
    assert not attack(constant, made, rng=0).outcome.succeeded


@pytest.mark.parametrize("attack", SEARCHES, ids=IDS[:2])
@pytest.mark.parametrize("noise", [NO_NOISE, BinomialLaw(1)], ids=str)
def test_the_only_secret_of_a_law_is_the_answer(attack, noise):
    for made in (
        parameters(secret=ZeroLaw(), noise=noise),
        parameters(q=2, p=2, secret=SparseLaw(6), noise=NO_NOISE),
    ):
        samples, secret = make_samples(made, 300, rng=0)
        result = attack(samples, made, rng=0)
        np.testing.assert_array_equal(result.secret, secret)
        assert result.outcome is (AttackOutcome.BROKEN if secret.any() else AttackOutcome.NOTHING)


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
def test_a_budget_that_is_spent_at_once_is_said_to_be(attack):
    for made in (parameters(), parameters(q=2, p=2), PRESETS["kyber512"]):
        samples, _ = make_samples(made, 50, rng=0)
        result = attack(samples, made, rng=0, budget=Budget(seconds=1e-9))
        assert result.outcome is AttackOutcome.BUDGET_SPENT


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
@pytest.mark.parametrize(("q", "p"), [(2, 2), (3, 2), (4, 4)])
@pytest.mark.parametrize("law", [UniformLaw(), SparseLaw(1), ZeroLaw(), GaussianLaw(0.5)], ids=str)
def test_the_least_moduli_and_five_samples_have_results(attack, q, p, law):
    for n, number, noise in (
        (1, 5, NO_NOISE),
        (2, 6, TernaryLaw()),
        (4, 5, BinomialLaw(1)),
        (3, 40, NO_NOISE),
    ):
        made = parameters(n, q, p, secret=law, noise=noise)
        samples, _ = make_samples(made, number, rng=0)
        assert attack(samples, made, rng=0).outcome in ENDED


@pytest.mark.parametrize("attack", SEARCHES, ids=IDS[:2])
def test_what_was_found_before_the_budget_was_spent_is_reported(attack, monkeypatch):
    made = parameters(6, 64, 64, secret=TernaryLaw(), noise=BinomialLaw(1))
    samples, secret = make_samples(made, 300, rng=0)
    offer = Judge.offer

    def spending(self, vectors):
        offer(self, vectors)
        monkeypatch.setattr(Attempt, "seconds_left", -1.0)
        return offer(self, vectors)

    monkeypatch.setattr(Judge, "offer", spending)
    result = attack(samples, made, rng=0)
    assert result.outcome is AttackOutcome.BROKEN
    assert "It was stopped after" in result.explanation
    np.testing.assert_array_equal(result.secret, secret)

    monkeypatch.undo()
    monkeypatch.setattr(Judge, "offer", spending)
    random = LWRSamples(samples.public, np.append(samples.labels[:240], samples.labels[300:239:-1]))
    result = attack(random, made, rng=0)
    assert result.outcome is AttackOutcome.BUDGET_SPENT
    assert result.secret is not None
