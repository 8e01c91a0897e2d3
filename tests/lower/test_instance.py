from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, FileFormatError
from attention.files import load_layer, read_tensors, save_layer, write_tensors
from lower import (
    Certificate,
    Fact,
    HardInstance,
    Key,
    KnownComponent,
    Status,
    Word,
    load_instance,
    save_instance,
)
from sq import ProfileFamily

FACTS = (
    Fact(Key.TARGETS, 2**80, Status.PROVED, "by counting"),
    Fact(Key.QUERIES, 0.1 + 0.2, Status.COMPUTED, "a balance", at=0.1),
    Fact(Key.JUMPS, (3, 2**70), Status.DERIVED, "derived here"),
    Fact(Key.BROKEN_BY, (Word.ZEROS, Word.BKW), Status.DERIVED, "derived here"),
)


def make(**changes):
    rng = np.random.default_rng(0)
    parts = {
        "family": ProfileFamily.bump(dim=3, bits=2),
        "layer": AttentionLayer(theta=rng.standard_normal((2, 3, 3)), w=rng.standard_normal((2, 3, 3))),
        "inputs": BooleanInputs(tokens=2, dim=3),
        "secret": np.array([1, 2]),
        "known": KnownComponent(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3))),
        "certificate": Certificate("sq-bump", FACTS),
        "realisation_error": 1e-17 / 3,
        "direction": np.array([1.0, 0.0, 0.0]),
    }
    return HardInstance(**(parts | changes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_gives_the_instance_back_bit_for_bit(tmp_path, dtype):
    instance = make(layer=make().layer.map(lambda array: array.astype(dtype)))
    save_instance(tmp_path / "one.safetensors", instance, made={"seed": 3})
    again = load_instance(tmp_path / "one.safetensors")
    for name in ("theta", "w"):
        assert getattr(again.layer, name).tobytes() == getattr(instance.layer, name).tobytes()
    for name in ("mixing", "projection"):
        assert getattr(again.known, name).tobytes() == getattr(instance.known, name).tobytes()
    np.testing.assert_array_equal(again.secret, instance.secret)
    for name in ("family", "inputs", "certificate", "realisation_error", "parameters"):
        assert getattr(again, name) == getattr(instance, name)
    save_instance(tmp_path / "two.safetensors", again, made={"seed": 3})
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    stored = load_layer(tmp_path / "one.safetensors")  # so does whatever reads layers
    np.testing.assert_array_equal(stored.layer.theta, instance.layer.theta)
    assert (stored.inputs, stored.made) == (instance.inputs, {"seed": 3})


def test_a_layer_file_is_no_instance(tmp_path):
    save_layer(tmp_path / "layer.safetensors", make().layer)
    with pytest.raises(FileFormatError):
        load_instance(tmp_path / "layer.safetensors")
    with pytest.raises(FileFormatError):
        load_instance(tmp_path / "nowhere.safetensors")


@pytest.mark.bad_input
@pytest.mark.parametrize(("name", "dtype"), [("w", np.int64), ("secret", np.float64)])
def test_arrays_of_other_types_and_missing_ones_are_refused(tmp_path, name, dtype):
    path = tmp_path / "one.safetensors"
    save_instance(path, make())
    stored = read_tensors(path)
    tensors = dict(stored.tensors)
    tensors[name] = tensors[name].astype(dtype)
    write_tensors(path, "instance", tensors, stored.metadata)
    with pytest.raises(FileFormatError, match=dtype.__name__):
        load_instance(path)
    del tensors[name]
    write_tensors(path, "instance", tensors, stored.metadata)
    with pytest.raises(FileFormatError, match=f"holds no {name}"):
        load_instance(path)


@pytest.mark.parametrize("value", [(), (3,), (3, 0), (Word.BKW, 2), (3, 2, 1), 10**400, -(10**400), 1e308])
def test_every_fact_and_label_prints(value):
    for key in Key:
        certificate = Certificate("any", (Fact(key, value, Status.PROVED, "nowhere", at=0.1),))
        assert key.value in str(certificate)
        assert certificate.label


def label(*facts):
    return Certificate("any", tuple(Fact(*one) for one in facts)).label


def test_a_label_says_what_is_proved_assumed_or_estimated():
    targets = (Key.TARGETS, 16215, Status.PROVED, "by counting")
    queries = (Key.QUERIES, 164, Status.PROVED, "Bessel", 0.1)
    assert label(targets, queries) == "164 queries at tau 0.1 of 16215 targets"
    assert label(targets, (Key.QUERIES, 1, Status.PROVED, "Bessel", 0.1)).startswith("1 query at")
    assert label((Key.TARGETS, 10**400, Status.PROVED, "by counting"), queries).endswith(
        " of 1.0e+400 targets"
    )
    none = (Key.QUERIES, Word.INFINITE, Status.PROVED, "Bessel", 0.1)
    assert label(targets, none) == "no number is enough at tau 0.1 of 16215 targets"
    assert label(targets, (Key.QUERIES, 9, Status.PROVED, "Bessel", 0.3)).startswith("no bound")
    assumed = (Key.ASSUMPTION, Word.LWR, Status.ASSUMED, "Banerjee, Peikert and Rosen 2012")
    assert label(assumed) == "assumed: learning with rounding"
    assert label(assumed, (Key.RHO, 0.16, Status.DERIVED, "lwe")).endswith(", rho = 0.16")
    for exponent, words in ((34.1, "broken by BKW in 2^34 operations (estimate)"), (40.0, "assumed:")):
        assert label(assumed, (Key.OPERATIONS, exponent, Status.ESTIMATE, "BKW")).startswith(words)


def test_a_bound_with_room_for_other_machines_may_be_any_number():
    bound = Fact(Key.WEIGHT_BOUND, -40, Status.COMPUTED, "lwe.low_degree_weights", at=1)
    for value, same in ((-40, True), (-36, True), (-35, False), (10**400, False), (-40.0, False)):
        assert replace(bound, value=value).agrees(bound) == same


def test_from_gate_is_c_a_plus_c0_u():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((50, 2, 4)), rng.standard_normal(4)
    c, c0, gate = -2.5, 0.75, 2
    known = KnownComponent.from_gate(c, c0, gate=gate, direction=w)
    a, u = (x[:, 0] + x[:, 1]) / 2, (x[:, 0] - x[:, 1]) / 2
    rows = np.stack([c * a[:, gate] + c0 * u[:, gate], c * a[:, gate] - c0 * u[:, gate]], axis=1)
    np.testing.assert_allclose(known(x), rows[..., None] * w, atol=1e-14)


def test_other_array_libraries_come_back_as_they_went_in():
    rng = np.random.default_rng(2)
    known = KnownComponent(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3)))
    x = rng.standard_normal((6, 2, 3))
    strict = known(array_api_strict.asarray(x))
    assert type(strict) is type(array_api_strict.asarray(x))
    np.testing.assert_allclose(np.asarray(strict), known(x), atol=1e-14)


def gated(k=3, d=4):
    rng = np.random.default_rng(7)
    parts = [
        KnownComponent(mixing=rng.standard_normal((k, k)), projection=rng.standard_normal((d, d)))
        for _ in range(2)
    ]
    return replace(parts[0], gate=2, off=parts[1])


def test_a_gated_part_is_one_linear_part_on_the_gate_and_the_other_off_it():
    known, rng = gated(), np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(40, 3, 4))
    for one, found in zip(x, known(x), strict=True):
        part = known.off if len(set(one[:, 2])) == 1 else replace(known, gate=None, off=None)
        np.testing.assert_allclose(found, part(one), rtol=1e-14)
    np.testing.assert_array_equal(known(x.reshape(4, 10, 3, 4)).reshape(x.shape), known(x))
    assert (known.tokens, known.dim, known.is_zero) == (3, 4, False)
    assert "agree" in known.describe()
    assert replace(KnownComponent.zero(2, 3), gate=0, off=KnownComponent.zero(2, 3)).is_zero
