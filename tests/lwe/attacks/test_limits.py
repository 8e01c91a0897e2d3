"""The attacks at the ends of what parameters, samples and budgets can be."""

import json

import numpy as np
import pytest

from lwe.attacks.attack import AttackOutcome, Budget
from lwe.attacks.bkw import BKWAttack
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.learner import LearnerAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.linearisation import LinearisationAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.distributions import TERNARY, Flips
from lwe.parameters import LWEParameters
from lwe.presets import PRESETS
from lwe.samples import make_samples
from upper import LinearBaseline

WITHOUT = "fpylll is not installed (extra `lattice`)"
SEARCHES = [ExhaustiveAttack(), MeetInTheMiddleAttack()]
ATTACKS = [*SEARCHES, LeastSquaresAttack()]


def parameters(n=6, q=16, p=4, **other):
    return LWEParameters(**{"n": n, "q": q, "p": p, "matrix": "uniform", **other})


def noisy(n, rate):
    return LWEParameters(n, 2, 2, Xe=Flips(rate))


SMALL = {"Xs": TERNARY}
LIMITS = {
    "NOT_APPLICABLE": [
        (BKWAttack(), noisy(8, 0.5), 100, {}, "hold nothing"),
        (LinearisationAttack(), LWEParameters(8, 12, 2), 100, {}, "powers of two"),
        (LinearisationAttack(), noisy(8, 0.1), 100, {}, "without noise"),
        (MeetInTheMiddleAttack(), noisy(6, 0.1), 200, {}, "excludes any candidate"),
        *((one, parameters(1, 1 << 25, 16), 200, {}, "too many values") for one in SEARCHES),
        *((one, parameters(60, 3, 3, Xe=TERNARY), 200, {}, "do not depend") for one in SEARCHES),
        (LatticeAttack(), parameters(20, 2, 2), 200, {}, "Lengths of errors say nothing"),
        (LearnerAttack(LinearBaseline()), parameters(4, 13, 2), 100, {}, "No heads realise"),
    ],
    "TOO_FEW_SAMPLES": [
        (BKWAttack(), noisy(100, 0.125), 20_000, {}, "2^20 of them would be enough"),
        (LinearisationAttack(), LWEParameters(100, 2, 2), 110, {}, "101 unknowns"),
        (LinearisationAttack(), LWEParameters(64, 16, 2), 1000, {}, "5130659561 unknowns"),
        (LinearisationAttack(), LWEParameters(1024, 1 << 31, 2, "gadget"), 50, {}, "2^"),
        (LeastSquaresAttack(), LWEParameters(24, 64, 2), 30, {}, "2 more than columns"),
        *((one, parameters(20, 64, 2, **SMALL), 9, {}, "give more samples") for one in SEARCHES),
        (LatticeAttack(), parameters(20, 128, 2), 50, {}, "too few for a lattice"),
        (LearnerAttack(LinearBaseline()), LWEParameters(60, 16, 4), 5, {}, "needs 62"),
    ],
    "REFUSED": [
        (BKWAttack(), noisy(100, 0.125), 20_000, {"memory": 1 << 16}, "GiB"),
        (LinearisationAttack(), LWEParameters(64, 4, 2), 3000, {"memory": 1 << 20}, "GiB"),
        (LeastSquaresAttack(), LWEParameters(24, 64, 2), 300, {"memory": 100}, "GiB"),
        (ExhaustiveAttack(), parameters(40, 64, 2, **SMALL), 400, {}, "There are 2^63.4 candidates"),
        (MeetInTheMiddleAttack(), PRESETS["kyber512"], 20, {}, "There are 2^1437.4 candidates"),
        (MeetInTheMiddleAttack(), parameters(22, 64, 2, **SMALL), 400, {"memory": 1 << 20}, "Both lists"),
        (LatticeAttack(), parameters(1024, 4096, 64), 4000, {"seconds": 2.0}, "LLL cannot be stopped"),
        (LatticeAttack(), parameters(400, 128, 32), 1000, {"seconds": None}, "260 are the most"),
    ],
    "BUDGET_SPENT": [
        (LinearisationAttack(), LWEParameters(64, 4, 2), 3000, {"seconds": 1e-4}, "stopped"),
        *(
            (one, parameters(24, 128, 8), 500, {"seconds": 1e-9}, "stopped")
            for one in (*ATTACKS, LatticeAttack())
        ),
    ],
}


