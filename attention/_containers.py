"""The containers of the toolkit's files, safetensors and ``.npy``, held to their formats before use."""

import json
import math
import os
import stat
import warnings
from collections.abc import Callable
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
    "guarded",
    "json_object",
    "read_npy",
    "read_safetensors",
    "wrong",
]

HEADER_LIMIT = 16 * 2**20
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


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file, in alphabetical order, and the metadata in its header."""
    file, size = _open(path)
    with file:
        head = guarded(path, "the file cannot be read", lambda: file.read(8))
        length = int.from_bytes(head, "little")
        if len(head) < 8 or not 2 <= length <= min(HEADER_LIMIT, size - 8):
            raise wrong(path, "the file is truncated or no safetensors file: its header has no valid length")
        text = guarded(path, "the file cannot be read", lambda: file.read(length))
        metadata = _check_header(path, text, data_bytes=size - 8 - length)
        data = guarded(path, "the file cannot be read", file.read)
    tensors = guarded(
        path, "the file is no valid safetensors file", lambda: safetensors.numpy.load(head + text + data)
    )
    tensors = {name: np.array(tensors[name]) for name in sorted(tensors)}
    for name, array in tensors.items():
        _require_finite_entries(path, f"tensor {name!r:.100}", array)
    return tensors, metadata


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
    return FileFormatError(f"{path}: {' '.join(what.split())}.")


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


def _check_header(path: Path, text: bytes, *, data_bytes: int) -> dict[str, str]:
    """Hold a safetensors header to its format and to the file's size; the metadata it carries."""
    header = json_object(path, "header", text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise wrong(path, "the header's metadata are not a JSON object of strings")
    spans = sorted(_tensor_span(path, name, entry) for name, entry in header.items())
    end = 0
    for first, last in spans:
        if first != end:
            raise wrong(path, "the tensors in the file overlap or leave gaps")
        end = last
    if end != data_bytes:
        raise wrong(path, f"the header promises {end} bytes of tensors and the file holds {data_bytes}")
    return metadata


def _tensor_span(path: Path, name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end, its entry in the header held to dtype and shape."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise wrong(path, f"tensor {name!r:.100} is not described by its dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
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
    if offsets[1] - offsets[0] != math.prod(shape) * DTYPES[dtype].itemsize:
        raise wrong(path, f"tensor {name!r:.100} has a shape that does not fit its bytes")
    return offsets[0], offsets[1]


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
