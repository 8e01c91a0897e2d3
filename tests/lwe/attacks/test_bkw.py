import numpy as np
import pytest

from lwe.attacks.bkw import BKWAttack
from lwe.attacks.outcome import AttackOutcome
from lwe.laws import FlipLaw
from lwe.parameters import LWRParameters
from lwe.samples import make_samples


def noisy(n, rate):
    return LWRParameters(n, modulus=2, levels=2, noise=FlipLaw(rate))


@pytest.mark.parametrize(
    ("n", "rate", "number"),
    [(14, 0.3, 3000), (32, 0.1, 20_000), (32, 0.1, 5_000), (48, 0.125, 100_000), (40, 0.0, 400)],
)
def test_the_secret_is_found_from_noisy_labels(n, rate, number):
    samples, secret = make_samples(noisy(n, rate), number, rng=1)
    result = BKWAttack()(samples, noisy(n, rate))
    assert result.outcome is AttackOutcome.BROKEN, result
    np.testing.assert_array_equal(result.secret, secret)
    assert abs(result.accuracy - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / result.fresh) + 1e-12
    np.testing.assert_allclose(result.details["samples"], result.details["expected"], rtol=0.1)
    assert sum(result.details["blocks"]) + result.details["tail"] == n


def test_labels_without_any_parity_give_nothing():
    # claimed to be noisy parities at a rate of .1, and in truth coins
    samples, _ = make_samples(noisy(24, 0.5), 20_000, rng=0)
    result = BKWAttack()(samples, noisy(24, 0.1))
    assert result.outcome is AttackOutcome.NOTHING
    assert result.secret is None
