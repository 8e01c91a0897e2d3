from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import eigsh
from scipy.stats import binomtest, norm

from attention import BooleanInputs
from sq.correlation import (
    average_correlation,
    closed_form_gram,
    enumerated_gram,
    largest_average_correlation,
    sampled_gram,
    top_averages,
)
from sq.gram import GramMatrix
from sq.johnson import OverlapGram, eberlein, overlap_gram
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
        self.closed = overlap_correlations(profile)

    def hidden(self, number, x):
        chosen = self.secrets.unrank(number)
        unequal = np.sum(x[:, 0, chosen] != x[:, 1, chosen], axis=-1)
        value = (x[:, 0, 0] - x[:, 1, 0]) / 2 * self.values[unequal]
        return np.stack([value, -value], axis=-1)

    def correlations(self, number):
        return (self.closed + self.wrong)[self.secrets.overlaps(self.secrets.unrank(number))]

    def instance(self, number=None, *, rng=None):
        raise NotImplementedError


class Gated(SecretSet):
    """Secrets that hold more than a set: two of each."""

    @property
    def size(self):
        return 2 * comb(self.dim - self.first, self.bits)


PARITY, BUMP = [1, -1, 1], [0, 1, 0, 0]
FAMILIES = [Profile(5, PARITY), Profile(6, BUMP), Profile(5, [0, 1, 1, 0, 1])]


def gram_of(vectors):
    return GramMatrix(vectors @ vectors.T, np.arange(len(vectors)), "closed form")


@pytest.mark.parametrize("family", FAMILIES)
def test_closed_form_enumeration_and_monte_carlo_agree(family):
    closed, enumerated = closed_form_gram(family), enumerated_gram(family)
    np.testing.assert_allclose(enumerated.matrix, closed.matrix, atol=1e-13)
    assert enumerated.disagreement(closed) == 0
    bound = 2 * float(np.max(family.values**2))
    for sampled in (
        sampled_gram(family, samples=20_000, rng=0),
        sampled_gram(family, samples=20_000, bound=bound, rng=1),
    ):
        assert sampled.disagreement(closed) == 0
        assert sampled.disagreement(enumerated) == 0
        assert sampled.simultaneous.max() < 0.25
    assert [gram.way for gram in (closed, enumerated, sampled)] == [
        "closed form",
        "full enumeration",
        "Monte Carlo",
    ]


def test_a_wrong_closed_form_disagrees_with_enumeration_and_with_monte_carlo():
    right = enumerated_gram(FAMILIES[1])
    assert right.disagreement(closed_form_gram(Profile(6, BUMP, wrong=1e-8))) == pytest.approx(1e-8, rel=0.01)
    wrong = closed_form_gram(Profile(6, BUMP, wrong=0.2))
    assert sampled_gram(FAMILIES[1], samples=20_000, rng=0).disagreement(wrong) > 0.05


@pytest.mark.parametrize("bound", [None, 8.0])
def test_intervals_hold_as_often_as_they_say(bound):
    family, runs, level = Profile(4, BUMP[:3]), 300, 0.8
    truth = closed_form_gram(family).matrix
    own = every = 0
    for seed in range(runs):
        sampled = sampled_gram(family, samples=300, confidence=level, bound=bound, rng=seed)
        off = np.abs(sampled.matrix - truth)
        own += bool(off[0, 1] <= sampled.half_widths[0, 1])
        every += bool(np.all(off <= sampled.simultaneous))
    assert binomtest(every, runs).proportion_ci(0.999).high >= level
    interval = binomtest(own, runs).proportion_ci(0.999)
    if bound is None:
        assert interval.low <= level <= interval.high
    else:
        assert interval.high >= level


def test_simultaneous_intervals_are_wider_and_more_samples_narrow_them():
    few, many = (sampled_gram(FAMILIES[0], samples=n, rng=0) for n in (1000, 16_000))
    assert np.all(few.simultaneous >= few.half_widths)
    assert many.half_widths.mean() == pytest.approx(few.half_widths.mean() / 4, rel=0.1)


def test_a_bound_that_products_exceed_is_refused():
    with pytest.raises(ValueError, match=r"bound is 0\.5: a product of hidden parts is 2"):
        sampled_gram(FAMILIES[0], bound=0.5, rng=0)


def test_some_targets_only():
    numbers = [4, 0, 3]
    expected = closed_form_gram(FAMILIES[1]).matrix[np.ix_(numbers, numbers)]
    for gram in (
        closed_form_gram(FAMILIES[1], numbers),
        enumerated_gram(FAMILIES[1], numbers),
    ):
        np.testing.assert_allclose(gram.matrix, expected, atol=1e-13)
        assert gram.numbers.tolist() == numbers
    with pytest.raises(ValueError, match="different targets"):
        gram.disagreement(closed_form_gram(FAMILIES[1], [0, 3, 4]))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_eberlein_eigenvalues_are_those_of_the_dense_matrix(points, bits, data):
    bits = min(bits, points)
    values = data.draw(
        st.lists(st.fractions(-2, 2, max_denominator=12), min_size=bits + 1, max_size=bits + 1)
    )
    kernel = OverlapGram(SecretSet(points, bits, first=0), values)
    assert sum(kernel.multiplicities) == len(kernel)
    expected = np.repeat([float(value) for value in kernel.eigenvalues], kernel.multiplicities)
    found = np.linalg.eigvalsh(kernel.dense().matrix)
    np.testing.assert_allclose(np.sort(expected), found, atol=1e-10)
    assert float(kernel.largest_eigenvalue()) == pytest.approx(found[-1], abs=1e-10)
    vector = np.random.default_rng(0).standard_normal(len(kernel))
    np.testing.assert_allclose(kernel.matvec(vector), kernel.dense().matrix @ vector, atol=1e-9)
    off = kernel.dense().largest_off_diagonal()
    assert float(kernel.largest_off_diagonal()) == pytest.approx(off)


