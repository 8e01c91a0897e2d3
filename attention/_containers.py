"""Containers of files, safetensors, ``.npy`` and JSON, held to their formats before use."""

import json
import math
import os
import stat
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.numpy

from attention.errors import FileFormatError

__all__ = [
    "ALLOWED",
    "DTYPES",
    "HEADER_LIMIT",
    "TensorEntry",
    "guarded",
    "json_object",
    "read_entries",
    "read_floats",
    "read_json",
    "read_npy",
    "read_safetensors",
    "wrong",
]

HEADER_LIMIT = 16 * 2**20
_PATH_SHOWN = 400
_AXES_LIMIT = 32  # the most axes of an array in every version of NumPy that is supported
DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
}
ALLOWED = "float16 to float64 and 8- to 64-bit integers are allowed"
_BITS = {name: 8 * dtype.itemsize for name, dtype in DTYPES.items()}
# what else the format knows: checkpoints hold it, and only a tensor that is asked for must be of real numbers
_FOREIGN_BITS = _BITS | {"BF16": 16, "C64": 64, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
_FOREIGN_BITS |= {"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
_FLOATS = {"F64", "F32", "F16", "BF16"}


@dataclass(frozen=True)
class TensorEntry:
    """What the header of a safetensors file says of one tensor.

    Attributes
    ----------
    dtype : str
        The format's own name of the type of the entries, such as "F32" or "BF16".
    shape : tuple of int
        The lengths of the axes.
    """

    dtype: str
    shape: tuple[int, ...]


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file, in alphabetical order, and the metadata in its header."""
    file, size = _open(path)
    with file:
        text, _, metadata = _header(path, file, size, _BITS)
        data = guarded(path, "the file cannot be read", file.read)
    content = len(text).to_bytes(8, "little") + text + data
    tensors = guarded(path, "the file is no valid safetensors file", lambda: safetensors.numpy.load(content))
    tensors = {name: np.array(tensors[name]) for name in sorted(tensors)}
    for name, array in tensors.items():
        _require_finite_entries(path, f"tensor {name!r:.100}", array)
    return tensors, metadata


def read_entries(path: Path) -> dict[str, TensorEntry]:
    """What the header of any safetensors file says of its tensors; none of their bytes are read."""
    file, size = _open(path)
    with file:
        _, header, _ = _header(path, file, size, _FOREIGN_BITS)
    return {name: _entry(header[name]) for name in sorted(header)}


def read_floats(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """The named tensors of any safetensors file as float64; the bytes of no others are read.

    Raises
    ------
    FileFormatError
        If the file is damaged, lacks a name, or holds under one something else than finite float16, bfloat16,
        float32 or float64.
    """
    file, size = _open(path)
    with file:
        text, header, _ = _header(path, file, size, _FOREIGN_BITS)
        tensors = {}
        for name in names:
            if name not in header:
                raise wrong(path, f"the file holds no tensor named {name!r:.200}")
            entry = _entry(header[name])
            if entry.dtype not in _FLOATS:
                raise wrong(
                    path,
                    f"tensor {name!r:.200} has dtype {entry.dtype}; float16 to float64 and bfloat16 are read",
                )
            first, last = header[name]["data_offsets"]
            data = _bytes_at(path, file, 8 + len(text) + first, last - first)
            tensors[name] = _as_floats(data, entry)
            _require_finite_entries(path, f"tensor {name!r:.200}", tensors[name])
    return tensors


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object that a file holds, of `HEADER_LIMIT` bytes at most."""
    file, size = _open(path)
    with file:
        if size > HEADER_LIMIT:
            raise wrong(path, f"the {what} has {size} bytes, and {HEADER_LIMIT} are the most that is read")
        text = guarded(path, "the file cannot be read", file.read)
    return json_object(path, what, text.strip())


def read_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file."""
    file, size = _open(path)
    with file, warnings.catch_warnings():
        # NumPy warns of headers written by Python 2, and Python of odd literals in damaged ones
        warnings.simplefilter("ignore")
        shape, dtype = guarded(path, "the file is no valid .npy file", lambda: _npy_header(file))
        # checked before NumPy allocates what a damaged header asks for
        if dtype.newbyteorder("=") not in DTYPES.values():
            raise wrong(path, f"the array has dtype {str(dtype)[:50]}; {ALLOWED}")
        if len(shape) > _AXES_LIMIT or math.prod(shape) * dtype.itemsize != size - file.tell():
            raise wrong(
                path, f"the file holds {size - file.tell()} bytes for an array of shape {shape!r:.100}"
            )
        file.seek(0)
        array = guarded(
            path,
            "the file is no valid .npy file",
            lambda: np.load(BytesIO(file.read()), allow_pickle=False),
        )
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="))
    _require_finite_entries(path, "the array", array)
    return array


def json_object(path: Path, what: str, text: bytes) -> dict[str, Any]:
    """A JSON object without repeated names and without numbers that are not finite."""
    value = guarded(
        path,
        f"the {what} is not valid JSON",
        lambda: json.loads(
            text.decode("utf-8"), object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite
        ),
    )
    if not isinstance(value, dict) or not text.startswith(b"{"):
        raise wrong(path, f"the {what} is not a JSON object")
    return value


def wrong(path: Path, what: str) -> FileFormatError:
    """The error that says what is wrong with a file."""
    # one line whatever the file holds: an error from inside a damaged file may quote it
    named = str(path)
    if len(named) > _PATH_SHOWN:  # a sentence that nobody reads to its end
        named = f"{named[: _PATH_SHOWN // 2]} ... {named[-_PATH_SHOWN // 2 :]}"
    return FileFormatError(f"{named}: {' '.join(what.split())}.")


def guarded(path: Path, what: str, use: Callable[[], Any]) -> Any:
    """What `use` gives; whatever it raises becomes the file's error."""
    try:
        return use()
    except BaseException as error:
        # a panic of a library's compiled part is no Exception; an interrupt from the keyboard is none of ours
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = str(error).strip().split("\n")[0].rstrip(".")[:200]
        raise wrong(path, f"{what} ({first or type(error).__name__})") from None


def _header(
    path: Path, file: BinaryIO, size: int, bits: Mapping[str, int]
) -> tuple[bytes, dict[str, Any], dict[str, str]]:
    """The header of a safetensors file as text, its tensors and its metadata; the file stands where data begin."""
    head = guarded(path, "the file cannot be read", lambda: file.read(8))
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 2 <= length <= min(HEADER_LIMIT, size - 8):
        raise wrong(path, "the file is truncated or no safetensors file: its header has no valid length")
    text = guarded(path, "the file cannot be read", lambda: file.read(length))
    header, metadata = _check_header(path, text, bits, data_bytes=size - 8 - length)
    return text, header, metadata


def _check_header(
    path: Path, text: bytes, bits: Mapping[str, int], *, data_bytes: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Hold a safetensors header to its format and to the file's size; its tensors and its metadata."""
    header = json_object(path, "header", text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise wrong(path, "the header's metadata are not a JSON object of strings")
    spans = sorted(_tensor_span(path, name, entry, bits) for name, entry in header.items())
    end = 0
    for first, last in spans:
        if first != end:
            raise wrong(path, "the tensors in the file overlap or leave gaps")
        end = last
    if end != data_bytes:
        raise wrong(path, f"the header promises {end} bytes of tensors and the file holds {data_bytes}")
    return header, metadata


def _tensor_span(path: Path, name: str, entry: Any, bits: Mapping[str, int]) -> tuple[int, int]:
    """Where a tensor's bytes begin and end, its entry in the header held to dtype and shape."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise wrong(path, f"tensor {name!r:.100} is not described by its dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in bits:
        raise wrong(path, f"tensor {name!r:.100} has dtype {dtype!r:.50}; {ALLOWED}")
    for numbers in (shape, offsets):
        # type, not isinstance: true is a whole number to Python
        if not isinstance(numbers, list) or not all(type(one) is int and 0 <= one < 2**63 for one in numbers):
            raise wrong(
                path, f"tensor {name!r:.100} has a shape or offsets that are no lists of whole numbers"
            )
    if len(shape) > _AXES_LIMIT or len(offsets) != 2:
        raise wrong(path, f"tensor {name!r:.100} has {len(shape)} axes and {len(offsets)} offsets")
    if math.prod(max(one, 1) for one in shape) >= 2**60:  # no library indexes that, though it may be empty
        raise wrong(path, f"tensor {name!r:.100} has a shape beyond all bounds")
    if 8 * (offsets[1] - offsets[0]) != math.prod(shape) * bits[dtype]:
        raise wrong(path, f"tensor {name!r:.100} has a shape that does not fit its bytes")
    return offsets[0], offsets[1]


def _entry(described: Mapping[str, Any]) -> TensorEntry:
    return TensorEntry(dtype=described["dtype"], shape=tuple(described["shape"]))


def _bytes_at(path: Path, file: BinaryIO, first: int, size: int) -> bytes:
    guarded(path, "the file cannot be read", lambda: file.seek(first))
    data = guarded(path, "the file cannot be read", lambda: file.read(size))
    if len(data) != size:
        raise wrong(path, "the file became shorter while it was read")
    return data


def _as_floats(data: bytes, entry: TensorEntry) -> np.ndarray:
    if entry.dtype == "BF16":  # the upper half of a float32
        bits = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        array = bits.view(np.float32)
    else:
        array = np.frombuffer(data, DTYPES[entry.dtype].newbyteorder("<"))
    with np.errstate(invalid="ignore"):  # a signalling NaN is found by the check of the entries
        return array.astype(np.float64).reshape(entry.shape)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is repeated")
    return dict(pairs)


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{number[:50]} is not finite")
    return float(number)


def _open(path: Path) -> tuple[BinaryIO, int]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
            raise wrong(path, "a file is needed, and this is a directory or a device")
        file = path.open("rb")
        return file, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise wrong(path, "there is no such file") from None
    except FileFormatError:
        raise
    except (OSError, ValueError) as error:
        raise wrong(
            path, f"the file cannot be opened ({getattr(error, 'strerror', None) or error})"
        ) from None


def _npy_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format {version[0]}.{version[1]} is not 1.0 or 2.0")
    shape, _, dtype = readers[version](file)
    if not all(type(one) is int and 0 <= one < 2**63 for one in shape):
        raise ValueError("the shape is not one of whole numbers")
    return shape, dtype


def _require_finite_entries(path: Path, name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise wrong(path, f"{name} holds NaN or infinite entries")
