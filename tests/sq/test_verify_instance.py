"""One instance against its family's definition: what is true passes, and whatever is changed is found."""

import dataclasses

import numpy as np
import pytest

from attention import AttentionLayer, GaussianInputs
from lower import Certificate, LinearKnownPart
from sq import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    ParityVerification,
    TokenParityFamily,
    TwoSlopeFamily,
    rebuild_family,
    verify_instance,
)

SMALL = {
    "parity": ParityFamily(dim=6, bits=3),
    "pair": PairFamily(dim=6, beta=0.3),
    "bump": BumpFamily(dim=6, bits=4, at=0),
    "two-slope": TwoSlopeFamily(dim=6, bits=3, slopes=(0.3, 2.0)),
    "designed-steps": DesignedStepsFamily(dim=6, bits=4, thresholds=(0.5, 2.5)),
    "centre-threshold": CentreThresholdFamily(dim=7, bits=5, heads_count=3, steps="best fit"),
    "token-parity": TokenParityFamily(dim=5, tokens=3, bits=2),
    "token-parity-odd": TokenParityFamily(dim=5, tokens=3, bits=1, beta=10.0),
    "hidden-gate": HiddenGateFamily(base=ParityFamily(dim=6, bits=3)),
    "hidden-gate-B": HiddenGateFamily(base=ParityFamily(dim=6, bits=3, construction="B")),
    "hidden-gate-C": HiddenGateFamily(base=ParityFamily(dim=6, bits=3, construction="C", beta=0.5)),
    "hidden-gate-one": HiddenGateFamily(base=ParityFamily(dim=6, bits=1, construction="B")),
    "hidden-gate-two-slope": HiddenGateFamily(base=TwoSlopeFamily(dim=6, bits=4)),
}
LARGE = {
    # N_S = 0 has probability 2^-16: no uniform sample of this size tells two secrets apart
    "bump": BumpFamily(dim=40, bits=16, at=0),
    "designed-steps": DesignedStepsFamily(dim=40, bits=16, heads_count=4),
    "centre-threshold": CentreThresholdFamily(dim=40, bits=16, heads_count=4),
    "two-slope": TwoSlopeFamily(dim=40, bits=16),
    "pair": PairFamily(dim=40),
    "token-parity": TokenParityFamily(dim=40, tokens=5, bits=3),
    "hidden-gate": HiddenGateFamily(base=TwoSlopeFamily(dim=40, bits=12)),
}


@pytest.mark.parametrize("kind", SMALL)
def test_the_family_is_that_of_the_parameters(kind):
    family = SMALL[kind]
    one, again = family.instance(2), rebuild_family(family.instance(2)).instance(2)
    np.testing.assert_allclose(again.layer.theta, one.layer.theta, rtol=1e-12)
    np.testing.assert_allclose(again.layer.w, one.layer.w, rtol=1e-12)
    assert again.parameters.keys() == one.parameters.keys()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow) if kind.startswith("hidden-gate") else kind
        for kind in SMALL
    ],
)
def test_exactly_its_own_secret_verifies(kind):
    family = SMALL[kind]
    instance = family.instance(2)
    passed = []
    for number in range(len(family.secrets)):
        found = verify_instance(dataclasses.replace(instance, secret=family.secrets.unrank(number)))
        assert found.exhaustive
        if found.holds:
            assert found.amplitude == pytest.approx(1)
            passed.append(number)
        else:
            # half of what two targets differ by at the least is what `separation` says
            assert found.max_error >= 2 * found.separation - 2 * found.allowed_error
    assert passed == [2]
    assert isinstance(found, ParityVerification) == (kind == "parity")


@pytest.mark.parametrize("kind", LARGE)
def test_a_neighbouring_secret_is_found_by_samples(kind):
    family = LARGE[kind]
    instance = family.instance(7)
    found = verify_instance(instance, rng=1)
    assert (found.holds, found.exhaustive, found.inputs_checked) == (True, False, 20_000)
    other = dataclasses.replace(instance, secret=family.secrets.unrank(8))
    lie = verify_instance(other, rng=1)
    assert not lie.holds
    assert not lie.contradictions
    assert "NOT verified" in str(lie)


def test_an_error_that_lets_another_secret_pass_proves_nothing():
    instance = dataclasses.replace(BumpFamily(dim=6, bits=4).instance(0), realisation_error=0.6)
    found = verify_instance(instance)
    assert not found.holds
    assert "do not tell this secret from another" in str(found)


