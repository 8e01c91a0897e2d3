import math

import numpy as np
import pytest
from scipy.linalg import hadamard

import sq
from lower import HardInstance, all_sign_matrices
from sq import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    TargetFamily,
    TokenParityFamily,
    TwoSlopeFamily,
    two_head_families,
)

FAMILIES = [
    *(ParityFamily(dim=9, bits=3, construction=one) for one in "ABCD"),
    PairFamily(dim=9),
    BumpFamily(dim=9, bits=4),
    TwoSlopeFamily(dim=9, bits=4),
    DesignedStepsFamily(dim=9, bits=4, heads_count=3),
    CentreThresholdFamily(dim=9, bits=4),
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
    assert instance.inputs.k == family.tokens
    assert instance.layer.dim == family.dim == 9
    assert instance.family == f"sq-{family.name}"
    assert instance.parameters.get("scale", 1.0) == family.scale
    assert instance.realisation_error > 0
    x = instance.inputs.sample(300, rng=1)
    hidden = family.hidden(number, x)
    target = instance.known(x) + family.scale * hidden[..., None] * np.array(instance.parameters["direction"])
    assert np.linalg.norm(instance.layer(x) - target, axis=-1).max() <= instance.allowed_error
    correlations = family.correlations(number)
    assert correlations.shape == (len(family.secrets),)
    assert correlations[number] == pytest.approx(1, abs=1e-12)
    assert np.abs(correlations).max() <= 1 + 1e-12
    if family.orthonormal:
        assert np.count_nonzero(correlations) == 1
    certificate = instance.certificate
    assert certificate["targets"].value == len(family.secrets)
    assert certificate["realisation error"].value == instance.realisation_error
    assert (
        certificate["lowest degree of the unknown part"].value == family.lowest_degree
        if family.name != "pair"
        else True
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_families_are_values(family):
    assert family == type(family)(**{name: getattr(family, name) for name in family.__dataclass_fields__})
    with pytest.raises(AttributeError):
        family.dim = 3


FORMULAS = {
    "C(d-1, 3)": lambda d: math.comb(d - 1, 3),
    "C(d-1, 2)": lambda d: math.comb(d - 1, 2),
    "C(d-2, 2)": lambda d: math.comb(d - 2, 2),
    "C(d-1, 4), any l": lambda d: math.comb(d - 1, 4),
    "d (d-1)": lambda d: d * (d - 1),
    "d-1": lambda d: d - 1,
}


@pytest.mark.parametrize("row", two_head_families(bits=4).rows, ids=lambda one: one.name)
def test_the_table_of_two_heads_says_what_its_families_are(row, enumerated):
    for dim in (6, 11, 40):
        assert row.targets(dim) == FORMULAS[row.formula](dim)
    dim = 5 if row.make(6).tokens == 3 else 6
    family = row.make(dim)
    assert family.instance(0).layer.heads == 2
    assert enumerated(family).correlation_error < 1e-10
    assert family.lowest_degree == row.lowest_degree
    if family.tokens == 2:
        coefficients = hadamard(4096) @ family.hidden(0, all_sign_matrices(2, 6))[:, 0] / 4096
        present = np.flatnonzero(np.abs(coefficients) > 1e-9)
        assert min(int(index).bit_count() for index in present) == row.lowest_degree


def test_the_hardest_two_head_family_is_the_parity_of_three_bits():
    families = two_head_families()
    assert families[0].name == "parity D, l = 3"
    assert families[0].targets(40) == 9139
    degrees = [one.lowest_degree for one in families]
    assert degrees == sorted(degrees, reverse=True)
    # of the families whose targets are orthogonal it has the highest degree and the most targets
    orthogonal = [one for one in families if one.make(40).orthonormal]
    assert max(orthogonal, key=lambda one: (one.lowest_degree, one.targets(40))) == families[0]
    assert all(one.targets(40) < 9139 for one in orthogonal[1:])
    assert len(families) == len(list(families)) == 9


def test_the_table_prints_a_line_a_family():
    lines = str(two_head_families(dim=20)).splitlines()
    assert len(lines) == 2 + len(two_head_families())
    assert lines[0].split() == [
        "family",
        "targets",
        "d",
        "=",
        "20",
        "lowest",
        "degree",
        "broken",
        "by",
        "source",
    ]
    assert "969" in lines[2]
    assert all(line == line.rstrip() and len(line) < 200 for line in lines)


def test_all_families_and_the_maker_of_parities_are_public_names():
    for name in sq.families.__all__:
        assert getattr(sq, name) is getattr(sq.families, name)
        assert name in sq.__all__


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: two_head_families(bits=5), "bits is 5: an even number of at least 4"),
        (lambda: two_head_families(bits=2), "bits is 2: a whole number of at least 4"),
        (lambda: two_head_families(dim=8), "dim is 8: more than the 8 bits"),
        (lambda: two_head_families()[0].targets(3), "at most 2 of the coordinates"),
    ],
)
def test_arguments_out_of_range_are_explained(call, word):
    with pytest.raises(ValueError, match=word):
        call()
