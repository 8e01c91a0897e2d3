import math
import re

import pytest

from lwe.distributions import NO_NOISE, TERNARY, UNIFORM, CentredBinomial, DiscreteGaussian, Flips
from lwe.families import LWRFamily
from lwe.parameters import LWEParameters, covariate_form
from lwe.presets import PRESETS
from lwe.uniformity import total_variation_from_uniform
from lwe.verdict import judge_secret


def drawn(parameters, seed=0):
    return parameters.Xs.draw(parameters.n, parameters.q, rng=seed)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (PRESETS["weak-wrap"], r"wrap too weak: rho = 0\.1\d < 0\.5"),
        (LWEParameters(8, 64, 2), "inner product far from uniform: total variation = 0"),
        (LWEParameters(6, 64, 2), "single covariates tell of the label: weight = 0"),
        (LWEParameters(8, 64, 2), "pairs of covariates tell of the label: weight = 0"),
        (PRESETS["parity-64"], "labels linear mod 2 without errors"),
        (PRESETS["ternary-14"], r"few secrets: 2\^22\.2 < 2\^40"),
        (PRESETS["linearised-64"], r"linearisation of degree 2 over GF\(2\): D = 2081 monomials"),
        (LWEParameters(24, 64, 32, matrix="ternary"), r"linearisation of degree 2 .* D = 325 monomials"),
        (PRESETS["gadget-56"], r"usvp estimated at 2\^\d+\.\d operations < 2\^40"),
        (PRESETS["lpn-128"], r"plain-bkw estimated at 2\^36\.\d operations < 2\^40"),
        (
            LWEParameters(64, 257, 257, matrix="uniform", Xe=DiscreteGaussian(0.05)),
            r"labels linear mod 257; errors in one label of 6\.56e\+22, so 2\^0\.0 guesses find enough",
        ),
        (
            LWEParameters(64, 2, 2, Xe=Flips(0.01)),
            r"labels linear mod 2; .* one label of 100, so 2\^0\.9",
        ),
        (
            LWEParameters(40, 257, 257, matrix="uniform", Xe=Flips(0.5)),
            r"(usvp|dual|arora-ge) estimated",
        ),
        (LWEParameters(64, 8, 2, Xs=NO_NOISE), "nothing is hidden"),
    ],
)
def test_objections_name_their_numbers(parameters, words):
    found = judge_secret(drawn(parameters), parameters)
    assert not found.passes
    assert str(found).startswith("Objections: ")
    assert any(re.match(words, one) for one in found.objections), str(found)


def test_nothing_speaks_against_256_covariates_mod_64_and_nothing_is_claimed():
    for seed in range(3):
        parameters = PRESETS["plain-256"]
        found = judge_secret(drawn(parameters, seed), parameters)
        assert str(found) == "No objection by these measures, which is no claim of security."


def test_64_covariates_mod_64_fall_to_bkw():
    found = judge_secret(drawn(PRESETS["plain-64"]), PRESETS["plain-64"])
    assert found.objections == ("plain-bkw estimated at 2^34.1 operations < 2^40",)


@pytest.mark.parametrize("dim", [10, 30, 64])
@pytest.mark.parametrize(
    ("noise", "q"),
    [(Flips(0.5), 2), (CentredBinomial(1), 2), (TERNARY, 3), (UNIFORM, 64), (DiscreteGaussian(90.0), 64)],
)
def test_labels_that_are_coins_are_objected_to_and_never_called_easy(dim, noise, q):
    parameters = LWEParameters(dim, q, q, Xe=noise)
    found = judge_secret([1] * dim, parameters)
    assert found.coins
    assert not found.passes
    assert str(found).startswith("Nothing to learn: labels are coins")
    assert len(found.objections) == 1
    assert not judge_secret([1] * dim, parameters.updated(Xe=NO_NOISE)).coins


@pytest.mark.slow
def test_uniform_matrices_are_judged_without_a_sum_of_bits():
    found = judge_secret(drawn(PRESETS["kyber512"]), PRESETS["kyber512"])
    assert found.rho is None
    assert found.weights is None
    assert found.passes
    small = LWEParameters(10, 8, 2, matrix="uniform", Xs=TERNARY)
    assert "few secrets" in str(judge_secret(drawn(small), small))
    even = LWEParameters(20, 8, 2, matrix="uniform")
    assert judge_secret([2] * 20, even).log2_distance == -1
    assert "total variation = 0.5" in str(judge_secret([2] * 20, even))


def test_instances_carry_the_numbers_of_the_verdict():
    instance = LWRFamily(n=8, q=64, p=2).instance(rng=0)
    found = judge_secret(instance.secret, LWEParameters.from_json(instance.parameters))
    certificate = instance.certificate
    assert certificate.label == "broken by linearisation over GF(2)"
    assert certificate["rho"].value == found.rho
    assert certificate["weight of degree 1"].value == found.weights.log2_first
    assert certificate["weight of degree 2"].value == found.weights.log2_second
    assert certificate["correlation of secrets"].value == 2.0**-4
    exact = total_variation_from_uniform(covariate_form(instance.secret, LWEParameters(8, 64, 2)), 64)
    assert certificate["distance from uniform"].value == pytest.approx(math.log2(exact), abs=1e-12)
    assert math.log2(exact) == pytest.approx(found.log2_distance, abs=1e-9)
    hard = LWRFamily(n=128, q=64, p=2).instance(rng=0).certificate
    assert hard.label == "assumed: a variant of learning with rounding"