def test_eberlein_values_are_those_of_distance_graphs():
    assert [eberlein(5, 2, 1, j) for j in range(3)] == [6, 1, -2]  # the complement of the Petersen graph
    for points, bits in ((7, 3), (6, 4)):
        for distance in range(bits + 1):
            many = comb(bits, distance) * comb(points - bits, distance)
            assert eberlein(points, bits, distance, 0) == many


def test_large_families_are_never_written_out():
    kernel = OverlapGram.of_profile(SecretSet(40, 4), [0, 0, 1, 0, 0])
    assert len(kernel) == 82_251
    ones = np.ones(len(kernel))
    product = kernel.matvec(ones)
    assert kernel.row(77).sum() == pytest.approx(float(kernel.eigenvalues[0]))
    np.testing.assert_allclose(product, float(kernel.eigenvalues[0]), rtol=1e-12)
    vector = np.random.default_rng(1).standard_normal(len(kernel))
    assert kernel.matvec(vector)[77] == pytest.approx(kernel.row(77) @ vector)
    with pytest.raises(ValueError, match=r"82251 targets.*operator"):
        kernel.dense()
    with pytest.raises(ValueError, match="overlap_gram"):
        closed_form_gram(Profile(40, [1, -1, 1, -1, 1]))
    medium = OverlapGram.of_profile(SecretSet(16, 3), BUMP)
    assert eigsh(medium.operator(), k=1)[0][0] == pytest.approx(float(medium.largest_eigenvalue()))


def test_the_bump_of_eight_bits():
    kernel = OverlapGram.of_profile(SecretSet(20, 8), [int(n == 4) for n in range(9)])
    assert [round(float(value), 4) for value in kernel.values[1:5]] == [0, 0.0077, 0.0230, 0.0488]
    assert all(isinstance(value, Fraction) for value in kernel.values)


def test_correlations_are_an_exact_polynomial_in_the_overlap():
    kernel = OverlapGram.of_profile(SecretSet(9, 4), [0, 0, 1, 0, 0])
    polynomial = kernel.polynomial()
    assert [polynomial.eval(overlap) for overlap in range(5)] == [
        sympy.Rational(value.numerator, value.denominator) for value in kernel.values
    ]
    assert polynomial.degree() == 4
    assert OverlapGram(SecretSet(9, 2), [0, sympy.Rational(1, 3), 1]).values[1] == Fraction(1, 3)


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


