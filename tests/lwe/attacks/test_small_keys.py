"""Few samples: small public keys and puzzles are broken and said to be, random labels are not; noise near 1/2."""

import numpy as np
import pytest

from lwe import BKWAttack, ExhaustiveAttack, LatticeAttack, MeetInTheMiddleAttack
from lwe.attacks.attack import AttackOutcome
from lwe.distributions import (
    TERNARY,
)
from lwe.parameters import LWEParameters
from lwe.samples import make_samples


def key(n, q, law):
    return LWEParameters(n, q, q, "uniform", Xs=law, Xe=law)


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
    samples, _ = make_samples(key(16, 251, TERNARY), number, rng=0)
    result = attack(samples, key(16, 251, TERNARY), rng=0)
    assert result.outcome in (AttackOutcome.TOO_FEW_SAMPLES, AttackOutcome.NOTHING, AttackOutcome.MISSING), (
        result
    )
