import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwe.labels import low_degree_weights
from lwe.parameters import LWEParameters, covariate_form
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


def test_a_thousand_covariates_mod_4096_take_seconds():
    form = centred_form(1024, 4096, 0)
    start = time.perf_counter()
    logarithm = log2_distance_from_uniform(form, 4096)
    weights = low_degree_weights(form, LWEParameters(n=1024, q=4096, p=2))
    assert time.perf_counter() - start < 10
    exact = total_variation_from_uniform(form, 4096)
    assert logarithm == pytest.approx(math.log2(exact.numerator) - math.log2(exact.denominator), abs=1e-9)
    assert logarithm < -800
    assert -2 * 1024 < weights.log2_first < weights.log2_second < 2 * logarithm + 40


def centred_form(n, q, seed):
    secret = np.random.default_rng(seed).integers(q, size=n)
    return covariate_form(secret, LWEParameters(n=n, q=q, p=2))


def test_an_odd_secret_entry_makes_the_gadget_sum_exactly_uniform():
    parameters = LWEParameters(n=3, q=32, p=2, matrix="gadget")
    assert total_variation_from_uniform(covariate_form([4, 7, 2], parameters), 32) == 0
    assert total_variation_from_uniform(covariate_form([4, 6, 2], parameters), 32) == Fraction(1, 2)
