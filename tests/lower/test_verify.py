"""One instance held to its family: what is honest is verified, and every lie is found out."""

import dataclasses
import json
from functools import cache, partial

import numpy as np
import pytest
from forging import HONEST, bent, forgeries, known_parts, rare_heads, saying, stating
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import lwe
import sq
from arena import inspect
from arena.cli.main import run
from lower import LinearKnownPart, load_instance, save_instance, verify_instance


@cache
def honest(kind):
    return HONEST[kind]()


@pytest.mark.parametrize("kind", HONEST)
def test_every_forgery_is_refused_with_its_reasons(kind):
    found = {what: verify_instance(lie) for what, lie in forgeries(honest(kind))}
    assert len(found) > 80
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


def parity(construction, bits, dim, seed, slope=None):
    own = {} if slope is None else {"slopes" if construction == "D" else "beta": slope}
    direction = np.random.default_rng(seed).standard_normal(dim) if seed else None
    return sq.make_parity_instance(
        dim=dim, bits=bits, construction=construction, rng=seed, direction=direction, **own
    )


def drawn(family, seed):
    direction = np.random.default_rng(seed).standard_normal(family.dim) if seed else None
    return family.instance(rng=seed, direction=direction)


SIZES = ((1, 4), (2, 16), (3, 64), (7, 20), (12, 80))
FAMILIES = [
    *(sq.BumpFamily(dim=dim, bits=bits, at=at) for dim, bits, at in ((3, 1, 0), (9, 8, 8), (60, 30, 13))),
    sq.BumpFamily(dim=9, bits=4, beta=1e-3),
    sq.BumpFamily(dim=9, bits=4, beta=300.0),
    *(sq.TwoSlopeFamily(dim=dim, bits=bits) for dim, bits in ((5, 3), (30, 16), (80, 40))),
    *(sq.DesignedStepsFamily(dim=dim, bits=bits, heads_count=m) for dim, bits, m in ((4, 2, 1), (40, 12, 7))),
    *(
        sq.CentreThresholdFamily(dim=24, bits=bits, heads_count=m, steps=steps, beta=beta)
        for bits, m in ((5, 1), (5, 5), (16, 6))
        for steps, beta in (("alternating", 40.0), ("best-fit", 2.0))
    ),
    *(sq.PairFamily(dim=dim, beta=beta) for dim, beta in ((3, 1.0), (50, 1e-3), (9, 30.0))),
    *(
        sq.TokenParityFamily(dim=dim, tokens=k, bits=bits)
        for dim, k, bits in ((3, 2, 1), (9, 3, 4), (30, 16, 3))
    ),
    *(
        sq.HiddenGateFamily(base=sq.ParityFamily(dim=dim, bits=bits, construction=construction))
        for dim, bits in ((4, 1), (20, 3), (20, 5))
        for construction in "BCD"
    ),
    sq.HiddenGateFamily(base=sq.TwoSlopeFamily(dim=30, bits=9, slopes=(0.2, 3.0))),
]
LAWS = (lwe.UniformLaw(), lwe.TernaryLaw(), lwe.BinomialLaw(2), lwe.ZeroLaw())
MANY = {
    **{
        f"parity {c} {bits} of {dim}, seed {seed}": partial(parity, c, bits, dim, seed)
        for c in "ABCD"
        for bits, dim in SIZES
        for seed in (0, 1)
    },
    **{
        f"parity {c} of slope {slope}": partial(parity, c, 3, 9, 0, slope)
        for c, slope in (("A", 2.0), ("B", 90.0), ("C", 0.1), ("D", (0.3, 5.0)), ("D", (1.0, 1.001)))
    },
    **{f"{family}, seed {seed}": partial(drawn, family, seed) for family in FAMILIES for seed in (0, 5)},
    **{
        f"lwr {n} {q} {p} {matrix} {law} {noise}": partial(
            lwe.make_lwr_instance,
            secret_dim=n,
            modulus=q,
            levels=p,
            matrix=matrix,
            secret_law=law,
            noise=noise,
            rng=n,
        )
        for n, q, p in ((1, 2, 2), (5, 8, 3), (6, 16, 16), (30, 32, 2))
        for matrix in ("binary", "ternary", "gadget")
        for law in LAWS
        for noise in (lwe.ZeroLaw(), lwe.BinomialLaw(1))
    },
    **{
        f"lwr truncated at {deviations}, slope {beta}": partial(
            lwe.make_lwr_instance,
            secret_dim=150,
            modulus=64,
            levels=4,
            matrix=matrix,
            rng=1,
            deviations=deviations,
            beta=beta,
        )
        for matrix in ("binary", "ternary")
        for deviations in (2.0, 6.0)
        for beta in (4.0, 40.0, 55.5)
    },
}


