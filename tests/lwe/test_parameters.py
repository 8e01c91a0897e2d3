import numpy as np
import pytest

from lwe.distributions import NO_NOISE, TERNARY, CentredBinomial, DiscreteGaussian, Flips, SparseSigned
from lwe.parameters import LWEParameters
from lwe.residues import rounded


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"p": 16, "Xe": CentredBinomial(1), "matrix": "uniform"}, "learning with errors"),
        (
            {"p": 16, "Xe": CentredBinomial(1), "Xs": CentredBinomial(1), "matrix": "gadget"},
            "learning with errors",
        ),
        ({"p": 16, "Xe": CentredBinomial(1)}, "a variant of learning with errors"),
        ({"p": 2, "q": 2, "Xe": Flips(0.3)}, "learning parity with noise"),
        ({"matrix": "uniform"}, "learning with rounding"),
        ({"matrix": "ternary"}, "a variant of learning with rounding"),
        ({"matrix": "uniform", "Xs": TERNARY}, "a variant of learning with rounding"),
    ],
)
def test_assumptions_name_the_problem(changes, problem):
    assert LWEParameters(**({"n": 4, "q": 16, "p": 2} | changes)).assumption == problem


@pytest.mark.parametrize(
    ("modulus", "levels", "noise"),
    [
        (2, 2, Flips(0.2)),
        (16, 16, CentredBinomial(2)),
        (17, 5, CentredBinomial(3)),
        (30, 4, DiscreteGaussian(4.0)),
    ],
)
def test_best_accuracy_is_the_share_of_labels_that_an_error_leaves_alone(modulus, levels, noise):
    residues, expected = np.arange(modulus), 0.0
    for error, chance in zip(*noise.support(modulus), strict=True):
        same = rounded(residues + error, modulus, levels) == rounded(residues, modulus, levels)
        expected += chance * np.mean(same)
    parameters = LWEParameters(4, modulus, levels, Xe=noise)
    assert parameters.best_accuracy == pytest.approx(expected, rel=1e-12)
    assert parameters.updated(Xe=NO_NOISE).best_accuracy == 1


def test_parameters_of_older_files_are_read_by_their_older_names():
    old = {
        "secret_dim": 16,
        "modulus": 256,
        "levels": 2,
        "matrix": "gadget",
        "secret": "sparse:4",
        "noise": "flip:0.1",
    }
    found = LWEParameters.from_json(old)
    assert found == LWEParameters(16, 256, 2, "gadget", SparseSigned(4), Flips(0.1))
    assert LWEParameters.from_json(found.to_json()) == found
