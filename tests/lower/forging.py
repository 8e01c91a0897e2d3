"""Honest instances of every family, and files that lie about them in every way there is."""

import dataclasses
import json

import numpy as np

from attention import AttentionLayer, BooleanInputs, GaussianInputs
from lower import Certificate, GatedKnownPart, HardInstance, LinearKnownPart, Statement
from lwe import BinomialLaw, FlipLaw, SparseLaw, TernaryLaw, make_lwr_instance
from sq import (
    BumpFamily,
    CentreThresholdFamily,
    DesignedStepsFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    TokenParityFamily,
    TwoSlopeFamily,
)

HONEST = {
    "parity-A": lambda: ParityFamily(dim=7, bits=3, construction="A").instance(4),
    "parity-B": lambda: ParityFamily(dim=9, bits=4, construction="B").instance(3),
    "parity-C": lambda: ParityFamily(dim=8, bits=3, construction="C", beta=0.7).instance(9),
    "parity-D": lambda: ParityFamily(dim=24, bits=5).instance(100, direction=np.arange(1.0, 25.0)),
    "pair": lambda: PairFamily(dim=9, beta=0.3).instance(5, direction=np.cos(np.arange(9.0))),
    "bump": lambda: BumpFamily(dim=24, bits=20, at=0).instance(1),
    "two-slope": lambda: TwoSlopeFamily(dim=9, bits=6, slopes=(0.3, 2.0)).instance(2),
    "designed-steps": lambda: DesignedStepsFamily(dim=9, bits=6, heads_count=4).instance(2),
    "centre-threshold": lambda: CentreThresholdFamily(
        dim=9, bits=5, heads_count=3, steps="best-fit"
    ).instance(1),
    "token-parity": lambda: TokenParityFamily(dim=7, tokens=4, bits=3, beta=9.0).instance(1),
    "hidden-gate-parity": lambda: HiddenGateFamily(
        base=ParityFamily(dim=6, bits=3, construction="B", beta=3.0)
    ).instance(7),
    "hidden-gate-two-slope": lambda: HiddenGateFamily(base=TwoSlopeFamily(dim=8, bits=4)).instance(200),
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
    return dataclasses.replace(instance, layer=layer)


def bent(instance, name, place, change):
    """The instance with one number of theta or w changed."""
    arrays = {"theta": instance.layer.theta.copy(), "w": instance.layer.w.copy()}
    arrays[name][place] += change
    return dataclasses.replace(instance, layer=AttentionLayer(**arrays))


def stating(instance, name, **changes):
    """The instance whose certificate says something else in the statement of that name."""
    statements = tuple(
        dataclasses.replace(one, **changes) if one.name == name else one for one in instance.certificate
    )
    return dataclasses.replace(instance, certificate=Certificate(instance.family, statements))


def saying(instance, **parameters):
    """The instance with other public parameters."""
    return dataclasses.replace(instance, parameters={**instance.parameters, **parameters})


def rare_heads(instance):
    """Two heads that cancel but where the first 20 coordinates of the tokens all differ: error 10 there."""
    d = instance.layer.dim
    theta, w = np.zeros((2, d, d)), np.zeros((2, d, d))
    few = np.arange(1, min(d, 21))
    theta[0, few, few] = 40.0
    theta[0, 0, 0] = -40.0 * (len(few) - 0.5)
    theta[1, 0, 0] = -40.0
    w[:, 0, 0] = [5.0, -5.0]
    return with_heads(instance, theta, w)


def changed_value(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.001 + 1e-6
    if isinstance(value, str):
        return f"{value}s"
    if isinstance(value, list):
        return [*value[:-1], changed_value(value[-1])]
    if isinstance(value, dict):
        return {**value, "bits": changed_value(value["bits"])}
    if value is None:
        return 2
    raise AssertionError(value)


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
        yield "another gate", dataclasses.replace(known, gate=1)
        yield "7 X on the gate", dataclasses.replace(known, on=sevens)
    else:
        spoilt = known.mixing.copy()
        spoilt[0, 1] += 1e-6
        yield "mixing", LinearKnownPart(mixing=spoilt, projection=known.projection)
        yield "gated", GatedKnownPart(gate=0, on=known, off=known)


def forgeries(instance: HardInstance):
    """Every lie about an instance, named by what it is about."""
    for what, known in known_parts(instance):
        yield f"known part: {what}", dataclasses.replace(instance, known=known)
    for one in instance.certificate:
        yield f"certificate: value of {one.name}", stating(instance, one.name, value=changed_value(one.value))
        yield (
            f"certificate: text of {one.name}",
            stating(instance, one.name, meaning=one.meaning + " Really."),
        )
        other = "measured" if one.status != "measured" else "proved"
        yield f"certificate: evidence of {one.name}", stating(instance, one.name, status=other)
        yield f"certificate: source of {one.name}", stating(instance, one.name, source="Somewhere")
        if one.name.startswith("queries"):
            yield f"certificate: 10^12 {one.name}", stating(instance, one.name, value=10**12)
        left = tuple(two for two in instance.certificate if two.name != one.name)
        yield (
            f"certificate: no {one.name}",
            dataclasses.replace(instance, certificate=Certificate(instance.family, left)),
        )
    more = (*instance.certificate, Statement("security", "128 bits", "It is safe.", "proved", "Nowhere"))
    yield (
        "certificate: one statement more",
        dataclasses.replace(instance, certificate=Certificate(instance.family, more)),
    )
    theta = instance.layer.theta
    place = tuple(int(one[0]) for one in np.nonzero(theta))
    moved = bent(instance, "theta", place, 5e-3)
    lax = stating(moved, "realisation error", value=0.9)
    yield "realisation error: .9 by the file itself", dataclasses.replace(moved, realisation_error=0.9)
    yield "realisation error: .9, and stated", dataclasses.replace(lax, realisation_error=0.9)
    for name, value in (("none", 0.0), ("half", instance.realisation_error / 2), ("1e-3", 1e-3)):
        yield f"realisation error: {name}", dataclasses.replace(instance, realisation_error=value)
    claimed = stating(instance, "realisation error", value=1e-3)
    yield "realisation error: 1e-3, stated", dataclasses.replace(claimed, realisation_error=1e-3)
    for name, value in instance.parameters.items():
        yield f"parameter: {name}", saying(instance, **{name: changed_value(value)})
        yield f"parameter: {name} of another kind", saying(instance, **{name: {"what": "is this"}})
        left = {key: one for key, one in instance.parameters.items() if key != name}
        yield f"parameter: no {name}", dataclasses.replace(instance, parameters=left)
    yield "parameter: one more", saying(instance, security=128)
    d, zero = instance.layer.dim, np.zeros((2, instance.layer.dim, instance.layer.dim))
    yield "layer: a rare event", rare_heads(instance)
    yield "layer: a head of zeros", with_heads(instance, zero[:1], zero[:1])
    opposite = np.stack([np.eye(d), -np.eye(d)])
    yield "layer: heads that cancel", with_heads(instance, zero, opposite)
    yield (
        "layer: a head twice",
        with_heads(instance, theta[:1], instance.layer.w[:1]),
    )
    if instance.layer.heads > 1:
        fewer = AttentionLayer(theta=theta[:-1], w=instance.layer.w[:-1])
        yield "layer: a head less", dataclasses.replace(instance, layer=fewer)
    for name, one in (("theta", theta), ("w", instance.layer.w)):
        zeros = tuple(int(places[-1]) for places in np.nonzero(one == 0))
        held = tuple(int(places[-1]) for places in np.nonzero(one))
        yield f"layer: an entry of {name} that should be 0", bent(instance, name, zeros, 1e-9)
        yield f"layer: an entry of {name} in its last digits", bent(instance, name, held, 1e-12 * one[held])
        yield f"layer: an entry of {name}", bent(instance, name, held, 1.0)
    yield "secret: negative", dataclasses.replace(instance, secret=-1 - np.abs(instance.secret))
    longer = np.append(instance.secret, instance.secret[-1:])
    yield "secret: one entry more", dataclasses.replace(instance, secret=longer)
    yield "secret: one entry less", dataclasses.replace(instance, secret=instance.secret[:1][:, None])
    for place in range(min(len(instance.secret), 3)):
        other = instance.secret.copy()
        other[place] += 1
        yield f"secret: entry {place}", dataclasses.replace(instance, secret=other)
    turned = instance.secret[::-1].copy()
    if not np.array_equal(turned, instance.secret):
        yield "secret: another order", dataclasses.replace(instance, secret=turned)
    more = LinearKnownPart.zero(instance.inputs.k + 1, instance.inputs.d)
    yield (
        "inputs: one token more",
        dataclasses.replace(instance, inputs=BooleanInputs(more.k, more.d), known=more),
    )
    one = LinearKnownPart(mixing=np.full((1, 1), 1e308), projection=np.eye(more.d))
    yield "inputs: one token", dataclasses.replace(instance, inputs=BooleanInputs(1, more.d), known=one)
    normal = GaussianInputs(instance.inputs.k, instance.inputs.d)
    yield "inputs: Gaussian", dataclasses.replace(instance, inputs=normal)
    assert isinstance(instance.inputs, BooleanInputs)
    for family in ("sq-pair", "sq-parity", "lwr", "sq-bump", "mine"):
        if family != instance.family:
            certificate = dataclasses.replace(instance.certificate, family=family)
            yield f"family: {family}", dataclasses.replace(instance, family=family, certificate=certificate)
    yield from _of_another_instance(instance)


def _of_another_instance(instance):
    """What belongs to other instances of the same family."""
    if instance.family == "sq-parity":
        for construction in "ABCD":
            for bits in (len(instance.secret), len(instance.secret) - 1):
                other = ParityFamily(dim=instance.layer.dim, bits=bits, construction=construction).instance(0)
                for name in ("bits", "construction", "heads_count"):
                    value = other.parameters[name]
                    if value != instance.parameters[name]:
                        yield (
                            f"another's: {name} of {construction} with {bits} bits",
                            saying(instance, **{name: value}),
                        )
    if instance.family == "lwr":
        for name, value in (
            ("secret", "ternary"),
            ("secret", "binary"),
            ("noise", "binomial:3"),
            ("deviations", 3.0),
            ("matrix", "ternary"),
            ("matrix", "gadget"),
        ):
            if json.dumps(instance.parameters.get(name)) != json.dumps(value):
                yield f"another's: {name} is {value}", saying(instance, **{name: value})
