"""Layers, instances and examples as safetensors files with JSON metadata; their format is checked on reading.

Any error in a file that is read (safetensors, ``.npy`` or JSON) is a `FileFormatError`.
"""

import json
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike

from attention._arrays import shown, to_numpy
from attention.foreign import JSON_LIMIT, escaped, printable, strict_json
from attention.inputs import Inputs, inputs_from_json, inputs_to_json
from attention.layer import AttentionLayer
from attention.memory import memory_text, require_memory
from attention.validation import as_path, checked, require_array

__all__ = [
    "StoredLayer",
    "StoredTensors",
    "load_layer",
    "read_array",
    "read_arrays",
    "read_tensors",
    "save_layer",
    "write_examples",
    "write_tensors",
    "write_whole",
]

FilePath = str | os.PathLike[str]

_METADATA_KEY = "attention_bounds"
_FORMAT = 1
_MOST_INFLATED = (
    200  # times the size of an .npz file that its arrays may have; bits in 64-bit integers have 30
)
_SMALL = 64 << 20  # arrays of fewer bytes are read whatever they inflate from
_DTYPES = {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
_DTYPES |= {f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)}
_ALLOWED = "float16 to float64 and 8- to 64-bit integers are allowed"


class FileFormatError(ValueError):
    """A file is invalid: missing, truncated, of another kind, with wrong shapes, or with entries not finite."""


@dataclass(frozen=True, eq=False)
class StoredTensors:
    """The content of a file of this toolkit."""

    kind: str  #: what the tensors are: "layer", "instance", "examples" or a word of the caller
    tensors: dict[str, np.ndarray]  #: the arrays by name, in alphabetical order
    metadata: dict[str, Any]  #: the JSON values stored beside them


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """A layer from a file, with the file's description of it."""

    layer: AttentionLayer  #: the layer
    #: the distribution of its token matrices; None if the file names none
    inputs: Inputs | None
    #: how it was made: generator, parameters, seed, version; empty if the file does not say. Characters that could move
    #: a terminal's cursor are escaped
    made: dict[str, Any]
    kind: str | None  #: the kind of the file: "layer", "instance" or a word of the caller; None if foreign


