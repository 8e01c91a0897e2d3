from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq.gram import closed_form_gram, enumerated_gram
from sq.johnson import OverlapGram, overlap_gram
from sq.krawtchouk import overlap_correlations
from sq.secret_set import SecretSet


class Profile:
    """u_0 g(N_S) [1, -1], N_S = #{j in S: y_j = -1}, g centred and scaled so that the norm is 1."""

    name, tokens, orthonormal, scale = "profile", 2, False, 1.0

    def __init__(self, dim, profile, *, wrong=0.0):
        bits = len(profile) - 1
        self.dim, self.secrets, self.wrong = dim, SecretSet(dim, bits), wrong
        weights = np.array([comb(bits, n) for n in range(bits + 1)]) / 2**bits
        centred = np.array(profile, dtype=float) - weights @ np.array(profile)
        self.values = centred / np.sqrt(weights @ centred**2)
        self.closed = np.array(overlap_correlations(profile), float)

    def hidden(self, number, x):
        chosen = self.secrets.unrank(number)
        unequal = np.sum(x[:, 0, chosen] != x[:, 1, chosen], axis=-1)
        value = (x[:, 0, 0] - x[:, 1, 0]) / 2 * self.values[unequal]
        return np.stack([value, -value], axis=-1)

    def correlations(self, number):
        return (self.closed + self.wrong)[self.secrets.overlaps(self.secrets.unrank(number))]

    def instance(self, number=None, *, rng=None):
        raise NotImplementedError


PARITY, BUMP = [1, -1, 1], [0, 1, 0, 0]
FAMILIES = [Profile(5, PARITY), Profile(6, BUMP), Profile(5, [0, 1, 1, 0, 1])]


def test_some_targets_only():
    numbers = [4, 0, 3]
    expected = closed_form_gram(FAMILIES[1]).matrix[np.ix_(numbers, numbers)]
    for gram in (
        closed_form_gram(FAMILIES[1], numbers),
        enumerated_gram(FAMILIES[1], numbers),
    ):
        np.testing.assert_allclose(gram.matrix, expected, atol=1e-13)
        assert gram.numbers.tolist() == numbers


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_eberlein_eigenvalues_are_those_of_the_dense_matrix(points, bits, data):
    bits = min(bits, points)
    values = data.draw(
        st.lists(st.fractions(-2, 2, max_denominator=12), min_size=bits + 1, max_size=bits + 1)
    )
    kernel = OverlapGram(SecretSet(points, bits, first=0), values)
    dimensions = [comb(points, j) - (comb(points, j - 1) if j else 0) for j in range(len(kernel.eigenvalues))]
    expected = np.repeat([float(value) for value in kernel.eigenvalues], dimensions)
    found = np.linalg.eigvalsh(kernel.dense().matrix)
    np.testing.assert_allclose(np.sort(expected), found, atol=1e-10)
    assert float(kernel.largest_eigenvalue()) == pytest.approx(found[-1], abs=1e-10)


def test_the_bump_of_eight_bits():
    kernel = OverlapGram(SecretSet(20, 8), overlap_correlations([int(n == 4) for n in range(9)]))
    assert [round(float(value), 4) for value in kernel.values[1:5]] == [0, 0.0077, 0.0230, 0.0488]
    assert all(isinstance(value, Fraction) for value in kernel.values)


def test_the_overlap_kernel_of_a_family_is_read_off_its_closed_form():
    kernel = overlap_gram(FAMILIES[1])
    np.testing.assert_allclose([float(value) for value in kernel.values], FAMILIES[1].closed, atol=1e-15)
    np.testing.assert_allclose(kernel.dense().matrix, closed_form_gram(FAMILIES[1]).matrix, atol=1e-14)
    crowded = overlap_gram(Profile(5, [0, 1, 1, 0]))  # three of four: no two are disjoint
    np.testing.assert_allclose(crowded.dense().matrix, closed_form_gram(Profile(5, [0, 1, 1, 0])).matrix)


def test_a_family_that_is_no_function_of_overlaps_is_refused():
    family = Profile(5, PARITY)
    family.correlations = lambda number: np.arange(6.0)
    with pytest.raises(ValueError, match="no function of the overlap"):
        overlap_gram(family)


def test_the_spectrum_of_a_kernel_beyond_the_numbers_of_float64():
    kernel = OverlapGram(SecretSet(2000, 600), (*([0] * 600), Fraction(1, 2)))
    assert kernel.largest_eigenvalue() == Fraction(1, 2)
    assert kernel.size > 10**500


@pytest.mark.parametrize("family", FAMILIES)
def test_closed_form_and_enumeration_agree(family):
    closed, enumerated = closed_form_gram(family), enumerated_gram(family)
    np.testing.assert_allclose(enumerated.matrix, closed.matrix, atol=1e-13)
    wrong = closed_form_gram(Profile(family.dim, PARITY, wrong=1e-8)) if family is FAMILIES[0] else closed
    assert (np.abs(enumerated.matrix - wrong.matrix).max() > enumerated.rounding) == (wrong is not closed)


def test_large_families_are_never_written_out():
    kernel = OverlapGram(SecretSet(40, 4), overlap_correlations([0, 0, 1, 0, 0]))
    assert len(kernel) == 82_251
    with pytest.raises(ValueError, match="82251 targets"):
        kernel.dense()
    with pytest.raises(ValueError, match="overlap_gram"):
        closed_form_gram(Profile(40, [1, -1, 1, -1, 1]))
    huge = OverlapGram(SecretSet(100, 30), (*([0] * 30), 1))
    assert (huge.size, huge.largest_eigenvalue()) == (comb(99, 30), 1)
