import numpy as np
import pytest

from lwe import LWEParameters, LWRSamples
from lwe.attacks.attack import Budget
from lwe.attacks.decoding import ZeroColumns
from lwe.attacks.lattice import LatticeAttack
from lwe.samples import make_samples

WITHOUT = "fpylll is not installed (extra `lattice`)"
BITS = LWEParameters(n=16, q=64, p=2)


def test_fresh_rows_support_the_right_secret_and_with_random_labels_none_more_often_than_said():
    parameters = BITS.updated(n=24)
    samples, secret = make_samples(parameters, 8000, rng=0)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    assert zeros.evidence(secret[zeros.others][None], 40)[0] < -100
    random = np.random.default_rng(3).integers(2, size=6400)
    samples = LWRSamples(samples.public[:6400], random)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    evidence = zeros.evidence(np.random.default_rng(0).integers(64, size=(2000, 18)), 40)
    # four standard deviations of the share at most 1/10
    assert abs(np.mean(evidence <= np.log(0.1)) - 0.1) < 4 * np.sqrt(0.09 / 2000)


@pytest.mark.slow
def test_random_labels_are_never_broken():
    pytest.importorskip("fpylll", reason=WITHOUT)
    for seed in range(3):
        samples, _ = make_samples(BITS, 8000, rng=seed)
        random = LWRSamples(samples.public, np.random.default_rng(seed).integers(2, size=8000))
        result = LatticeAttack(rounds=1, largest_block=10)(random, BITS, rng=seed, budget=Budget(None))
        assert not result.outcome.succeeded
