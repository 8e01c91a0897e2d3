"""Files come back bit for bit, and whatever is wrong with one ends in one error with one sentence."""

import itertools
import json
import os
import stat
from importlib.util import find_spec

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention import (
    AttentionLayer,
    BooleanInputs,
    FileFormatError,
    GaussianInputs,
    PositionedInputs,
    load_layer,
    make_nice_layer,
    save_layer,
    sinusoidal_positions,
)
from attention.files import read_arrays, read_tensors, write_tensors

READERS = (read_tensors, load_layer, read_arrays)
BOOLEAN = {"name": "boolean", "k": 2, "d": 3}
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def assemble(header: str | bytes | dict, data: bytes = b"", length: int | None = None) -> bytes:
    """The bytes of a safetensors file with this header, right or wrong."""
    text = json.dumps(header) if isinstance(header, dict) else header
    text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def take_apart(content: bytes) -> tuple[dict, bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def one_sentence(error: pytest.ExceptionInfo, path) -> bool:
    message = str(error.value)
    return message.startswith(f"{path}: ") and message.endswith(".") and "\n" not in message


@pytest.fixture
def layer_file(tmp_path):
    path = tmp_path / "layer.safetensors"
    save_layer(path, make_nice_layer(heads=2, dim=3, rng=0), inputs=BooleanInputs(2, 3), made={"seed": 0})
    return path


finite = {"allow_nan": False, "allow_infinity": False}
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
an_array = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(np.dtype(dtype), shapes, elements=finite if dtype[0] == "f" else None)
)
json_values = st.recursive(
    st.none() | st.integers() | st.floats(**finite) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


class TestRoundTrip:
    @given(
        tensors=st.dictionaries(st.text("abcxyz.é_/", min_size=1, max_size=5), an_array, max_size=4),
        metadata=st.dictionaries(st.text("abc\0é", max_size=4), json_values, max_size=3),
    )
    @settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_tensors_and_metadata_bit_for_bit(self, tmp_path, tensors, metadata):
        path = tmp_path / "some.safetensors"
        write_tensors(path, "some", tensors, metadata)
        stored = read_tensors(path, kind="some")
        assert (stored.kind, stored.metadata, list(stored.tensors)) == ("some", metadata, sorted(tensors))
        for name, array in tensors.items():
            back = stored.tensors[name]
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert back.tobytes() == array.tobytes()  # minus zero and subnormals included

    def test_same_content_same_bytes(self, tmp_path):
        a, b = np.arange(6.0).reshape(2, 3), np.arange(3, dtype=np.int8)
        write_tensors(tmp_path / "1", "some", {"a": a, "b": b}, {"x": 1, "y": [2.5], "z": {"u": 1, "v": 2}})
        b_first = {"b": b, "a": np.asfortranarray(a)}
        write_tensors(tmp_path / "2", "some", b_first, {"z": {"v": 2, "u": 1}, "y": (2.5,), "x": 1})
        assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()

    def test_layer(self, tmp_path):
        nice = make_nice_layer(heads=2, dim=3, rng=1)
        made = {"generator": "make_nice_layer", "seed": 1, "sigma": 0.1}
        positioned = PositionedInputs(GaussianInputs(5, 3), sinusoidal_positions(5, 3))
        biased = AttentionLayer(nice.theta, nice.w, np.ones((2, 3)), np.arange(3.0), causal=True)
        layers = [nice, nice.map(lambda array: array.astype(np.float32)), biased]
        if find_spec("torch"):
            layers.append(nice.map(__import__("torch").from_numpy))
        for layer, inputs in itertools.product(layers, (None, BooleanInputs(4, 3), positioned)):
            save_layer(tmp_path / "layer", layer, inputs=inputs, made=made)
            back = load_layer(tmp_path / "layer")
            assert (back.kind, back.inputs, back.made) == ("layer", inputs, made)
            assert back.layer.parameters.keys() == layer.parameters.keys()
            assert back.layer.causal is layer.causal
            for name, wanted in layer.parameters.items():
                found, wanted = back.layer.parameters[name], np.asarray(wanted)
                assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())

    def test_layer_of_an_instance_and_of_a_foreign_file(self, tmp_path):
        layer = make_nice_layer(heads=2, dim=3, rng=1)
        tensors = {"theta": np.array(layer.theta), "w": np.array(layer.w)}
        write_tensors(tmp_path / "1", "instance", tensors | {"secret": np.arange(3)}, {"family": "parity"})
        (tmp_path / "2").write_bytes(safetensors.numpy.save(tensors))
        for name in "12":
            back = load_layer(tmp_path / name)
            assert back.layer.theta.tobytes() == layer.theta.tobytes()
            assert (back.inputs, back.made) == (None, {})

    def test_npy(self, tmp_path):
        for dtype, order in itertools.product([*DTYPES, ">f8", ">i4"], "CF"):
            array = np.arange(6).reshape(2, 3).astype(dtype, order=order)
            np.save(tmp_path / "a.npy", array)
            back = read_arrays(tmp_path / "a.npy")["array"]
            np.testing.assert_array_equal(back, array)
            assert back.dtype == array.dtype.newbyteorder("=")


