"""One instance held to its family: what is honest is verified, and every lie is found out."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import lwe
import sq
from arena import inspect, load_target
from attention import AttentionLayer, BooleanInputs, GaussianInputs
from attention.files import read_tensors, write_tensors
from lower import (
    Certificate,
    Fact,
    HardInstance,
    Key,
    KnownComponent,
    Status,
    load_instance,
    save_instance,
    verify_instance,
)
from lower.certificate import _TOLERANCES
from sq import ParityFamily
from tests.lower.honest import ALIKE, HONEST, honest


def bent(instance, name, place, change):
    """The instance with one number of theta or w changed."""
    arrays = {"theta": instance.layer.theta.copy(), "w": instance.layer.w.copy()}
    arrays[name][place] += change
    return replace(instance, layer=AttentionLayer(**arrays))


def stating(instance, name, **changes):
    """The instance whose certificate says something else in the fact of that name."""
    facts = tuple(replace(fact, **changes) if fact.name == name else fact for fact in instance.certificate)
    return replace(instance, certificate=Certificate(instance.family.name, facts))


def forgeries(instance: HardInstance):
    """Lies about more than one number, which `test_forgeries` changes in files, by what they are about."""
    k, d, known = instance.inputs.tokens, instance.layer.dim, instance.known
    sevens = KnownComponent(mixing=np.eye(k), projection=7 * np.eye(d))
    gated = replace(known, gate=0, off=known) if known.off is None else replace(sevens, gate=1, off=known.off)
    for what, part in (("7 X", sevens), ("gated", gated)):
        yield f"known part: {what}", replace(instance, known=part)
    lax = stating(bent(instance, "theta", (0, 0, 0), 5e-3), "realisation error", value=0.9)
    yield "realisation error: .9 by the file itself", replace(lax, realisation_error=0.9)
    if "direction" in instance.parameters:  # others ignore it
        yield "direction: the opposite", replace(instance, direction=-instance.direction)
    zero, eye = np.zeros((2, d, d)), np.eye(d)
    for what, theta, w in (
        ("a head of zeros", zero[:1], zero[:1]),
        ("heads that cancel", zero, np.stack([eye, -eye])),
        ("a head twice", instance.layer.theta[:1], instance.layer.w[:1]),
    ):
        own = {"theta": theta, "w": w}
        own = {name: np.concatenate([getattr(instance.layer, name), own[name]]) for name in own}
        yield f"layer: {what}", replace(instance, layer=AttentionLayer(**own))
    for secret in (np.append(instance.secret, instance.secret[-1:]), instance.secret[:1][:, None]):
        yield f"secret: {secret}", replace(instance, secret=secret)
    tokens = KnownComponent.zero(k + 1, d)
    yield "inputs: one token more", replace(instance, inputs=BooleanInputs(k + 1, d), known=tokens)
    yield "inputs: Gaussian", replace(instance, inputs=GaussianInputs(k, d))
    other = honest("pair" if instance.family.name != "sq-pair" else "parity-B").family
    certificate = replace(instance.certificate, family=other.name)
    yield f"family: {other}", replace(instance, family=other, certificate=certificate)


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.slow if one in ALIKE else ()) for one in HONEST]
)
def test_every_forgery_is_refused_with_its_reasons(kind):
    found = {what: verify_instance(lie) for what, lie in forgeries(honest(kind))}
    assert len(found) > 10
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

    instance = lwe.LWRFamily(n=9, q=32, p=2).instance(rng=0)
    monkeypatch.setattr(lwe.families, "lwr_heads", shifted)
    assert "are not labels" in str(verify_instance(instance))
    with pytest.raises(ValueError, match="are not labels"):
        lwe.LWRFamily(n=9, q=32, p=2).instance(rng=0)
    monkeypatch.setattr(sq.parities, "parity_heads", halved)
    made = ParityFamily(dim=8, bits=3, construction="B").instance(0)
    assert verify_instance(made).realisation_error > 0.4


def test_what_no_instance_has_is_a_reason(tmp_path):
    path = tmp_path / "it.safetensors"
    save_instance(path, honest("parity-B"))
    assert inspect(path, verify=True).holds
    stored = read_tensors(path)
    tensors, metadata = {**stored.tensors, "more": np.ones(3)}, {**stored.metadata, "security": "128 bits"}
    write_tensors(path, "instance", tensors, metadata)
    assert inspect(path, verify=True).verification.reasons == (
        "tensor more: an instance has none of that name",
        "entry security: an instance has none of that name",
    )


@pytest.mark.parametrize("kind", ["periodic", "lwr", "lwr-truncated", "lpn"])
def test_numbers_may_differ_by_their_rounding_errors_and_no_more(kind):
    instance = honest(kind)
    for fact in instance.certificate:
        if not isinstance(fact.value, float):
            continue
        relative, absolute = _TOLERANCES.get(fact.key, (0.0, 0.0))
        allowed = max(relative * abs(fact.value), absolute)
        near, far = (fact.value + share * allowed for share in (0.9, 1.1))
        assert verify_instance(stating(instance, fact.name, value=near)).holds
        far = far if allowed else math.nextafter(fact.value, math.inf)
        assert not verify_instance(stating(instance, fact.name, value=far)).holds


def test_an_estimate_is_neither_stored_nor_compared(monkeypatch, tmp_path):
    instance, path = honest("lwr"), tmp_path / "it.safetensors"
    save_instance(path, instance)
    before = load_target(path).record.certificate
    assert [fact.status for fact in before][-1] is Status.ESTIMATE
    assert Status.ESTIMATE not in {fact.status for fact in load_instance(path).certificate}
    better = (Fact(Key.OPERATIONS, 3.0, Status.ESTIMATE, "a better attack"),)
    monkeypatch.setattr(lwe.LWRFamily, "estimates", lambda self: better)
    found = inspect(path, verify=True)
    assert found.holds
    assert found.record.certificate.facts[-1:] == better
