import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import AttentionLayer
from lower import load_instance, save_instance
from lwe.families import make_lwr_instance
from lwe.parameters import LWRParameters, covariate_form
from lwe.verify import attaining_covariates, gadget_residues, verify_lwr_instance


@given(st.lists(st.integers(-12, 12), min_size=1, max_size=7))
def test_every_value_of_the_inner_product_is_attained_once(form):
    sums = sorted({int(np.dot(a, form)) for a in itertools.product([0, 1], repeat=len(form))})
    covariates = attaining_covariates(np.array(form))
    assert set(np.unique(covariates)) <= {0, 1}
    np.testing.assert_array_equal(covariates @ np.array(form), sums)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5))
def test_every_value_of_ternary_covariates_is_attained_once(form):
    sums = sorted({int(np.dot(a, form)) for a in itertools.product([-1, 0, 1], repeat=len(form))})
    covariates = attaining_covariates(np.array(form), ternary=True)
    assert set(np.unique(covariates)) <= {-1, 0, 1}
    np.testing.assert_array_equal(covariates @ np.array(form), sums)


def test_layers_said_to_have_another_matrix_or_range_are_seen():
    for own, said in (("ternary", "binary"), ("binary", "ternary")):
        instance = make_lwr_instance(secret_dim=5, modulus=8, levels=2, matrix=own, rng=1)
        checked = verify_lwr_instance(
            dataclasses.replace(instance, parameters={**instance.parameters, "matrix": said}), rng=0
        )
        assert not checked.holds
    cut = make_lwr_instance(secret_dim=12, modulus=16, levels=4, rng=1, deviations=2.0)
    for deviations in (None, 3.0):
        wider = {**cut.parameters, "deviations": deviations}
        assert not verify_lwr_instance(dataclasses.replace(cut, parameters=wider), rng=0).holds


@pytest.mark.parametrize(("secret_dim", "modulus"), [(16, 256), (5, 8), (3, 2), (7, 1024)])
def test_gadget_identity_is_exact(secret_dim, modulus):
    rng = np.random.default_rng(secret_dim)
    parameters = LWRParameters(secret_dim=secret_dim, modulus=modulus, levels=2, matrix="gadget")
    secret = rng.integers(modulus, size=secret_dim)
    a = rng.integers(2, size=(5000, parameters.covariates))
    form = covariate_form(secret, parameters)
    np.testing.assert_array_equal(np.mod(a @ form, modulus), gadget_residues(a, secret, modulus))
    one_by_one = [
        sum(
            int(s) * sum(int(bit) * 2**i for i, bit in enumerate(digits))
            for s, digits in zip(secret, row.reshape(secret_dim, -1), strict=True)
        )
        % modulus
        for row in a[:50]
    ]
    np.testing.assert_array_equal(gadget_residues(a[:50], secret, modulus), one_by_one)


def bent(instance, **entries):
    theta, w = instance.layer.theta.copy(), instance.layer.w.copy()
    for name, (index, change) in entries.items():
        {"theta": theta, "w": w}[name][index] += change
    return dataclasses.replace(instance, layer=AttentionLayer(theta=theta, w=w))


@pytest.mark.parametrize("matrix", ["binary", "ternary", pytest.param("gadget", marks=pytest.mark.slow)])
def test_wrong_layers_are_seen(matrix):
    instance = make_lwr_instance(secret_dim=10, modulus=32, levels=2, matrix=matrix, rng=0)
    assert verify_lwr_instance(instance, rng=0).max_error == 0
    for head in range(1, instance.layer.heads - 1, 2):
        shifted = bent(instance, theta=((head, 0, 0), -40.0))  # one threshold one higher
        assert verify_lwr_instance(shifted, rng=0, samples=0).max_error > 0
        assert verify_lwr_instance(bent(instance, w=((head, 0, 0), 0.25)), rng=0).max_error > 0
    other = make_lwr_instance(secret_dim=10, modulus=32, levels=2, matrix=matrix, rng=1)
    swapped = dataclasses.replace(instance, secret=other.secret)
    checked = verify_lwr_instance(swapped, rng=0)
    assert checked.max_error >= 1
    if matrix == "gadget":
        assert checked.gadget_identity is False


