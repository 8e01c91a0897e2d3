"""Every Gram matrix, graph and profile of `sq`, asked with what a user may give by mistake."""

import itertools
import math
from fractions import Fraction

import networkx
import numpy as np
import pytest
from fuzzing import Argument, Subject, anything, array, choice, fixed, made, real, seed, whole
from hypothesis import strategies as st
from sq_makers import BUMP, CORRELATION, FAMILY, OPTIONAL, TOLERANCE, bump

import sq
from lower import all_sign_matrices
from sq import SecretSet


def matrix_of(gram):
    return (gram.dense() if isinstance(gram, sq.OverlapGram) else gram).matrix


def products(family, numbers):
    """The hidden parts at all inputs, a row each, as wide as the mean of a product is their dot product."""
    x = all_sign_matrices(family.tokens, family.dim)
    return np.stack([family.hidden(int(number), x).ravel() for number in numbers]) / math.sqrt(len(x))


def gram_is_right(result, given):
    """The mean of products over all inputs; of an estimate, within what Hoeffding's inequality allows at 1e-12."""
    values = products(given["family"], result.numbers)
    assert np.array_equal(result.matrix, result.matrix.T)
    allowed = 1e-6
    if result.way == "Monte Carlo":
        k, d = given["family"].tokens, given["family"].dim
        largest = float((values**2).reshape(len(values), -1, k).sum(axis=2).max()) * 2 ** (k * d)
        allowed += largest * math.sqrt(2 * math.log(2e12) / result.samples)
        assert (result.half_widths <= result.simultaneous).all()
    np.testing.assert_allclose(result.matrix, values @ values.T, atol=allowed)


def overlap_rows_are_right(result, given):
    for number in (0, result.size - 1):
        np.testing.assert_allclose(result.row(number), given["family"].correlations(number), atol=1e-9)


def reference_is_right(result, given):
    assert np.array_equal(matrix_of(result), np.eye(given["secrets"].size) / 2)


def spectrum_is_right(result, given):
    """Weights are at least 0 and, of functions of norm 1, add up to 1."""
    weights = result.weights()
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    assert result.lowest_degree() == int(np.flatnonzero(weights.max(axis=0) > 1e-9)[0])


def hidden_values_are_right(result, given):
    family = given["family"]
    x = all_sign_matrices(family.tokens, family.dim)
    assert np.array_equal(result, family.hidden(given["number"], x).T)


def average_is_right(result, given):
    rows = range(given["gram"].size) if given["subset"] is None else [int(one) for one in given["subset"]]
    matrix = np.abs(matrix_of(given["gram"]))
    assert result == pytest.approx(np.mean([[matrix[i, j] for j in rows] for i in rows]), abs=1e-12)


def averages_of_subsets(gram, size):
    matrix = np.abs(matrix_of(gram))
    return {one: matrix[np.ix_(one, one)].mean() for one in itertools.combinations(range(gram.size), size)}


def largest_average_is_right(result, given):
    averages = averages_of_subsets(given["gram"], int(given["size"]))
    assert result.least - 1e-12 <= max(averages.values()) <= result.most + 1e-12
    assert averages[tuple(sorted(result.subset.tolist()))] == pytest.approx(result.least)


def tops_are_right(result, given):
    rows = [sorted(np.abs(row), reverse=True) for row in matrix_of(given["gram"])]
    wanted = [max(sum(row[:size]) / size for row in rows) for size in range(1, len(rows) + 1)]
    np.testing.assert_allclose(result, wanted, rtol=1e-12)


def joined(given):
    matrix, most = np.abs(matrix_of(given["gram"])), float(Fraction(given["correlation"])) + 1e-12
    return {(i, j) for i, j in itertools.combinations(range(len(matrix)), 2) if matrix[i, j] <= most}


def graph_is_right(result, given):
    assert {tuple(sorted(one)) for one in result.edges} == joined(given)
    assert set(result.nodes) == set(range(given["gram"].size))


def clique_size(edges, size):
    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(size))
    return max(len(one) for one in networkx.find_cliques(graph))


