import json

import numpy as np
import pytest

from lwe.laws import NO_NOISE, BinomialLaw, FlipLaw, GaussianLaw, TernaryLaw
from lwe.parameters import LWRParameters, covariate_form, rounded
from lwe.presets import PRESETS


def test_rounded_is_the_floor_of_p_times_t_mod_q_over_q():
    for q, p in ((2, 2), (7, 3), (8, 8), (64, 2), (251, 32)):
        t = np.arange(-2 * q, 2 * q)
        expected = [(p * (int(one) % q)) // q for one in t]
        np.testing.assert_array_equal(rounded(t, q, p), expected)
        assert set(rounded(t, q, p)) == set(range(p))


def test_gadget_form_lists_the_powers_of_two_times_each_entry():
    parameters = LWRParameters(secret_dim=3, modulus=16, levels=2, matrix="gadget")
    form = covariate_form([1, 5, 15], parameters)
    np.testing.assert_array_equal(form, [1, 2, 4, 8, 5, -6, 4, 8, -1, -2, -4, 8])
    np.testing.assert_array_equal(covariate_form([1, 5, 15], parameters.updated(matrix="binary")), [1, 5, -1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"levels": 16}, "elimination"),
        ({"levels": 16, "noise": BinomialLaw(1), "matrix": "uniform"}, "the standard problem."),
        (
            {"levels": 16, "noise": BinomialLaw(1), "secret": BinomialLaw(1), "matrix": "gadget"},
            "normal form",
        ),
        ({"levels": 16, "noise": FlipLaw(0.0)}, "without errors"),
        ({"levels": 2, "modulus": 2, "noise": FlipLaw(0.3)}, "Learning parity with noise"),
        ({"matrix": "ternary"}, "ternary public matrix"),
        ({"secret": TernaryLaw()}, "a secret from the law ternary"),
    ],
)
def test_assumptions_name_the_problem(changes, words):
    assert words in LWRParameters(**({"secret_dim": 4, "modulus": 16, "levels": 2} | changes)).assumption


@pytest.mark.parametrize("name", PRESETS)
def test_presets_keep_their_fields_in_json(name):
    parameters = PRESETS[name]
    data = json.loads(json.dumps(parameters.to_json()))
    assert LWRParameters.from_json(data) == parameters
    assert LWRParameters.from_json(data | {"gate": 0, "beta": 40.0}) == parameters


def test_presets_of_schemes_are_those_of_their_specifications():
    sizes = {"kyber512": (512, 1.5**0.5), "kyber768": (768, 1.0), "kyber1024": (1024, 1.0)}
    for name, (n, deviation) in sizes.items():
        own = PRESETS[name]
        assert (own.secret_dim, own.modulus, own.levels, own.matrix) == (n, 3329, 3329, "uniform")
        assert own.secret == own.noise == BinomialLaw(round(2 * deviation**2))
    for name, (n, deviation) in {
        "lightsaber": (512, 2.5**0.5),
        "saber": (768, 2**0.5),
        "firesaber": (1024, 1.5**0.5),
    }.items():
        own = PRESETS[name]
        assert (own.secret_dim, own.modulus, own.levels, own.noisy) == (n, 8192, 1024, False)
        assert own.secret == BinomialLaw(round(2 * deviation**2))


@pytest.mark.parametrize(
    ("modulus", "levels", "noise"),
    [(2, 2, FlipLaw(0.2)), (16, 16, BinomialLaw(2)), (17, 5, BinomialLaw(3)), (30, 4, GaussianLaw(4.0))],
)
def test_best_accuracy_is_the_share_of_labels_that_an_error_leaves_alone(modulus, levels, noise):
    residues, expected = np.arange(modulus), 0.0
    for error, chance in zip(*noise.support(modulus), strict=True):
        same = rounded(residues + error, modulus, levels) == rounded(residues, modulus, levels)
        expected += chance * np.mean(same)
    parameters = LWRParameters(4, modulus, levels, noise=noise)
    assert parameters.best_accuracy == pytest.approx(expected, rel=1e-12)
    assert parameters.updated(noise=NO_NOISE).best_accuracy == 1
