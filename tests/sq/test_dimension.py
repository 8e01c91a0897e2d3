import tracemalloc
from fractions import Fraction
from itertools import combinations, product
from math import ceil, comb

import networkx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networkx.algorithms.approximation import max_clique
from scipy.optimize import linprog, nnls

from lower import eliminated_per_query, query_lower_bound
from sq.caps import (
    full_query_cap,
    orthogonal_cap,
    pairwise_cap,
    queries_needed,
    spectral_cap,
    szorenyi_cap,
)
from sq.cliques import (
    Clique,
    correlation_clique,
    correlation_graph,
    maximum_clique,
    overlap_graph,
    packing_bound,
)
from sq.correlation import average_correlation, closed_form_gram
from sq.dimension import clique_dimension, reference_gram, statistical_dimension, vstat_calls
from sq.families import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    PairFamily,
    ParityFamily,
    TokenParityFamily,
    TwoSlopeFamily,
)
from sq.gram import GramMatrix
from sq.johnson import OverlapGram, overlap_gram
from sq.secret_set import SecretSet

CODES = {(6, 3, 1): 4, (7, 3, 1): 7, (8, 4, 2): 14, (9, 3, 1): 12, (7, 4, 1): 2}


def gram_of(vectors):
    return GramMatrix(vectors @ vectors.T, np.arange(len(vectors)), "closed form")


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
    assert found.exact
    assert len(found) == size <= packing_bound(*code)
    for one, other in combinations(found.vertices, 2):
        assert len(set(secrets.table[one]) & set(secrets.table[other])) <= overlap
    stopped = maximum_clique(graph, transitive=transitive, at_most=packing_bound(*code))
    assert len(stopped) == size
    assert stopped.nodes <= found.nodes


def test_the_approximate_clique_of_networkx_stops_short():
    graph = overlap_graph(SecretSet(10, 3), 1)
    assert len(max_clique(graph)) == 9 < len(maximum_clique(graph, transitive=True)) == 12


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 11), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_cliques_of_random_graphs_are_as_large_as_enumeration_finds(vertices, density, seed):
    graph = networkx.gnp_random_graph(vertices, density, seed=seed)
    found = maximum_clique(graph)
    largest = max(
        size
        for size in range(1, vertices + 1)
        if any(
            all(graph.has_edge(*pair) for pair in combinations(subset, 2))
            for subset in combinations(range(vertices), size)
        )
    )
    assert len(found) == largest
    assert found.exact
    assert all(graph.has_edge(*pair) for pair in combinations(found.vertices, 2))
    assert len(networkx.max_weight_clique(graph, weight=None)[0]) == largest
    cut = maximum_clique(graph, nodes=2)
    assert len(cut) <= largest <= cut.at_most


def test_a_search_cut_short_says_so():
    cut = maximum_clique(overlap_graph(SecretSet(10, 3), 1), nodes=3)
    assert not cut.exact
    assert cut.at_most >= 12
    assert str(cut).startswith(f"Clique (none has above {cut.at_most}) of {len(cut)} vertices")


def test_vertices_may_bear_any_whole_numbers_and_loops():
    graph = networkx.Graph([(10, 20), (20, 30), (10, 30), (30, 40), (40, 40)])
    assert maximum_clique(graph).vertices == (10, 20, 30)
    assert len(maximum_clique(networkx.Graph([(5, 5), (7, 7)]))) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 3))
def test_the_packing_bound_holds(points, bits, overlap):
    assume(bits <= points)
    found = maximum_clique(overlap_graph(SecretSet(points, bits, first=0), overlap), transitive=True)
    assert len(found) <= packing_bound(points, bits, overlap)


def test_the_dimension_by_cliques_depends_on_the_threshold():
    values = (0, Fraction(1, 20), Fraction(1, 4), 1)
    kernel = OverlapGram(SecretSet(10, 3), values)
    apart, shared, all_of_them = (
        clique_dimension(kernel, threshold) for threshold in (0, Fraction(1, 20), 0.25)
    )
    assert (apart.value, shared.value, all_of_them.value) == (3, 12, 84)
    assert shared.clique.exact
    assert clique_dimension(kernel.dense(), 0.05).value == 12
    assert (apart.polynomial_size, shared.polynomial_size, all_of_them.polynomial_size) == (3, 12, 4)
    assert "at least 12 of 84 targets have pairwise |correlations| <= 0.05, and no larger set has" in str(
        shared
    )
    graph = correlation_graph(kernel, 0.05)
    assert networkx.utils.graphs_equal(graph, overlap_graph(SecretSet(10, 3), 1))
    # a kernel that joins what shares more: packings do not bound it
    assert clique_dimension(OverlapGram(SecretSet(6, 2), (1, 0, 1)), 0).value == 4


