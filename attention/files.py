"""Layers, instances and examples as safetensors files with JSON metadata, held to their format before use."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike

from attention._arrays import shown, to_numpy
from attention._containers import (
    ALLOWED,
    DTYPES,
    guarded,
    json_object,
    read_npy,
    read_safetensors,
    wrong,
)
from attention.inputs import Inputs, inputs_from_json, inputs_to_json
from attention.layer import AttentionLayer
from attention.validation import as_path, checked, require_finite

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
_METADATA_LIMIT = 16 * 2**20


@dataclass(frozen=True, eq=False)
class StoredTensors:
    """What a file of this toolkit holds.

    Attributes
    ----------
    kind : str
        What the tensors are: "layer", "instance", "examples" or a caller's own word.
    tensors : dict of str to array
        The arrays by name, in alphabetical order.
    metadata : dict
        The JSON values stored beside them.
    """

    kind: str
    tensors: dict[str, np.ndarray]
    metadata: dict[str, Any]


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """A layer from a file, with what the file says about it.

    Attributes
    ----------
    layer : AttentionLayer
        The layer.
    inputs : Inputs or None
        The distribution of the token matrices it was made for; None if the file names none.
    made : dict
        How it was made: generator, parameters, seed, version; empty if the file does not say.
    kind : str or None
        The kind of the file: "layer", "instance" or a caller's own; None for a foreign file.
    """

    layer: AttentionLayer
    inputs: Inputs | None
    made: dict[str, Any]
    kind: str | None


@checked
def write_tensors(path: FilePath, kind: str, tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write arrays and JSON metadata as one safetensors file.

    Parameters
    ----------
    path : path
        Where to; a file that is there is replaced at once when the new one is complete.
    kind : str
        What the tensors are; `read_tensors` can insist on it.
    tensors : mapping of str to array
        Finite real arrays by name: float16 to float64, or integers of 8 to 64 bits.
    metadata : mapping of str to JSON values
        Anything `json` writes, apart from the names "format" and "kind". Tuples come back as lists.

    Raises
    ------
    ValueError
        If an array is not finite or of another dtype, or the metadata has no JSON form.
    OSError
        If the file cannot be written; then nothing is left behind.

    Notes
    -----
    The same content gives the same bytes. Arrays come back bit for bit, in the machine's byte order.
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
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The metadata have no JSON form: {error}.") from None
    if len(text) > _METADATA_LIMIT:
        raise ValueError(f"The metadata take {len(text)} characters: put what is large into the tensors.")
    write_whole(path, safetensors.numpy.save(arrays, metadata={_METADATA_KEY: text}))


@checked
def read_tensors(path: FilePath, *, kind: str | None = None) -> StoredTensors:
    """Read what `write_tensors` wrote; the file must be of that `kind`, if one is given.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, of another kind, or holds an entry that is not finite.
    """
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
    """Write a layer: its parameters as data, and how they were made for the record.

    Parameters
    ----------
    path : path
        Where to.
    layer : AttentionLayer
        The layer, of any array library.
    inputs : Inputs, optional
        The distribution of the token matrices it is meant for.
    made : mapping, optional
        How it was made: generator, parameters, seed, version, as JSON values.

    Raises
    ------
    ValueError
        If `made` has no JSON form.
    OSError
        If the file cannot be written.
    """
    tensors = {"theta": to_numpy(layer.theta), "w": to_numpy(layer.w)}
    described = None if inputs is None else inputs_to_json(inputs)
    write_tensors(path, "layer", tensors, {"inputs": described, "made": dict(made or {})})


def load_layer(path: FilePath) -> StoredLayer:
    """Read the layer of any safetensors file that holds theta and w: a layer, an instance, or a foreign file.

    Raises
    ------
    FileFormatError
        If the file is missing or damaged, or theta and w make no layer.
    """
    path = as_path(path)
    tensors, about = _read(path)
    about = about or {}
    if missing := [name for name in ("theta", "w") if name not in tensors]:
        raise wrong(
            path,
            f"the file holds no {' and no '.join(missing)}, so it is no layer (a checkpoint needs a layer's number; a "
            "model of linear attention is for `linear learn`)",
        )
    layer = guarded(
        path, "theta and w make no layer", lambda: AttentionLayer(theta=tensors["theta"], w=tensors["w"])
    )
    described, made, inputs = about.get("inputs"), about.get("made") or {}, None
    if not isinstance(made, dict):
        raise wrong(path, "the file says how it was made, but not as a JSON object")
    if described is not None:
        inputs = guarded(path, "the inputs are not described rightly", lambda: inputs_from_json(described))
        if inputs.d != layer.dim:
            raise wrong(path, f"the inputs have {inputs.d} coordinates and the layer {layer.dim}")
    return StoredLayer(layer=layer, inputs=inputs, made=made, kind=about.get("kind"))


@checked
def read_arrays(path: FilePath, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read arrays from a ``.npy`` file (named "array") or from any safetensors file (named as there).

    Parameters
    ----------
    path : path
        The file; the ending ``.npy`` decides which of the two formats is read.
    names : sequence of str, optional
        The arrays that must be there, and the only ones given back.

    Raises
    ------
    FileFormatError
        If the file is missing or damaged, lacks a name, or holds an entry that is not finite.
    """
    path = as_path(path)
    arrays = {"array": read_npy(path)} if path.suffix.lower() == ".npy" else read_safetensors(path)[0]
    if names is None:
        return arrays
    if missing := [name for name in names if name not in arrays]:
        raise wrong(path, f"the file holds no array named {' and none named '.join(missing)}")
    return {name: arrays[name] for name in names}


def read_array(path: FilePath) -> np.ndarray:
    """Read the one array of a file that `read_arrays` reads; FileFormatError if it holds another number."""
    arrays = read_arrays(path)
    if len(arrays) != 1:
        raise wrong(Path(path), f"the file holds {len(arrays)} arrays where one is needed")
    return next(iter(arrays.values()))


def write_examples(path: FilePath, x: ArrayLike, y: ArrayLike) -> None:
    """Write token matrices and their labels (n, k, d) as one file, for `ExampleOracle.from_files`.

    Raises
    ------
    ValueError
        If the shapes differ or are not (n, k, d), or an entry is not finite.
    """
    x, y = (_writable_array(name, array) for name, array in (("x", x), ("y", y)))
    if x.ndim != 3 or x.shape != y.shape or 0 in x.shape:
        raise ValueError(f"x has shape {x.shape} and y {y.shape}: both must be (n, k, d), and not empty.")
    write_tensors(path, "examples", {"x": x, "y": y}, {})


def write_whole(path: FilePath, data: bytes) -> None:
    """Write a whole file or leave the one that is there; OSError if it cannot be written."""
    if "\0" in str(path):
        raise ValueError(f"The path is {shown(str(path))}: one without a NUL character is needed.")
    path = Path(os.path.realpath(path))  # a link keeps pointing at what is replaced
    if path.exists() and not path.is_file():  # a device or a pipe takes the bytes and stays what it is
        path.write_bytes(data)
        return
    beside = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


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
    require_finite(name, array)
    return array


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """The arrays of a safetensors file and, where it has them, the metadata of this toolkit."""
    tensors, metadata = read_safetensors(path)
    text = metadata.get(_METADATA_KEY)
    if text is None:
        return tensors, None
    about = json_object(path, "metadata of this toolkit", text)
    if about.get("format") != _FORMAT or not isinstance(about.get("kind"), str) or not about["kind"]:
        raise wrong(path, f"the file is not of format {_FORMAT}, which this version reads, with its kind")
    return tensors, about
