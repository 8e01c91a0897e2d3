"""Parameters, laws, samples and instances with which the functions of `lwe` are tried."""

import json
import math

import numpy as np
from fuzzing import (
    Argument,
    anything,
    array,
    choice,
    fixed,
    made,
    whole,
)
from hypothesis import strategies as st

import lwe
import lwe.attacks
import lwe.costs
from lwe import LWRParameters, make_samples

SMALL = LWRParameters(secret_dim=4, modulus=8, levels=2)
PARAMETERS = anything(
    st.sampled_from(
        [
            fixed(SMALL, "<binary>"),
            fixed(LWRParameters(secret_dim=4, modulus=8, levels=2, matrix="ternary"), "<ternary>"),
            fixed(
                LWRParameters(secret_dim=4, modulus=7, levels=7, matrix="uniform", noise=lwe.BinomialLaw(1)),
                "<uniform>",
            ),
            fixed(LWRParameters(secret_dim=2, modulus=4, levels=2, matrix="gadget"), "<gadget>"),
        ]
    )
)
BINARY = anything(fixed(SMALL, "<binary>"))
LAWS = anything(st.sampled_from([fixed(one) for one in (lwe.UNIFORM, lwe.TernaryLaw(), lwe.SparseLaw(2))]))
NOISES = anything(
    st.sampled_from([fixed(one) for one in (lwe.NO_NOISE, lwe.FlipLaw(0.1), lwe.GaussianLaw(1.0))])
)
MATRIX = choice("binary", "ternary")
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
MODULI = whole(2, 9)
# to the largest, where products of residues nearly fill 64 bits
ALL_MODULI = Argument(
    st.sampled_from([fixed(one) for one in (2, 3, 8, 9, 3329, 2**31 - 1, 2**31)]), MODULI.hostile
)


def form(length=4):
    return array((length,), of=lambda rng, shape: rng.integers(-3, 4, shape), torch=False)


def residues(*shape, most=8):
    return array(shape, of=lambda rng, size: rng.integers(0, most, size), torch=False)


def wide(*shape):
    """Whole numbers of all sizes below 2^62."""

    def draw(rng, size):
        return rng.integers(-(2**62) + 1, 2**62, size) >> rng.integers(0, 62, size)

    return array(shape, of=draw, torch=False)


def samples(number=60):
    return make_samples(SMALL, number, rng=0)[0]


def labels():
    """What a layer gives on the first of the examples that are drawn, and so not on all that are tried."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (9, 2, 5))
    return lwe.lwr_instance(SMALL, rng=0).layer(x)


SAMPLES = made(samples, "<samples>")
INSTANCE = made(lambda: lwe.lwr_instance(SMALL, rng=0), "<instance>")


def exponents_are_counted(result, given):
    """Of an estimate: finite, not below 0, and a record that can be written."""
    for one in result if isinstance(result, list) else [result]:
        if one is not None:
            assert math.isfinite(one.exponent)
            assert one.exponent >= 0
            json.dumps(one.to_json(), allow_nan=False)
            assert one.operations in str(one)


def told(result, given):
    str(result)