def test_a_jump_at_a_rare_value_alone_is_seen():
    # the highest reachable value of 24 covariates has probability 2^-24: only covering every value finds it
    instance = make_lwr_instance(secret_dim=24, modulus=64, levels=2, rng=0)
    top = 40.0 * instance.secret[instance.secret > 0].sum()
    pad = instance.layer.heads - 1
    lowered = bent(instance, theta=((pad, 0, 0), 40.0))
    assert instance.layer.theta[pad, 0, 0] == -(top + 20.0)
    assert verify_lwr_instance(lowered, rng=0).max_error > 0


def test_layers_of_another_structure_are_not_called_covered():
    instance = make_lwr_instance(secret_dim=10, modulus=32, levels=2, rng=0)
    for changed in (
        bent(instance, theta=((0, 3, 4), 1.0)),
        bent(instance, theta=((1, 3, 3), 40.0)),
        bent(instance, theta=((1, 0, 0), 0.1)),
        bent(instance, w=((0, 2, 0), 1.0)),
    ):
        checked = verify_lwr_instance(changed, rng=0)
        assert not checked.covers_all_inputs
        assert "does not cover" in str(checked)
    small = make_lwr_instance(secret_dim=4, modulus=8, levels=2, rng=0)
    off_form = verify_lwr_instance(bent(small, theta=((0, 3, 4), 1.0)), rng=0)
    assert off_form.covers_all_inputs
    assert off_form.inputs_checked >= 2**10


def test_other_families_are_refused():
    instance = make_lwr_instance(secret_dim=4, modulus=8, levels=2, rng=0)
    certificate = dataclasses.replace(instance.certificate, family="other")
    with pytest.raises(ValueError, match="lwr"):
        verify_lwr_instance(dataclasses.replace(instance, family="other", certificate=certificate))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "changes",
    [
        {"modulus": 7.5},
        {"modulus": None},
        {"gate": 9},
        {"gate": "x"},
        {"beta": 0},
        {"beta": []},
        {"levels": 9},
        {"secret_dim": 5},
        {"matrix": "gadget"},
        {"matrix": "uniform"},
        {"matrix": ["binary"]},
        {"secret": "tern"},
        {"secret": 3},
        {"noise": {"kind": "flip"}},
        {"deviations": 0.5},
        {"deviations": "six"},
    ],
)
def test_instances_that_contradict_themselves_are_explained(changes):
    instance = make_lwr_instance(secret_dim=4, modulus=8, levels=2, rng=0)
    with pytest.raises(ValueError, match=r"needed|fit|at most|other numbers"):
        verify_lwr_instance(dataclasses.replace(instance, parameters={**instance.parameters, **changes}))


def test_secrets_that_do_not_fit_and_missing_parameters_are_explained():
    instance = make_lwr_instance(secret_dim=4, modulus=8, levels=2, rng=0)
    with pytest.raises(ValueError, match="needed"):
        verify_lwr_instance(dataclasses.replace(instance, secret=np.array([[1, 99]])))
    with pytest.raises(ValueError):
        verify_lwr_instance(dataclasses.replace(instance, parameters={}))


