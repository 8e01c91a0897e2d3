"""Samples as files: .npz, the text of the LWE challenges, and matrices as .npy or in the text of fplll."""

import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention import FileFormatError
from attention.files import guarded, read_npy, read_npz, require_file, write_whole, wrong
from attention.foreign import strict_json
from attention.validation import checked, count
from lwe.distributions import NO_NOISE, DiscreteGaussian
from lwe.parameters import LWEParameters, centred
from lwe.residues import LARGEST_MODULUS, whole_array
from lwe.samples import LWRSamples

__all__ = [
    "StoredSamples",
    "kind_of_file",
    "read_matrix",
    "read_samples",
    "save_samples",
    "write_matrix",
]

_NAMES = (("A", "b"), ("X", "y"))
_ROW = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """The content of a file of samples."""

    samples: LWRSamples
    parameters: LWEParameters
    secret: Int[np.ndarray, " n"] | None  #: the secret, centred mod q, if the file has it


@checked
def save_samples(
    path: str | Path, samples: LWRSamples, parameters: LWEParameters, *, secret: ArrayLike | None = None
) -> None:
    """Write samples as one file that `read_samples` reads back unchanged: .npz, or .txt as in the LWE challenges.

    .npz has the arrays A and b, the parameters as a JSON text, and the secret if it is given. .txt has lines with n, m,
    q and alpha, the vector b and the matrix A in brackets; alpha q is the standard deviation of the errors. It holds
    only learning with errors with a uniform matrix and secret, and Gaussian errors or none. ValueError if it cannot
    hold the problem, the ending is another one, or the samples do not fit the parameters.

    Examples
    --------
    >>> import tempfile
    >>> from lwe import make_samples
    >>> parameters = LWEParameters(4, 17, 17, "uniform", Xe=DiscreteGaussian(1.5))
    >>> samples, _ = make_samples(parameters, 5, rng=0)
    >>> path = Path(tempfile.mkdtemp()) / "challenge.txt"
    >>> save_samples(path, samples, parameters)
    >>> path.read_text().splitlines()[:5]
    ['4', '5', '17', '0.08823529411764706', '[7 0 12 4 1]']
    >>> again = read_samples(path)
    >>> again.parameters == parameters, bool((again.samples.public == samples.public).all())
    (True, True)
    """
    path = Path(path)
    own = _fitting(path, samples.public, samples.labels, parameters)
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {
            "A": own.public,
            "b": own.labels,
            "parameters": json.dumps(parameters.to_json()),
        }
        if secret is not None:
            arrays["secret"] = _fitting_secret(path, whole_array("secret", secret), parameters)
        written = io.BytesIO()
        np.savez_compressed(written, **arrays)
        write_whole(path, written.getvalue())
        return
    if path.suffix != ".txt":
        raise ValueError(
            f"{path}: samples are written as .npz, or as .txt in the format of the LWE challenges."
        )
    n, q, noise = parameters.n, parameters.q, parameters.Xe
    plain = LWEParameters(n, q, q, "uniform", Xe=noise)
    sigma = noise.sigma if isinstance(noise, DiscreteGaussian) else 0.0
    unnamed = parameters.updated(m=None, tag="")
    if unnamed != plain or (noise != NO_NOISE and sigma == 0) or secret is not None:
        raise ValueError(
            f"{path}: the text of the LWE challenges is for unrounded labels, a uniform matrix and secret, and "
            f"Gaussian errors or none, and holds no secret; {parameters} needs .npz."
        )
    head = f"{n}\n{len(own)}\n{q}\n{_alpha(sigma, q)}\n"
    write_whole(path, f"{head}{_text(own.labels)}\n{_text(own.public)}\n".encode())