class TestWriting:
    @pytest.mark.parametrize(
        ("kind", "tensors", "metadata", "match"),
        [
            ("", {}, {}, "kind is ''"),
            ("some", {"a": np.array([np.nan])}, {}, "NaN"),
            ("some", {"a": np.array([-np.inf], np.float32)}, {}, "NaN or infinite"),
            ("some", {"a": np.array([1j])}, {}, "complex128"),
            ("some", {"a": np.array([True])}, {}, "bool"),
            ("some", {"a": np.array([None])}, {}, "object"),
            ("some", {"__metadata__": np.zeros(1)}, {}, "another|other than"),
            ("some", {"": np.zeros(1)}, {}, "printable name"),
            ("some", {"\ud800": np.zeros(1)}, {}, "printable name"),
            ("some", {}, {"kind": "x"}, "choose other names"),
            ("some", {}, {"a": np.nan}, "no JSON form"),
            ("some", {}, {"a": np.zeros(1)}, "no JSON form"),
            ("some", {}, {"a": '"' * 2**22}, "put what is large into the tensors"),
            ("some", {}, {"a": json.loads("[" * 150 + "]" * 150)}, "more than 100 levels"),
        ],
    )
    def test_refuses_what_could_not_be_read_back(self, tmp_path, kind, tensors, metadata, match):
        with pytest.raises(ValueError, match=match):
            write_tensors(tmp_path / "f", kind, tensors, metadata)
        assert list(tmp_path.iterdir()) == []

    def test_replaces_at_once_or_not_at_all(self, tmp_path, layer_file, monkeypatch):
        before = layer_file.read_bytes()

        def disk_full(*_):
            raise OSError(28, "No space left on device")

        for name in ("fsync", "replace"):
            with monkeypatch.context() as patched:
                patched.setattr(os, name, disk_full)
                with pytest.raises(OSError, match="No space left") as error:
                    write_tensors(layer_file, "some", {"a": np.zeros(9)}, {})
                assert error.value.filename == str(layer_file)
            assert layer_file.read_bytes() == before
            assert list(tmp_path.iterdir()) == [layer_file]
        write_tensors(layer_file, "some", {"a": np.zeros(9)}, {})
        assert read_tensors(layer_file).kind == "some"
        assert list(tmp_path.iterdir()) == [layer_file]

    def test_links_stay_links_and_rights_follow_the_umask(self, tmp_path, layer_file):
        (tmp_path / "link").symlink_to(layer_file)
        write_tensors(tmp_path / "link", "some", {}, {})
        assert (tmp_path / "link").is_symlink()
        assert read_tensors(layer_file).kind == "some"
        (tmp_path / "plain").write_bytes(b"")
        assert stat.S_IMODE(layer_file.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


F64 = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
EIGHT = bytes(8)
PICKLE = b'cbuiltins\nexec\n(S\'import os; os.environ["RAN"] = "1"\'\ntR.'


def own(text: str) -> dict:
    return {"__metadata__": {"attention_bounds": text}, "a": F64}


# bytes, or what is changed in the header of a file of one number
DAMAGED = {
    "empty": b"",
    "huge length": assemble({"a": F64}, EIGHT, length=2**64 - 1),
    "header not text": assemble(b'{"\xff\xfe": 1}'),
    "deep lists": assemble("[" * 1_000_000),
    "bytes too many": assemble({"a": F64}, EIGHT + b"\0"),
    "bfloat16": {"dtype": "BF16", "shape": [4]},
    "shape beyond all bounds, yet empty": {"shape": [2**62, 2**62, 0], "data_offsets": [0, 0]},
    "nan": assemble({"a": F64}, np.array([np.nan]).tobytes()),
    "lone surrogate": assemble('{"\\ud800":' + json.dumps(F64) + "}", EIGHT),
    "a name twice": assemble('{"a":' + json.dumps(F64) + ',"a":' + json.dumps(F64) + "}", EIGHT),
    "two names that look alike": assemble({"a\n": F64, "a\\n": F64 | {"data_offsets": [8, 16]}}, 2 * EIGHT),
    "30 MB of metadata": assemble({"__metadata__": {"x": "y" * 30_000_000}, "a": F64}, EIGHT),
    "pickle": PICKLE,
}
# what is wrong with this toolkit's own metadata in a container that is right
OWN_DAMAGED = {
    "no JSON": "hello",
    "no format": '{"kind": "some"}',
    "format 2": '{"format": 2, "kind": "some"}',
    "no kind": '{"format": 1}',
    "NaN": '{"format": 1, "kind": "some", "a": NaN}',
    "lone surrogate, escaped": '{"format": 1, "kind": "some", "a": "\\ud800"}',
    "150 levels": '{"format": 1, "kind": "some", "a": ' + "[" * 150 + "]" * 150 + "}",
    "a number beyond floats": '{"format": 1, "kind": "some", "a": 0.1e999999999}',
}


class TestDamaged:
    @pytest.mark.parametrize(
        ("content", "readers"),
        [
            *((content, READERS) for content in DAMAGED.values()),
            *((assemble(own(text), EIGHT), (read_tensors,)) for text in OWN_DAMAGED.values()),
        ],
        ids=[*DAMAGED, *OWN_DAMAGED],
    )
    def test_container_and_own_metadata(self, tmp_path, content, readers):
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(assemble({"a": F64 | content}, EIGHT) if isinstance(content, dict) else content)
        for read in readers:
            with pytest.raises(FileFormatError) as error:
                read(path)
            assert one_sentence(error, path)

    def test_what_the_damaged_ones_were_made_from_is_fine(self, tmp_path):
        path = tmp_path / "fine.safetensors"
        path.write_bytes(assemble(own('{"format": 1, "kind": "some"}'), EIGHT))
        assert read_arrays(path)["a"] == [0.0]
        assert read_tensors(path).kind == "some"

    def test_no_file(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for name in ("none", ".", "pipe", "n" * 300, "a\0b"):
            for read in READERS:
                with pytest.raises(FileFormatError) as error:
                    read(tmp_path / name)
                assert one_sentence(error, tmp_path / name)

    def test_kind(self, tmp_path, layer_file):
        assert read_tensors(layer_file, kind="layer").kind == "layer"
        with pytest.raises(FileFormatError, match="of kind 'layer' where 'instance' is needed"):
            read_tensors(layer_file, kind="instance")
        (tmp_path / "f").write_bytes(safetensors.numpy.save({"a": np.zeros(1)}, metadata={"format": "np"}))
        with pytest.raises(FileFormatError, match="no metadata of this toolkit"):
            read_tensors(tmp_path / "f")

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("theta", "w", "metadata", "match"),
        [
            ((1, 2, 2), None, {}, "holds no w"),
            ((1, 2, 2), (2, 2, 2), {}, "make no layer .*where m is 1"),
            ((0, 2, 2), (0, 2, 2), {}, r"make no layer .*\(m, d, d\)"),
            ((1, 2, 2), (1, 2, 2), {"inputs": 3}, "inputs are not described rightly"),
            ((1, 2, 2), (1, 2, 2), {"inputs": BOOLEAN | {"k": -1}}, "inputs are not described rightly"),
            ((1, 2, 2), (1, 2, 2), {"inputs": BOOLEAN}, "3 coordinates and the layer 2"),
            ((1, 2, 2), (1, 2, 2), {"made": [1]}, "not as a JSON object"),
        ],
    )
    def test_no_layer(self, tmp_path, theta, w, metadata, match):
        shapes = {"theta": theta} | ({} if w is None else {"w": w})
        write_tensors(
            tmp_path / "f", "layer", {name: np.zeros(one) for name, one in shapes.items()}, metadata
        )
        with pytest.raises(FileFormatError, match=match):
            load_layer(tmp_path / "f")


def npy(descr="<f8", shape="(1,)", data=EIGHT, version=b"\x01\x00"):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


NO_NPY = [b"", b"\x93NUM", b"hello, world", b"\x93NUMPY\x01\x00\x00\x00", PICKLE, npy(data=b"")]
NO_NPY += [b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"{}", npy(version=b"\x09\x00")]
NO_NPY += [npy(data=np.array([np.inf]).tobytes()), npy("<c16", data=bytes(16)), npy("|b1", data=b"\1")]
NO_NPY += [npy(shape=shape) for shape in ("(10000000000000,)", "(-1, -1)", "(" * 300 + ")" * 300)]
NO_NPY += [npy(descr) for descr in ("<M8[s]", [("a", "<f8")], "|O")]


@pytest.mark.parametrize("content", NO_NPY)
def test_damaged_npy(tmp_path, content):
    path = tmp_path / "damaged.npy"
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as error:
        read_arrays(path)
    assert one_sentence(error, path)
    assert "RAN" not in os.environ
    path.write_bytes(npy())
    assert read_arrays(path)["array"] == [0.0]


def flip_bytes(content, rng):
    content = bytearray(content)
    # half of the flips fall into the header, where they hurt most
    end = len(content) if rng.random() < 0.5 else 8 + int.from_bytes(content[:8], "little")
    for place in rng.integers(0, min(end, len(content)), size=rng.integers(1, 9)):
        content[place] = rng.integers(256) if rng.random() < 0.5 else content[place] ^ (1 << rng.integers(8))
    return bytes(content)


def edit_header(content, rng):
    """Replace, drop or rename a field of the header, or of an entry of it."""
    header, data = take_apart(content)
    record = header[str(rng.choice(sorted(header)))] if rng.random() < 0.7 else header
    name, nasty = str(rng.choice(sorted(record))), NASTY[rng.integers(len(NASTY))]
    value = record.pop(name)
    action = rng.integers(4)
    if action == 0:
        record[str(nasty)[:50]] = value
    elif action > 1:
        record[name] = nasty
    return assemble(header, data)


NASTY = [
    -1,
    2**63,
    1.5,
    None,
    "BF16",
    "\ud800",
    [],
    {},
    [0, 8],
    [2**62, 2**62, 0],
    '{"format":1,"kind":"layer"}',
]
MUTATIONS = [flip_bytes, edit_header]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_mutated_files_load_or_raise_the_one_error(tmp_path, mutate):
    """60 files a mutation, each through every reader: none raises anything else, none warns."""
    rng = np.random.default_rng(MUTATIONS.index(mutate))
    positioned = PositionedInputs(GaussianInputs(2, 3), sinusoidal_positions(2, 3))
    layer = make_nice_layer(heads=2, dim=3, rng=0)
    save_layer(tmp_path / "1", layer, inputs=BooleanInputs(2, 3), made={"seed": 0})
    save_layer(tmp_path / "2", layer, inputs=positioned)
    write_tensors(tmp_path / "3", "examples", {"x": np.ones((2, 2, 3)), "y": np.zeros((2, 2, 3))}, {})
    originals = [(tmp_path / name).read_bytes() for name in "123"]
    path = tmp_path / "mutated.safetensors"
    messages = []
    for turn in range(60):
        path.write_bytes(mutate(originals[turn % 3], rng))
        for read in READERS:
            try:
                read(path)
            except FileFormatError as error:
                messages.append(str(error))
    assert len(messages) > 50
    assert all(one.startswith(f"{path}: ") for one in messages)
