import numpy as np
import pytest

from lwe.attacks.attack import AttackOutcome
from lwe.attacks.bkw import BKWAttack
from lwe.costs.combinatorial import agreement_chances
from lwe.distributions import Flips
from lwe.parameters import LWEParameters
from lwe.samples import make_samples


def noisy(n, rate):
    return LWEParameters(n, q=2, p=2, Xe=Flips(rate))


@pytest.mark.parametrize(("matrix", "q"), [("binary", 2), ("binary", 64), ("ternary", 7), ("uniform", 5)])
def test_the_chance_that_rows_agree_is_that_of_enumeration(matrix, q):
    law = {"binary": [0, 1], "ternary": [-1, 0, 0, 1], "uniform": range(q)}[matrix]
    found = agreement_chances(LWEParameters(8, q, 2, matrix), 3)
    entries = np.array(list(law))
    for step in range(3):
        equal = np.mod(entries[:, None] - entries, q) == 0
        np.testing.assert_allclose(found[step], equal.mean(), rtol=1e-12)
        if step < 2:
            entries = np.subtract.outer(entries, entries).ravel()
    assert np.all(np.diff(found) <= 0)


def test_labels_without_any_secret_give_nothing():
    # claimed to be noisy parities at a rate of .1, and in truth coins
    samples, _ = make_samples(noisy(16, 0.5), 5_000, rng=0)
    result = BKWAttack()(samples, noisy(16, 0.1), rng=0)
    assert result.outcome is AttackOutcome.NOTHING
    assert result.log10_false > -4