@pytest.mark.parametrize("outcome", LIMITS)
def test_what_an_attack_cannot_do_is_said_soon_and_with_numbers(outcome):
    for attack, made, number, budget, words in LIMITS[outcome]:
        if attack.name == "lattice":
            pytest.importorskip("fpylll", reason=WITHOUT)
        samples, _ = make_samples(made, number, rng=0)
        result = attack(samples, made, rng=0, budget=Budget(**budget))
        assert result.outcome.name == outcome, result
        assert words in result.explanation, result
        assert result.explanation.endswith("."), result
        assert result.seconds < 10, result
        json.dumps(result.to_json(), allow_nan=False)


def test_a_search_that_would_outlast_its_seconds_is_given_up_early():
    slow = parameters(22, 64, 2, Xs=TERNARY)
    samples, _ = make_samples(slow, 400, rng=0)
    result = ExhaustiveAttack()(samples, slow, budget=Budget(seconds=3.0))
    assert result.outcome is AttackOutcome.REFUSED
    assert "more seconds are needed" in result.explanation
    assert 0 < result.details["tried"] < 3**22 / 10


def test_least_squares_keeps_its_budget():
    problem = LWEParameters(40, 1021, 2, Xs=TERNARY)  # partly linear: scales and single steps would go on
    samples, _ = make_samples(problem, 20_000, rng=0)
    spent = LeastSquaresAttack()(samples, problem, budget=Budget(seconds=0.05))
    assert not spent.outcome.succeeded or spent.outcome is AttackOutcome.PREDICTS
    assert spent.seconds < 5
    # eight of all labels are wrong: held-out ones alone did not show that
    whole = LeastSquaresAttack()(samples, problem, budget=Budget(seconds=None))
    assert whole.outcome is AttackOutcome.PREDICTS
    assert 0.999 < whole.accuracy < 1


@pytest.mark.parametrize(
    ("n", "number", "sure"), [(16, 5, True), (11, 4, True), (16, 4, False), (3, 3, True)]
)
def test_a_puzzle_of_few_labels_is_broken_where_its_secret_is_unique(n, number, sure):
    puzzle = LWEParameters(n, 251, 251, "uniform", Xs=TERNARY)
    samples, secret = make_samples(puzzle, number, rng=0)
    result = MeetInTheMiddleAttack()(samples, puzzle, rng=0)
    assert result.outcome is (AttackOutcome.BROKEN if sure else AttackOutcome.TOO_FEW_SAMPLES), result
    assert result.log10_false == pytest.approx(n * np.log10(3) - number * np.log10(251), abs=0.02)
    assert not sure or np.array_equal(result.secret, secret)


@pytest.mark.parametrize(
    "attack", [ExhaustiveAttack(), MeetInTheMiddleAttack(), LatticeAttack(), BKWAttack()]
)
@pytest.mark.parametrize("number", [1, 4])
def test_attacks_end_with_a_reason_on_the_fewest_samples(attack, number):
    key = parameters(16, 251, 251, Xs=TERNARY, Xe=TERNARY)
    result = attack(make_samples(key, number, rng=0)[0], key, rng=0)
    assert result.outcome in (AttackOutcome.TOO_FEW_SAMPLES, AttackOutcome.NOTHING, AttackOutcome.MISSING), (
        result
    )


def test_rounds_limit_the_work_without_a_clock():
    pytest.importorskip("fpylll", reason=WITHOUT)
    small = LWEParameters(n=10, q=128, p=2, matrix="uniform")
    samples, _ = make_samples(small, 1000, rng=0)
    attack = LatticeAttack(largest_block=8, rounds=2)
    first, second = (attack(samples, small, rng=3, budget=Budget(None)) for _ in range(2))
    assert first.outcome is AttackOutcome.NOTHING
    assert first.details["rounds"] == 2
    assert first.explanation == second.explanation
    large = LWEParameters(n=400, q=128, p=32, matrix="uniform")
    result = attack(make_samples(large, 1000, rng=0)[0], large, budget=Budget(None))
    assert result.outcome is AttackOutcome.REFUSED
    assert "260 are the most" in result.explanation