@pytest.mark.parametrize("share", range(12))
def test_honest_instances_of_all_sizes_and_seeds_are_verified(share):
    assert len(MANY) > 180
    for name in list(MANY)[share::12]:
        assert verify_instance(MANY[name]()).reasons == (), name


@pytest.mark.parametrize("kind", HONEST)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_one_changed_number_is_refused(kind, data):
    instance = honest(kind)
    share = data.draw(st.sampled_from([-1.0, 1.0])) * data.draw(st.floats(1e-8, 10.0))

    def place(array):
        return np.unravel_index(data.draw(st.integers(0, array.size - 1)), array.shape)

    part = data.draw(st.sampled_from(["theta", "w", "known part", "secret", "certificate"]))
    if part in ("theta", "w"):
        lie = bent(instance, part, place(instance.layer.theta), share)
    elif part == "known part":
        gated = not isinstance(instance.known, LinearKnownPart)
        own = instance.known.on if gated else instance.known
        name = data.draw(st.sampled_from(["mixing", "projection"]))
        changed = getattr(own, name).copy()
        changed[place(changed)] += share
        own = dataclasses.replace(own, **{name: changed})
        known = dataclasses.replace(instance.known, on=own) if gated else own
        lie = dataclasses.replace(instance, known=known)
    elif part == "secret":
        secret = instance.secret.copy()
        secret[place(secret)] += data.draw(st.integers(1, 40)) * data.draw(st.sampled_from([-1, 1]))
        lie = dataclasses.replace(instance, secret=secret)
    else:
        numbers = [one for one in instance.certificate if isinstance(one.value, int | float)]
        one = data.draw(st.sampled_from(numbers))
        value = one.value + 1 if isinstance(one.value, int) else one.value * (1 + share) or share
        lie = stating(instance, one.name, value=value)
    assert not verify_instance(lie).holds


def test_heads_that_are_made_wrongly_are_found(monkeypatch):
    made_rightly, heads_of = lwe.families.lwr_heads, sq.parities.parity_heads

    def shifted(*arguments, **named):
        heads = made_rightly(*arguments, **named)
        return dataclasses.replace(heads, thresholds=heads.thresholds + (np.arange(len(heads)) == 1))

    def halved(*arguments, **named):
        heads = heads_of(*arguments, **named)
        return dataclasses.replace(heads, coefficients=heads.coefficients / 2)

    instance = lwe.make_lwr_instance(secret_dim=9, modulus=32, levels=2, rng=0)
    monkeypatch.setattr(lwe.families, "lwr_heads", shifted)
    assert "are not labels" in str(verify_instance(instance))
    with pytest.raises(ValueError, match="are not labels"):
        lwe.make_lwr_instance(secret_dim=9, modulus=32, levels=2, rng=0)
    monkeypatch.setattr(sq.parities, "parity_heads", halved)
    assert verify_instance(parity("B", 3, 8, 0)).realisation_error > 0.4


LIES = {
    "known part 7 X": lambda instance: dataclasses.replace(instance, known=next(known_parts(instance))[1]),
    "rare heads": rare_heads,
    "no noise": lambda instance: saying(instance, noise="binomial:2"),
    "another slope": lambda instance: saying(instance, beta=1.0),
    "a text": lambda instance: stating(instance, "realisation error", meaning="It is right."),
}


@pytest.mark.parametrize("kind", ["parity-C", "token-parity", "hidden-gate-two-slope", "lwr", "lwr-gadget"])
def test_files_that_lie_end_with_status_1_and_reasons(kind, tmp_path, capsys):
    path = tmp_path / "it.safetensors"
    save_instance(path, honest(kind))
    assert run(["inspect", str(path), "--verify"]) == 0
    assert "Verified on all inputs: " in capsys.readouterr().out
    for lie in LIES.values():
        save_instance(path, lie(honest(kind)))
        assert run(["inspect", str(path), "--verify"]) == 1
        said = capsys.readouterr()
        assert "NOT verified:\n  - " in said.out
        assert said.err.count("\n") == 1
        assert "Traceback" not in said.out + said.err
        assert run(["inspect", str(path), "--verify", "--json"]) == 1
        verification = json.loads(capsys.readouterr().out)["verification"]
        assert verification["holds"] is False
        assert verification["reasons"]


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
