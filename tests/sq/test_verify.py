import dataclasses
import json

import numpy as np
import pytest

from attention import AttentionLayer
from lower import LinearKnownPart, all_sign_matrices, load_instance, save_instance
from sq import (
    BumpFamily,
    ParityFamily,
    TokenParityFamily,
    is_parity_realisation,
    make_parity_instance,
    parity_target,
    verify_family,
    verify_parity_instance,
)


def test_target_is_the_definition_one_input_at_a_time():
    rng = np.random.default_rng(0)
    x, w, known = all_sign_matrices(2, 4), rng.standard_normal(4), LinearKnownPart.zero(2, 4)
    target = parity_target(x, [1, 3], known=known, gate=2, direction=w)
    for one, given in zip(x, target, strict=True):
        sign = 1.0
        for j in (1, 3):
            sign *= one[0, j] * one[1, j]
        u = (one[0, 2] - one[1, 2]) / 2
        np.testing.assert_array_equal(given, u * sign * np.array([w, -w]))


def test_a_wrong_secret_weight_or_known_part_is_seen():
    instance = make_parity_instance(dim=6, heads=2, secret=[1, 2, 3])
    assert is_parity_realisation(instance.layer, [3, 2, 1], known=instance.known)
    assert not is_parity_realisation(instance.layer, [1, 2, 4], known=instance.known)
    assert not is_parity_realisation(instance.layer, [1, 2], known=instance.known)
    assert not is_parity_realisation(instance.layer, [1, 2, 3], known=LinearKnownPart.zero(2, 6))
    assert not is_parity_realisation(instance.layer, [1, 2, 3], known=instance.known, gate=4)
    theta = instance.layer.theta.copy()
    theta[0, 5, 5] += 1e-3
    bent = AttentionLayer(theta=theta, w=instance.layer.w)
    assert not is_parity_realisation(bent, [1, 2, 3], known=instance.known)
    checked = verify_parity_instance(dataclasses.replace(instance, layer=bent))
    assert checked.max_error > 1e-4
    assert "all" in str(checked)


def test_large_instances_are_checked_on_random_inputs():
    instance = make_parity_instance(dim=30, bits=4, construction="B", rng=0)
    checked = verify_parity_instance(instance, rng=0, samples=5000)
    assert not checked.exhaustive
    assert checked.inputs_checked == 5000
    assert checked.max_error == 0
    other = dataclasses.replace(instance, secret=np.array([1, 2, 3, 4]))
    assert verify_parity_instance(other, rng=0, samples=5000).max_error > 1
    assert abs(verify_parity_instance(other, rng=0, samples=5000).amplitude) < 4 / np.sqrt(2500)


def test_other_families_are_refused():
    instance = make_parity_instance(dim=6, heads=2, rng=0)
    certificate = dataclasses.replace(instance.certificate, family="other")
    with pytest.raises(ValueError, match="sq-parity"):
        verify_parity_instance(dataclasses.replace(instance, family="other", certificate=certificate))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "changes",
    [
        {"gate": 6},
        {"gate": "x"},
        {"gate": None},
        {"direction": [1.0]},
        {"direction": "w"},
        {"direction": [[1], 2]},
    ],
)
def test_instances_that_contradict_themselves_are_explained(changes):
    instance = make_parity_instance(dim=6, heads=2, rng=0)
    with pytest.raises(ValueError, match=r"needed|fit|at most"):
        verify_parity_instance(dataclasses.replace(instance, parameters={**instance.parameters, **changes}))


def test_secrets_that_do_not_fit_and_missing_parameters_are_explained():
    instance = make_parity_instance(dim=6, heads=2, rng=0)
    with pytest.raises(ValueError, match="needed"):
        verify_parity_instance(dataclasses.replace(instance, secret=np.array([[1, 99]])))
    with pytest.raises(ValueError):
        verify_parity_instance(dataclasses.replace(instance, parameters={}))


@pytest.mark.parametrize("construction", ["A", "B", "C", "D"])
@pytest.mark.parametrize(("dim", "bits"), [(6, 3), (6, 5), (30, 3), (30, 11)])
def test_made_instances_hold_and_those_with_another_secret_do_not(tmp_path, construction, dim, bits):
    instance = make_parity_instance(
        dim=dim, bits=bits, construction=construction, rng=0, direction=np.arange(1.0, dim + 1)
    )
    good = verify_parity_instance(instance, rng=0, samples=2000)
    assert good.holds
    assert str(good).startswith("Verified: ")
    assert good.allowed_error < 1e-10
    for secret in (
        np.setdiff1d(np.arange(1, dim), instance.secret)[:bits],
        instance.secret[:-1],
        np.append(instance.secret[:-1], 1 + (instance.secret[-1] % (dim - 1))),
    ):
        if len(secret) == 0 or set(secret) == set(instance.secret):
            continue
        save_instance(tmp_path / "other.safetensors", dataclasses.replace(instance, secret=secret))
        other = verify_parity_instance(load_instance(tmp_path / "other.safetensors"), rng=0, samples=2000)
        assert not other.holds
        assert str(other).startswith("NOT verified: ")


