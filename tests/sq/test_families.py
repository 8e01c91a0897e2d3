"""Families held to their definitions on all inputs: layers, hidden parts, correlations, numbers of targets."""

import math

import mpmath
import numpy as np
import pytest

from attention import BooleanInputs
from lower import FAMILIES as FAMILIES_BY_NAME
from lower import HardInstance, Key, Word, all_sign_matrices, query_lower_bound, verify_instance
from lower.walsh import walsh_hadamard
from sq import (
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    ProfileFamily,
    TargetFamily,
    TokenParityFamily,
    make_parity_instance,
    parity_heads,
    two_head_families,
)
from sq.parities import heads_needed, parity_error

# the family and the largest error of a row of its layer
SYMMETRIC = [
    (ProfileFamily.bump(dim=6, bits=4), 1e-14),
    (ProfileFamily.bump(dim=6, bits=3, at=0), 1e-14),
    (ProfileFamily.bump(dim=6, bits=2, at=2, beta=1.5), 1.0),
    (ProfileFamily.two_slope(dim=6, bits=3), 1e-14),
    (ProfileFamily.two_slope(dim=6, bits=4, slopes=(0.3, 2.0)), 1e-14),
    (ProfileFamily.designed_steps(dim=6, bits=4, heads_count=3), 1e-14),
    (ProfileFamily.designed_steps(dim=6, bits=4, thresholds=(0.5, 1.5)), 1e-14),
    (ProfileFamily.centre_threshold(dim=6, bits=4), 1e-14),
    (ProfileFamily.centre_threshold(dim=6, bits=4, steps="best-fit"), 1e-14),
    (ProfileFamily.centre_threshold(dim=6, bits=3, heads_count=1), 1e-14),
]
PAIRS = [
    (PairFamily(dim=6, beta=beta), 1e-15 * (4 + 1 / math.tanh(beta))) for beta in (0.01, 0.3, 1.0, 4.0, 40.0)
]
TOKENS = [
    (TokenParityFamily(dim=dim, tokens=tokens, bits=bits), 1e-12)
    for tokens, dim, most in ((2, 6, 4), (3, 5, 3), (5, 3, 1))
    for bits in range(1, most + 1)
]
PARITIES = [
    (ParityFamily(dim=6, bits=bits, construction=one), limit)
    for one, limit in zip("ABCD", (1e-14, 1e-14, 1e-13, 1e-12), strict=True)
    for bits in range(1, 6)
]
GATES = [
    (HiddenGateFamily(base=base), 1e-13)
    for base in (
        *(ParityFamily(dim=5, bits=bits) for bits in (1, 2, 3)),
        *(ParityFamily(dim=5, bits=3, construction=one) for one in "BC"),
        *(ProfileFamily.two_slope(dim=5, bits=bits) for bits in (3, 4)),
    )
]


def targets_of(family):
    if isinstance(family, HiddenGateFamily):
        return family.dim * math.comb(family.dim - 1, family.base.bits)
    bits = 2 if isinstance(family, PairFamily) else family.bits
    return math.comb(family.dim - (2 if isinstance(family, TokenParityFamily) else 1), bits)


@pytest.mark.parametrize(
    ("family", "error"),
    [*SYMMETRIC, *PARITIES, *PAIRS, *TOKENS, *GATES],
    ids=lambda one: getattr(one, "title", ""),
)
def test_layers_and_correlations_are_as_defined_on_all_inputs(family, error, enumerated):
    checked = enumerated(family)
    assert checked.targets == len(family.secrets) == targets_of(family)
    assert checked.correlation_error < 1e-12
    assert checked.max_error <= error
    if isinstance(family, ParityFamily):
        one, heads = family.others["construction"], len(family.heads)
        assert heads == heads_needed(one, family.bits)
        assert heads == {"A": 2 * family.bits, "D": family.bits // 2 + 1}.get(one, family.bits)
    if isinstance(family, HiddenGateFamily):
        instance = family.instance(len(family.secrets) - 1)
        assert instance.known.is_zero
        assert instance.layer.heads == len(family.base.heads) + 1 == len(family.heads)


@pytest.mark.parametrize(("bits", "heads"), [(9, 2), (9, 3), (8, 4), (13, 7), (6, 6)])
def test_steps_left_out_are_as_even_as_half_integers_can_be_from_the_first_to_the_last(bits, heads):
    found = ProfileFamily.designed_steps(dim=bits + 1, bits=bits, heads_count=heads).heads.thresholds
    assert np.abs(np.sort(found) - np.linspace(0.5, bits - 0.5, heads)).max() <= 0.5


def test_a_pair_is_its_definition_one_input_at_a_time():
    family, x = PairFamily(dim=4), all_sign_matrices(2, 4)
    number = family.secrets.rank([1, 3])
    for one, found in zip(x, family.hidden(number, x), strict=True):
        u = (one[0] - one[1]) / 2
        np.testing.assert_allclose(found, math.sqrt(2) * u[0] * u[3] * one[:, 1], rtol=1e-15)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_a_token_parity_is_its_definition_one_input_at_a_time(bits):
    instance = TokenParityFamily(dim=7, tokens=4, bits=bits).instance(1)
    x = BooleanInputs(4, 7).sample(200, rng=0)
    for one, found in zip(x, instance.layer(x)[:, :, 0], strict=True):
        for row in range(4):
            if len(set(one[:, 0])) == 1:
                wanted = (bits % 2) * one[0, 0]
            else:
                wanted = (bits + 1) % 2 * one[row, 1]
                wanted += (-1) ** (bits + 1) * one[row, 1] ** (bits + 1) * np.prod(one[row, instance.secret])
            assert found[row] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("family", "parity"),
    [
        (ProfileFamily.two_slope(dim=8, bits=3), True),
        (ProfileFamily.two_slope(dim=8, bits=3, slopes=(0.01, 3.0)), True),
        (ProfileFamily.centre_threshold(dim=8, bits=4, heads_count=4), True),
        (ProfileFamily.designed_steps(dim=8, bits=4, heads_count=4), True),
        (ProfileFamily.bump(dim=6, bits=1), True),
        (ProfileFamily.two_slope(dim=8, bits=4), False),
        (ProfileFamily.bump(dim=8, bits=4), False),
        (ProfileFamily.centre_threshold(dim=8, bits=4, heads_count=2), False),
    ],
)
def test_a_profile_that_is_a_parity_is_known_as_one(family, parity):
    assert family.orthonormal == parity == (family.weights[-1] > 1 - 1e-9)
    assert (Word.GF2_ELIMINATION in family.broken_by) == parity
    assert (Word.SQUARES in family.broken_by) == (family.name == "sq-two-slope" and not parity)
    certificate = family.instance(0).certificate
    assert certificate["who breaks it"].value == family.broken_by
    assert (certificate.get(Key.BREAKING_QUERIES) is None) == parity
    if parity:
        gram = np.array([family.correlations(number) for number in range(family.secrets.size)])
        np.testing.assert_allclose(gram, np.eye(family.secrets.size), atol=1e-12)