def clique_is_right(result, given):
    edges = joined(given)
    assert set(itertools.combinations(result.vertices, 2)) <= edges
    largest = clique_size(edges, given["gram"].size)
    assert len(result) <= largest <= result.at_most


def clique_bound_is_right(result, given):
    clique_is_right(result.clique, given)
    assert result.value == result.whole == len(result.clique)


def dimension_is_right(result, given):
    """No set of at least N/q targets has a larger average, of all sets there are."""
    size, most = given["gram"].size, float(Fraction(given["correlation"])) + 1e-12
    if result.whole:
        for least in range(math.ceil(Fraction(size, result.whole)), size + 1):
            assert max(averages_of_subsets(given["gram"], least).values()) <= most


def cap_is_right(result, given):
    tau = float(Fraction(given["tolerance"]))
    largest = np.linalg.eigvalsh(matrix_of(given["gram"]))[-1]
    assert float(result.value) == pytest.approx(largest / tau**2)
    assert result.whole <= given["gram"].size
    assert result.whole < result.value or result.whole == given["gram"].size


def calls_are_right(result, given):
    """SDA(1/(3n)), and as many calls as rule out all candidates when each rules out what it can."""
    dimension = sq.statistical_dimension(given["gram"], Fraction(1, 3 * int(given["samples"])))
    assert result.value == dimension.value
    assert (result.whole - 1) * dimension.ruled_out < given["gram"].size <= result.whole * dimension.ruled_out


def kernel_is_right(result, given):
    """Exact eigenvalues against those of the matrix, each with its multiplicity."""
    wanted = np.repeat([float(one) for one in result.eigenvalues], result.multiplicities)
    np.testing.assert_allclose(np.sort(wanted), np.linalg.eigvalsh(matrix_of(result)), atol=1e-9)


def row_is_right(result, given):
    assert np.array_equal(result, matrix_of(sq.overlap_gram(bump()))[given["number"]])


def product_is_right(result, given):
    vector = np.asarray(given["vector"], dtype=float)
    size = np.abs(vector).max(initial=0)
    np.testing.assert_allclose(
        result, matrix_of(sq.overlap_gram(bump())) @ vector, rtol=1e-9, atol=1e-9 * size
    )


def maximum_is_right(result, given):
    graph = given["graph"]
    assert all(graph.has_edge(*one) for one in itertools.combinations(result.vertices, 2))
    assert len(result) <= clique_size(graph.edges, len(graph)) <= result.at_most


def overlaps_are_joined(result, given):
    table = [set(one) for one in given["secrets"].table.tolist()]
    wanted = {
        (i, j)
        for i, j in itertools.combinations(range(len(table)), 2)
        if len(table[i] & table[j]) <= given["overlap"]
    }
    assert {tuple(sorted(one)) for one in result.edges} == wanted


def packing_is_right(result, given):
    """At least as many as the largest set of sets that there is."""
    points, bits, overlap = (int(given[name]) for name in ("points", "bits", "overlap"))
    if math.comb(points, bits) <= 30:
        sets = [set(one) for one in itertools.combinations(range(points), bits)]
        edges = [
            (i, j)
            for i, j in itertools.combinations(range(len(sets)), 2)
            if len(sets[i] & sets[j]) <= overlap
        ]
        assert result >= clique_size(edges, len(sets))


NUMBERS = Argument(
    st.sampled_from([fixed(None), fixed([0, 2]), fixed(np.array([1]))]),
    st.sampled_from([fixed(one) for one in ([], [0, 0], [-1], [10**9], [0.5], [[0]], "01", 3, [True])])
    | anything(None).hostile,
)
GRAM = made(lambda: sq.closed_form_gram(bump()), "<gram>")
OVERLAPS = made(lambda: sq.overlap_gram(bump()), "<overlap gram>")


def subject_of_gram(name, call, right, **more):
    return [
        Subject(
            f"sq.{name}{suffix}", call, {"gram": gram, **more}, right=right, words=("correlation", "matrix")
        )
        for suffix, gram in (("", GRAM), (" of overlaps", OVERLAPS))
    ]