@checked
def write_tensors(path: FilePath, kind: str, tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write arrays and JSON metadata as one safetensors file.

    Parameters
    ----------
    path : path
        The file to write. An existing file is replaced atomically once the new one is complete.
    kind : str
        What the tensors are; `read_tensors` can require it.
    tensors : mapping of str to array
        Finite real arrays by name: float16 to float64, or integers of 8 to 64 bits.
    metadata : mapping of str to JSON values
        Values that `json` can write, at most 100 levels deep and with the names of the arrays within 16 MiB; the names
        "format" and "kind" are reserved. Tuples are read back as lists.

    Notes
    -----
    A ValueError if an array is not finite or has another dtype, or the metadata has no JSON form. An OSError if the
    file cannot be written; then no partial file remains. The same content gives the same bytes. Arrays are read back
    bit for bit, in the machine's byte order.
    """
    path = as_path(path)
    if not kind:
        raise ValueError("kind is '': a word that says what the tensors are is needed.")
    arrays = {name: _writable_array(name, tensors[name]) for name in sorted(tensors)}
    if reserved := {"format", "kind"} & set(metadata):
        raise ValueError(f"The metadata name {', '.join(sorted(reserved))}: choose other names.")
    about = {"format": _FORMAT, "kind": kind, **metadata}
    try:
        text = json.dumps(about, sort_keys=True, separators=(",", ":"), allow_nan=False)
        strict_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The metadata have no JSON form that can be read back: {error}.") from None
    # the library copies every array twice, and panics without memory
    require_memory(f"Writing {path}", 2 * sum(array.nbytes for array in arrays.values()))
    data = safetensors.numpy.save(arrays, metadata={_METADATA_KEY: text})
    if (length := int.from_bytes(data[:8], "little")) > JSON_LIMIT:
        raise ValueError(f"The header takes {length} bytes: put what is large into the tensors.")
    write_whole(path, data)


@checked
def read_tensors(path: FilePath, *, kind: str | None = None) -> StoredTensors:
    """Read a file of `write_tensors`; if `kind` is given, the file must be of that kind."""
    path = as_path(path)
    tensors, about = _read(path)
    if about is None:
        raise wrong(path, "the file has no metadata of this toolkit; give one that the toolkit wrote")
    if kind is not None and about["kind"] != kind:
        raise wrong(path, f"the file is of kind {about['kind']!r:.100} where {kind!r} is needed")
    metadata = {name: value for name, value in about.items() if name not in ("format", "kind")}
    return StoredTensors(kind=about["kind"], tensors=tensors, metadata=metadata)


@checked
def save_layer(
    path: FilePath,
    layer: AttentionLayer,
    *,
    inputs: Inputs | None = None,
    made: Mapping[str, Any] | None = None,
) -> None:
    """Write a layer: its parameters, and a record of how they were made.

    Parameters
    ----------
    path : path
        The file to write.
    layer : AttentionLayer
        The layer, of any array library.
    inputs : Inputs, optional
        The distribution of its token matrices.
    made : mapping, optional
        How it was made: generator, parameters, seed, version, as JSON values.
    """
    tensors = {name: to_numpy(array) for name, array in layer.parameters.items()}
    described = None if inputs is None else inputs_to_json(inputs)
    about = {"inputs": described, "made": dict(made or {})}
    write_tensors(path, "layer", tensors, about | ({"causal": True} if layer.causal else {}))


def load_layer(path: FilePath) -> StoredLayer:
    """Read the layer of any safetensors file that holds theta, w and perhaps biases: ours or a foreign one."""
    path = as_path(path)
    tensors, about = _read(path)
    about = about or {}
    if missing := [name for name in ("theta", "w") if name not in tensors]:
        raise wrong(
            path,
            f"the file holds no {' and no '.join(missing)}, so it is no layer (a checkpoint needs a layer's number; a "
            "model of linear attention is for `linear learn`)",
        )
    parameters = {name: tensors.get(name) for name in ("theta", "w", "key_bias", "bias")}
    causal = about.get("causal", False)
    if not isinstance(causal, bool):
        raise wrong(path, f"causal is {causal!r:.40} where true or false is needed")
    layer = guarded(path, "its tensors make no layer", lambda: AttentionLayer(**parameters, causal=causal))
    described, made, inputs = about.get("inputs"), about.get("made") or {}, None
    if not isinstance(made, dict):
        raise wrong(path, "the file says how it was made, but not as a JSON object")
    if described is not None:
        inputs = guarded(path, "the inputs are not described rightly", lambda: inputs_from_json(described))
        if inputs.dim != layer.dim:
            raise wrong(path, f"the inputs have {inputs.dim} coordinates and the layer {layer.dim}")
    return StoredLayer(layer=layer, inputs=inputs, made=escaped(made), kind=about.get("kind"))


@checked
def read_arrays(path: FilePath, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read arrays from a ``.npy`` file (named "array"), or from ``.npz`` or safetensors (named as in the file).

    Parameters
    ----------
    path : path
        The file. If it ends in ``.npy`` or ``.npz``, it is read as such; otherwise as safetensors.
    names : sequence of str, optional
        The arrays that must be present; only these are returned.
    """
    path = as_path(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = read_npz(path)
    else:
        arrays = {"array": read_npy(path)} if suffix == ".npy" else read_safetensors(path)[0]
    if names is None:
        return arrays
    if missing := [name for name in names if name not in arrays]:
        others = f"; it holds {', '.join(map(printable, arrays))}" if arrays else ""
        raise wrong(path, f"the file holds no array named {' and none named '.join(missing)}{others:.200}")
    return {name: arrays[name] for name in names}


def read_array(path: FilePath) -> np.ndarray:
    """Read a file with one array, as `read_arrays` does; a FileFormatError if it has another number of arrays."""
    arrays = read_arrays(path)
    if len(arrays) != 1:
        raise wrong(Path(path), f"the file holds {len(arrays)} arrays where one is needed")
    return next(iter(arrays.values()))


def write_examples(path: FilePath, x: ArrayLike, y: ArrayLike) -> None:
    """Write token matrices and their labels (n, k, d) as one file, for `ExampleOracle.from_files`."""
    x, y = (_writable_array(name, array) for name, array in (("x", x), ("y", y)))
    if x.ndim != 3 or x.shape != y.shape or 0 in x.shape:
        raise ValueError(f"x has shape {x.shape} and y {y.shape}: both must be (n, k, d), and not empty.")
    write_tensors(path, "examples", {"x": x, "y": y}, {})


def write_whole(path: FilePath, data: bytes) -> None:
    """Write a whole file, or leave an existing one unchanged; an OSError if it cannot be written."""
    if "\0" in str(path):
        raise ValueError(f"The path is {shown(str(path))}: one without a NUL character is needed.")
    path = Path(os.path.realpath(path))  # replace the target of a link, not the link
    if path.exists() and not path.is_file():  # write into a device or a pipe; do not replace it
        path.write_bytes(data)
        return
    beside = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:  # it names the file beside, or none
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def read_safetensors(
    path: Path, names: Collection[str] | None = None, *, bfloat16: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays of a safetensors file, in alphabetical order, and its metadata.

    If `names` is given, only the bytes of these arrays are read. If bfloat16 is allowed, it is read as float32.
    """
    entries, metadata = _header(path)
    arrays = {}
    for name in entries if names is None else sorted(names):
        if name not in entries:
            raise wrong(path, f"the file holds no tensor named {name!r:.200}")
        entry, what = entries[name], f"tensor {name!r:.200}"
        if entry["dtype"] not in _DTYPES and not (bfloat16 and entry["dtype"] == "BF16"):
            raise wrong(path, f"{what} has dtype {entry['dtype']}; {_ALLOWED}")
        array = guarded(path, f"{what} cannot be read", lambda entry=entry: _tensor(path, entry))  # type: ignore[misc]
        arrays[name] = require_finite(path, what, array)
    return arrays, metadata


def tensor_types(path: Path) -> dict[str, str]:
    """The names in the header of a safetensors file, in alphabetical order, each with its type, such as BF16."""
    return {name: entry["dtype"] for name, entry in _header(path)[0].items()}


def read_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file; it must have finite real numbers, and pickles are refused."""
    require_file(path)

    def read() -> np.ndarray:
        with path.open("rb") as file:
            return _npy_array(file, path.stat().st_size)

    array: np.ndarray = guarded(path, "the file is no valid .npy file", read)
    if array.dtype not in _DTYPES.values():
        raise wrong(path, f"the array has dtype {array.dtype!s:.50}; {_ALLOWED}")
    return require_finite(path, "the array", array)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, of numbers or text; Python objects are never unpickled.

    The sizes that the archive names are checked before an array is read: a small file may inflate to a huge one.
    """
    require_file(path)

    def read() -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        with zipfile.ZipFile(path) as archive:
            members, size = archive.infolist(), path.stat().st_size
            inflated = sum(member.file_size for member in members)
            if inflated > max(_SMALL, _MOST_INFLATED * size):
                raise ValueError(
                    f"it inflates from {memory_text(size)} to {memory_text(inflated)}: at most {_MOST_INFLATED} "
                    "times is allowed"
                )
            for member in members:
                name = printable(member.filename.removesuffix(".npy"))
                if name in arrays:
                    raise ValueError(f"two arrays are named {name!r:.100}")
                with archive.open(member) as file:
                    arrays[name] = _npy_array(file, member.file_size)
        return arrays

    arrays: dict[str, np.ndarray] = guarded(path, "the file is no valid .npz file", read)
    return {name: require_finite(path, f"the array {name:.100}", array) for name, array in arrays.items()}


def _npy_array(file: Any, size: int) -> np.ndarray:
    """The array in a ``.npy`` file of `size` bytes, in the machine's byte order; ValueError if its header lies."""
    version = np.lib.format.read_magic(file)
    # later versions differ in the names of fields only, which no array of numbers has
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"its format is {version}; 1.0 and 2.0 are read")
    shape, fortran, dtype = read[version](file)
    if dtype.hasobject or dtype.names or dtype.subdtype:
        raise ValueError(f"it holds {dtype!s:.50}, where numbers are needed")
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed != size - file.tell():
        raise ValueError(
            f"it holds {size - file.tell()} bytes for an array of shape {shape!s:.100} of {dtype!s:.50}"
        )
    require_memory("It", 2 * needed, advice="take fewer numbers")
    array = np.frombuffer(file.read(needed), dtype).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), order="C")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file, its strings `printable`."""
    require_file(path)
    if path.stat().st_size > JSON_LIMIT:
        raise wrong(path, f"the {what} has more than {JSON_LIMIT} bytes")
    return dict(escaped(_json_object(path, what, path.read_bytes)))


def wrong(path: Path, what: str) -> FileFormatError:
    """The error that says what is wrong with a file, on one line."""
    return FileFormatError(f"{path}: {' '.join(what.split())}.")


def guarded(path: Path, what: str, use: Callable[[], Any]) -> Any:
    """The result of `use`; any error that it raises becomes a FileFormatError."""
    try:
        return use()
    except FileFormatError:
        raise
    except BaseException as error:
        # a panic in a library's Rust code is not an Exception; do not catch KeyboardInterrupt
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0].rstrip(".")[:200]
        raise wrong(path, f"{what} ({reason or type(error).__name__})") from None


def require_finite(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """The array of a file; a FileFormatError if it has entries that are not finite."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise wrong(path, f"{name} holds NaN or infinite entries")
    return array


