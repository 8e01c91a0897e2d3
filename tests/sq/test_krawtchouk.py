import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq.krawtchouk import krawtchouk, overlap_correlations, profile_moments


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_krawtchouk_polynomials_are_sums_of_characters(bits):
    for number in range(bits + 1):
        y = np.where(np.arange(bits) < number, -1, 1)
        for degree in range(bits + 1):
            total = sum(int(np.prod(y[list(one)])) for one in itertools.combinations(range(bits), degree))
            assert krawtchouk(bits, degree, number) == total


profiles = st.lists(st.fractions(-5, 5, max_denominator=9), min_size=2, max_size=7).filter(
    lambda g: len(set(g)) > 1
)


@given(profiles, st.data())
def test_correlations_at_an_overlap_are_those_of_all_signs(profile, data):
    bits = len(profile) - 1
    overlap = data.draw(st.integers(0, bits))
    if 2 * bits - overlap > 9:
        return
    mean, variance = profile_moments(profile)
    total, size = Fraction(0), 2 * bits - overlap
    for y in itertools.product((False, True), repeat=size):
        first, second = sum(y[:bits]), sum(y[bits - overlap : 2 * bits - overlap])
        total += (profile[first] - mean) * (profile[second] - mean)
    assert overlap_correlations(profile)[overlap] == total / 2**size / variance
