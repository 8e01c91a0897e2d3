import itertools
import math

import numpy as np
import pytest

from sq import HiddenGateFamily, ParityFamily, SecretSet, TwoSlopeFamily
from sq.secret_set import GateAndSecretSet

BASES = [
    ParityFamily(dim=5, bits=1),
    ParityFamily(dim=5, bits=2),
    ParityFamily(dim=5, bits=3),
    ParityFamily(dim=5, bits=3, construction="B"),
    ParityFamily(dim=5, bits=3, construction="C"),
    TwoSlopeFamily(dim=5, bits=3),
    TwoSlopeFamily(dim=5, bits=4),
]


def words(base):
    return f"{base.name}-{getattr(base, 'construction', '')}{base.bits}"


@pytest.mark.parametrize("base", BASES, ids=words)
def test_nothing_is_known_and_targets_of_different_gates_are_orthogonal_on_all_inputs(base, enumerated):
    family = HiddenGateFamily(base=base)
    assert len(family.secrets) == 5 * len(base.secrets) == 5 * math.comb(4, base.bits)
    checked = enumerated(family)
    assert checked.targets == len(family.secrets)
    assert checked.max_error < 1e-13
    assert checked.correlation_error < 1e-12
    for number in (0, len(family.secrets) - 1):
        instance = family.instance(number)
        assert instance.known.is_zero
        assert instance.layer.heads == len(base.heads) + 1 == len(family.heads)


def test_gates_and_secrets_are_numbered_without_gaps():
    secrets = GateAndSecretSet(dim=6, bits=2)
    wanted = [
        [gate, *one]
        for gate in range(6)
        for one in itertools.combinations([j for j in range(6) if j != gate], 2)
    ]
    assert secrets.table.tolist() == wanted
    assert len(secrets) == len(wanted) == 60
    for number, one in enumerate(wanted):
        assert secrets.unrank(number).tolist() == one
        assert secrets.rank(one) == secrets.rank([one[0], one[2], one[1]]) == number
        assert secrets.members[number].nonzero()[0].tolist() == one[1:]
    np.testing.assert_array_equal(secrets.overlaps([0, 1, 2]), [len({1, 2} & set(one[1:])) for one in wanted])
    assert isinstance(secrets, SecretSet)