SMALL_FAMILIES = [
    ParityFamily(dim=7, bits=2),
    ParityFamily(dim=8, bits=3, construction="D"),
    PairFamily(dim=6),
    TokenParityFamily(dim=8, bits=3, tokens=3),
    BumpFamily(dim=8, bits=3),
    BumpFamily(dim=9, bits=4),
    *(BumpFamily(dim=9, bits=4, at=at) for at in (0, 1, 2, 3)),
    BumpFamily(dim=7, bits=5),
    TwoSlopeFamily(dim=8, bits=3),
    TwoSlopeFamily(dim=9, bits=4),
    DesignedStepsFamily(dim=8, bits=4, heads_count=3),
    CentreThresholdFamily(dim=8, bits=4, heads_count=2),
    CentreThresholdFamily(dim=8, bits=5, heads_count=3, steps="best fit"),
]


@pytest.mark.parametrize("family", SMALL_FAMILIES, ids=lambda one: f"{one.name}-{one.dim}-{one.secrets.bits}")
def test_overlaps_and_matrices_have_one_dimension_at_each_of_their_correlations(family):
    kernel, dense = overlap_gram(family), closed_form_gram(family)
    # the correlation at an overlap is a threshold that the rounding of the values straddles
    for threshold in {0.0, *(abs(float(value)) for value in kernel.values)}:
        found, expected = clique_dimension(kernel, threshold), clique_dimension(dense, threshold)
        assert found.clique.exact
        assert expected.clique.exact
        assert found.value == expected.value
        graph = correlation_graph(kernel, threshold)
        assert networkx.utils.graphs_equal(graph, correlation_graph(dense, threshold))
        for pair in combinations(found.clique.vertices, 2):
            assert graph.has_edge(*pair)
    assert clique_dimension(kernel, max(abs(value) for value in kernel.values)).value == len(kernel)


def test_overlaps_that_do_not_occur_do_not_matter():
    # of five coordinates, two sets of four share three
    kernel = OverlapGram(SecretSet(6, 4), (1, 0, 1, 0, 1))
    assert clique_dimension(kernel, 0).value == 5
    assert clique_dimension(OverlapGram(SecretSet(6, 4), (0, 0, 0, 1, 1)), 0).value == 1


