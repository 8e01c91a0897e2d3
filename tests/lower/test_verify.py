"""One instance held to its family: what is honest is verified, and every lie is found out."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import lwe
import sq
from arena import inspect
from attention import AttentionLayer, BooleanInputs, GaussianInputs, MarkedInputs
from lower import (
    Certificate,
    GatedKnownPart,
    HardInstance,
    LinearKnownPart,
    Statement,
    load_instance,
    save_instance,
    verify_instance,
)
from lwe import BinomialLaw, FlipLaw, SparseLaw, TernaryLaw, make_lwr_instance
from sq import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    HermiteStaircaseFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    PeriodicFamily,
    TokenParityFamily,
    TwoSlopeFamily,
)

HONEST = {
    "parity-A": lambda: ParityFamily(dim=7, bits=3, construction="A").instance(4),
    "parity-B": lambda: ParityFamily(dim=9, bits=4, construction="B").instance(3),
    "parity-C": lambda: ParityFamily(dim=8, bits=3, construction="C", beta=0.7).instance(9),
    "parity-D": lambda: ParityFamily(dim=9, bits=5).instance(10, direction=np.arange(1.0, 10.0)),
    "pair": lambda: PairFamily(dim=9, beta=0.3).instance(5, direction=np.cos(np.arange(9.0))),
    "bump": lambda: BumpFamily(dim=12, bits=9, at=0).instance(1),
    "designed-steps": lambda: DesignedStepsFamily(dim=9, bits=6, heads_count=4).instance(2),
    "centre-threshold": lambda: CentreThresholdFamily(
        dim=9, bits=5, heads_count=3, steps="best-fit"
    ).instance(1),
    "token-parity": lambda: TokenParityFamily(dim=7, tokens=4, bits=3, beta=9.0).instance(1),
    "hidden-gate-two-slope": lambda: HiddenGateFamily(base=TwoSlopeFamily(dim=8, bits=4)).instance(200),
    "periodic": lambda: PeriodicFamily(dim=6, gamma=0.7).instance(rng=3),
    "periodic-set": lambda: PeriodicFamily(dim=8, bits=3, gamma=0.5).instance(
        5, direction=np.arange(1.0, 9.0)
    ),
    "hermite-staircase": lambda: HermiteStaircaseFamily(dim=6, exponent=4).instance(rng=0),
    "lwr": lambda: make_lwr_instance(secret_dim=21, modulus=16, levels=4, rng=0),
    "lwr-gadget": lambda: make_lwr_instance(secret_dim=4, modulus=16, levels=2, matrix="gadget", rng=0),
    "lwr-ternary": lambda: make_lwr_instance(secret_dim=9, modulus=11, levels=3, matrix="ternary", rng=0),
    "lwr-truncated": lambda: make_lwr_instance(
        secret_dim=16, modulus=16, levels=4, rng=1, deviations=2.0, beta=7.0
    ),
    "lwe-noise": lambda: make_lwr_instance(
        secret_dim=9, modulus=17, levels=17, secret_law=TernaryLaw(), noise=BinomialLaw(2), rng=0
    ),
    "lpn": lambda: make_lwr_instance(
        secret_dim=12, modulus=2, levels=2, secret_law=SparseLaw(4), noise=FlipLaw(0.1), rng=0
    ),
}


def with_heads(instance, theta, w):
    """The instance with more heads."""
    layer = instance.layer
    layer = AttentionLayer(theta=np.concatenate([layer.theta, theta]), w=np.concatenate([layer.w, w]))
    return replace(instance, layer=layer)


def bent(instance, name, place, change):
    """The instance with one number of theta or w changed."""
    arrays = {"theta": instance.layer.theta.copy(), "w": instance.layer.w.copy()}
    arrays[name][place] += change
    return replace(instance, layer=AttentionLayer(**arrays))


def stating(instance, name, **changes):
    """The instance whose certificate says something else in the statement of that name."""
    statements = tuple(replace(one, **changes) if one.name == name else one for one in instance.certificate)
    return replace(instance, certificate=Certificate(instance.family, statements))


def saying(instance, **parameters):
    """The instance with other public parameters."""
    return replace(instance, parameters={**instance.parameters, **parameters})


# another value of the same kind
ANOTHER = {
    bool: lambda value: not value,
    int: lambda value: value + 1,
    float: lambda value: value * 1.001 + 1e-6,
    str: lambda value: f"{value}s",
    list: lambda value: [*value[:-1], changed_value(value[-1])],
    dict: lambda value: {**value, "bits": changed_value(value["bits"])},
    type(None): lambda value: 2,
}


def changed_value(value):
    return ANOTHER[type(value)](value)


def known_parts(instance):
    """Other known parts, by what is wrong with them."""
    k, d, known = instance.inputs.k, instance.layer.dim, instance.known
    sevens = LinearKnownPart(mixing=np.eye(k), projection=7 * np.eye(d))
    yield "7 X", sevens
    yield (
        "none" if not known.is_zero else "another",
        LinearKnownPart(mixing=np.zeros((k, k)), projection=np.eye(d)),
    )
    if isinstance(known, GatedKnownPart):
        yield "another gate", replace(known, gate=1)
        yield "7 X on the gate", replace(known, on=sevens)
    else:
        spoilt = known.mixing.copy()
        spoilt[0, 1] += 1e-6
        yield "mixing", LinearKnownPart(mixing=spoilt, projection=known.projection)
        yield "gated", GatedKnownPart(gate=0, on=known, off=known)


def forgeries(instance: HardInstance):
    """Every lie about an instance, named by what it is about."""
    for what, known in known_parts(instance):
        yield f"known part: {what}", replace(instance, known=known)
    for one in instance.certificate:
        yield f"certificate: value of {one.name}", stating(instance, one.name, value=changed_value(one.value))
        yield (
            f"certificate: text of {one.name}",
            stating(instance, one.name, meaning=f"{one.meaning} Really."),
        )
    first, *left = instance.certificate
    other = "measured" if first.status != "measured" else "proved"
    yield "certificate: evidence", stating(instance, first.name, status=other)
    yield "certificate: source", stating(instance, first.name, source="Somewhere")
    yield "certificate: one less", replace(instance, certificate=Certificate(instance.family, tuple(left)))
    more = (*instance.certificate, Statement("security", "128 bits", "It is safe.", "proved", "Nowhere"))
    yield "certificate: one more", replace(instance, certificate=Certificate(instance.family, more))
    theta, w = instance.layer.theta, instance.layer.w
    lax = stating(bent(instance, "theta", (0, 0, 0), 5e-3), "realisation error", value=0.9)
    yield "realisation error: .9 by the file itself", replace(lax, realisation_error=0.9)
    for error in (0.0, instance.realisation_error / 2, 1e-3):
        yield f"realisation error: {error}", replace(instance, realisation_error=error)
    for name, value in instance.parameters.items():
        yield f"parameter: {name}", saying(instance, **{name: changed_value(value)})
        yield f"parameter: {name} of another kind", saying(instance, **{name: {"what": "is this"}})
        kept = {key: one for key, one in instance.parameters.items() if key != name}
        yield f"parameter: no {name}", replace(instance, parameters=kept)
    yield "parameter: one more", saying(instance, security=128)
    d, zero = instance.layer.dim, np.zeros((2, instance.layer.dim, instance.layer.dim))
    yield "layer: a head of zeros", with_heads(instance, zero[:1], zero[:1])
    yield "layer: heads that cancel", with_heads(instance, zero, np.stack([np.eye(d), -np.eye(d)]))
    yield "layer: a head twice", with_heads(instance, theta[:1], w[:1])
    for name, one in (("theta", theta), ("w", w)):
        zeros, held = (tuple(int(place[-1]) for place in np.nonzero(where)) for where in (one == 0, one))
        yield f"layer: an entry of {name} that should be 0", bent(instance, name, zeros, 1e-9)
        yield f"layer: an entry of {name} in its last digits", bent(instance, name, held, 1e-12 * one[held])
    for secret in (
        -1 - np.abs(instance.secret),
        np.append(instance.secret, instance.secret[-1:]),
        instance.secret[:1][:, None],
        instance.secret + (np.arange(len(instance.secret)) == 0),
    ):
        yield f"secret: {secret}", replace(instance, secret=secret)
    normal = GaussianInputs(instance.inputs.k, instance.inputs.d)
    yield "inputs: Gaussian", replace(instance, inputs=normal)
    if isinstance(instance.inputs, MarkedInputs):
        marks = instance.inputs.positions * (1 + 1e-10)
        yield "inputs: other marks", replace(instance, inputs=replace(instance.inputs, positions=marks))
    tokens = LinearKnownPart.zero(instance.inputs.k + 1, d)
    yield "inputs: one token more", replace(instance, inputs=BooleanInputs(tokens.k, d), known=tokens)
    for family in ("sq-pair", "sq-parity", "lwr", "sq-bump", "mine"):
        if family != instance.family:
            certificate = replace(instance.certificate, family=family)
            yield f"family: {family}", replace(instance, family=family, certificate=certificate)


@cache
def honest(kind):
    return HONEST[kind]()


# families that differ from another only in their profile or their law
ALIKE = {
    "parity-A",
    "parity-B",
    "designed-steps",
    "centre-threshold",
    "lwr-ternary",
    "lwe-noise",
    "periodic-set",
}


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.slow if one in ALIKE else ()) for one in HONEST]
)
def test_every_forgery_is_refused_with_its_reasons(kind):
    found = {what: verify_instance(lie) for what, lie in forgeries(honest(kind))}
    assert len(found) > 50
    assert [what for what, one in found.items() if one.holds] == []
    assert all(str(one).startswith("NOT verified:\n  - ") for one in found.values())


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_instance_is_verified_before_and_after_its_file(kind, tmp_path):
    instance, path = honest(kind), tmp_path / "it.safetensors"
    found = verify_instance(instance)
    assert found.reasons == ()
    assert found.heads == instance.layer.heads
    assert found.realisation_error == pytest.approx(instance.realisation_error, rel=1e-9)
    save_instance(path, instance)
    assert verify_instance(load_instance(path)) == found
    assert json.loads(json.dumps(found.to_json())) == found.to_json()


def test_heads_that_are_made_wrongly_are_found(monkeypatch):
    made_rightly, heads_of = lwe.families.lwr_heads, sq.parities.parity_heads

    def shifted(*arguments, **named):
        heads = made_rightly(*arguments, **named)
        return replace(heads, thresholds=heads.thresholds + (np.arange(len(heads)) == 1))

    def halved(*arguments, **named):
        heads = heads_of(*arguments, **named)
        return replace(heads, coefficients=heads.coefficients / 2)

    instance = lwe.make_lwr_instance(secret_dim=9, modulus=32, levels=2, rng=0)
    monkeypatch.setattr(lwe.families, "lwr_heads", shifted)
    assert "are not labels" in str(verify_instance(instance))
    with pytest.raises(ValueError, match="are not labels"):
        lwe.make_lwr_instance(secret_dim=9, modulus=32, levels=2, rng=0)
    monkeypatch.setattr(sq.parities, "parity_heads", halved)
    made = ParityFamily(dim=8, bits=3, construction="B").instance(0)
    assert verify_instance(made).realisation_error > 0.4


def test_a_tensor_that_no_instance_has_is_a_reason(tmp_path):
    path = tmp_path / "it.safetensors"
    save_instance(path, honest("parity-B"))
    assert inspect(path, verify=True).holds
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    save_file({**tensors, "more": np.ones(3)}, path, metadata=metadata)
    found = inspect(path, verify=True).verification
    assert found.reasons == ("tensor more: an instance has none of that name",)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("about 1.35e-16 of 12.", True),
        ("about 1.36e-16 of 12.", True),
        ("about 1.39e-16 of 12.", False),
        ("about 1.35e-16 of 13.", False),
        ("about 1.35e-16 of all 12.", False),
        ("about 1.35e-16 of.", False),
    ],
)
def test_the_last_digit_of_a_rounded_number_in_a_text_may_differ_and_no_other(text, passes, monkeypatch):
    instance = stating(honest("bump"), "targets", meaning="about 1.35e-16 of 12.")
    monkeypatch.setattr(sq.BumpFamily, "statements", lambda *_: instance.certificate.statements)
    assert verify_instance(stating(instance, "targets", meaning=text)).holds == passes
