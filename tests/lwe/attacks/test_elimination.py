import numpy as np
import pytest

from lwe.attacks.elimination import EliminationAttack
from lwe.attacks.outcome import AttackOutcome
from lwe.laws import FlipLaw
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples, make_samples


@pytest.mark.parametrize("matrix", ["binary", "ternary", "gadget", "uniform"])
def test_noise_free_parity_is_solved_exactly(matrix):
    parameters = LWRParameters(300, modulus=2, levels=2, matrix=matrix)
    samples, secret = make_samples(parameters, 1000, rng=1)
    result = EliminationAttack()(samples, parameters)
    assert result.outcome is AttackOutcome.BROKEN
    assert result.accuracy == 1
    np.testing.assert_array_equal(result.secret, secret)
    assert result.details == {"equations": 364, "rank": 300, "consistent": True}


def test_flipped_labels_contradict_one_another():
    noisy = LWRParameters(30, modulus=2, levels=2, noise=FlipLaw(0.1))
    samples, _ = make_samples(noisy, 400, rng=0)
    assert EliminationAttack()(samples, noisy).outcome is AttackOutcome.NOT_APPLICABLE
    result = EliminationAttack()(samples, LWRParameters(30, modulus=2, levels=2))
    assert result.outcome is AttackOutcome.NOTHING
    assert "contradict" in result.explanation


def test_a_column_that_is_always_0_leaves_a_secret_with_the_same_labels():
    parameters = LWRParameters(20, modulus=2, levels=2)
    samples, secret = make_samples(parameters, 400, rng=0)
    public = samples.public.copy()
    public[:, 3] = 0
    labels = public @ secret % 2
    result = EliminationAttack()(LWRSamples(public, labels), parameters)
    assert result.outcome is AttackOutcome.BROKEN
    assert result.details["rank"] == 19
