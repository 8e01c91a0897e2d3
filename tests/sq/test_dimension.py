from fractions import Fraction
from itertools import combinations, product
from math import ceil, comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from lower import eliminated_per_query
from sq import ParityFamily
from sq.dimension import gram_matrix, reference_gram, sq_dimension, statistical_dimension
from sq.johnson import OverlapGram
from sq.secret_set import SecretSet

CODES = {(6, 3, 1): 4, (7, 3, 1): 7, (8, 4, 2): 14, (9, 3, 1): 12, (7, 4, 1): 2}


def unit_vectors(targets, dim, seed):
    vectors = np.random.default_rng(seed).standard_normal((targets, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("code", "size"), CODES.items())
def test_the_sq_dimension_of_overlaps_is_the_size_of_a_constant_weight_code(code, size):
    points, bits, overlap = code
    values = [int(one > overlap) for one in range(bits + 1)]
    assert sq_dimension(OverlapGram(SecretSet(points + 1, bits), values).dense(), 0) == size


def largest_margins(vectors):
    """For each s, the largest tau such that some query, |h| <= 1, is above it in size on s of the vectors.

    max over h of the least sigma_S <h, f_S> is the distance of 0 from the hull of the sigma_S f_S, here by
    non-negative least squares.
    """
    margins = {}
    for size in range(1, len(vectors) + 1):
        best = 0.0
        for subset in combinations(range(len(vectors)), size):
            for signs in product((1, -1), repeat=size - 1):
                hull = vectors[list(subset)] * np.array((1, *signs))[:, None]
                _, residual = nnls(
                    np.vstack([hull.T, np.ones(size)]), np.append(np.zeros(vectors.shape[1]), 1)
                )
                best = max(best, residual / np.sqrt(max(1 - residual**2, 1e-12)))
        margins[size] = best
    return margins


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_query_rules_out_more_than_its_bound(targets, dim, seed):
    vectors = unit_vectors(targets, dim, seed)
    gram = vectors @ vectors.T
    gamma = min(float(np.abs(gram - np.eye(targets)).max()) + 1e-9, 1)
    largest = float(np.linalg.eigvalsh(gram)[-1]) + 1e-9
    for size, margin in largest_margins(vectors).items():
        tau = margin * (1 - 1e-6)
        if not 1e-3 < tau < 1:
            continue
        assert eliminated_per_query(tau, eigenvalue=largest) >= size
        if gamma < tau**2:
            assert eliminated_per_query(tau, correlation=gamma) >= size


def dimension_by_definition(gram, gamma):
    sets = [set(one) for one in gram.secrets.table.tolist()]
    entries = [[abs(gram.values[len(one & other)]) for other in sets] for one in sets]
    size, failing = len(sets), []
    for many in range(1, size + 1):
        sums = (sum(entries[i][j] for i in rows for j in rows) for rows in combinations(range(size), many))
        if max(sums) > Fraction(repr(gamma)) * many**2:
            failing.append(many)
    return ceil(Fraction(size, max(failing))) - 1


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(5, 1), (4, 2), (6, 1), (5, 4)]),
    st.lists(st.fractions(-1, 1, max_denominator=20), min_size=4, max_size=4),
    st.floats(0.02, 0.98),
)
def test_the_statistical_dimension_is_at_least_what_is_said(code, values, gamma):
    points, bits = code
    gram = OverlapGram(SecretSet(points + 1, bits), [*values[:bits], 1])
    found, true = statistical_dimension(gram, gamma), dimension_by_definition(gram, gamma)
    assert found.whole <= true
    assert found.value <= true + 1
    orthogonal = OverlapGram(gram.secrets, [*([0] * bits), 1])
    assert statistical_dimension(orthogonal, gamma).whole == dimension_by_definition(orthogonal, gamma)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 12), st.integers(1, 8), st.floats(0, 1), st.floats(0.05, 1), st.integers(0, 2**32 - 1))
def test_no_call_to_vstat_rules_out_more_than_is_said(n, group, middle, height, seed):
    # points: y on the gate with label +1 or -1; off the gate a query is the same for all targets
    secrets = SecretSet(6, 3, first=0)
    signs = 1 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)
    characters = np.array([signs[:, chosen].prod(axis=1) for chosen in secrets.table])
    labelled = np.concatenate([characters, -characters], axis=1)  # at label +1, at label -1
    rng = np.random.default_rng(seed)
    combined = rng.choice([-1, 1], group) @ labelled[rng.choice(20, group, replace=False)]
    query = np.clip(middle + height * combined / group, 0, 1)
    off_gate = rng.choice([0, middle])
    reference = 0.5 * off_gate + 0.5 * query.mean()
    means = 0.5 * off_gate + 0.5 * np.mean(query * (1 + labelled), axis=1)
    wrong = np.abs(means - reference) > np.maximum(1 / n, np.sqrt(means * (1 - means) / n))
    assert wrong.sum() <= statistical_dimension(reference_gram(SecretSet(7, 3)), Fraction(1, 3 * n)).ruled_out


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
    found = np.linalg.eigvalsh(kernel.dense())
    np.testing.assert_allclose(np.sort(expected), found, atol=1e-10)
    assert float(kernel.largest_eigenvalue()) == pytest.approx(found[-1], abs=1e-10)


def test_large_families_are_never_written_out():
    kernel = OverlapGram(SecretSet(40, 4), (0, 0, 0, Fraction(1, 5), 1))
    assert len(kernel) == 82_251
    with pytest.raises(ValueError, match="82251 targets"):
        kernel.dense()
    with pytest.raises(ValueError, match="82251 targets"):
        gram_matrix(ParityFamily(dim=40, bits=4))
    huge = OverlapGram(SecretSet(2000, 600), (*([0] * 600), Fraction(1, 2)))
    assert huge.largest_eigenvalue() == Fraction(1, 2)
    assert huge.size > 10**500
