import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.linalg import hadamard

from attention import ExampleOracle
from lower import all_sign_matrices, query_lower_bound
from sq import ParityElimination, ParityFamily, make_parity_instance, parity_heads
from sq.krawtchouk import fourier_weights, overlap_correlations
from sq.parities import heads_needed

DIM = 6


def largest_error(instance, x=None):
    """The largest norm of a row of the layer minus its known part and the parity of its definition."""
    d, x = instance.layer.dim, all_sign_matrices(2, instance.layer.dim) if x is None else x
    # the hidden part is the same for every construction, and B is made at any size
    family = ParityFamily(dim=d, bits=len(instance.secret), construction="B")
    hidden = family.hidden(family.secrets.rank(instance.secret), x)
    target = instance.known(x) + hidden[..., None] * np.array(instance.parameters["direction"])
    return np.linalg.norm(instance.layer(x) - target, axis=-1).max()


def every_secret(bits):
    return [np.array(one) for one in itertools.combinations(range(1, DIM), bits)]


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("construction", "limit"), [("A", 1e-14), ("B", 1e-14), ("C", 1e-13), ("D", 1e-12)])
def test_layer_is_known_part_plus_parity_on_all_inputs_and_both_rows(construction, limit, bits):
    direction = np.random.default_rng(bits).standard_normal(DIM)
    for w in (None, direction):
        instance = make_parity_instance(dim=DIM, bits=bits, construction=construction, rng=bits, direction=w)
        assert largest_error(instance) <= limit
    assert instance.layer.heads == {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[construction]
    assert instance.layer.heads == heads_needed(construction, bits)


@pytest.mark.parametrize(
    ("bits", "coefficients", "total"),
    [(3, (-19.0359, 12.2529), -6.7831), (5, (-20.0411, 28.6109, -12.2285), -3.6587)],
)
def test_coefficients_of_the_minimal_heads(bits, coefficients, total):
    heads = parity_heads("D", bits=bits)
    np.testing.assert_allclose(heads.coefficients, coefficients, atol=5e-5)
    assert heads.c == pytest.approx(total, abs=5e-5)
    assert heads.c0 == 0


@pytest.mark.parametrize(("construction", "bits"), [("D", 19), ("C", 10)])
def test_coefficients_are_the_nearest_floats_to_the_exact_solution_on_every_machine(construction, bits):
    """The last digits of a float64 solver decided whether ten minimal heads met a parity to 1e-9."""
    heads = parity_heads(construction, bits=bits)
    with mpmath.workdps(60):
        n = range(len(heads) if construction == "D" else bits + 1)
        slopes = [mpmath.mpf(float(slope)) for slope in heads.slopes]
        system = [
            [mpmath.tanh(beta * (a - t)) for beta, t in zip(slopes, heads.thresholds, strict=True)] for a in n
        ]
        if construction == "C":
            system = [[*row, 1] for row in system]
        solution = mpmath.lu_solve(mpmath.matrix(system), mpmath.matrix([(-1) ** a for a in n]))
        exact = [float(one) for one in solution]
    assert heads.coefficients.tolist() == exact[: len(heads)]
    assert [-heads.c0] == exact[len(heads) :] or construction == "D"
    assert heads.error() < 3e-10


@pytest.mark.parametrize(("m", "limit"), [(2, 5e-15), (3, 5e-15), (4, 5e-14), (5, 1e-13), (6, 5e-13)])
def test_minimal_heads_stay_exact_to_rounding_as_they_grow(m, limit):
    instance = make_parity_instance(dim=2 * m + 6, heads=m, rng=m)
    assert instance.realisation_error <= limit
    # evaluating the layer rounds on top of that, in proportion to the coefficients
    x = instance.inputs.sample(5000, rng=0)
    assert largest_error(instance, x) <= limit + 8 * np.finfo(float).eps * np.abs(instance.layer.w).sum()


@pytest.mark.parametrize(("beta", "error"), [(2.0, 4.768e-1), (10.0, 1.816e-4), (20.0, 8.245e-9)])
def test_saturation_error_at_two_bits_is_4_over_e_to_the_beta_plus_1(beta, error):
    instance = make_parity_instance(dim=DIM, bits=2, construction="B", beta=beta, rng=0)
    assert instance.realisation_error == pytest.approx(error, rel=5e-4)
    assert instance.realisation_error == pytest.approx(4 / (math.exp(beta) + 1), rel=1e-12)
    assert largest_error(instance) == pytest.approx(instance.realisation_error, rel=1e-6)


@pytest.mark.parametrize("beta", [0.5, 2.0, 10.0, 20.0, 40.0])
def test_saturation_error_never_exceeds_4_over_e_to_the_beta_plus_1_and_is_half_of_it_at_one_bit(beta):
    largest = 4 / (math.exp(beta) + 1)
    for bits in range(1, 9):
        assert parity_heads("B", bits=bits, beta=beta).error() <= largest * (1 + 1e-12)
    assert parity_heads("B", bits=1, beta=beta).error() == pytest.approx(largest / 2, rel=1e-12)
    assert parity_heads("B", bits=2, beta=beta).error() == pytest.approx(largest, rel=1e-12)


def gram(construction, bits, *, known_off):
    x = all_sign_matrices(2, DIM)
    outputs = []
    for secret in every_secret(bits):
        instance = make_parity_instance(dim=DIM, construction=construction, secret=secret)
        outputs.append((instance.layer(x) - known_off * instance.known(x)).ravel())
    return np.array(outputs) @ np.array(outputs).T / len(x), instance


@pytest.mark.parametrize("bits", [2, 3])
@pytest.mark.parametrize(("construction", "diagonal", "off"), [("B", 2.0, 1.0), ("D", 47.0101, 46.0101)])
def test_gram_of_all_targets_is_shared_energy_plus_identity(construction, diagonal, off, bits):
    matrix, instance = gram(construction, bits, known_off=0)
    heads = parity_heads(construction, bits=bits)
    shared = heads.c**2 + heads.c0**2
    np.testing.assert_allclose(matrix, shared + np.eye(len(matrix)), atol=1e-10)
    assert shared == pytest.approx(off, abs=5e-5)
    assert instance.certificate["Gram diagonal"].value == pytest.approx(diagonal, abs=5e-5)
    assert instance.certificate["Gram off the diagonal"].value == pytest.approx(off, abs=5e-5)


@pytest.mark.parametrize("construction", ["A", "B", "C", "D"])
@pytest.mark.parametrize("bits", [1, 2, 3])
def test_lowest_fourier_degree_of_the_unknown_part_is_2l_plus_1_with_coefficients_one_half(
    construction, bits
):
    instance = make_parity_instance(dim=DIM, construction=construction, bits=bits, rng=1)
    x = all_sign_matrices(2, DIM)
    unknown = (instance.layer(x) - instance.known(x))[:, :, 0]
    coefficients = hadamard(4096) @ unknown / 4096
    degree = np.array([index.bit_count() for index in range(4096)])
    present = np.abs(coefficients) > 1e-9
    assert set(degree[present.any(axis=1)]) == {2 * bits + 1}
    assert instance.certificate["lowest degree of the unknown part"].value == 2 * bits + 1
    np.testing.assert_allclose(np.abs(coefficients[present]), 0.5, atol=1e-12)
    assert np.abs(coefficients[~present]).max() < 1e-12
    for row in (0, 1):
        hit = np.flatnonzero(present[:, row])
        assert len(hit) == 2
        # coordinate j of token 1 is bit j, of token 2 bit d + j: the secret in both, the gate in one
        both = sum((1 << int(j)) | (1 << (DIM + int(j))) for j in instance.secret)
        assert set(hit) == {both | 1, both | (1 << DIM)}


def test_two_heads_hide_three_bits_and_m_heads_2m_minus_1():
    assert make_parity_instance(dim=48, rng=0).layer.heads == 2
    assert len(make_parity_instance(dim=48, rng=0).secret) == 3
    for m in (1, 2, 3, 4):
        assert len(make_parity_instance(dim=20, heads=m, rng=0).secret) == 2 * m - 1
        assert len(make_parity_instance(dim=20, heads=m, construction="B", rng=0).secret) == m
    assert make_parity_instance(dim=20, heads=3, bits=4, rng=0).layer.heads == 3


def test_certificate_counts_targets_and_queries():
    certificate = make_parity_instance(dim=40, heads=2, rng=0).certificate
    assert certificate["targets"].value == 9139
    for tau in ("0.3", "0.1", "0.05"):
        assert certificate[f"queries at tolerance {tau}"].value == query_lower_bound(9139, tau)
    assert certificate["queries at tolerance 0.1"].value == 93
    assert "Gaussian elimination" in str(certificate)


def test_nothing_public_depends_on_the_secret():
    one, other = (make_parity_instance(dim=12, heads=2, rng=seed) for seed in (0, 1))
    assert not np.array_equal(one.secret, other.secret)
    assert one.parameters == other.parameters
    assert one.certificate == other.certificate
    np.testing.assert_array_equal(one.known.mixing, other.known.mixing)
    np.testing.assert_array_equal(one.known.projection, other.known.projection)


def test_the_same_rng_draws_the_same_secret_and_secrets_are_uniform():
    np.testing.assert_array_equal(
        make_parity_instance(dim=30, heads=2, rng=5).secret,
        make_parity_instance(dim=30, heads=2, rng=5).secret,
    )
    rng, family = np.random.default_rng(0), ParityFamily(dim=6, bits=2)
    counts = np.zeros(6)
    for _ in range(200):
        counts[family.draw(rng)] += 1
    assert counts[0] == 0
    assert np.abs(counts[1:] - 80).max() < 4 * np.sqrt(200 * 0.4 * 0.6)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"dim": 10, "heads": 2, "bits": 4}, "needs 3 heads"),
        ({"dim": 3, "bits": 3}, "at most 2 of the coordinates"),
        ({"dim": 10, "slopes": (40.0, 80.0)}, r"slopes is \(40.0, 80.0\)"),
        ({"dim": 20, "bits": 11, "slopes": tuple(3.0**i for i in range(6))}, "slopes is"),
        ({"dim": 10, "construction": "C", "bits": 3, "beta": 1e-200}, "beta is 1e-200"),
        ({"dim": 30, "construction": "C", "bits": 20, "beta": 0.05}, "larger beta"),
        ({"dim": 10, "secret": [0, 1, 2]}, "from 1 to 9"),
        ({"dim": 10, "bits": 2, "secret": [1, 2, 3]}, "2 distinct"),
        ({"dim": 10, "direction": np.zeros(10)}, "direction"),
        ({"dim": 40, "heads": 12}, "construction B"),
    ],
)
def test_bad_arguments_are_explained(arguments, word):
    with pytest.raises(ValueError, match=word):
        make_parity_instance(**arguments)


