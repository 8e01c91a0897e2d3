"""The files of NumPy, ``.npy`` and ``.npz``: pickles are refused, and archives that inflate to huge ones."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from attention.foreign import guarded, printable, require_file, require_finite, wrong
from attention.memory import memory_text

# times the size of an .npz file that its arrays may have; bits in 64-bit integers have 30
_MOST_INFLATED = 200
_SMALL = 64 << 20  # arrays of fewer bytes are read whatever they inflate from
DTYPES = {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
DTYPES |= {f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)}
ALLOWED = "float16 to float64 and 8- to 64-bit integers are allowed"


def read_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file; it must have finite real numbers, and pickles are refused."""
    require_file(path)

    def read() -> np.ndarray:
        with path.open("rb") as file:
            return _array(file)

    array: np.ndarray = guarded(path, "the file is no valid .npy file", read)
    if array.dtype not in DTYPES.values():
        raise wrong(path, f"the array has dtype {array.dtype!s:.50}; {ALLOWED}")
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
                    arrays[name] = _array(file)
        return arrays

    arrays: dict[str, np.ndarray] = guarded(path, "the file is no valid .npz file", read)
    return {name: require_finite(path, f"the array {name:.100}", array) for name, array in arrays.items()}


def _array(file: Any) -> np.ndarray:
    """The array in an open ``.npy`` file, in the machine's byte order."""
    array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.names or file.read(1):
        raise ValueError("it holds records, or more than one array")
    return array.astype(array.dtype.newbyteorder("="), order="C")
