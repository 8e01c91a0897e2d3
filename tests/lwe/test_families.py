import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import load_instance, outward_context, save_instance
from lwe import (
    LARGEST_MODULUS,
    LWRParameters,
    covariate_form,
    lwr_staircase,
    make_lwr_instance,
    rounded,
    verify_lwr_instance,
)

CASES = [
    {"secret_dim": 24, "modulus": 64, "levels": 2},
    {"secret_dim": 24, "modulus": 64, "levels": 4},
    {"secret_dim": 12, "modulus": 17, "levels": 3},
    {"secret_dim": 40, "modulus": 4, "levels": 2},
    {"secret_dim": 8, "modulus": 251, "levels": 32},
    {"secret_dim": 9, "modulus": 2, "levels": 2},
    {"secret_dim": 6, "modulus": 8, "levels": 8},
    {"secret_dim": 5, "modulus": 128, "levels": 4, "gadget": True},
    {"secret_dim": 16, "modulus": 256, "levels": 2, "gadget": True},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_error_is_exactly_zero_on_and_off_the_gate(case):
    instance = make_lwr_instance(**case, rng=0)
    checked = verify_lwr_instance(instance, rng=1)
    assert checked.max_error == 0.0
    assert checked.covers_all_inputs
    assert checked.reachable_values > 1
    assert checked.gadget_identity is (True if case.get("gadget") else None)
    assert instance.known.is_zero
    assert instance.realisation_error < 1e-14


def test_every_input_of_small_instances():
    for seed in range(6):
        for modulus, levels in ((5, 3), (8, 2), (3, 2)):
            instance = make_lwr_instance(secret_dim=4, modulus=modulus, levels=levels, rng=seed)
            x = np.array(list(itertools.product([-1.0, 1.0], repeat=10))).reshape(-1, 2, 5)
            expected = np.zeros_like(x)
            for n, (first, second) in enumerate(x):
                t = sum(
                    int(v) for v, a, b in zip(instance.secret, first[1:], second[1:], strict=True) if a != b
                )
                if first[0] != second[0]:
                    value = (levels * (t % modulus)) // modulus - (levels - 1) / 2
                    expected[n, 0, 0], expected[n, 1, 0] = first[0] * value, second[0] * value
            np.testing.assert_array_equal(instance.layer(x), expected)


@given(
    form=st.lists(st.integers(-40, 40), min_size=1, max_size=6),
    modulus=st.integers(2, 40),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_staircase_with_pads_is_the_centred_label_at_every_value_and_zero_off_the_gate(form, modulus, data):
    levels = data.draw(st.integers(2, modulus))
    parameters = LWRParameters(secret_dim=len(form), modulus=modulus, levels=levels)
    stairs = lwr_staircase(np.array(form), parameters)
    t = stairs.reachable()
    np.testing.assert_array_equal(stairs.limit(t), rounded(t, modulus, levels) - (levels - 1) / 2)
    assert math.fsum(stairs.coefficients) == 0
    assert np.all(4 * stairs.coefficients == np.rint(4 * stairs.coefficients))
    # no head but the two pads stands where the label does not jump
    assert np.all(stairs.coefficients[1:-1] != 0)


def test_number_of_jumps_is_within_a_quarter_of_p_times_the_one_norm_over_q():
    counted = 0
    for seed in range(12):
        for case in CASES:
            instance = make_lwr_instance(**case, rng=seed)
            jumps = instance.layer.heads - 2
            if jumps < 8 or case["modulus"] == case["levels"] == 2:
                continue
            form = covariate_form(instance.secret, LWRParameters(**case))
            assert jumps == pytest.approx(case["levels"] * np.abs(form).sum() / case["modulus"], rel=0.25)
            counted += 1
    assert counted > 60


def test_gadget_of_dimension_16_modulus_256_has_mostly_60_to_71_heads():
    instance = make_lwr_instance(secret_dim=16, modulus=256, levels=2, gadget=True, rng=0)
    assert instance.layer.dim == 129
    assert 60 <= instance.layer.heads <= 71
    parameters = LWRParameters(secret_dim=16, modulus=256, levels=2, gadget=True)
    secrets = np.random.default_rng(0).integers(256, size=(300, 16))
    heads = np.array([lwr_staircase(covariate_form(one, parameters), parameters).heads for one in secrets])
    # E|2^i s mod q| is q/4 up to lower order, so p n / 4 + 2 = 66 heads on average, with a deviation of about 4
    assert heads.mean() == pytest.approx(66, abs=1)
    assert np.mean((heads >= 60) & (heads <= 71)) > 0.8


def test_finite_slope_error_is_below_its_bound():
    for beta in (2.5, 5.0, 12.0):
        instance = make_lwr_instance(secret_dim=6, modulus=8, levels=3, rng=0, beta=beta)
        checked = verify_lwr_instance(instance, rng=0)
        assert 0 < checked.max_error <= instance.realisation_error * (1 + 1e-9)
        assert instance.realisation_error == pytest.approx(
            4 * np.abs(instance.layer.w).max() * math.exp(-beta) / (1 - math.exp(-2 * beta)), rel=1e-9
        )


def test_a_zero_secret_gives_a_constant_on_the_gate():
    instance = make_lwr_instance(secret_dim=3, modulus=8, levels=2, secret=[0, 0, 0])
    assert instance.layer.heads == 2
    assert verify_lwr_instance(instance, rng=0).max_error == 0


def test_any_representative_of_the_secret_will_do():
    one = make_lwr_instance(secret_dim=3, modulus=8, levels=2, secret=[1, 4, 7])
    other = make_lwr_instance(secret_dim=3, modulus=8, levels=2, secret=[-7, -4, 15])
    np.testing.assert_array_equal(one.secret, [1, 4, -1])
    np.testing.assert_array_equal(one.secret, other.secret)
    np.testing.assert_array_equal(one.layer.theta, other.layer.theta)
    gadget = make_lwr_instance(secret_dim=3, modulus=8, levels=2, secret=[-7, -4, 15], gadget=True)
    np.testing.assert_array_equal(gadget.secret, [1, 4, 7])


def test_certificate_names_the_assumption_and_claims_no_security():
    for gadget, words in ((False, "binary public matrix"), (True, "power-of-two modulus")):
        certificate = make_lwr_instance(secret_dim=8, modulus=32, levels=2, gadget=gadget, rng=0).certificate
        assert words in certificate["assumption"].meaning
        assert "no claim of security" in certificate["what is claimed"].meaning
    assert (
        "hardly wraps"
        in make_lwr_instance(secret_dim=2, modulus=64, levels=2, rng=0).certificate["rho"].meaning
    )


@pytest.mark.parametrize("gadget", [False, True])
def test_files_keep_instances_bit_for_bit(tmp_path, gadget):
    instance = make_lwr_instance(secret_dim=6, modulus=16, levels=2, gadget=gadget, rng=0)
    save_instance(tmp_path / "one.safetensors", instance)
    again = load_instance(tmp_path / "one.safetensors")
    assert again.layer.theta.tobytes() == instance.layer.theta.tobytes()
    assert again.layer.w.tobytes() == instance.layer.w.tobytes()
    assert again.parameters == instance.parameters
    assert again.certificate == instance.certificate
    np.testing.assert_array_equal(again.secret, instance.secret)
    assert verify_lwr_instance(again, rng=0) == verify_lwr_instance(instance, rng=0)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"modulus": 1 << 40}, "smaller modulus"),
        ({"modulus": 1 << 22, "levels": 1 << 22}, "fewer levels"),
        ({"levels": 100}, "levels"),
        ({"modulus": 63, "gadget": True}, "power of two"),
        ({"secret": [1, 2]}, "secret"),
        ({"secret": [0.5] * 8}, "whole numbers"),
        ({"beta": -1.0}, "slope"),
    ],
)
def test_bad_arguments_are_explained(changes, word):
    with pytest.raises(ValueError, match=word):
        make_lwr_instance(**({"secret_dim": 8, "modulus": 64, "levels": 2} | changes))