CASES = [
    {"secret_dim": 10, "modulus": 32, "levels": 2},
    {"secret_dim": 5, "modulus": 16, "levels": 4, "matrix": "gadget"},
    {"secret_dim": 6, "modulus": 11, "levels": 3, "matrix": "ternary"},
    {"secret_dim": 9, "modulus": 11, "levels": 3, "deviations": 2.0},
    {"secret_dim": 6, "modulus": 8, "levels": 3, "beta": 2.6},
    {"secret_dim": 1, "modulus": 8, "levels": 2, "secret": [1]},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_made_instances_hold_and_those_with_another_secret_do_not(tmp_path, case):
    instance = make_lwr_instance(**case, rng=0)
    good = verify_lwr_instance(instance, rng=0)
    assert good.holds
    assert good.secret_matches
    assert str(good).startswith("Verified: ")
    assert good.reachable_values > 1
    for place in range(case["secret_dim"]):
        secret = instance.secret.copy()
        secret[place] += 1
        save_instance(tmp_path / "other.safetensors", dataclasses.replace(instance, secret=secret))
        other = verify_lwr_instance(load_instance(tmp_path / "other.safetensors"), rng=0)
        assert not other.holds
        assert str(other).startswith("NOT verified: ")


def test_a_secret_with_the_same_labels_is_another_secret_nevertheless():
    instance = make_lwr_instance(secret_dim=1, modulus=8, levels=2, secret=[1])
    twin = verify_lwr_instance(dataclasses.replace(instance, secret=np.array([2])), rng=0)
    assert twin.max_error == 0
    assert twin.secret_matches is False
    assert not twin.holds
    assert "another secret" in str(twin)


def test_values_are_counted_at_slopes_that_are_no_whole_numbers():
    one, other = (
        make_lwr_instance(secret_dim=5, modulus=8, levels=2, rng=0, beta=beta) for beta in (40.0, 3.3)
    )
    counted = [verify_lwr_instance(instance, rng=0).reachable_values for instance in (one, other)]
    assert counted[0] == counted[1] == len(attaining_covariates(one.secret))


def test_allowed_errors_that_do_not_tell_labels_apart_do_not_hold():
    instance = make_lwr_instance(secret_dim=5, modulus=8, levels=2, rng=0)
    lax = verify_lwr_instance(dataclasses.replace(instance, realisation_error=0.7), rng=0)
    assert not lax.holds
    assert "does not tell labels apart" in str(lax)


def test_a_verification_is_plain_json():
    for case in CASES[:2]:
        checked = verify_lwr_instance(make_lwr_instance(**case, rng=0), rng=0)
        data = checked.to_json()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert data == {"holds": True, **dataclasses.asdict(checked)}
    broken = dataclasses.replace(checked, max_error=float("nan"))
    assert not broken.holds
    assert json.loads(json.dumps(broken.to_json(), allow_nan=False))["max_error"] is None


@pytest.mark.bad_input
def test_forms_and_bits_that_do_not_fit_are_explained():
    for form in (np.array([0.5]), np.array([[1]])):
        with pytest.raises(ValueError, match="The form has"):
            attaining_covariates(form)
    with pytest.raises(ValueError, match=r"at most 2\^24"):
        attaining_covariates(np.array([1 << 24, 1]))
    for bits, modulus in (([[0, 1]], 8), ([[0, 1, 1]], 6), ([0, 1, 1], 8)):
        with pytest.raises(ValueError, match="a power of two"):
            gadget_residues(np.array(bits), np.array([3]), modulus)


def test_sizes_that_sum_to_a_multiple_of_two_to_the_64_are_no_small_ones():
    with pytest.raises(ValueError, match=r"sum to 18446744073709551616"):
        attaining_covariates(np.full(16, 2**60))


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64", "float64", "bool"])
def test_residues_of_bits_of_any_type_are_exact(dtype):
    bits, secret = np.ones((1, 62)), np.array([2**30 - 1, 3])
    assert gadget_residues(bits.astype(dtype), secret, 2**31).tolist() == [(2**31 - 1) * (2**30 + 2) % 2**31]


@pytest.mark.bad_input
def test_bits_are_0_or_1():
    with pytest.raises(ValueError, match="only 0 and 1 are allowed"):
        gadget_residues(np.array([[0, 2]]), np.array([1]), 4)