def test_average_correlation_is_the_mean_of_the_absolute_entries():
    gram = gram_of(np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    assert average_correlation(gram) == pytest.approx((3 + 2 * (0.6 + 1 + 0.6)) / 9)
    assert average_correlation(gram, [0, 2]) == pytest.approx(1)
    kernel = OverlapGram.of_profile(SecretSet(8, 3), BUMP)
    assert average_correlation(kernel) == pytest.approx(average_correlation(kernel.dense()))
    assert average_correlation(kernel, [0, 5, 9]) == pytest.approx(
        average_correlation(kernel.dense(), [0, 5, 9])
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_no_subset_has_a_larger_average_correlation_than_it_is_said(targets, dim, seed):
    vectors = np.random.default_rng(seed).standard_normal((targets, dim))
    gram = gram_of(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    tops = top_averages(gram)
    assert np.all(np.diff(tops) <= 1e-12)
    previous = np.inf
    for size in range(1, targets + 1):
        best = max(average_correlation(gram, rows) for rows in combinations(range(targets), size))
        found = largest_average_correlation(gram, size)
        assert found.exact
        assert found.most == pytest.approx(best)
        assert average_correlation(gram, found.subset) == pytest.approx(best)
        assert best <= min(tops[size - 1], previous) + 1e-12
        previous = best


def test_the_largest_average_is_exact_for_orthogonal_and_for_all_targets_and_enclosed_otherwise():
    orthogonal = OverlapGram(SecretSet(16, 3), (0, 0, 0, 1))
    assert largest_average_correlation(orthogonal, 20).exact
    assert largest_average_correlation(orthogonal, 20).most == pytest.approx(1 / 20)
    assert largest_average_correlation(orthogonal.dense(), 20).most == pytest.approx(1 / 20)
    bump = OverlapGram.of_profile(SecretSet(16, 3), BUMP)
    assert largest_average_correlation(bump, len(bump)).exact
    # secrets that share l - 1 coordinates pairwise: nothing correlates more
    star = largest_average_correlation(bump, 13)
    expected = (1 + 12 * float(bump.values[2])) / 13
    assert star.exact
    assert star.most == pytest.approx(expected)
    open_one = largest_average_correlation(bump, 60)
    assert not open_one.exact
    assert open_one.least < open_one.most
    assert average_correlation(bump, open_one.subset) == pytest.approx(open_one.least)


def test_the_upper_bound_on_averages_is_that_of_all_sizes():
    bump = OverlapGram.of_profile(SecretSet(16, 3), BUMP)
    tops = top_averages(bump)
    np.testing.assert_allclose(tops, top_averages(bump.dense()), rtol=1e-12)
    for size in (7, 60, 300):
        assert largest_average_correlation(bump, size).most == pytest.approx(tops[size - 1])


@pytest.mark.parametrize(("dim", "bits"), [(64, 31), (100, 30)])
def test_kernels_too_large_to_list_are_explained_by_their_numbers(dim, bits):
    kernel = OverlapGram(SecretSet(dim, bits), (*([0] * bits), 1))
    targets = comb(dim - 1, bits)
    assert kernel.size == targets
    assert average_correlation(kernel) == pytest.approx(1 / targets)
    assert f"on {targets} targets" in str(kernel)
    for call in (
        top_averages,
        lambda gram: largest_average_correlation(gram, 1000),
        lambda gram: gram.row(0),
        lambda gram: gram.matvec(np.ones(3)),
        lambda gram: gram.dense(),
        lambda gram: average_correlation(gram, [0, 1]),
    ):
        with pytest.raises(ValueError, match=f"{targets}"):
            call(kernel)


def test_the_spectrum_of_a_kernel_beyond_the_numbers_of_float64():
    kernel = OverlapGram(SecretSet(2000, 600), (*([0] * 600), Fraction(1, 2)))
    assert kernel.largest_eigenvalue() == Fraction(1, 2)
    assert kernel.size > 10**500


@pytest.mark.bad_input
def test_bad_arguments_are_explained():
    gram = closed_form_gram(FAMILIES[0])
    with pytest.raises(ValueError, match="confidence is 1"):
        sampled_gram(FAMILIES[0], confidence=1)
    with pytest.raises(ValueError, match="samples is 1"):
        sampled_gram(FAMILIES[0], samples=1)
    with pytest.raises(ValueError, match="size is 7: at most 6, the number of targets"):
        largest_average_correlation(gram, 7)
    for subset in ([0, 0], [6], [], [0.5]):
        with pytest.raises(ValueError, match="The subset is"):
            average_correlation(gram, subset)
    with pytest.raises(ValueError, match="There are 2 values"):
        OverlapGram(SecretSet(5, 2), (0, 1))
    with pytest.raises(ValueError, match="There are 12 secrets: all 2-subsets"):
        OverlapGram(Gated(5, 2), (0, 0, 1))
    with pytest.raises(ValueError, match="finite numbers"):
        OverlapGram(SecretSet(5, 1), (0, float("nan")))
    for arguments, words in (
        ((5, 2, -1, 0), "distance is -1"),
        ((5, 2, 3, 0), "distance is 3: 0 to 2"),
        ((5, 3, 1, 3), "space is 3: 0 to 2, the least of 3 bits and 2 other points"),
        ((5, 2, 1, -1), "space is -1"),
        ((3, 5, 1, 0), "bits is 5: at most 3"),
    ):
        with pytest.raises(ValueError, match=words):
            eberlein(*arguments)
    with pytest.raises(ValueError, match="rows is 0"):
        overlap_gram(FAMILIES[0], rows=0)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        OverlapGram(SecretSet(5, 1), (0, 1)).matvec(np.ones(3))


def test_records_read_as_sentences():
    assert "by closed form: diagonal from 1 to 1" in str(closed_form_gram(FAMILIES[0]))
    assert "at 0.99 confidence (asymptotic, 500 inputs)" in str(sampled_gram(FAMILIES[0], samples=500, rng=0))
    assert "lambda_max = 1." in str(OverlapGram(SecretSet(9, 2), (0, 0, 1)))
    assert str(largest_average_correlation(closed_form_gram(FAMILIES[0]), 2)).endswith("= 0.5.")


def test_intervals_from_few_samples_are_of_the_variance_without_bias():
    family, level = FAMILIES[1], 0.9
    found = sampled_gram(family, [0, 1], samples=4, confidence=level, rng=5)
    x = BooleanInputs(2, family.dim).sample(4, rng=5)
    values = [family.hidden(number, x) for number in (0, 1)]
    products = np.sum(values[0] * values[1], axis=1)
    half = norm.ppf((1 + level) / 2) * products.std(ddof=1) / 2
    assert found.half_widths[0, 1] == pytest.approx(half)


@pytest.mark.parametrize("confidence", [-0.5, 0.0, 1.0])
def test_a_confidence_that_is_no_level_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence is"):
        sampled_gram(FAMILIES[1], [0, 1], samples=4, confidence=confidence)