@checked
def read_samples(
    path: str | Path,
    parameters: LWEParameters | Mapping[str, Any] | None = None,
    *,
    labels_path: str | Path | None = None,
    secret_path: str | Path | None = None,
) -> StoredSamples:
    """Samples from files: .npz with arrays A, b or X, y; the text of an LWE challenge; or matrices, one a file.

    FileFormatError if a file is missing or damaged, holds Python objects (which are never unpickled), numbers that are
    not whole, an array of another shape, or a number out of range. ValueError if parameters are missing or given twice.

    Parameters
    ----------
    path : path
        The samples, or the matrix A of shape (N, n), one row a sample, as `read_matrix` reads it.
    parameters : LWEParameters or mapping, optional
        The problem: for matrices, and for .npz of other programs, which do not hold it. A mapping has its fields but
        `n`, which is then the number of columns.
    labels_path : path, optional
        With a matrix: the labels b of shape (N,).
    secret_path : path, optional
        The secret of shape (n,), where it is known.

    Notes
    -----
    Labels that are not rounded (p = q), and a uniform matrix, may be given centred, between -q/2 and q/2; they are
    reduced mod q. In a ternary matrix q - 1 may stand for -1. Whole numbers in floating point are accepted. Whether the
    secret explains the labels is not checked. The LWE challenges have uniform secrets and discrete Gaussian errors of
    standard deviation alpha q; they are read as normal errors rounded to whole numbers.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "A.npy", np.array([[1, -2], [3, 0], [0, 1]]))
    >>> write_matrix(folder / "b.txt", np.array([-1, 3, 1]))
    >>> problem = {"q": 7, "matrix": "uniform"}
    >>> found = read_samples(folder / "A.npy", problem, labels_path=folder / "b.txt")
    >>> found.samples.public.tolist(), found.samples.labels.tolist(), str(found.parameters)
    ([[1, 5], [3, 0], [0, 1]], [6, 3, 1], 'LWE n=2 q=7 p=7 uniform')
    """
    path, kind, stored, secret = Path(path), kind_of_file(path), None, None
    if (labels_path is None) == (kind == "matrix"):
        needed = (
            "a matrix: labels_path is needed, too" if kind == "matrix" else "no matrix: leave labels_path out"
        )
        raise ValueError(f"{path} is {needed}.")
    if labels_path is not None:
        public, labels = read_matrix(path), read_matrix(labels_path)
    elif kind == "challenge":
        stored, public, labels = _read_challenge(path)
    else:
        arrays = read_npz(path)
        names = next((pair for pair in _NAMES if set(pair) <= set(arrays)), None)
        if names is None:
            raise wrong(path, f"it has the arrays {', '.join(arrays)[:200]}: A and b, or X and y, are needed")
        public, labels, secret = arrays[names[0]], arrays[names[1]], arrays.get("secret")
        if "parameters" in arrays:
            text = str(arrays["parameters"])
            stored = guarded(
                path, "its parameters are wrong", lambda: LWEParameters.from_json(strict_json(text))
            )
    if (stored is None) == (parameters is None):
        told = f"says itself that it is {stored}: leave parameters, such as the modulus, out"
        raise ValueError(f"{path} {told if stored else 'does not say its modulus: parameters are needed'}.")
    known = parameters if stored is None else stored
    if not isinstance(known, LWEParameters):
        if public.ndim != 2 or not public.size:
            raise wrong(path, f"A has shape {public.shape}: a matrix of one row a sample is needed")
        known = LWEParameters(n=public.shape[1], **dict(known or {}))
    samples = _fitting(path, public, labels, known, labels_path)
    if secret_path is not None:
        secret = read_matrix(secret_path)
    own = None if secret is None else _fitting_secret(secret_path or path, secret, known)
    return StoredSamples(samples, known, own)


