import itertools

import numpy as np
import pytest

from lwe.attacks.attack import Attempt
from lwe.attacks.bkw import BKWAttack, ReductionPlan
from lwe.attacks.bkw import _columns as columns_of
from lwe.attacks.bkw import _reduced as reduced
from lwe.attacks.outcome import AttackOutcome, Budget
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


@pytest.mark.parametrize("pairing", ["LF1", "LF2"])
def test_each_step_adds_pairs_that_agree_in_a_block_and_keeps_the_parity(pairing):
    parameters = LWRParameters(12, modulus=2, levels=2)
    samples, secret = make_samples(parameters, 300, rng=0)
    plan = ReductionPlan(pairing, (4, 4), 4, samples=(), most=1 << 20, bias=1.0, work=0.0)
    attempt = Attempt("bkw", samples, parameters, Budget())
    levels = reduced(columns_of(attempt.training.public, attempt.training.labels, plan), plan, attempt)
    first = levels[0]
    sums = {
        tuple((one ^ other)[1:].tolist())
        for one, other in itertools.combinations(first, 2)
        if one[0] == other[0]
    }
    made = {tuple(row) for row in levels[1].tolist()}
    assert made <= sums
    if pairing == "LF2":
        assert made == sums
        assert len(levels[1]) == sum(
            count * (count - 1) // 2 for count in np.unique(first[:, 0], return_counts=True)[1]
        )
    else:
        assert len(levels[1]) == len(first) - len(np.unique(first[:, 0]))
    sizes = (*plan.blocks, plan.tail)
    starts = np.cumsum([0, *sizes])
    parts = [
        sum(int(bit) << place for place, bit in enumerate(secret[start : start + size]))
        for start, size in zip(starts, sizes, strict=False)
    ]
    for step, level in enumerate(levels):
        parity = np.zeros(len(level), dtype=np.int64)
        for column, part in enumerate(parts[step:]):
            parity ^= np.bitwise_count(level[:, column] & np.uint32(part)).astype(np.int64) & 1
        np.testing.assert_array_equal(parity, level[:, -1])


def test_labels_without_any_parity_give_nothing():
    # claimed to be noisy parities at a rate of .1, and in truth coins
    samples, _ = make_samples(noisy(24, 0.5), 20_000, rng=0)
    result = BKWAttack()(samples, noisy(24, 0.1))
    assert result.outcome is AttackOutcome.NOTHING
    assert result.secret is None
