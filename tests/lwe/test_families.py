from dataclasses import replace

import numpy as np
import pytest

from lower import verify_instance
from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    UNIFORM,
    CentredBinomial,
    Distribution,
    Flips,
    SparseSigned,
)
from lwe.families import LWRFamily
from lwe.parameters import LWEParameters
from lwe.presets import PRESETS
from lwe.samples import make_samples

DISTRIBUTIONS = [TERNARY, BINARY, CentredBinomial(2), SparseSigned(4)]


def largest_error(instance):
    """The largest norm of a row of the layer minus the label of its definition, half of the inputs on the gate."""
    parameters, secret = instance.family.parameters, instance.secret
    x = instance.inputs.sample(4000, rng=1)
    x[:2000, 1, 0] = -x[:2000, 0, 0]
    differ = x[:, 0] != x[:, 1]
    a = differ[:, 1:].astype(np.int64)
    if parameters.matrix == "ternary":
        a *= (x[:, 0, 1:] * x[:, 0, :1]).astype(np.int64)
    if parameters.gadget:
        a = a.reshape(len(a), len(secret), -1) @ (1 << np.arange(parameters.digits))
    label = parameters.p * np.mod(a @ secret, parameters.q) // parameters.q
    expected = np.zeros_like(x)
    expected[:, :, 0] = x[:, :, 0] * ((label - (parameters.p - 1) / 2) * differ[:, 0])[:, None]
    return np.linalg.norm(instance.layer(x) - expected, axis=-1).max()


@pytest.mark.parametrize("beta", [1e-320, 1e-300, 1e-9, 0.5, 1.4, 1e300])
def test_slopes_too_small_or_vast_to_tell_labels_apart_are_explained(beta):
    with pytest.raises(ValueError, match="take a slope above"):
        LWRFamily(n=6, q=8, p=2, beta=beta).instance(rng=0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("matrix", ["binary", "ternary", "gadget"])
def test_small_secrets_are_drawn_from_their_distribution_and_realised_without_error(distribution, matrix):
    instance = LWRFamily(n=6, q=4, p=2, matrix=matrix, Xs=distribution, Xe=Flips(0.25)).instance(rng=3)
    assert distribution.allows(instance.secret, 4)
    assert instance.certificate["assumption"].value == "a variant of learning with rounding"
    assert verify_instance(instance).holds
    assert largest_error(instance) == 0
    assert instance.family.Xs == distribution


def test_a_pair_of_missing_jumps_that_cancel_is_noticed_between_them():
    family = LWRFamily(n=12, q=64, p=2)
    secret = family.draw(3)
    heads = family.heads_of(secret, np.ones(13))
    assert family.error_of(heads, secret) > 0
    for first in range(1, len(heads) - 3):
        kept = np.delete(
            np.arange(len(heads)), [first, first + 1]
        )  # up and down: sums elsewhere are the same
        cut = replace(
            heads,
            thresholds=heads.thresholds[kept],
            coefficients=heads.coefficients[kept],
            slopes=heads.slopes[kept],
        )
        with pytest.raises(ValueError, match="are not labels"):
            family.error_of(cut, secret)


class Own(Distribution):
    def table(self):
        return np.array([0, 1]), np.array([0.9, 0.1])


class OwnBinary(Own):
    name = "binary"


@pytest.mark.parametrize("distribution", [Own(), OwnBinary()], ids=str)
def test_a_distribution_of_ones_own_is_refused_where_a_file_would_hold_it(distribution):
    parameters = LWEParameters(6, 4, 2, Xs=distribution)
    assert distribution.allows(make_samples(parameters, 10, rng=0)[1], 4)  # in memory it works
    for written in (
        lambda: LWRFamily(n=6, q=4, p=2, Xs=distribution).instance(),
        parameters.to_json,
    ):
        with pytest.raises(ValueError, match="files hold uniform, binary"):
            written()


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
    family = LWRFamily.of(parameters)
    assert family.instance(rng=0).certificate.with_facts(family.estimates()).label == words
