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
    BooleanInputs,
    FileFormatError,
    GaussianInputs,
    PositionedInputs,
    load_layer,
    make_nice_layer,
    save_layer,
    sinusoidal_positions,
    write_examples,
)
from attention.files import read_arrays, read_tensors, write_tensors

READERS = (read_tensors, load_layer, read_arrays)
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


class TestRoundTrip:
    @given(
        tensors=st.dictionaries(
            st.text("abcxyz.é_/", min_size=1, max_size=5),
            st.sampled_from(DTYPES).flatmap(
                lambda dtype: arrays.arrays(
                    np.dtype(dtype),
                    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
                    elements={"allow_nan": False, "allow_infinity": False} if dtype[0] == "f" else None,
                )
            ),
            max_size=4,
        ),
        metadata=st.dictionaries(
            st.text(max_size=4).filter(lambda name: name not in ("format", "kind")),
            st.recursive(
                st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
                ),
                max_leaves=5,
            ),
            max_size=3,
        ),
    )
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_tensors_and_metadata_bit_for_bit(self, tmp_path, tensors, metadata):
        path = tmp_path / "some.safetensors"
        write_tensors(path, "some", tensors, metadata)
        stored = read_tensors(path, kind="some")
        assert stored.kind == "some"
        assert stored.metadata == metadata
        assert list(stored.tensors) == sorted(tensors)
        for name, array in tensors.items():
            back = stored.tensors[name]
            assert back.dtype == array.dtype
            assert back.shape == array.shape
            assert back.tobytes() == array.tobytes()  # minus zero and subnormals included

    def test_same_content_same_bytes(self, tmp_path):
        a, b = np.arange(6.0).reshape(2, 3), np.arange(3, dtype=np.int8)
        write_tensors(tmp_path / "1", "some", {"a": a, "b": b}, {"x": 1, "y": [2.5], "z": {"u": 1, "v": 2}})
        b_first = {"b": b, "a": np.asfortranarray(a)}
        write_tensors(tmp_path / "2", "some", b_first, {"z": {"v": 2, "u": 1}, "y": (2.5,), "x": 1})
        assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()

    def test_arrays_in_other_byte_order_or_strides_keep_their_values(self, tmp_path):
        a = np.arange(12.0).reshape(3, 4)
        write_tensors(tmp_path / "f", "some", {"big": a.astype(">f8"), "strided": a[::2, ::-1].T}, {})
        stored = read_tensors(tmp_path / "f").tensors
        np.testing.assert_array_equal(stored["big"], a)
        np.testing.assert_array_equal(stored["strided"], a[::2, ::-1].T)
        assert stored["big"].dtype == np.float64

    def test_layer(self, tmp_path):
        nice = make_nice_layer(heads=2, dim=3, rng=1)
        made = {"generator": "make_nice_layer", "seed": 1, "sigma": 0.1}
        positioned = PositionedInputs(GaussianInputs(5, 3), sinusoidal_positions(5, 3))
        layers = [nice, nice.map(lambda array: array.astype(np.float32))]
        if find_spec("torch"):
            layers.append(nice.map(__import__("torch").from_numpy))
        for layer, inputs in itertools.product(layers, (None, BooleanInputs(4, 3), positioned)):
            save_layer(tmp_path / "layer", layer, inputs=inputs, made=made)
            back = load_layer(tmp_path / "layer")
            assert (back.kind, back.inputs, back.made) == ("layer", inputs, made)
            for name in ("theta", "w"):
                wanted, found = np.asarray(getattr(layer, name)), getattr(back.layer, name)
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

    def test_names_choose_the_arrays(self, layer_file):
        assert list(read_arrays(layer_file, names=["w"])) == ["w"]
        with pytest.raises(FileFormatError, match="no array named x and none named y"):
            read_arrays(layer_file, names=("x", "w", "y"))


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
            ("some", {}, {"a": "b" * 2**24}, "put what is large into the tensors"),
        ],
    )
    def test_refuses_what_could_not_be_read_back(self, tmp_path, kind, tensors, metadata, match):
        with pytest.raises(ValueError, match=match):
            write_tensors(tmp_path / "f", kind, tensors, metadata)
        assert list(tmp_path.iterdir()) == []

    def test_refuses_metadata_without_end(self, tmp_path):
        endless: list = []
        endless.append(endless)
        with pytest.raises(ValueError, match="no JSON form"):
            write_tensors(tmp_path / "f", "some", {}, {"a": endless})

    @pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((0, 2, 3), (0, 2, 3)), ((1, 2, 3), (2, 2, 3))])
    def test_refuses_what_are_no_examples(self, tmp_path, shapes):
        with pytest.raises(ValueError, match=r"must be \(n, k, d\)"):
            write_examples(tmp_path / "f", np.zeros(shapes[0]), np.zeros(shapes[1]))

    def test_replaces_at_once_or_not_at_all(self, tmp_path, layer_file, monkeypatch):
        before = layer_file.read_bytes()

        def disk_full(*_):
            raise OSError(28, "No space left on device")

        for name in ("fsync", "replace"):
            with monkeypatch.context() as patched:
                patched.setattr(os, name, disk_full)
                with pytest.raises(OSError, match="No space left"):
                    write_tensors(layer_file, "some", {"a": np.zeros(9)}, {})
            assert layer_file.read_bytes() == before
            assert list(tmp_path.iterdir()) == [layer_file]
        write_tensors(layer_file, "some", {"a": np.zeros(9)}, {})
        assert read_tensors(layer_file).kind == "some"
        assert list(tmp_path.iterdir()) == [layer_file]

    def test_missing_folder_or_folder_itself_is_a_plain_os_error(self, tmp_path):
        for path in (tmp_path / "none" / "f", tmp_path):
            with pytest.raises(OSError, match=r"No such file|s a directory"):
                write_tensors(path, "some", {}, {})

    def test_links_stay_links_and_rights_follow_the_umask(self, tmp_path, layer_file):
        (tmp_path / "link").symlink_to(layer_file)
        write_tensors(tmp_path / "link", "some", {}, {})
        assert (tmp_path / "link").is_symlink()
        assert read_tensors(layer_file).kind == "some"
        (tmp_path / "plain").write_bytes(b"")
        assert stat.S_IMODE(layer_file.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


F64 = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
EIGHT = bytes(8)
OWN = {"format": 1, "kind": "some"}


def own(text: str) -> dict:
    return {"__metadata__": {"attention_bounds": text}, "a": F64}


DAMAGED = {
    "empty": b"",
    "zero length": bytes(8) + b"{}",
    "huge length": assemble({"a": F64}, EIGHT, length=2**64 - 1),
    "length beyond the file": assemble({"a": F64}, EIGHT, length=1000),
    "header not text": assemble(b'{"\xff\xfe": 1}'),
    "header a list": assemble("[1, 2]"),
    "header cut": assemble('{"a": {"dtype": "F64"'),
    "deep lists": assemble("[" * 1_000_000),
    "entry a list": assemble({"a": [1]}),
    "field missing": assemble({"a": {"dtype": "F64", "shape": [1]}}, EIGHT),
    "bfloat16": assemble({"a": F64 | {"dtype": "BF16", "shape": [4]}}, EIGHT),
    "bool": assemble({"a": F64 | {"dtype": "BOOL", "shape": [8]}}, EIGHT),
    "complex": assemble({"a": F64 | {"dtype": "C64"}}, EIGHT),
    "unknown dtype": assemble({"a": F64 | {"dtype": "F65"}}, EIGHT),
    "shape negative": assemble({"a": F64 | {"shape": [-1, -1]}}, EIGHT),
    "shape beyond its bytes": assemble({"a": F64 | {"shape": [2]}}, EIGHT),
    "shape beyond all bounds, yet empty": assemble(
        {"a": {**F64, "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]}}
    ),
    "shape of 10000 axes": assemble({"a": F64 | {"shape": [1] * 10_000}}, EIGHT),
    "offsets beyond": assemble({"a": F64 | {"data_offsets": [8, 16]}}, EIGHT),
    "offsets overlap": assemble({"a": F64, "b": F64}, EIGHT),
    "bytes too many": assemble({"a": F64}, EIGHT + b"\0"),
    "nan": assemble({"a": F64}, np.array([np.nan]).tobytes()),
    "float16 infinity": assemble({"a": F64 | {"dtype": "F16", "shape": [4]}}, b"\0\x7c" + bytes(6)),
    "lone surrogate": assemble('{"\\ud800":' + json.dumps(F64) + "}", EIGHT),
    "metadata no object": assemble({"__metadata__": [], "a": F64}, EIGHT),
    "pickle": b"\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94\x8c\x04eval\x94\x93\x94.",
}
OWN_DAMAGED = {
    "no JSON": own("hello"),
    "no format": own('{"kind": "some"}'),
    "format 2": own('{"format": 2, "kind": "some"}'),
    "no kind": own('{"format": 1}'),
    "NaN": own('{"format": 1, "kind": "some", "a": NaN}'),
    "deep": own('{"format": 1, "kind": "some", "a": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "lone surrogate": own("\ud800"),
}


class TestDamaged:
    @pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
    def test_container(self, tmp_path, content):
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(content)
        for read in READERS:
            with pytest.raises(FileFormatError) as error:
                read(path)
            assert one_sentence(error, path)

    @pytest.mark.parametrize("header", OWN_DAMAGED.values(), ids=OWN_DAMAGED)
    def test_own_metadata(self, tmp_path, header):
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(assemble(header, EIGHT))
        with pytest.raises(FileFormatError) as error:
            read_tensors(path)
        assert one_sentence(error, path)

    def test_what_the_damaged_ones_were_made_from_is_fine(self, tmp_path):
        path = tmp_path / "fine.safetensors"
        path.write_bytes(assemble({"a": F64}, EIGHT))
        assert read_arrays(path)["a"] == [0.0]
        path.write_bytes(assemble(own(json.dumps(OWN)), EIGHT))
        assert read_tensors(path).kind == "some"

    def test_no_file(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for name in ("none", ".", "pipe", "n" * 300, "a\0b"):
            for read in READERS:
                with pytest.raises(FileFormatError) as error:
                    read(tmp_path / name)
                assert one_sentence(error, tmp_path / name)

    def test_no_right_to_read(self, layer_file, monkeypatch):
        def refused(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(layer_file), "open", refused)
        with pytest.raises(FileFormatError, match="Permission denied"):
            load_layer(layer_file)

    def test_a_sparse_file_of_a_terabyte_is_refused_by_its_header(self, tmp_path):
        path = tmp_path / "sparse.safetensors"
        path.write_bytes(assemble({"a": F64}, EIGHT))
        os.truncate(path, 2**40)
        with pytest.raises(FileFormatError, match="no valid safetensors file"):
            read_arrays(path)

    def test_kind(self, layer_file):
        assert read_tensors(layer_file, kind="layer").kind == "layer"
        with pytest.raises(FileFormatError, match="of kind 'layer' where 'instance' is needed"):
            read_tensors(layer_file, kind="instance")

    def test_foreign_file_has_no_kind(self, tmp_path):
        (tmp_path / "f").write_bytes(safetensors.numpy.save({"a": np.zeros(1)}, metadata={"format": "np"}))
        with pytest.raises(FileFormatError, match="no metadata of this toolkit"):
            read_tensors(tmp_path / "f")

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("tensors", "match"),
        [
            ({"theta": np.zeros((1, 2, 2))}, "holds no w"),
            ({}, "holds no theta and no w"),
            ({"theta": np.zeros((1, 2, 2)), "w": np.zeros((2, 2, 2))}, "make no layer .*where m is 1"),
            ({"theta": np.zeros((0, 2, 2)), "w": np.zeros((0, 2, 2))}, r"make no layer .*\(m, d, d\)"),
        ],
    )
    def test_no_layer(self, tmp_path, tensors, match):
        write_tensors(tmp_path / "f", "layer", tensors, {})
        with pytest.raises(FileFormatError, match=match):
            load_layer(tmp_path / "f")

    @pytest.mark.parametrize(
        ("metadata", "match"),
        [
            ({"inputs": 3}, "inputs are not described rightly"),
            ({"inputs": {"name": "boolean", "k": 2}}, "inputs are not described rightly"),
            ({"inputs": {"name": "boolean", "k": 2, "d": 3}}, "3 coordinates and the layer 2"),
            ({"made": [1]}, "not as a JSON object"),
        ],
    )
    def test_layer_with_wrong_metadata(self, tmp_path, metadata, match):
        zeros = np.zeros((1, 2, 2))
        write_tensors(tmp_path / "f", "layer", {"theta": zeros, "w": zeros}, metadata)
        with pytest.raises(FileFormatError, match=match):
            load_layer(tmp_path / "f")


def npy(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return (
        b"\x93NUMPY" + version + len(header).to_bytes(2 if version[0] == 1 else 4, "little") + header + data
    )


class TestDamagedNpy:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x93NUM",
            b"hello, world",
            npy(b""),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }", EIGHT),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }", EIGHT),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", np.array([np.inf]).tobytes()),
            npy(
                b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % (b"(" * 300 + b")" * 300), EIGHT
            ),
            npy(b"{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
            npy(b"{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", b"\1"),
            npy(b"{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }", EIGHT),
            npy(b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", EIGHT),
            npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", EIGHT),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", EIGHT, version=b"\x09\x00"),
            npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1is 1,), }", EIGHT),
            npy(b"{'descr': '" + b"\\d" * 9 + b"'", EIGHT),
            b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"{}",
        ],
    )
    def test_container(self, tmp_path, content):
        path = tmp_path / "damaged.npy"
        path.write_bytes(content)
        with pytest.raises(FileFormatError) as error:
            read_arrays(path)
        assert one_sentence(error, path)

    def test_objects_and_archives(self, tmp_path):
        np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        np.savez(tmp_path / "archive.npz", a=np.zeros(1))
        (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
        (tmp_path / "pickle.npy").write_bytes(DAMAGED["pickle"])
        for name in ("object.npy", "archive.npy", "pickle.npy"):
            with pytest.raises(FileFormatError):
                read_arrays(tmp_path / name)


# fmt: off
NASTY = [
    -1, 0, 1, 3, 2**31, 2**63, 2**64, 10**30, 1.5, -0.0, True, None, "", "F64", "BF16", "F16", "I64", "\ud800", [], {},
    [0, 8], [2**62, 2**62, 0], [[[]]], {"dtype": "F64"}, "x" * 3000, [1] * 100, '{"format":1,"kind":"layer"}',
]
# fmt: on


def flip_bytes(content, rng):
    content = bytearray(content)
    # half of the flips fall into the header, where they hurt most
    end = len(content) if rng.random() < 0.5 else 8 + int.from_bytes(content[:8], "little")
    for place in rng.integers(0, min(end, len(content)), size=rng.integers(1, 9)):
        content[place] = rng.integers(256) if rng.random() < 0.5 else content[place] ^ (1 << rng.integers(8))
    return bytes(content)


def truncate(content, rng):
    return content[: rng.integers(0, len(content))]


def splice(content, rng):
    first, last = np.sort(rng.integers(0, len(content), size=2))
    place = rng.integers(0, len(content))
    return (
        content[:place] + content[first:last] + content[place + (0 if rng.random() < 0.5 else last - first) :]
    )


def edit_header(content, rng):
    header, data = take_apart(content)
    name = str(rng.choice(sorted(header)))
    nasty = NASTY[rng.integers(len(NASTY))]
    action = rng.integers(5)
    if action == 0:
        header[name] = nasty
    elif action == 1:
        field = str(rng.choice(sorted(header[name])))
        header[name][field] = nasty
    elif action == 2:
        header[str(nasty)[:50]] = header.pop(name)
    elif action == 3:
        header[name].pop(str(rng.choice(sorted(header[name]))))
    else:
        numbers = header[name].get("data_offsets") or [0]
        numbers[rng.integers(len(numbers))] += int(rng.integers(-16, 17))
    return assemble(header, data)


def edit_own_metadata(content, rng):
    header, data = take_apart(content)
    text = header["__metadata__"]["attention_bounds"]
    if rng.random() < 0.5:
        about = json.loads(text)
        holder = about if rng.random() < 0.5 or not about.get("inputs") else about["inputs"]
        holder[str(rng.choice(sorted(holder)))] = NASTY[rng.integers(len(NASTY))]
        text = json.dumps(about)
    else:
        place = int(rng.integers(len(text)))
        text = (
            text[:place]
            + str(rng.choice(["", "[", "{", '"', "\\", "1e999", "NaN", "[" * 5000]))
            + text[place + 1 :]
        )
    header["__metadata__"]["attention_bounds"] = text
    return assemble(header, data)


MUTATIONS = [flip_bytes, truncate, splice, edit_header, edit_own_metadata]


def loads(read, path) -> bool:
    """Whether `path` loads; False for the one error allowed, and any other error fails the test."""
    try:
        read(path)
    except FileFormatError as error:
        message = str(error)
    else:
        return True
    assert message.startswith(f"{path}: ")
    return False


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_mutated_files_load_or_raise_the_one_error(tmp_path, mutate):
    """60 files a mutation, each through every reader: none raises anything else, none warns."""
    rng = np.random.default_rng(MUTATIONS.index(mutate))
    positioned = PositionedInputs(GaussianInputs(2, 3), sinusoidal_positions(2, 3))
    layer = make_nice_layer(heads=2, dim=3, rng=0)
    save_layer(tmp_path / "1", layer, inputs=BooleanInputs(2, 3), made={"seed": 0})
    save_layer(tmp_path / "2", layer, inputs=positioned)
    write_examples(tmp_path / "3", np.ones((2, 2, 3)), np.zeros((2, 2, 3)))
    originals = [(tmp_path / name).read_bytes() for name in "123"]
    path = tmp_path / "mutated.safetensors"
    refused = []
    for turn in range(60):
        path.write_bytes(mutate(originals[turn % 3], rng))
        refused += [not loads(read, path) for read in READERS]
    assert sum(refused) > 60


@pytest.mark.parametrize("mutate", [flip_bytes, truncate, splice])
def test_mutated_npy_files_load_or_raise_the_one_error(tmp_path, mutate):
    rng = np.random.default_rng(7)
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    content = (tmp_path / "a.npy").read_bytes()
    refused = []
    for _ in range(60):
        (tmp_path / "mutated.npy").write_bytes(mutate(content, rng))
        refused.append(not loads(read_arrays, tmp_path / "mutated.npy"))
    assert sum(refused) > 15