@checked
def read_matrix(path: str | Path) -> np.ndarray:
    """The array of an .npy file, or the matrix or vector of whole numbers in a text such as [[1 2][3 4]] or [1 2].

    The text is that of fplll and fpylll; commas and line breaks may stand between numbers and rows. FileFormatError if
    the file holds no such thing.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return read_npy(path)
    text = _read_text(path)
    rows = _ROW.findall(text)
    skeleton = _skeleton(text)
    if skeleton not in ("r", f"[{'r' * len(rows)}]"):
        raise wrong(path, "the file is no valid .npy file and no matrix such as [[1 2][3 4]]")
    found = _rows(path, rows)
    return found[0] if skeleton == "r" else found


@checked
def write_matrix(path: str | Path, array: ArrayLike) -> None:
    """Write a matrix or a vector of whole numbers, as .npy or, for any other ending, in the text of fplll."""
    found = whole_array("array", array)
    if found.ndim not in (1, 2) or not found.size:
        raise ValueError(f"array has shape {found.shape}: a matrix or a vector with entries is needed.")
    if Path(path).suffix == ".npy":
        written = io.BytesIO()
        np.save(written, found, allow_pickle=False)
        write_whole(path, written.getvalue())
    else:
        write_whole(path, f"{_text(found)}\n".encode())


def kind_of_file(path: str | Path) -> Literal["matrix", "npz", "challenge"] | None:
    """What a file looks like; None if it looks like none of these or is not there."""
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        return "matrix" if path.suffix == ".npy" else "npz"
    start = b""
    if os.path.isfile(path):
        with path.open("rb") as file:
            start = file.read(64)
    if b"\0" in start[:8]:  # the length of a safetensors header
        return None
    first = start.strip()[:1]
    return "matrix" if first == b"[" else "challenge" if first.isdigit() else None


def _fitting(
    path: str | Path,
    public: np.ndarray,
    labels: np.ndarray,
    parameters: LWEParameters,
    labels_path: str | Path | None = None,
) -> LWRSamples:
    """The samples, reduced mod q where the parameters allow it; FileFormatError unless they fit the parameters."""
    q, p, n = parameters.q, parameters.p, parameters.n
    labels_path = labels_path or path
    residues = (-(q // 2), q - 1)
    entries = {"binary": (0, 1), "ternary": (-1, 1)}.get(parameters.matrix, residues)
    public = _whole(path, "A", public, ("N", n))
    if parameters.matrix == "ternary" and q > 2:
        public = np.where(public == q - 1, -1, public)
    _require_range(path, "A", public, *entries)
    labels = _whole(labels_path, "b", labels, (len(public),))
    _require_range(labels_path, "b", labels, *((0, p - 1) if p < q else residues))
    return LWRSamples(np.mod(public, q) if entries == residues else public, np.mod(labels, q))


def _fitting_secret(path: str | Path, secret: np.ndarray, parameters: LWEParameters) -> Int[np.ndarray, " n"]:
    secret = _whole(path, "The secret", secret, (parameters.n,))
    _require_range(path, "The secret", secret, -parameters.q + 1, parameters.q - 1)
    return centred(secret, parameters.q)


def _whole(path: str | Path, name: str, array: np.ndarray, shape: tuple[int | str, ...]) -> np.ndarray:
    try:
        array = whole_array(name, array)
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    if array.ndim != len(shape) or array.shape[-1] != shape[-1] or not array.size:
        transposed = (
            "; it looks transposed: save A.T" if array.ndim == 2 and array.shape[0] == shape[-1] else ""
        )
        needed = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise FileFormatError(f"{path}: {name} has shape {array.shape}: {needed} is needed{transposed}.")
    return array


def _require_range(path: str | Path, name: str, array: np.ndarray, least: int, most: int) -> None:
    low, high = int(array.min()), int(array.max())
    if low < least or high > most:
        raise FileFormatError(
            f"{path}: {name} has entries from {low} to {high}: from {least} to {most} is allowed."
        )


def _read_challenge(path: Path) -> tuple[LWEParameters, np.ndarray, np.ndarray]:
    """The parameters, A and b of the text of an LWE challenge."""
    head, _, rest = _read_text(path).partition("[")
    body, numbers = "[" + rest, head.split()
    rows = _ROW.findall(body)
    if len(numbers) != 4 or _skeleton(body) != f"r[{'r' * (len(rows) - 1)}]":
        raise wrong(
            path,
            "an LWE challenge has lines with n, m, q and alpha, then b as [1 2 ...] and A as [[1 2 ...] ...]",
        )

    def read() -> tuple[int, LWEParameters]:
        n, m, q = map(int, numbers[:3])
        count("q", q, least=2, most=LARGEST_MODULUS)
        sigma = float(Decimal(numbers[3]) * q)
        noise = DiscreteGaussian(sigma) if sigma else NO_NOISE
        return m, LWEParameters(n, q, q, "uniform", Xe=noise)

    m, parameters = guarded(path, "its n, m, q or alpha is wrong", read)
    public, labels = _rows(path, rows[1:]), _rows(path, rows[:1])[0]
    if len(public) != m:
        raise wrong(path, f"it has {len(public)} rows of A and says that m is {m}")
    return parameters, public, labels


def _alpha(sigma: float, modulus: int) -> str:
    """The shortest text of sigma / q that gives sigma back."""
    short = repr(sigma / modulus)
    return short if float(Decimal(short) * modulus) == sigma else str(Decimal(sigma) / modulus)


def _read_text(path: Path) -> str:
    require_file(path)
    text: str = guarded(path, "the file is no valid text", lambda: path.read_text(encoding="ascii"))
    return text


def _skeleton(text: str) -> str:
    """The text with "r" for each row in brackets, without white space and commas."""
    return re.sub(r"[\s,]", "", _ROW.sub("r", text))


def _rows(path: Path, rows: list[str]) -> Int[np.ndarray, "rows columns"]:
    numbers = [row[1:-1].replace(",", " ").split() for row in rows]
    if len({len(row) for row in numbers}) != 1:
        raise wrong(path, "its rows have different lengths, or there are none")
    return np.asarray(
        guarded(
            path,
            "its entries are not whole numbers of at most 64 bits",
            lambda: np.array([[int(one) for one in row] for row in numbers], dtype=np.int64),
        )
    )


def _text(array: np.ndarray) -> str:
    if array.ndim == 1:
        return f"[{' '.join(map(str, array.tolist()))}]"
    return "[" + "\n".join(map(_text, array)) + "]"
