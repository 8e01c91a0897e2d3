import math

import numpy as np
import pytest

from lower import FAMILIES as FAMILIES_BY_NAME
from lower import HardInstance, all_sign_matrices, verify_instance
from lower.walsh import walsh_hadamard
from sq import (
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    ProfileFamily,
    TargetFamily,
    TokenParityFamily,
    two_head_families,
)

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
def test_the_table_of_two_heads_says_what_its_families_are(family, enumerated):
    first = 2 if family.tokens == 3 else 1
    bits = family.base.bits if isinstance(family, HiddenGateFamily) else family.bits
    gate = "d " if isinstance(family, HiddenGateFamily) else ""
    assert family.secrets.formula == f"{gate}C(d-{first}, {bits})"
    for dim in (6, 11, 40):
        own = next(one for one in two_head_families(bits=4, dim=dim) if one.title == family.title)
        assert own.secrets.size == math.comb(dim - first, bits) * (dim if gate else 1)
    assert family.instance(0).layer.heads == 2
    small = family if family.tokens == 2 else TokenParityFamily(dim=5)
    assert enumerated(small).correlation_error < 1e-10
    if family.tokens == 2:
        coefficients = walsh_hadamard(family.hidden(0, all_sign_matrices(2, 6))[:, 0])
        present = np.flatnonzero(np.abs(coefficients) > 1e-9)
        assert min(int(index).bit_count() for index in present) == family.lowest_degree


def test_the_hardest_two_head_family_is_the_parity_of_three_bits():
    families = two_head_families()
    assert families[0] == ParityFamily(dim=40, bits=3)
    degrees = [one.lowest_degree for one in families]
    assert (len(degrees), degrees) == (9, sorted(degrees, reverse=True))
    assert all(one.secrets.size < families[0].secrets.size == 9139 for one in families[1:] if one.orthonormal)