def test_a_layer_of_other_numbers_is_found():
    instance = TwoSlopeFamily(dim=6, bits=4).instance(0)
    changed = AttentionLayer(theta=instance.layer.theta, w=1.001 * instance.layer.w)
    found = verify_instance(dataclasses.replace(instance, layer=changed))
    assert not found.holds
    assert found.amplitude == pytest.approx(1.001)
    holes = AttentionLayer(theta=instance.layer.theta, w=np.full_like(instance.layer.w, 1e308))
    with np.errstate(all="ignore"):
        assert not verify_instance(dataclasses.replace(instance, layer=holes)).holds


@pytest.mark.parametrize(
    ("name", "value"),
    [("profile", [0.0, 1.0, 0.0, 1.0, 0.0]), ("profile", [0.0]), ("profile", "none"), ("scale", 0.5)],
    ids=str,
)
def test_what_is_stated_must_be_the_family_s(name, value):
    instance = BumpFamily(dim=6, bits=4).instance(1)
    parameters = {**instance.parameters, name: value}
    found = verify_instance(dataclasses.replace(instance, parameters=parameters))
    assert not found.holds
    assert found.contradictions == (name,)
    assert found.to_json()["contradictions"] == [name]
    assert f"not its family's: {name}" in str(found)


def test_a_known_part_that_gives_the_secret_away_is_found():
    family = BumpFamily(dim=6, bits=4)
    instance = family.instance(1)
    mine = np.zeros((6, 6))
    mine[instance.secret[0], 1] = 1.0
    known = LinearKnownPart(mixing=np.full((2, 2), 0.5), projection=mine)
    # a head that attends to all tokens alike computes it, so that the layer is what the file says
    layer = AttentionLayer(
        theta=np.concatenate([instance.layer.theta, np.zeros((1, 6, 6))]),
        w=np.concatenate([instance.layer.w, mine[None]]),
    )
    own = instance.known

    class Both(LinearKnownPart):
        def __call__(self, x):
            return own(x) + known(x)

    both = Both(mixing=own.mixing, projection=own.projection)
    found = verify_instance(dataclasses.replace(instance, layer=layer, known=both))
    assert found.max_error <= found.allowed_error
    assert found.contradictions == ("known part",)
    assert not found.holds


def test_a_pair_has_its_order():
    instance = PairFamily(dim=6).instance(3)
    found = verify_instance(dataclasses.replace(instance, secret=instance.secret[::-1].copy()))
    assert found.contradictions == ("order of the secret",)


@pytest.mark.bad_input
def test_what_describes_no_family_is_a_sentence():
    instance = BumpFamily(dim=6, bits=4).instance(0)

    def changed(**parameters):
        return dataclasses.replace(instance, parameters={**instance.parameters, **parameters})

    stranger = dataclasses.replace(instance, family="mine", certificate=Certificate("mine", ()))
    with pytest.raises(ValueError, match="one of sq-parity, sq-pair, sq-bump"):
        verify_instance(stranger)
    with pytest.raises(ValueError, match="do not describe a family sq-bump"):
        verify_instance(changed(slopes=[]))
    with pytest.raises(ValueError, match="at is 9"):
        verify_instance(changed(at=9))
    with pytest.raises(ValueError, match="a finite number is needed"):
        verify_instance(changed(scale=[1.0, {}]))
    with pytest.raises(ValueError, match="direction has norm 2"):
        verify_instance(changed(direction=[2.0, 0, 0, 0, 0, 0]))
    with pytest.raises(ValueError, match="Boolean"):
        verify_instance(dataclasses.replace(instance, inputs=GaussianInputs(2, 6)))
    with pytest.raises(ValueError, match="distinct coordinates from 1"):
        verify_instance(dataclasses.replace(instance, secret=np.array([0, 1, 2, 3])))
    nothing = {name: one for name, one in instance.parameters.items() if name != "at"}
    with pytest.raises(ValueError, match="'at'"):
        verify_instance(dataclasses.replace(instance, parameters=nothing))


@pytest.mark.parametrize("kind", ["bump", "token-parity", "hidden-gate", "pair"])
def test_any_direction_will_do(kind):
    direction = np.arange(1.0, SMALL[kind].dim + 1)
    instance = SMALL[kind].instance(1, direction=direction)
    found = verify_instance(instance)
    assert found.holds
    stated = (direction / np.linalg.norm(direction)).tolist()[::-1]
    turned = dataclasses.replace(instance, parameters={**instance.parameters, "direction": stated})
    assert not verify_instance(turned).holds
