import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_an_odd_secret_entry_makes_the_gadget_sum_exactly_uniform():
    parameters = LWEParameters(n=3, q=32, p=2, matrix="gadget")
    assert total_variation_from_uniform(covariate_form([4, 7, 2], parameters), 32) == 0
    assert total_variation_from_uniform(covariate_form([4, 6, 2], parameters), 32) == Fraction(1, 2)
