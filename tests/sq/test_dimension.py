from fractions import Fraction
from itertools import combinations, product
from math import ceil

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from lower.bounds import eliminated_per_query
from sq.caps import orthogonal_cap, spectral_cap, szorenyi_cap
from sq.cliques import maximum_clique, overlap_graph, packing_bound
from sq.dimension import reference_gram, statistical_dimension
from sq.gram import GramMatrix
from sq.johnson import OverlapGram
from sq.secret_set import SecretSet

CODES = {(6, 3, 1): 4, (7, 3, 1): 7, (8, 4, 2): 14, (9, 3, 1): 12, (7, 4, 1): 2}


def gram_of(vectors):
    return GramMatrix(vectors @ vectors.T, np.arange(len(vectors)))


def unit_vectors(targets, dim, seed):
    vectors = np.random.default_rng(seed).standard_normal((targets, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("code", "size"), CODES.items())
@pytest.mark.parametrize("transitive", [True, False])
def test_maximum_sets_of_secrets_of_small_overlap(code, size, transitive):
    points, bits, overlap = code
    secrets = SecretSet(points + 1, bits)
    graph = overlap_graph(secrets, overlap)
    found = maximum_clique(graph, transitive=transitive)
    assert len(found) == size <= packing_bound(*code)
    for one, other in combinations(found, 2):
        assert len(set(secrets.table[one]) & set(secrets.table[other])) <= overlap
    assert len(maximum_clique(graph, transitive=transitive, at_most=packing_bound(*code))) == size


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 11), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_cliques_of_random_graphs_are_as_large_as_enumeration_finds(vertices, density, seed):
    graph = networkx.gnp_random_graph(vertices, density, seed=seed)
    found = maximum_clique(networkx.to_numpy_array(graph, dtype=bool))
    largest = max(
        size
        for size in range(1, vertices + 1)
        if any(
            all(graph.has_edge(*pair) for pair in combinations(subset, 2))
            for subset in combinations(range(vertices), size)
        )
    )
    assert len(found) == largest
    assert all(graph.has_edge(*pair) for pair in combinations(found, 2))
    assert len(networkx.max_weight_clique(graph, weight=None)[0]) == largest


@pytest.mark.parametrize("tau", [0.9, 0.5, 0.3, 0.1, 0.05])
def test_the_orthogonal_cap_and_its_queries_are_those_of_the_exact_bounds(tau):
    cap = orthogonal_cap(tau)
    assert cap.whole == eliminated_per_query(tau)
    identity = OverlapGram(SecretSet(12, 3), (0, 0, 0, 1))
    assert spectral_cap(identity, tau).value == cap.value
    assert spectral_cap(identity, tau).whole == min(cap.whole, 165)
    assert szorenyi_cap(0, tau).whole == cap.whole
    assert szorenyi_cap(0, tau).value == cap.value


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
def test_no_query_rules_out_more_than_its_cap(targets, dim, seed):
    vectors = unit_vectors(targets, dim, seed)
    gram = gram_of(vectors)
    gamma = min(float(np.abs(gram.matrix - np.eye(targets)).max()) + 1e-9, 1)
    for size, margin in largest_margins(vectors).items():
        tau = margin * (1 - 1e-6)
        if not 1e-3 < tau < 1:
            continue
        assert spectral_cap(gram, tau).whole >= size
        if gamma < tau**2:
            assert szorenyi_cap(gamma, tau).whole >= size


def dimension_by_definition(gram, gamma):
    size = len(gram)
    largest = [
        max(np.abs(gram.matrix[np.ix_(rows, rows)]).mean() for rows in combinations(range(size), many))
        for many in range(1, size + 1)
    ]
    failing = [many for many, average in enumerate(largest, 1) if average > gamma + 1e-12]
    return ceil(Fraction(size, max(failing))) - 1 if failing else None


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(1, 9), st.floats(0.02, 0.98), st.integers(0, 2**32 - 1))
def test_the_statistical_dimension_is_at_least_what_is_said(targets, dim, gamma, seed):
    gram = gram_of(unit_vectors(targets, dim, seed))
    found = statistical_dimension(gram, gamma)
    true = dimension_by_definition(gram, gamma)
    assert found.whole <= true
    assert found.value <= true + 1
    orthogonal = statistical_dimension(gram_of(np.eye(targets)), gamma)
    assert orthogonal.whole == dimension_by_definition(gram_of(np.eye(targets)), gamma)


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
