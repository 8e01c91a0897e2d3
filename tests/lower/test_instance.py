from dataclasses import replace

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
    load_instance,
    save_instance,
)
from sq import ProfileFamily


def make(**changes):
    rng = np.random.default_rng(0)
    parts = {
        "family": ProfileFamily.bump(dim=3, bits=2),
        "layer": AttentionLayer(theta=rng.standard_normal((2, 3, 3)), w=rng.standard_normal((2, 3, 3))),
        "inputs": BooleanInputs(tokens=2, dim=3),
        "secret": np.array([1, 2]),
        "known": KnownComponent(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3))),
        "certificate": Certificate("sq-bump", (Fact(Key.RHO, 0.1, Status.DERIVED, "derived here"),)),
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


def test_whatever_reads_layers_reads_the_target_of_an_instance(tmp_path):
    instance = make()
    save_instance(tmp_path / "one.safetensors", instance, made={"seed": 3})
    stored = load_layer(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(stored.layer.theta, instance.layer.theta)
    assert stored.inputs == instance.inputs
    assert stored.made == {"seed": 3}


def test_a_layer_file_is_no_instance(tmp_path):
    save_layer(tmp_path / "layer.safetensors", make().layer)
    with pytest.raises(FileFormatError):
        load_instance(tmp_path / "layer.safetensors")
    with pytest.raises(FileFormatError):
        load_instance(tmp_path / "nowhere.safetensors")


GONE, ZERO = object(), KnownComponent.zero(2, 3)
# of a well-formed file, what is not what an instance has: the part, the name, its value
WRONG = [
    *(("tensors", name, GONE) for name in ("theta", "secret", "known_mixing")),
    *(("metadata", name, GONE) for name in ("family", "inputs", "certificate", "parameters")),
    *(("metadata", "family", value) for value in (3, "", "other", None)),
    *(("metadata", "inputs", {"name": "boolean", "k": k, "d": d}) for k, d in ((3, 3), (2, 4))),
    *(("metadata", "inputs", value) for value in ([], "boolean")),
    *(("metadata", "certificate", value) for value in ({}, [], None)),
    *(("metadata", "realisation_error", value) for value in (-1.0, "small", None, [1], True)),
    *(("metadata", "parameters", value) for value in ([1], None, 3, {"dim": 3, "bits": 2})),
    *(("metadata", "parameters", {**make().parameters, name: 9}) for name in ("bits", "scale", "security")),
    *(("tensors", "theta", np.zeros(shape)) for shape in ((2, 3, 4), (1, 3, 3))),
    ("tensors", "w", np.zeros((2, 3, 3), dtype=np.int64)),
    *(("tensors", "secret", value) for value in (np.array([0.5]), np.zeros(0, dtype=np.int64))),
    ("tensors", "known_mixing", np.zeros((3, 3))),
    ("tensors", "known_projection", np.zeros((3, 4))),
]
WRONG_GATES = [
    *(("tensors", name, GONE) for name in ("known_on_mixing", "known_off_projection")),
    *(("metadata", "known_gate", value) for value in (3, -1, "1", 1.5, True)),
]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("instance", "wrong"),
    [(make(), WRONG), (make(known=replace(ZERO, gate=1, off=ZERO)), WRONG_GATES)],
    ids=["linear", "gated"],
)
def test_well_formed_files_with_wrong_contents_are_refused(tmp_path, instance, wrong):
    path = tmp_path / "one.safetensors"
    save_instance(path, instance)
    stored = read_tensors(path)
    for part, name, value in wrong:
        parts = {"tensors": dict(stored.tensors), "metadata": dict(stored.metadata)}
        parts[part].pop(name)
        parts[part] |= {} if value is GONE else {name: value}
        write_tensors(path, "instance", **parts)
        with pytest.raises(FileFormatError, match=name if value is GONE else None):
            load_instance(path)


def test_a_known_part_with_a_gate_comes_back(tmp_path):
    rng = np.random.default_rng(1)
    parts = [
        KnownComponent(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3)))
        for _ in range(2)
    ]
    instance = make(known=replace(parts[0], gate=1, off=parts[1]))
    save_instance(tmp_path / "one.safetensors", instance)
    again = load_instance(tmp_path / "one.safetensors").known
    assert again.gate == 1
    for part, found in zip(parts, (again, again.off), strict=True):
        np.testing.assert_array_equal(found.mixing, part.mixing)
        np.testing.assert_array_equal(found.projection, part.projection)
    # a reader that knows of no gate finds no known part, rather than the wrong one
    assert "known_mixing" not in read_tensors(tmp_path / "one.safetensors").tensors