@pytest.mark.parametrize("beta", [500.0, 1000.0, 1e6])
def test_a_proved_error_is_never_zero_by_underflow(beta):
    instance = make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0, beta=beta)
    assert instance.realisation_error > 0
    assert instance.certificate["realisation error"].value == instance.realisation_error
    assert verify_lwr_instance(instance, rng=0).holds


@pytest.mark.parametrize("beta", [2.6, 7.1, 40.0, 300.0])
def test_the_proved_error_is_at_least_the_closed_form_to_60_digits(beta):
    instance = make_lwr_instance(secret_dim=6, modulus=8, levels=3, rng=0, beta=beta)
    with localcontext(outward_context(60)):
        decay = (-Decimal(beta)).exp()
        closed = 4 * Decimal(float(np.abs(instance.layer.w).max())) * decay / (1 - decay**2)
        assert closed <= Decimal(instance.realisation_error) <= closed * Decimal("1.0000000001")


@pytest.mark.parametrize("beta", [1e-320, 1e-300, 1e-9, 0.5, 1.4, 1e300])
def test_slopes_too_small_or_vast_to_tell_labels_apart_are_explained(beta):
    with pytest.raises(ValueError, match="take a slope above"):
        make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0, beta=beta)


def test_every_made_instance_holds_down_to_the_least_slope():
    made = 0
    for beta in np.linspace(1.4, 3.5, 22):
        try:
            instance = make_lwr_instance(secret_dim=5, modulus=9, levels=3, rng=0, beta=float(beta))
        except ValueError:
            continue
        made += 1
        assert verify_lwr_instance(instance, rng=0, samples=50).holds
    assert 5 < made < 22


def test_the_certificate_says_that_float64_rounds():
    meaning = (
        make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0).certificate["realisation error"].meaning
    )
    assert "exact arithmetic" in meaning
    assert "eps sum|c|" in meaning


@pytest.mark.bad_input
@pytest.mark.parametrize("modulus", [(1 << 31) + 1, 10**21])
def test_moduli_beyond_64_bit_arithmetic_are_explained(modulus):
    with pytest.raises(ValueError, match=r"at most 2\^31"):
        make_lwr_instance(secret_dim=2, modulus=modulus, levels=2)
    assert LWRParameters(secret_dim=2, modulus=LARGEST_MODULUS, levels=LARGEST_MODULUS).modulus == 1 << 31
