"""Layers, instances and examples as safetensors files with JSON metadata; their format is checked on reading.

Any error in a file that is read (safetensors, ``.npy`` or JSON) is a `FileFormatError`.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from attention._arrays import shown, to_numpy
from attention.block import Block
from attention.feed_forward import FeedForward
from attention.foreign import (
    JSON_LIMIT,
    escaped,
    guarded,
    json_object,
    printable,
    require_file,
    require_finite,
    strict_json,
    wrong,
)
from attention.inputs import Inputs, inputs_from_json, inputs_to_json
from attention.layer import AttentionLayer, Layer
from attention.norm import Norm
from attention.numpy_files import ALLOWED, DTYPES, read_npy, read_npz
from attention.rotary import RotaryLayer
from attention.validation import checked, require_array

__all__ = [
    "StoredLayer",
    "StoredTensors",
    "load_layer",
    "read_array",
    "read_arrays",
    "read_tensors",
    "save_layer",
    "write_tensors",
    "write_whole",
]

FilePath = str | os.PathLike[str]

_METADATA_KEY = "attention_bounds"
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class StoredTensors:
    """The content of a file of this toolkit."""

    kind: str  #: what the tensors are: "layer", "rotary", "instance", "examples" or a word of the caller
    tensors: dict[str, np.ndarray]  #: the arrays by name, in alphabetical order
    metadata: dict[str, Any]  #: the JSON values stored beside them


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """A layer from a file, with the file's description of it."""

    layer: Layer | Block  #: the layer, or a block
    #: the distribution of its token matrices; None if the file names none
    inputs: Inputs | None
    #: how it was made: generator, parameters, seed, version; empty if the file does not say. Characters that could move
    #: a terminal's cursor are escaped
    made: dict[str, Any]
    #: the kind of the file: "layer", "rotary", "block", "instance" or a word of the caller; None if foreign
    kind: str | None


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
    path = Path(path)
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
    data = safetensors.numpy.save(arrays, metadata={_METADATA_KEY: text})
    if (length := int.from_bytes(data[:8], "little")) > JSON_LIMIT:
        raise ValueError(f"The header takes {length} bytes: put what is large into the tensors.")
    write_whole(path, data)


@checked
def read_tensors(path: FilePath, *, kind: str | None = None) -> StoredTensors:
    """Read a file of `write_tensors`; if `kind` is given, the file must be of that kind."""
    path = Path(path)
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
    layer: Layer | Block,
    *,
    inputs: Inputs | None = None,
    made: Mapping[str, Any] | None = None,
) -> None:
    """Write a layer, also one with rotary positions, or a block: its parameters, and a record of how they were made.

    Parameters
    ----------
    path : path
        The file to write.
    layer : AttentionLayer, RotaryLayer or Block
        The layer or block, of any array library.
    inputs : Inputs, optional
        The distribution of its token matrices.
    made : mapping, optional
        How it was made: generator, parameters, seed, version, as JSON values.
    """
    described = None if inputs is None else inputs_to_json(inputs)
    about: dict[str, Any] = {"inputs": described, "made": dict(made or {})}
    if layer.causal:
        about["causal"] = True
    if isinstance(layer, Block):
        network, kind, parameters = (
            layer.network,
            "block",
            {**layer.layer.parameters, **layer.network.parameters},
        )
        about |= {"activation": network.activation, "residuals": [layer.residual, network.residual]}
        if layer.norms is not None:
            about["norms"] = [{"eps": norm.eps, "centred": norm.centred} for norm in layer.norms]
            about["norm_first"] = layer.norm_first
            for name, norm in zip(("norm1", "norm2"), layer.norms, strict=True):
                parameters |= {f"{name}_gain": norm.gain, f"{name}_offset": norm.offset}
    else:
        kind, parameters = "rotary" if isinstance(layer, RotaryLayer) else "layer", layer.parameters
    write_tensors(path, kind, {name: to_numpy(array) for name, array in parameters.items()}, about)