def test_allowed_errors_that_would_let_another_secret_pass_do_not_hold():
    instance = make_parity_instance(dim=6, heads=2, rng=0)
    lax = verify_parity_instance(dataclasses.replace(instance, realisation_error=10.0))
    assert lax.max_error <= lax.allowed_error
    assert not lax.holds
    assert "do not tell" in str(lax)
    finite = make_parity_instance(dim=6, bits=2, construction="B", beta=2.0, rng=0)
    assert verify_parity_instance(finite).holds


def test_a_sample_that_misses_the_gate_verifies_nothing():
    instance = make_parity_instance(dim=20, heads=2, rng=0)
    verdicts = {
        (checked.amplitude != 0, checked.holds)
        for checked in (verify_parity_instance(instance, rng=seed, samples=1) for seed in range(20))
    }
    assert verdicts == {(True, True), (False, False)}


def test_a_verification_is_plain_json():
    checked = verify_parity_instance(make_parity_instance(dim=5, heads=2, rng=0))
    data = checked.to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data == {"holds": True, **dataclasses.asdict(checked)}
    broken = dataclasses.replace(checked, max_error=float("nan"))
    assert not broken.holds
    assert json.loads(json.dumps(broken.to_json(), allow_nan=False))["max_error"] is None


def family_with(**changes):
    """A family that says something else than it does."""
    made = type("Changed", (BumpFamily,), changes)
    return made(dim=6, bits=4)


def test_a_family_is_seen_to_be_what_it_says():
    checked = verify_family(BumpFamily(dim=6, bits=4))
    assert checked.holds
    assert str(checked).startswith("Verified: 5 targets on 4096 inputs (all inputs)")
    data = checked.to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert dataclasses.replace(checked, max_error=float("nan")).to_json()["max_error"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"correlations": lambda self, number: np.eye(5)[number]},
        {"correlations": lambda self, number: 0.999 * BumpFamily.correlations(self, number)},
        {"hidden": lambda self, number, x: 0.5 * BumpFamily.hidden(self, number, x)},
        {"hidden": lambda self, number, x: BumpFamily.hidden(self, (number + 1) % 5, x)},
        {"instance": lambda self, number=None: BumpFamily.instance(self, (number + 1) % 5)},
        {"hidden": lambda self, number, x: np.full((len(x), 2), np.nan)},
    ],
)
def test_a_family_whose_parts_disagree_is_not_verified(changes):
    checked = verify_family(family_with(**changes))
    assert not checked.holds
    assert str(checked).startswith("NOT verified")


def test_on_random_inputs_a_wrong_closed_form_leaves_its_interval():
    class Wrong(BumpFamily):
        def correlations(self, number):
            return BumpFamily.correlations(self, number) + 0.2 * (np.arange(len(self.secrets)) != number)

    checked = verify_family(Wrong(dim=14, bits=4), targets=6, samples=4000, rng=0)
    assert not checked.exhaustive
    assert not checked.holds
    assert checked.correlation_error > checked.allowed_correlation_error
    assert verify_family(BumpFamily(dim=14, bits=4), targets=6, samples=4000, rng=0).holds


@pytest.mark.slow
def test_intervals_shrink_with_the_samples_and_hold_as_often_as_they_say():
    family = ParityFamily(dim=12, bits=2)
    checks = [verify_family(family, targets=4, samples=400, confidence=0.5, rng=seed) for seed in range(40)]
    assert np.mean([one.correlations_hold for one in checks]) > 0.5
    wide, narrow = (
        verify_family(family, targets=4, samples=n, rng=0).allowed_correlation_error for n in (1000, 9000)
    )
    assert wide / 9 < narrow < wide / 2.9


def test_rare_events_that_a_sample_misses_are_within_its_intervals():
    # with 16 tokens an input off the gate comes once in 32768: the sample's variance is 0
    checked = verify_family(TokenParityFamily(dim=9, tokens=16, bits=2), targets=3, samples=500, rng=0)
    assert checked.holds
    assert checked.correlation_error > 1e-5


@pytest.mark.bad_input
def test_verifications_out_of_range_are_explained():
    family = BumpFamily(dim=6, bits=4)
    for arguments, word in (
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"targets": 0}, "targets is 0"),
    ):
        with pytest.raises(ValueError, match=word):
            verify_family(family, **arguments)
    with pytest.raises(ValueError, match="samples is 1"):
        verify_family(BumpFamily(dim=10, bits=4), samples=1)
    silent = family_with(
        instance=lambda self, number=None: dataclasses.replace(
            BumpFamily.instance(self, number), parameters={}
        )
    )
    with pytest.raises(ValueError, match="direction"):
        verify_family(silent)
