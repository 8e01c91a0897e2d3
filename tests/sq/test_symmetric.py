import math

import numpy as np
import pytest

from sq import BumpFamily, CentreThresholdFamily, DesignedStepsFamily, TwoSlopeFamily

SMALL = [
    BumpFamily(dim=6, bits=4),
    BumpFamily(dim=6, bits=3, at=0),
    BumpFamily(dim=6, bits=2, at=2, beta=1.5),
    TwoSlopeFamily(dim=6, bits=3),
    TwoSlopeFamily(dim=6, bits=4, slopes=(0.3, 2.0)),
    DesignedStepsFamily(dim=6, bits=4, heads_count=3),
    DesignedStepsFamily(dim=6, bits=4, thresholds=(0.5, 1.5)),
    CentreThresholdFamily(dim=6, bits=4),
    CentreThresholdFamily(dim=6, bits=4, steps="best-fit"),
    CentreThresholdFamily(dim=6, bits=3, heads_count=1),
]


def words(family):
    return f"{family.name}-{family.dim}-{family.bits}"


@pytest.mark.parametrize("family", SMALL, ids=words)
def test_layers_and_correlations_are_as_defined_on_all_inputs(family, enumerated):
    checked = enumerated(family)
    assert checked.targets == math.comb(5, family.bits)
    assert checked.correlation_error < 1e-12
    if getattr(family, "beta", 40.0) == 40:
        assert checked.max_error < 1e-14


@pytest.mark.parametrize(
    ("family", "parity"),
    [
        (TwoSlopeFamily(dim=8, bits=3), True),
        (TwoSlopeFamily(dim=8, bits=3, slopes=(0.01, 3.0)), True),
        (CentreThresholdFamily(dim=8, bits=4, heads_count=4), True),
        (DesignedStepsFamily(dim=8, bits=4, heads_count=4), True),
        (BumpFamily(dim=6, bits=1), True),
        (TwoSlopeFamily(dim=8, bits=4), False),
        (BumpFamily(dim=8, bits=4), False),
        (CentreThresholdFamily(dim=8, bits=4, heads_count=2), False),
    ],
)
def test_a_profile_that_is_a_parity_is_known_as_one(family, parity):
    assert family.orthonormal == parity == (family.weights[-1] > 1 - 1e-9)
    assert ("elimination" in family.broken_by) == parity
    assert ("Squared labels" in family.how_broken) == (isinstance(family, TwoSlopeFamily) and not parity)
    statement = family.instance(0).certificate["who breaks it"]
    assert ("elimination" in statement.value) == parity
    if parity:
        gram = np.array([family.correlations(number) for number in range(family.secrets.size)])
        np.testing.assert_allclose(gram, np.eye(family.secrets.size), atol=1e-12)