@checked
def load_layer(path: FilePath) -> StoredLayer:
    """Read the layer of any safetensors file that holds theta, w and perhaps biases: ours or a foreign one.

    Of a file of a block it is the `Block`; of one with queries, keys, w and frequencies, the `RotaryLayer`.
    """
    path = Path(path)
    tensors, about = _read(path)
    about = about or {}
    rotary = "queries" in tensors
    needed = ("queries", "keys", "w", "frequencies") if rotary else ("theta", "w")
    if missing := [name for name in needed if name not in tensors]:
        raise wrong(
            path,
            f"the file holds no {' and no '.join(missing)}, so it is no layer (a checkpoint needs a layer's number; a "
            "model of linear attention is for `linear learn`)",
        )
    biases = ("query_bias", "key_bias", "bias") if rotary else ("key_bias", "bias")
    parameters = {name: tensors.get(name) for name in (*needed, *biases)}
    causal = about.get("causal", False)
    if not isinstance(causal, bool):
        raise wrong(path, f"causal is {causal!r:.40} where true or false is needed")
    built: Any = RotaryLayer if rotary else AttentionLayer
    layer = guarded(path, "its tensors make no layer", lambda: built(**parameters, causal=causal))
    if about.get("kind") == "block":
        layer = guarded(path, "its tensors make no block", lambda: _block(layer, tensors, about))
    described, made, inputs = about.get("inputs"), about.get("made") or {}, None
    if not isinstance(made, dict):
        raise wrong(path, "the file says how it was made, but not as a JSON object")
    if described is not None:
        inputs = guarded(path, "the inputs are not described rightly", lambda: inputs_from_json(described))
        if inputs.dim != layer.dim:
            raise wrong(path, f"the inputs have {inputs.dim} coordinates and the layer {layer.dim}")
    return StoredLayer(layer=layer, inputs=inputs, made=escaped(made), kind=about.get("kind"))


def _block(layer: AttentionLayer, tensors: Mapping[str, Any], about: Mapping[str, Any]) -> Block:
    residual, of_network = about["residuals"]
    parts = {name: tensors[name] for name in ("w1", "b1", "w2", "b2")}
    network = FeedForward(**parts, activation=about["activation"], residual=of_network)
    if "norms" not in about:
        return Block(layer, network, residual)
    first, second = (
        Norm(tensors[f"norm{i}_gain"], tensors[f"norm{i}_offset"], **of_norm)
        for i, of_norm in enumerate(about["norms"], start=1)
    )
    return Block(layer, network, residual, (first, second), about.get("norm_first", True))


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
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = read_npz(path)
    else:
        arrays = {"array": read_npy(path)} if suffix == ".npy" else _tensors(path)[0]
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


def stored_tensors(path: Path) -> dict[str, Callable[[], tuple[np.ndarray, str]]]:
    """The tensors of a safetensors file, in alphabetical order, each as a function that gives the array and its type.

    Only the bytes of an array that is asked for are read. A bfloat16 is read as float32.
    """
    return {name: partial(_tensor, path, name, entry) for name, entry in _header(path)[0].items()}


def _writable_array(name: str, array: Any) -> np.ndarray:
    if not isinstance(name, str) or not name or name == "__metadata__" or not name.isprintable():
        raise ValueError(f"A tensor is named {name!r}: a printable name other than __metadata__ is needed.")
    try:
        array = np.asarray(to_numpy(array))
    except ValueError:
        raise ValueError(f"{name} is a {type(array).__name__} that makes no array: {ALLOWED}.") from None
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if array.dtype not in DTYPES.values():
        raise ValueError(f"{name} is an array of {array.dtype}: {ALLOWED}.")
    require_array(name, array)
    return array


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """The arrays of a safetensors file, and the metadata of this toolkit if the file has them."""
    tensors, metadata = _tensors(path)
    text = metadata.get(_METADATA_KEY)
    if text is None:
        return tensors, None
    about = json_object(path, "metadata of this toolkit", lambda: text)
    if about.get("format") != _FORMAT or not isinstance(about.get("kind"), str) or not about["kind"]:
        raise wrong(path, f"the file is not of format {_FORMAT}, which this version reads, with its kind")
    return tensors, about


def _tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    entries, metadata = _header(path)
    return {name: _tensor(path, name, entry, bfloat16=False)[0] for name, entry in entries.items()}, metadata


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


def _tensor(
    path: Path, name: str, entry: Mapping[str, Any], *, bfloat16: bool = True
) -> tuple[np.ndarray, str]:
    what, brain = f"tensor {name!r:.200}", entry["dtype"] == "BF16"  # bfloat16 is the upper half of a float32
    if entry["dtype"] not in DTYPES and not (bfloat16 and brain):
        raise wrong(path, f"{what} has dtype {entry['dtype']}; {ALLOWED}")
    dtype = np.dtype(np.uint16) if brain else DTYPES[entry["dtype"]]

    def read() -> np.ndarray:
        array = np.fromfile(path, dtype.newbyteorder("<"), math.prod(entry["shape"]), offset=entry["place"])
        array = (array.astype(np.uint32) << 16).view(np.float32) if brain else array.astype(dtype, copy=False)
        return array.reshape(entry["shape"])

    array: np.ndarray = guarded(path, f"{what} cannot be read", read)
    return require_finite(path, what, array), "bfloat16" if brain else str(dtype)
