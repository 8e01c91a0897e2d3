import numpy as np
import pytest

from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.outcome import AttackOutcome
from lwe.laws import BinomialLaw, TernaryLaw
from lwe.parameters import LWRParameters
from lwe.samples import make_samples


def short_secret(seed, n, span):
    """Any signs, and sum|v| as near below the span as scaling makes it."""
    generator = np.random.default_rng(seed)
    v = generator.uniform(-1, 1, n)
    return np.trunc(v * (span - 1) / np.abs(v).sum()).astype(np.int64)


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("matrix", ["binary", "ternary"])
def test_small_secrets_that_hardly_wrap_are_found_from_coarse_labels(levels, matrix):
    made = LWRParameters(secret_dim=20, modulus=64, levels=levels, matrix=matrix, secret=TernaryLaw())
    samples, _ = make_samples(made, 5000, rng=3)
    result = LeastSquaresAttack()(samples, made)
    assert result.accuracy > 0.99
    assert result.accuracy > result.chance + 0.2


def test_errors_of_labels_are_averaged_out():
    made = LWRParameters(secret_dim=16, modulus=251, levels=251, noise=BinomialLaw(2))
    secret = short_secret(1, 16, 200)
    samples, _ = make_samples(made, 5000, secret=secret, rng=1)
    result = LeastSquaresAttack()(samples, made)
    np.testing.assert_array_equal(result.secret, secret)
    assert result.outcome is AttackOutcome.BROKEN
