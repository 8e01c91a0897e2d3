import pytest

from lwe.distributions import NO_NOISE, UNIFORM, CentredBinomial, Flips
from lwe.families import LWRFamily
from lwe.parameters import LWEParameters
from lwe.presets import PRESETS


def label(parameters):
    family = LWRFamily.of(parameters)
    return family.instance(rng=0).certificate.with_facts(family.estimates()).label


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (PRESETS["parity-64"], "broken by Gaussian elimination over GF(2)"),
        (LWEParameters(8, 16), "broken by Gaussian elimination"),
        (PRESETS["linearised-64"], "broken by linearisation over GF(2)"),
        (LWEParameters(24, 64, 32, matrix="ternary"), "broken by linearisation over GF(2)"),
        (PRESETS["plain-64"], "broken by plain-bkw in 2^34 operations (estimate)"),
        (PRESETS["lpn-128"], "broken by plain-bkw in 2^36 operations (estimate)"),
        (PRESETS["plain-256"], "assumed: a variant of learning with rounding"),
        (PRESETS["gadget-16"].updated(n=32), "assumed: learning with rounding"),
        (LWEParameters(64, 8, 2, Xs=NO_NOISE), "broken by nothing: there is one secret"),
        (LWEParameters(10, 2, Xe=Flips(0.5)), "broken by nothing: labels are coins"),
        (LWEParameters(10, 2, Xe=CentredBinomial(1)), "broken by nothing: labels are coins"),
        (LWEParameters(10, 64, Xe=UNIFORM), "broken by nothing: labels are coins"),
    ],
    ids=str,
)
def test_the_label_says_what_breaks_the_problem_or_what_is_assumed(parameters, words):
    assert label(parameters) == words
