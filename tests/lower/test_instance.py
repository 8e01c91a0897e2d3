import numpy as np
import pytest

from attention import AttentionLayer, BooleanInputs, FileFormatError
from attention.files import load_layer, read_tensors, save_layer, write_tensors
from lower import (
    Certificate,
    GatedKnownPart,
    HardInstance,
    LinearKnownPart,
    Statement,
    load_instance,
    save_instance,
)


def make(**changes):
    rng = np.random.default_rng(0)
    parts = {
        "family": "toy",
        "layer": AttentionLayer(theta=rng.standard_normal((2, 3, 3)), w=rng.standard_normal((2, 3, 3))),
        "inputs": BooleanInputs(k=2, d=3),
        "secret": np.array([1, 2]),
        "known": LinearKnownPart(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3))),
        "certificate": Certificate("toy", (Statement("a", 0.1, "A sentence.", "derived", "Derived here"),)),
        "realisation_error": 1e-17 / 3,
        "parameters": {"bits": 2, "slopes": [0.5, 1 / 3], "gadget": False},
    }
    return HardInstance(**(parts | changes))


def test_a_file_gives_the_instance_back_bit_for_bit(tmp_path):
    instance = make()
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


def test_single_precision_layers_keep_their_precision(tmp_path):
    layer = make().layer.map(lambda array: array.astype(np.float32))
    save_instance(tmp_path / "one.safetensors", make(layer=layer))
    assert load_instance(tmp_path / "one.safetensors").layer.theta.dtype == np.float32


def wrong_contents():
    def without(part, name):
        def change(tensors, metadata):
            (tensors if part == "tensors" else metadata).pop(name)

        return change

    def with_metadata(name, value):
        def change(tensors, metadata):
            metadata[name] = value

        return change

    def with_tensor(name, value):
        def change(tensors, metadata):
            tensors[name] = value

        return change

    yield from (without("tensors", name) for name in ("theta", "secret", "known_mixing"))
    yield from (without("metadata", name) for name in ("family", "inputs", "certificate", "parameters"))
    for name, values in {
        "family": (3, "", "other", None),
        "inputs": ({"name": "boolean", "k": 3, "d": 3}, {"name": "boolean", "k": 2, "d": 4}, [], "boolean"),
        "certificate": ({}, [], None, {"family": "toy", "statements": [3]}),
        "realisation_error": (-1.0, "small", None, [1], True),
        "parameters": ([1], None, 3),
    }.items():
        yield from (with_metadata(name, value) for value in values)
    yield with_tensor("theta", np.zeros((2, 3, 4)))
    yield with_tensor("theta", np.zeros((1, 3, 3)))
    yield with_tensor("w", np.zeros((2, 3, 3), dtype=np.int64))
    yield with_tensor("secret", np.array([0.5]))
    yield with_tensor("secret", np.zeros(0, dtype=np.int64))
    yield with_tensor("known_mixing", np.zeros((3, 3)))
    yield with_tensor("known_projection", np.zeros((3, 4)))


@pytest.mark.bad_input
@pytest.mark.parametrize("change", list(wrong_contents()))
def test_well_formed_files_with_wrong_contents_are_refused(tmp_path, change):
    path = tmp_path / "one.safetensors"
    save_instance(path, make())
    from attention.files import read_tensors

    stored = read_tensors(path)
    tensors, metadata = dict(stored.tensors), dict(stored.metadata)
    change(tensors, metadata)
    write_tensors(path, "instance", tensors, metadata)
    with pytest.raises(FileFormatError):
        load_instance(path)


def test_mutated_files_raise_nothing_but_the_format_error(tmp_path):
    path = tmp_path / "one.safetensors"
    save_instance(path, make(), made={"seed": 3})
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        match rng.integers(4):
            case 0:
                for _ in range(rng.integers(1, 4)):
                    data[rng.integers(len(data))] = rng.integers(256)
            case 1:
                data = data[: rng.integers(len(data))]
            case 2:
                at = rng.integers(len(data))
                data[at:at] = rng.bytes(rng.integers(1, 9))
            case _:
                # the header and the JSON in it, where a change does most
                data[rng.integers(8, 1000)] = rng.choice(list(b'{}[]",:0123456789-eEnulltrueNaN\\'))
        path.write_bytes(bytes(data))
        try:
            instance = load_instance(path)
        except FileFormatError:
            refused += 1
        else:
            assert np.isfinite(instance.layer.theta).all()
    assert refused > 150


def test_a_known_part_with_a_gate_comes_back_and_files_without_its_parts_are_refused(tmp_path):
    rng = np.random.default_rng(1)
    parts = [
        LinearKnownPart(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3)))
        for _ in range(2)
    ]
    instance = make(known=GatedKnownPart(gate=1, on=parts[0], off=parts[1]))
    save_instance(tmp_path / "one.safetensors", instance)
    again = load_instance(tmp_path / "one.safetensors")
    assert again.known.gate == 1
    for name in ("mixing", "projection"):
        for side in ("on", "off"):
            assert np.array_equal(
                getattr(getattr(again.known, side), name), getattr(getattr(instance.known, side), name)
            )
    stored = read_tensors(tmp_path / "one.safetensors", kind="instance")
    for name in ("known_on_mixing", "known_off_projection"):
        tensors = {one: array for one, array in stored.tensors.items() if one != name}
        write_tensors(tmp_path / "two.safetensors", "instance", tensors, stored.metadata)
        with pytest.raises(FileFormatError, match=name):
            load_instance(tmp_path / "two.safetensors")
    # a reader that knows of no gate finds no known part, rather than the wrong one
    assert "known_mixing" not in stored.tensors
    for gate in (3, -1, "1", 1.5, True):
        write_tensors(
            tmp_path / "two.safetensors", "instance", stored.tensors, {**stored.metadata, "known_gate": gate}
        )
        with pytest.raises(FileFormatError):
            load_instance(tmp_path / "two.safetensors")
