"""Attacks by equations: the secret is found from what they need, and labels of no secret contradict one another."""

import numpy as np
import pytest

from lwe import LeastSquaresAttack, LinearisationAttack
from lwe.attacks.attack import AttackOutcome
from lwe.distributions import TERNARY, CentredBinomial
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples


def test_flipped_labels_contradict_one_another():
    for parameters, attack in (
        (LWEParameters(30, 2, 2), LinearisationAttack()),
        (LWEParameters(16, 4, 2), LinearisationAttack()),
    ):
        samples, _ = make_samples(parameters, 400, rng=0)
        labels = samples.labels.copy()
        labels[5] ^= 1
        result = attack(LWRSamples(samples.public, labels), parameters)
        assert result.outcome is AttackOutcome.NOTHING
        assert "contradict" in result.explanation


def test_a_column_that_is_always_0_leaves_a_secret_with_the_same_labels():
    parameters = LWEParameters(20, q=2, p=2)
    samples, secret = make_samples(parameters, 400, rng=0)
    public = samples.public.copy()
    public[:, 3] = 0
    result = LinearisationAttack()(LWRSamples(public, public @ secret % 2), parameters)
    assert result.outcome is AttackOutcome.BROKEN
    assert result.details["rank"] == 20


def test_rows_that_repeat_are_made_up_for():
    # 512 rows in all: 64 equations more than unknowns are not of full rank, most samples together are
    parameters = LWEParameters(9, q=16, p=2)
    samples, _ = make_samples(parameters, 4000, rng=5)
    result = LinearisationAttack()(samples, parameters, rng=0)
    assert result.accuracy == 1
    assert result.details["rank"] == result.details["unknowns"] == 511
    assert result.details["equations"] > 511 + 64


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("matrix", ["binary", "ternary"])
def test_least_squares_finds_small_secrets_that_hardly_wrap_from_coarse_labels(levels, matrix):
    made = LWEParameters(n=20, q=64, p=levels, matrix=matrix, Xs=TERNARY)
    samples, _ = make_samples(made, 5000, rng=3)
    result = LeastSquaresAttack()(samples, made)
    assert result.accuracy > 0.99
    assert result.accuracy > result.chance + 0.2


def test_least_squares_averages_errors_of_labels_out():
    made = LWEParameters(n=16, q=251, p=251, Xe=CentredBinomial(2))
    # any signs, and sum |v| as near below 200 as scaling makes it
    v = np.random.default_rng(1).uniform(-1, 1, 16)
    secret = np.trunc(v * 199 / np.abs(v).sum()).astype(np.int64)
    samples, _ = make_samples(made, 5000, secret=secret, rng=1)
    result = LeastSquaresAttack()(samples, made)
    np.testing.assert_array_equal(result.secret, secret)
    assert result.outcome is AttackOutcome.BROKEN