@pytest.mark.parametrize(("bits", "size", "c", "c0"), [(2, 8.312, 0.0, -2.841), (3, 17.23, -3.139, 0.0)])
def test_exact_heads_at_slope_one(bits, size, c, c0):
    heads = parity_heads("C", bits=bits, beta=1.0)
    assert np.abs(heads.coefficients).sum() == pytest.approx(size, rel=3e-4)
    assert heads.c == pytest.approx(c, abs=5e-4)
    assert heads.c0 == pytest.approx(c0, abs=5e-4)
    assert heads.error() < 2e-15


@pytest.mark.parametrize(
    ("beta", "given_gate", "overall"),
    [(2.0, 0.25, 0.125), (10.0, 0.25, 0.125), (30.0, 0.25, 0.125), (40.0, 0.0, 0.0)],
)
def test_low_digits_of_a_finite_slope_leak_pairs_of_secret_coordinates_and_a_saturated_one_does_not(
    beta, given_gate, overall
):
    instance = make_parity_instance(dim=DIM, construction="B", secret=[1, 2, 4], beta=beta)
    x = all_sign_matrices(2, DIM)
    label = instance.layer(x)[:, 0, 0]
    differing = np.count_nonzero(x[:, 0, [1, 2, 4]] != x[:, 1, [1, 2, 4]], axis=1)
    gate = x[:, 0, 0] != x[:, 1, 0]
    values = np.unique(label[gate & np.isin(differing, (0, 3))])
    # rounding moves labels of one N by far less than labels of two N differ, unless those are the same number
    near = np.min(np.abs(label[:, None] - values), axis=1) <= 1e-15
    y = x[:, 0] * x[:, 1]
    for i, j, secret in ((1, 2, True), (2, 4, True), (1, 3, False), (3, 5, False)):
        query = (near & gate) * y[:, i] * y[:, j]
        assert query[gate].mean() == (given_gate if secret else 0)
        assert query.mean() == (overall if secret else 0)