@pytest.mark.slow
def test_cliques_of_thousands_of_vertices_are_found():
    orthogonal = clique_dimension(overlap_gram(ParityFamily(dim=21, bits=3)), 0)
    assert (orthogonal.value, orthogonal.clique.nodes) == (1140, 1)
    assert len(maximum_clique(networkx.complete_graph(1100))) == 1100
    # pairs of vertices apart, all else joined: every other vertex is a branch of its own
    pairs = np.kron(np.eye(1100), np.ones((2, 2)))
    found = correlation_clique(GramMatrix(pairs, np.arange(2200), "closed form"), 0)
    assert found.exact
    assert [vertex // 2 for vertex in found.vertices] == list(range(1100))


def test_cliques_take_no_more_memory_than_a_few_bits_a_pair():
    kernel = OverlapGram(SecretSet(29, 3), (0, 0, 0, 1))
    tracemalloc.start()
    try:
        assert clique_dimension(kernel, 0).value == 3276
        # a byte a pair is 11 MB; a graph would be 2 GB
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_a_clique_that_was_cut_short_bounds_from_below_only():
    cut = clique_dimension(OverlapGram(SecretSet(10, 3), (0, 0, 1, 1)), 0, nodes=2)
    assert not cut.clique.exact
    assert "no set of more than 12 has" in cut.inequality
    assert "cut short" in cut.source


@pytest.mark.parametrize("tau", [0.9, 0.5, 0.3, 0.1, 0.05])
def test_the_orthogonal_cap_and_its_queries_are_those_of_the_exact_bounds(tau):
    cap = orthogonal_cap(tau)
    assert cap.whole == eliminated_per_query(tau)
    assert queries_needed(9139, cap).whole == query_lower_bound(9139, tau)
    assert queries_needed(9139, cap, success="2/3").whole == query_lower_bound(9139, tau, success="2/3")
    identity = OverlapGram(SecretSet(12, 3), (0, 0, 0, 1))
    assert spectral_cap(identity, tau).value == cap.value
    assert spectral_cap(identity, tau).whole == min(cap.whole, 165)
    assert pairwise_cap(0, tau).whole == cap.whole
    assert szorenyi_cap(0, tau).value == 2 * cap.value


def test_full_queries_of_stat():
    assert [full_query_cap(tau).whole for tau in (0.9, 0.5, 0.3, 0.1, 0.05)] == [0, 0, 2, 24, 99]
    assert str(full_query_cap(0.1)).endswith("1/(4 0.1^2) = 25, so M <= 24 [derived here]")


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
    gamma = min(gram.largest_off_diagonal() + 1e-9, 1)
    for size, margin in largest_margins(vectors).items():
        tau = margin * (1 - 1e-6)
        if not 1e-3 < tau < 1:
            continue
        assert spectral_cap(gram, tau).whole >= size
        if gamma < tau**2:
            assert szorenyi_cap(gamma, tau).whole >= pairwise_cap(gamma, tau).whole >= size


def test_the_cap_is_attained_by_orthogonal_and_by_equally_correlated_targets():
    for size, margin in largest_margins(np.eye(5)).items():
        assert margin == pytest.approx(1 / np.sqrt(size))
        if size > 1:
            assert orthogonal_cap(margin * (1 - 1e-6)).whole == size
    vectors = np.linalg.cholesky(0.8 * np.eye(4) + 0.2)
    for size, margin in largest_margins(vectors).items():
        if size > 1:
            assert pairwise_cap(0.2, margin * (1 - 1e-6)).whole == size


def test_no_query_of_stat_rules_out_more_parities_than_its_cap():
    # r(y), half the difference of the query's values at the two labels, is free in [-1, 1] on the gate
    secrets = SecretSet(4, 2, first=0)
    signs = 1 - 2 * ((np.arange(16)[:, None] >> np.arange(4)) & 1)
    characters = np.array([signs[:, chosen].prod(axis=1) for chosen in secrets.table]) / 2 / 16
    for size in range(1, 5):
        best = 0.0
        for subset in combinations(range(6), size):
            for flips in product((1, -1), repeat=size - 1):
                rows = characters[list(subset)] * np.array((1, *flips))[:, None]
                found = linprog(
                    np.append(np.zeros(16), -1),
                    A_ub=np.hstack([-rows, np.ones((size, 1))]),
                    b_ub=np.zeros(size),
                    bounds=[(-1, 1)] * 16 + [(0, 1)],
                )
                best = max(best, -found.fun)
        assert full_query_cap(best * (1 - 1e-6)).whole >= size
        if size == 1:
            assert best == pytest.approx(0.5)
            assert full_query_cap(best * (1 - 1e-6)).whole == 1


def test_the_statistical_dimension_of_parities_is_two_gamma_n():
    found = statistical_dimension(reference_gram(SecretSet(8, 3)), 0.1)
    assert found.value == 7
    assert "SDA(0.1) >= N/s = 35/5 = 7" in str(found)
    # whole sets: five targets are needed for an average of 0.1, and 35/8 targets are at least five
    assert found.whole == 8
    for gamma in (Fraction(1, 30), Fraction(1, 300), Fraction(3, 20)):
        kernel = reference_gram(SecretSet(40, 4))
        assert statistical_dimension(kernel, gamma).value == 2 * gamma * 82_251


def dimension_by_definition(gram, gamma):
    size = len(gram)
    largest = [
        max(average_correlation(gram, rows) for rows in combinations(range(size), many))
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


def test_overlap_kernels_and_their_matrices_have_one_statistical_dimension():
    kernel = OverlapGram.of_profile(SecretSet(9, 3), [0, 1, 0, 0])
    for gamma in (0.9, 0.5, 0.3, 0.2):
        found, dense = statistical_dimension(kernel, gamma), statistical_dimension(kernel.dense(), gamma)
        assert (found.whole, found.ruled_out) == (dense.whole, dense.ruled_out)
        assert float(found.value) == pytest.approx(float(dense.value))
    hopeless = statistical_dimension(kernel, 0.001)
    assert (hopeless.value, hopeless.whole, hopeless.ruled_out) == (0, 0, 56)


@pytest.mark.parametrize(("dim", "bits"), [(100, 30), (2000, 600)])
def test_bounds_on_more_targets_than_a_machine_word_counts(dim, bits):
    kernel, targets = reference_gram(SecretSet(dim, bits)), comb(dim - 1, bits)
    found = statistical_dimension(kernel, "1/10")
    assert found.value == Fraction(targets, 5)
    assert f"{targets}/5" in str(found)
    assert vstat_calls(kernel, 10).value == Fraction(2 * targets, 30)
    assert f"of {targets}, so at least" in str(vstat_calls(kernel, 10))
    assert spectral_cap(kernel, "1/10").whole == 49
    assert f"{targets} targets" in str(kernel)


def test_calls_to_vstat():
    kernel = reference_gram(SecretSet(40, 4))
    few, many = vstat_calls(kernel, 10), vstat_calls(kernel, 100)
    assert few.value == Fraction(2 * 82_251, 30)
    assert (round(float(few), 1), round(float(many), 1)) == (5483.4, 548.3)
    # a call rules out fewer than 3n/2
    assert (few.whole, many.whole) == (ceil(82_251 / 14), ceil(82_251 / 149))
    assert "restate" in str(few)
    assert "original unchecked" in str(few)


def test_an_error_beyond_what_vstat_may_make_is_above_the_root_of_p_over_3n():
    p0, p = np.linspace(0, 0.5, 301)[:, None], np.linspace(0, 1, 601)
    for n in (1, 2, 3, 7, 20, 100, 1000):
        off = np.abs(p - p0)
        wrong = off > np.maximum(1 / n, np.sqrt(p * (1 - p) / n))
        assert np.all(off[wrong] ** 2 > np.broadcast_to(p0 / (3 * n), off.shape)[wrong])
        if n > 2:
            assert wrong.any()


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


def test_a_character_is_ruled_out_by_vstat_of_six_samples():
    # so that the test above is about something: |3/4 - 1/2| > sqrt(3/16/6)
    assert max(1 / 6, np.sqrt(3 / 16 / 6)) < 0.25
    assert vstat_calls(reference_gram(SecretSet(7, 3)), 6).whole == ceil(comb(6, 3) / 8)


def test_the_chi_square_matrix_of_parities_is_half_the_identity():
    secrets = SecretSet(5, 2)
    signs = 1 - 2 * ((np.arange(16)[:, None] >> np.arange(4)) & 1)
    characters = np.array([signs[:, chosen - 1].prod(axis=1) for chosen in secrets.table])
    # density less 1: off the gate 0; on it plus or minus the character, each label with probability 1/2
    labelled = np.concatenate([characters, -characters], axis=1)
    expected = 0.5 * labelled @ labelled.T / 32
    assert np.array_equal(reference_gram(secrets).dense().matrix, expected)


@pytest.mark.bad_input
def test_bad_arguments_are_explained():
    kernel = OverlapGram(SecretSet(6, 2), (0, 0.25, 1))
    for call, words in (
        (lambda: szorenyi_cap(0.25, 0.5), r"below tolerance\^2 = 0.25"),
        (lambda: pairwise_cap(-0.1, 0.5), "at least 0"),
        (lambda: full_query_cap(1), "tolerance is 1"),
        (lambda: spectral_cap(kernel, 0), "tolerance is 0"),
        (lambda: queries_needed(10, full_query_cap(0.5)), "rules out nothing"),
        (lambda: queries_needed(10, orthogonal_cap(0.5), success=0), "success is 0"),
        (lambda: clique_dimension(kernel, -1), "correlation is -1"),
        (lambda: correlation_graph(kernel, -1), "correlation"),
        (lambda: statistical_dimension(kernel, 1), "largest entry 1"),
        (lambda: statistical_dimension(kernel.dense(), 0), "above 0"),
        (lambda: vstat_calls(kernel, 0), "samples is 0"),
        (lambda: maximum_clique(networkx.Graph()), "no vertices"),
        (lambda: maximum_clique(networkx.complete_graph(3), at_most=2, nodes=0), "nodes is 0"),
        (lambda: overlap_graph(SecretSet(40, 3), 1), "9139 secrets"),
        (lambda: clique_dimension(reference_gram(SecretSet(40, 3)), 0), "9139 secrets"),
        (lambda: correlation_graph(reference_gram(SecretSet(29, 3)), 0), "5364450 edges.*at most 500000"),
        (lambda: overlap_graph(SecretSet(29, 3), 2), "5364450 edges.*at most 500000"),
        (lambda: packing_bound(3, 5, 1), "bits is 5: at most 3"),
        (lambda: packing_bound(5, 0, 1), "bits is 0"),
        (lambda: packing_bound(5, 2, -1), "overlap is -1"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_clique_is_exact_where_it_meets_its_bound():
    assert Clique((1, 2), 2, 1).exact
    assert not Clique((1, 2), 3, 1).exact
