import math

import numpy as np
import pytest

from lwe.attacks.arora_ge import AroraGeAttack
from lwe.attacks.outcome import AttackOutcome
from lwe.laws import BinaryLaw, BinomialLaw, TernaryLaw
from lwe.parameters import LWRParameters
from lwe.samples import make_samples


def solved(parameters, number, **options):
    samples, secret = make_samples(parameters, number, rng=1)
    result = AroraGeAttack(**options)(samples, parameters, rng=2)
    assert result.outcome is AttackOutcome.BROKEN, result
    np.testing.assert_array_equal(result.secret, secret)
    return result


@pytest.mark.parametrize("matrix", ["binary", "ternary", "uniform"])
@pytest.mark.parametrize(
    ("noise", "delta"), [(BinaryLaw(), 2), (BinomialLaw(1), 3), (TernaryLaw(), 3)], ids=str
)
def test_errors_from_a_small_set_are_eliminated_at_degree_its_size(matrix, noise, delta):
    result = solved(LWRParameters(8, modulus=97, levels=97, matrix=matrix, noise=noise), 1200)
    assert result.details["degree"] == delta
    assert result.details["unknowns"] == math.comb(8 + delta, delta) - 1


@pytest.mark.parametrize(
    ("q", "p", "matrix"), [(11, 4, "uniform"), (11, 4, "binary"), (5, 2, "uniform"), (3, 2, "binary")]
)
def test_rounding_is_eliminated_at_degree_the_longest_interval(q, p, matrix):
    result = solved(LWRParameters(8, modulus=q, levels=p, matrix=matrix), 1200)
    assert result.details["degree"] == -(-q // p)
    assert result.accuracy == 1


@pytest.mark.parametrize(("law", "largest"), [(BinaryLaw(), 1), (TernaryLaw(), 2)], ids=str)
def test_small_secrets_have_fewer_monomials(law, largest):
    parameters = LWRParameters(8, modulus=97, levels=97, matrix="uniform", secret=law, noise=BinomialLaw(1))
    result = solved(parameters, 300)
    pairs, triples = math.comb(8, 2), math.comb(8, 3)
    expected = {1: 8 + pairs + triples, 2: 8 + (pairs + 8) + (triples + 8 * 7)}[largest]
    assert result.details["unknowns"] == expected


def test_an_error_outside_the_set_is_told_and_other_equations_are_tried():
    parameters = LWRParameters(10, modulus=97, levels=97, matrix="uniform", noise=BinomialLaw(1))
    samples, _ = make_samples(parameters, 400, rng=1)
    result = AroraGeAttack()(samples, parameters.updated(noise=BinaryLaw()), rng=0)
    assert result.outcome is AttackOutcome.NOTHING
    assert result.details["tries"] == 4
    assert "outside" in result.explanation
