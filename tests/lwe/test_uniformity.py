import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwe.labels import low_degree_weights
from lwe.parameters import LWEParameters
from lwe.residues import centred, rounded
from lwe.uniformity import log2_distance_from_uniform, total_variation_from_uniform


@given(
    form=st.lists(st.integers(-20, 20), min_size=1, max_size=5),
    modulus=st.integers(2, 17),
    matrix=st.sampled_from(["binary", "ternary", "uniform"]),
)
def test_distances_agree_with_enumeration(form, modulus, matrix):
    form = form[:2] if matrix == "uniform" else form
    values = {"binary": [0, 1], "ternary": [-1, 0, 0, 1], "uniform": range(modulus)}[matrix]
    sums = [int(np.dot(a, form)) % modulus for a in itertools.product(values, repeat=len(form))]
    counts = np.bincount(sums, minlength=modulus)
    distance = sum(abs(Fraction(int(one), len(sums)) - Fraction(1, modulus)) for one in counts) / 2
    assert total_variation_from_uniform(np.array(form), modulus, matrix) == distance
    assert 2.0 ** log2_distance_from_uniform(np.array(form), modulus, matrix) == pytest.approx(
        float(distance), rel=1e-12
    )


def test_parity_has_all_its_weight_at_the_number_of_its_bits():
    for form, weights in (([1, 0, 0], (1, 0)), ([1, 0, 1], (0, 1)), ([1, 1, 1], (0, 0)), ([0, 0, 0], (0, 0))):
        found = low_degree_weights(np.array(form), LWEParameters(n=3, q=2, p=2))
        assert tuple(weight.value for weight in found) == pytest.approx(weights, abs=1e-15)


def test_weights_far_below_machine_precision_keep_their_digits():
    # mod 3 every covariate of v = (1, ..., 1) multiplies all coefficients by cos(pi/3) = 1/2 in size, and six of
    # them leave the phase as it is: W_1 is n 4^-n times a constant over the label's second moment
    problems = [LWEParameters(n=n, q=3, p=2) for n in (5, 365)]
    forms = [np.ones(n, dtype=np.int64) for n in (5, 365)]
    short, long = map(low_degree_weights, forms, problems)
    # the label is -1/2 for two residues and 1/2 for the third: its second moment is 1/4
    expected = math.log2(365 / 5) - 2 * 360
    assert long[0].log2 - short[0].log2 == pytest.approx(expected, abs=1e-9)


def exact_weights(form, parameters):
    """W_1 and W_2 of bits or ternary covariates as fractions, by enumeration in whole numbers."""
    ternary = parameters.matrix == "ternary"
    a = np.array(list(itertools.product([-1, 0, 1] if ternary else [0, 1], repeat=len(form))))
    chances = np.prod(np.where(a == 0, 2, 1) if ternary else np.ones_like(a), axis=1).astype(object)
    label = 2 * rounded(a @ form, parameters.q, parameters.p) - (parameters.p - 1)
    # the functions besides 1 and their squared norms: a has 1/2, and 2 a^2 - 1 has 1
    columns = [[(one, 2), (2 * one**2 - 1, 1)] if ternary else [(1 - 2 * one, 1)] for one in a.T]
    total, moment = int(chances.sum()), int(chances @ label**2)
    singles = [int(chances @ (label * one)) ** 2 * by for own in columns for one, by in own]
    pairs = [
        int(chances @ (label * one * other)) ** 2 * by * also
        for own, others in itertools.combinations(columns, 2)
        for one, by in own
        for other, also in others
    ]
    return Fraction(sum(singles), moment * total), Fraction(sum(pairs), moment * total)


@pytest.mark.parametrize("matrix", ["binary", "ternary"])
def test_weights_that_cancel_are_bounds_and_never_rounding_noise(matrix):
    bounds = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        q = int(rng.integers(2, 14))
        n = int(rng.integers(2, 5))
        parameters = LWEParameters(n, q, int(rng.integers(2, q + 1)), matrix=matrix)
        form = centred(rng.integers(q, size=n), q)
        found, exact = low_degree_weights(form, parameters), exact_weights(form, parameters)
        for weight, one in zip(found, exact, strict=True):
            if weight.resolved:
                assert weight.value == pytest.approx(float(one), rel=1e-9, abs=0)
            else:
                assert float(one) <= weight.value < 2.0**-80
                assert weight.log2 == round(weight.log2)
                bounds += 1
    assert bounds or matrix == "ternary"
    assert low_degree_weights(np.array([1, 1]), LWEParameters(2, 2, 2))[0].log2 == -math.inf
