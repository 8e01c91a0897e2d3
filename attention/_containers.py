"""Safetensors, ``.npy`` and JSON files, read with one kind of error whatever is wrong with them."""

import json
import math
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from attention.errors import FileFormatError

__all__ = [
    "ALLOWED",
    "DTYPES",
    "guarded",
    "json_object",
    "read_json",
    "read_npy",
    "read_safetensors",
    "tensor_names",
    "wrong",
]

DTYPES = {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
DTYPES |= {f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)}
ALLOWED = "float16 to float64 and 8- to 64-bit integers are allowed"
_JSON_LIMIT = 16 * 2**20
_PATH_SHOWN = 400


def tensor_names(path: Path) -> list[str]:
    """The names in the header of a safetensors file, in alphabetical order."""
    return list(_header(path)[0])


def read_safetensors(
    path: Path, names: Collection[str] | None = None, *, bfloat16: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays of a safetensors file, in alphabetical order, and its metadata.

    Parameters
    ----------
    path : path
        The file.
    names : collection of str, optional
        Which arrays; the bytes of no others are read. All if None.
    bfloat16 : bool
        Whether bfloat16 is read too, as float32.

    Raises
    ------
    FileFormatError
        If the file is damaged, lacks a name, or an array is not of finite real numbers.
    """
    entries, metadata = _header(path)
    arrays = {}
    for name in entries if names is None else sorted(names):
        if name not in entries:
            raise wrong(path, f"the file holds no tensor named {name!r:.200}")
        entry, what = entries[name], f"tensor {name!r:.200}"
        if entry["dtype"] not in DTYPES and not (bfloat16 and entry["dtype"] == "BF16"):
            raise wrong(path, f"{what} has dtype {entry['dtype']}; {ALLOWED}")
        array = guarded(path, f"{what} cannot be read", lambda entry=entry: _read(path, entry))  # type: ignore[misc]
        arrays[name] = _finite(path, what, array)
    return arrays, metadata


def read_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file, of finite real numbers; never a pickle."""
    _require_file(path)
    array = guarded(path, "the file is no valid .npy file", lambda: np.load(path, allow_pickle=False))
    if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=") not in DTYPES.values():
        raise wrong(path, f"the array has dtype {getattr(array, 'dtype', None)!s:.50}; {ALLOWED}")
    return _finite(path, "the array", array.astype(array.dtype.newbyteorder("="), copy=False))


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object that a file holds."""
    _require_file(path)
    if path.stat().st_size > _JSON_LIMIT:
        raise wrong(path, f"the {what} has more than {_JSON_LIMIT} bytes")
    text = guarded(path, f"the {what} is not valid JSON", lambda: path.read_text(encoding="utf-8"))
    return json_object(path, what, text)


def json_object(path: Path, what: str, text: str) -> dict[str, Any]:
    """A JSON object without numbers that are not finite."""
    value = guarded(
        path,
        f"the {what} is not valid JSON",
        lambda: json.loads(text, parse_float=_number, parse_constant=_number),
    )
    if not isinstance(value, dict):
        raise wrong(path, f"the {what} is not a JSON object")
    return value


def wrong(path: Path, what: str) -> FileFormatError:
    """The error that says what is wrong with a file, on one line."""
    named = str(path)
    if len(named) > _PATH_SHOWN:
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
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0].rstrip(".")[:200]
        raise wrong(path, f"{what} ({reason or type(error).__name__})") from None


def _require_file(path: Path) -> None:
    if not guarded(path, "the file cannot be opened", lambda: os.path.exists(path)):
        raise wrong(path, "there is no such file")
    if not path.is_file():  # opening a pipe would wait for ever
        raise wrong(path, "a file is needed, and this is a directory or a device")


def _header(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What the header says of each tensor, with the place of its bytes in the file, and the metadata."""
    _require_file(path)

    def read() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        with safe_open(
            path, framework="numpy"
        ) as checked:  # the library holds lengths, offsets and shapes to the file
            metadata = dict(checked.metadata() or {})
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        places = {name: [8 + length + offset for offset in header[name]["data_offsets"]] for name in header}
        return {name: header[name] | {"place": places[name]} for name in sorted(header)}, metadata

    return guarded(path, "the file is no valid safetensors file", read)


def _read(path: Path, entry: Mapping[str, Any]) -> np.ndarray:
    start, end = entry["place"]
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        array = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        stored = DTYPES[entry["dtype"]]
        array = np.frombuffer(data, stored.newbyteorder("<")).astype(stored)
    return array.reshape(entry["shape"])


def _finite(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise wrong(path, f"{name} holds NaN or infinite entries")
    return array


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text[:50]} is not finite")
    return float(text)