FAMILIES = [
    *(ParityFamily(dim=9, bits=3, construction=one) for one in "ABCD"),
    PairFamily(dim=9),
    ProfileFamily.bump(dim=9, bits=4),
    ProfileFamily.two_slope(dim=9, bits=4),
    ProfileFamily.designed_steps(dim=9, bits=4, heads_count=3),
    ProfileFamily.centre_threshold(dim=9, bits=4),
    TokenParityFamily(dim=9, tokens=4, bits=3),
    HiddenGateFamily(base=ParityFamily(dim=9, bits=3)),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_every_family_speaks_the_protocol(family):
    assert isinstance(family, TargetFamily)
    instance = family.instance(rng=0)
    assert isinstance(instance, HardInstance)
    number = family.secrets.rank(instance.secret)
    np.testing.assert_array_equal(family.instance(number).layer.theta, instance.layer.theta)
    assert instance.inputs.tokens == family.tokens
    assert instance.layer.dim == family.dim == 9
    assert instance.family == family
    assert verify_instance(instance).holds
    assert instance.parameters["scale"] == family.scale
    assert instance.realisation_error > 0
    correlations = family.correlations(number)
    assert correlations.shape == (len(family.secrets),)
    assert correlations[number] == pytest.approx(1, abs=1e-12)
    assert np.abs(correlations).max() <= 1 + 1e-12
    if family.orthonormal:
        assert np.count_nonzero(correlations) == 1
    certificate = instance.certificate
    assert certificate["targets"].value == len(family.secrets)
    assert certificate["realisation error"].value == instance.realisation_error
    assert certificate["lowest degree of the unknown part"].value == family.lowest_degree
    assert FAMILIES_BY_NAME[family.name].from_json(instance.parameters) == family


@pytest.mark.parametrize("family", two_head_families(bits=4, dim=6), ids=lambda one: one.title)
def test_the_table_of_two_heads_says_what_its_families_are(family):
    first = 2 if family.tokens == 3 else 1
    bits = family.base.bits if isinstance(family, HiddenGateFamily) else family.bits
    gate = "d " if isinstance(family, HiddenGateFamily) else ""
    assert family.secrets.formula == f"{gate}C(d-{first}, {bits})"
    for dim in (6, 11, 40):
        own = next(one for one in two_head_families(bits=4, dim=dim) if one.title == family.title)
        assert own.secrets.size == math.comb(dim - first, bits) * (dim if gate else 1)
    assert family.instance(0).layer.heads == 2
    if family.tokens == 2:
        coefficients = walsh_hadamard(family.hidden(0, all_sign_matrices(2, 6))[:, 0])
        present = np.flatnonzero(np.abs(coefficients) > 1e-9)
        assert min(int(index).bit_count() for index in present) == family.lowest_degree


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
    assert parity_error(heads) < 3e-10


def test_certificate_counts_targets_and_queries():
    certificate = make_parity_instance(dim=40, heads=2, rng=0).certificate
    assert certificate["targets"].value == 9139
    for tau in ("0.3", "0.1", "0.05"):
        assert certificate[f"queries at tolerance {tau}"].value == query_lower_bound(9139, tau)
    assert certificate["queries at tolerance 0.1"].value == 93
    assert certificate["lowest degree of the unknown part"].value == 7
    assert certificate["Gram diagonal"].value == pytest.approx(47.0101, abs=5e-5)
    assert certificate["Gram off the diagonal"].value == pytest.approx(46.0101, abs=5e-5)
    assert "Gaussian elimination" in str(certificate)


def test_slopes_that_both_saturate_are_refused():
    with pytest.raises(ValueError, match="singular in float64; take slopes further apart"):
        parity_heads("D", bits=11, slopes=[0.5 * 3.0**i for i in range(6)])