SUBJECTS = [
    Subject(
        "sq.closed_form_gram",
        sq.closed_form_gram,
        {"family": FAMILY, "numbers": NUMBERS},
        right=gram_is_right,
        words=("number",),
    ),
    Subject(
        "sq.enumerated_gram",
        sq.enumerated_gram,
        {"family": FAMILY, "numbers": NUMBERS},
        right=gram_is_right,
        words=("number",),
        share=0.4,
    ),
    Subject(
        "sq.sampled_gram",
        sq.sampled_gram,
        {
            "family": FAMILY,
            "numbers": NUMBERS,
            "samples": whole(20, 40),
            "confidence": real(0.9, 0.99),
            "bound": Argument(st.just(fixed(None)), real().hostile),
            "rng": seed(),
        },
        right=gram_is_right,
        words=("number",),
        share=0.5,
    ),
    Subject(
        "sq.overlap_gram",
        sq.overlap_gram,
        {"family": BUMP, "rows": whole(1, 3)},
        right=overlap_rows_are_right,
    ),
    Subject(
        "sq.reference_gram",
        sq.reference_gram,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>")},
        right=reference_is_right,
    ),
    Subject(
        "sq.fourier_spectrum",
        sq.fourier_spectrum,
        {"family": FAMILY, "numbers": NUMBERS},
        right=spectrum_is_right,
        words=("number",),
        share=0.4,
    ),
    Subject(
        "sq.hidden_values",
        sq.hidden_values,
        {"family": FAMILY, "number": whole(0, 2)},
        share=0.4,
        right=hidden_values_are_right,
    ),
    *subject_of_gram(
        "average_correlation",
        sq.average_correlation,
        average_is_right,
        subset=NUMBERS,
    ),
    *subject_of_gram(
        "largest_average_correlation",
        sq.largest_average_correlation,
        largest_average_is_right,
        size=whole(1, 3),
    ),
    *subject_of_gram("top_averages", sq.top_averages, tops_are_right),
    *subject_of_gram(
        "correlation_graph",
        sq.correlation_graph,
        graph_is_right,
        correlation=choice(0.1, 0.5),
    ),
    *subject_of_gram(
        "correlation_clique",
        sq.correlation_clique,
        clique_is_right,
        correlation=choice(0.1, 0.5),
        nodes=Argument(st.just(fixed(None)), whole().hostile),
    ),
    *subject_of_gram(
        "clique_dimension",
        sq.clique_dimension,
        clique_bound_is_right,
        correlation=CORRELATION,
        nodes=Argument(st.just(fixed(None)), whole().hostile),
    ),
    *subject_of_gram(
        "statistical_dimension", sq.statistical_dimension, dimension_is_right, correlation=CORRELATION
    ),
    *subject_of_gram("spectral_cap", sq.spectral_cap, cap_is_right, tolerance=TOLERANCE),
    *subject_of_gram("vstat_calls", sq.vstat_calls, calls_are_right, samples=whole()),
    Subject(
        "sq.OverlapGram",
        sq.OverlapGram,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>"), "values": anything((0.0, 0.5, 1.0))},
        right=kernel_is_right,
    ),
    Subject(
        "sq.OverlapGram.row",
        lambda number: sq.overlap_gram(bump()).row(number),
        {"number": whole(0, 2)},
        right=row_is_right,
    ),
    Subject(
        "sq.OverlapGram.matvec",
        lambda vector: sq.overlap_gram(bump()).matvec(vector),
        {"vector": array((5,), torch=False)},
        words=("vector", "v", "x"),
        right=product_is_right,
    ),
    Subject(
        "sq.maximum_clique",
        sq.maximum_clique,
        {
            "graph": made(lambda: networkx.path_graph(4), "<path>"),
            "transitive": choice(False),
            "at_most": OPTIONAL,
            "nodes": OPTIONAL,
        },
        right=maximum_is_right,
    ),
    Subject(
        "sq.overlap_graph",
        sq.overlap_graph,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>"), "overlap": whole(0, 1)},
        right=overlaps_are_joined,
    ),
    Subject(
        "sq.packing_bound",
        sq.packing_bound,
        {"points": whole(4, 6), "bits": whole(2, 3), "overlap": whole(1, 1)},
        right=packing_is_right,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
