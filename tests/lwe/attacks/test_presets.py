"""Every attack on a preset of each kind within a second: none breaks down, and each says what came of it."""

import json

import pytest

from lwe import ATTACKS, LearnerAttack
from lwe.attacks.attack import AttackOutcome, Budget
from lwe.presets import PRESETS
from lwe.samples import make_samples
from upper import LinearBaseline, Newton

EVERY = [
    *ATTACKS.values(),
    LearnerAttack(LinearBaseline(examples=800)),  # by default it asks for more, and has no clock
    LearnerAttack(Newton(heads=4, work=50)),
]
BREAKS = {
    ("linearisation", "linearised-32"),
    ("linearisation", "toy-gadget"),
    ("linearisation", "parity-64"),
    ("bkw", "toy-lpn"),
}
KINDS = ("toy", "toy-gadget", "toy-ternary", "toy-lpn", "linearised-32", "parity-64", "kyber512")


@pytest.fixture(scope="module")
def samples():
    return {name: make_samples(PRESETS[name], 1000, rng=0)[0] for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("attack", EVERY, ids=lambda one: one.name)
def test_no_attack_breaks_down_on_a_preset_and_each_says_a_sentence(attack, name, samples):
    breaks = (attack.name, name) in BREAKS
    result = attack(samples[name], PRESETS[name], rng=0, budget=Budget(seconds=30.0 if breaks else 0.3))
    assert result.outcome is not AttackOutcome.FAILED
    assert len(result.explanation.split()) > 5
    assert result.explanation.endswith(".")
    assert len(result.explanation) < 400
    assert result.seconds < 10
    json.dumps(result.to_json(), allow_nan=False)
    if breaks:
        assert result.outcome is AttackOutcome.BROKEN, result
