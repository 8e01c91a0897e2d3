import numpy as np
import pytest

from lwe.attacks.attack import AttackOutcome
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.distributions import (
    BINARY,
    TERNARY,
    CentredBinomial,
    DiscreteGaussian,
    SparseSigned,
)
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

SEARCHES = [ExhaustiveAttack(), MeetInTheMiddleAttack()]


def parameters(n=8, q=16, p=4, **other):
    return LWEParameters(**{"n": n, "q": q, "p": p, "matrix": "uniform", **other})


@pytest.mark.parametrize("search", SEARCHES, ids=["exhaustive", "meet in the middle"])
@pytest.mark.parametrize(
    "made",
    [
        parameters(10, 64, 2, Xs=TERNARY),
        parameters(10, 64, 8, Xs=TERNARY),
        parameters(10, 100, 7, Xs=BINARY),
        parameters(16, 64, 8, Xs=SparseSigned(3)),
        parameters(7, 101, 101, Xs=TERNARY, Xe=DiscreteGaussian(2.0)),
        parameters(6, 127, 16, Xs=CentredBinomial(2), Xe=CentredBinomial(2)),
        parameters(5, 3329, 3329, Xs=DiscreteGaussian(1.0), Xe=DiscreteGaussian(3.0)),
        parameters(2, 128, 4, matrix="gadget"),
        parameters(3, 17, 2),
    ],
    ids=str,
)
def test_no_secret_is_missed(search, made):
    for seed in range(6):
        samples, secret = make_samples(made, 500, rng=seed)
        result = search(samples, made, rng=seed)
        np.testing.assert_array_equal(result.secret, secret, err_msg=str(result))
        assert result.outcome is AttackOutcome.BROKEN
