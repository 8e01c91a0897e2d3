import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lwe.heads import kept_range, lwr_heads, value_range
from lwe.parameters import LWEParameters
from lwe.residues import rounded

forms = st.lists(st.integers(-30, 30), min_size=1, max_size=6)


def values(form, matrix):
    """<v, a> for equally likely a, each as often as it is drawn."""
    entries = [-1, 0, 0, 1] if matrix == "ternary" else [0, 1]
    return np.array(list(itertools.product(entries, repeat=len(form)))) @ np.array(form)


@given(form=forms, matrix=st.sampled_from(["binary", "ternary"]), deviations=st.floats(2, 9))
def test_the_kept_range_is_that_of_the_standard_deviation(form, matrix, deviations):
    found = values(form, matrix)
    assert value_range(np.array(form), matrix) == (found.min(), found.max())
    mean = Fraction(int(found.sum()), len(found))
    variance = Fraction(int((found**2).sum()), len(found)) - mean**2
    kept = [
        t
        for t in range(found.min(), found.max() + 1)
        if (t - mean) ** 2 <= Fraction(deviations) ** 2 * variance
    ]
    assert kept_range(np.array(form), matrix, deviations) == (kept[0], kept[-1])


@given(
    form=forms,
    matrix=st.sampled_from(["binary", "ternary"]),
    modulus=st.integers(2, 12),
    deviations=st.sampled_from([None, 2.0]),
    data=st.data(),
)
def test_stairs_are_the_label_of_the_nearest_value_kept(form, matrix, modulus, deviations, data):
    levels = data.draw(st.integers(2, modulus))
    parameters = LWEParameters(n=len(form), q=modulus, p=levels, matrix=matrix)
    stairs = lwr_heads(np.array(form), parameters, deviations=deviations)
    least, most = low, high = value_range(np.array(form), matrix)
    if deviations is not None:
        low, high = kept_range(np.array(form), matrix, deviations)
    t = np.arange(least, most + 1)
    expected = rounded(np.clip(t, low, high), modulus, levels) - (levels - 1) / 2
    np.testing.assert_array_equal(stairs.limit(t), expected)
    assert stairs.coefficients.sum() == 0
