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