def _writable_array(name: str, array: Any) -> np.ndarray:
    if not isinstance(name, str) or not name or name == "__metadata__" or not name.isprintable():
        raise ValueError(f"A tensor is named {name!r}: a printable name other than __metadata__ is needed.")
    try:
        array = np.asarray(to_numpy(array))
    except ValueError:
        raise ValueError(f"{name} is a {type(array).__name__} that makes no array: {_ALLOWED}.") from None
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if array.dtype not in _DTYPES.values():
        raise ValueError(f"{name} is an array of {array.dtype}: {_ALLOWED}.")
    require_array(name, array)
    return array


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """The arrays of a safetensors file, and the metadata of this toolkit if the file has them."""
    tensors, metadata = read_safetensors(path)
    text = metadata.get(_METADATA_KEY)
    if text is None:
        return tensors, None
    about = _json_object(path, "metadata of this toolkit", lambda: text)
    if about.get("format") != _FORMAT or not isinstance(about.get("kind"), str) or not about["kind"]:
        raise wrong(path, f"the file is not of format {_FORMAT}, which this version reads, with its kind")
    return tensors, about


def require_file(path: Path) -> None:
    if not guarded(path, "the file cannot be opened", lambda: os.path.exists(path)):
        raise wrong(path, "there is no such file")
    if not path.is_file():  # opening a pipe would block forever
        raise wrong(path, "a file is needed, and this is a directory or a device")


