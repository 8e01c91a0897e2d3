import math
from fractions import Fraction

import numpy as np
import pytest

from sq import BumpFamily, CentreThresholdFamily, DesignedStepsFamily, TwoSlopeFamily
from sq.krawtchouk import fourier_coefficients, fourier_weights, overlap_correlations
from sq.profiles import designed_coefficients

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


def test_bump_in_the_middle_of_eight_bits():
    family = BumpFamily(dim=20, bits=8, at=4)
    assert family.scale**2 == pytest.approx(0.1987, abs=5e-5)
    assert family.scale**2 == pytest.approx(70 / 256 * (1 - 70 / 256), abs=1e-15)
    np.testing.assert_allclose(family.overlap_correlations[1:5], [0, 0.0077, 0.0230, 0.0488], atol=5e-5)
    assert family.weights[2] == pytest.approx(0.2151, abs=5e-5)
    np.testing.assert_array_equal(family.heads.thresholds, [3.5, 4.5])
    np.testing.assert_array_equal(family.heads.coefficients, [0.5, -0.5])
    assert family.c == 0
    assert family.weights[1] == 0
    assert BumpFamily(dim=20, bits=8, at=3).weights[1] > 0


def test_two_slopes_at_sixteen_bits():
    family = TwoSlopeFamily(dim=20, bits=16)
    assert family.heads.coefficients[1] == pytest.approx(-0.2627, abs=5e-5)
    assert family.weights[3] == pytest.approx(0.6066, abs=5e-5)
    assert family.weights[1] < 1e-25
    assert np.all(family.weights[2::2] < 1e-25)
    assert family.c0 == 0
    # squares are even about l/2: degree 2 is there
    assert fourier_weights(family.profile**2)[2] > 0.1


def test_designed_steps_at_six_bits_and_four_heads():
    family = DesignedStepsFamily(dim=20, bits=6, heads_count=4)
    np.testing.assert_array_equal(family.heads.thresholds, [0.5, 2.5, 3.5, 5.5])
    np.testing.assert_array_equal(family.heads.coefficients, [-1, 0.5, -0.5, 1])
    assert family.weights[4] == pytest.approx(0.7895, abs=5e-5)
    assert family.weights[4] == pytest.approx(15 / 19, rel=1e-14)
    assert family.overlap_correlations[4] == pytest.approx(0.0526, abs=5e-5)
    assert overlap_correlations([0, -2, -2, -1, -2, -2, 0])[4] == Fraction(1, 19)
    np.testing.assert_array_equal(family.profile, [0, -2, -2, -1, -2, -2, 0])
    assert np.all(family.weights[:4] == 0)


@pytest.mark.parametrize("bits", [1, 2, 5, 8, 11])
def test_designed_steps_have_lowest_degree_m_exactly_at_any_thresholds(bits):
    rng = np.random.default_rng(bits)
    for m in range(1, bits + 1):
        thresholds = np.sort(rng.choice(bits, size=m, replace=False)) + 0.5
        steps = designed_coefficients(bits, thresholds)
        # in fractions, on the steps themselves
        profile = [
            sum(c if n > t else -c for c, t in zip(steps, thresholds, strict=True)) for n in range(bits + 1)
        ]
        found = fourier_coefficients(profile)
        assert all(one == 0 for one in found[1:m])
        assert found[m] != 0
        default = DesignedStepsFamily(dim=bits + 1, bits=bits, heads_count=m)
        assert default.lowest_degree == 2 * m + 1
        assert sorted(bits - t for t in default.thresholds) == list(default.thresholds) or (bits - m) % 2


@pytest.mark.parametrize(
    ("m", "correlation", "second", "fit", "second_fit"),
    [
        (2, 0.4943, 0.130, 0.4943, 0.130),
        (4, 0.7324, 0.161, 0.7725, 0.043),
        (6, 0.8878, 0.083, 0.9110, 0.012),
        (8, 0.9654, 0.019, 0.9725, 0.002),
    ],
)
def test_centre_thresholds_approximate_the_parity_of_sixteen_bits(m, correlation, second, fit, second_fit):
    plain = CentreThresholdFamily(dim=20, bits=16, heads_count=m)
    assert plain.correlation_with_parity == pytest.approx(correlation, abs=5e-5)
    assert plain.weights[2] == pytest.approx(second, abs=5e-4)
    # two-valued: the parity up to a constant between the outermost thresholds
    assert len(set(plain.profile)) == 2
    inner = slice(8 - m // 2, 9 + m // 2)
    assert len(set((plain.profile - (-1.0) ** np.arange(17))[inner])) == 1
    best = CentreThresholdFamily(dim=20, bits=16, heads_count=m, steps="best-fit")
    assert best.correlation_with_parity == pytest.approx(fit, abs=5e-5)
    assert best.weights[2] == pytest.approx(second_fit, abs=5e-4)
    for family in (plain, best):
        binomial = np.array([math.comb(16, n) for n in range(17)]) / 2**16
        by_definition = binomial @ (family.normalised_profile * (-1.0) ** np.arange(17))
        assert abs(by_definition) == pytest.approx(family.correlation_with_parity, rel=1e-12)


@pytest.mark.parametrize(("bits", "m"), [(5, 3), (8, 4), (7, 1), (6, 6)])
def test_the_best_fit_is_the_projection_of_the_parity_on_the_steps(bits, m):
    family = CentreThresholdFamily(dim=bits + 1, bits=bits, heads_count=m, steps="best-fit")
    n = np.arange(bits + 1)
    weight = np.sqrt([math.comb(bits, int(one)) / 2**bits for one in n])
    steps = np.column_stack([np.ones(bits + 1), np.sign(n[:, None] - family.heads.thresholds)])
    parity = (-1.0) ** n
    coefficients, *_ = np.linalg.lstsq(weight[:, None] * steps, weight * parity, rcond=None)
    fitted = steps @ coefficients
    mean = weight**2 @ fitted
    deviation = np.sqrt(weight**2 @ (fitted - mean) ** 2)
    np.testing.assert_allclose(family.normalised_profile, (fitted - mean) / deviation, atol=1e-12)
    if m == bits:
        assert family.correlation_with_parity == pytest.approx(1, abs=1e-12)


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