def test_the_profile_of_a_parity_has_all_its_weight_at_degree_l():
    for construction in ("A", "B", "C", "D"):
        family = ParityFamily(dim=9, bits=4, construction=construction)
        np.testing.assert_allclose(
            np.array(fourier_weights(family.profile), float), family.weights, atol=1e-12
        )
        np.testing.assert_allclose(
            np.array(overlap_correlations(family.profile), float), family.overlap_correlations, atol=1e-12
        )
        assert family.lowest_degree == 9


@pytest.mark.parametrize(
    "options",
    [
        {"construction": "A", "bits": 3},
        {"construction": "C", "bits": 4, "beta": 0.8},
        {"construction": "D", "bits": 3, "slopes": (0.3, 1.7)},
    ],
)
def test_elimination_finds_every_construction_and_gives_its_layer_back(options):
    instance = make_parity_instance(dim=12, rng=2, **options)
    fit = ParityElimination.for_instance(instance).fit(ExampleOracle(instance.layer, instance.inputs, rng=1))
    assert fit.outcome.name == "EXACT"
    np.testing.assert_array_equal(fit.layer.theta, instance.layer.theta)


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e200, 1e300])
def test_directions_of_any_size_have_norm_one(scale):
    instance = make_parity_instance(
        dim=4, bits=2, construction="B", rng=0, direction=scale * np.array([3.0, 4, 0, 0])
    )
    np.testing.assert_allclose(instance.parameters["direction"], [0.6, 0.8, 0, 0], rtol=1e-12)