def _header(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The header entry of each tensor, with the offset of its bytes in the file; and the metadata."""
    require_file(path)

    def read() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > JSON_LIMIT:
                raise ValueError(f"its header takes {length} bytes; {JSON_LIMIT} are allowed")
            header = strict_json(file.read(length))
        # the library checks lengths, offsets and shapes, but reads no bfloat16 into NumPy, and of two equal names one
        with safetensors.safe_open(path, framework="numpy"):
            metadata = header.pop("__metadata__", None) or {}
        for entry in header.values():
            entry["place"] = 8 + length + entry["data_offsets"][0]
        entries = {printable(name): header[name] for name in sorted(header)}
        if len(entries) < len(header):
            raise ValueError("two of its tensors have one printable name")
        return entries, metadata

    return guarded(path, "the file is no valid safetensors file", read)


def _tensor(path: Path, entry: Mapping[str, Any]) -> np.ndarray:
    brain = entry["dtype"] == "BF16"  # bfloat16 is the upper half of a float32
    dtype = np.dtype(np.uint16) if brain else _DTYPES[entry["dtype"]]
    array = np.fromfile(path, dtype.newbyteorder("<"), math.prod(entry["shape"]), offset=entry["place"])
    array = (array.astype(np.uint32) << 16).view(np.float32) if brain else array.astype(dtype, copy=False)
    return array.reshape(entry["shape"])


def _json_object(path: Path, what: str, text: Callable[[], str | bytes]) -> dict[str, Any]:
    value = guarded(path, f"the {what} is not valid JSON", lambda: strict_json(text()))
    if not isinstance(value, dict):
        raise wrong(path, f"the {what} is not a JSON object")
    return value
