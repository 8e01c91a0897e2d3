"""Samples as files: .npz, JSON, Python text, the text of the LWE challenges, and matrices as .npy or as text."""

import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention import FileFormatError
from attention.files import guarded, read_npy, read_npz, write_whole, wrong
from attention.foreign import strict_json
from attention.validation import PositiveInt, checked, count
from lwe.distributions import NO_NOISE, DiscreteGaussian, Distribution
from lwe.parameters import LWEParameters, centred
from lwe.residues import LARGEST_MODULUS, whole_array
from lwe.sample_text import matrix_of_text, named_values, names_samples, read_text, text_of_array
from lwe.samples import LWRSamples, Rounding, require_no_signs

__all__ = [
    "StoredSamples",
    "kind_of_file",
    "read_matrix",
    "read_samples",
    "save_samples",
    "write_matrix",
]

_NAMES = (("A", "b"), ("X", "y"))
_FIELDS = {"q": "q", "modulus": "q", "p": "p", "levels": "p"}
_START = 1 << 16  # bytes that show what a file is


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """The content of a file of samples."""

    samples: LWRSamples
    parameters: LWEParameters
    secret: Int[np.ndarray, " n"] | None  #: the secret, centred mod q, if the file has it
    #: how many columns of labels the file has, each of a secret of its own; one of them was read
    columns: int = 1
    rounding_known: bool = True  #: whether the file or the caller says how labels are rounded


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
    own = _fitting(path, samples.public, samples.labels, parameters, samples.rounding)
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {
            "A": own.public,
            "b": own.labels,
            "parameters": json.dumps(parameters.to_json()),
        }
        if own.rounding != "down":
            arrays["rounding"] = own.rounding
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
    if sigma >= q:
        raise ValueError(
            f"{path}: alpha is below 1 in an LWE challenge, and {parameters} has wider errors: take .npz."
        )
    head = f"{n}\n{len(own)}\n{q}\n{_alpha(sigma, q)}\n"
    write_whole(path, f"{head}{text_of_array(own.labels)}\n{text_of_array(own.public)}\n".encode())


@checked
def read_samples(
    path: str | Path,
    parameters: LWEParameters | Mapping[str, Any] | None = None,
    *,
    labels_path: str | Path | None = None,
    secret_path: str | Path | None = None,
    rounding: Rounding | None = None,
    column: PositiveInt = 1,
) -> StoredSamples:
    """Samples of .npz, JSON or Python text with A and b, or X and y; of an LWE challenge; or of matrices, one a file.

    FileFormatError if a file is missing or damaged, holds Python objects (which are never unpickled), numbers that are
    not whole, an array of another shape, or a number out of range. ValueError if parameters are missing or given twice.

    Parameters
    ----------
    path : path
        The samples, or the matrix A of shape (N, n), one row a sample, as `read_matrix` reads it.
    parameters : LWEParameters or mapping, optional
        The problem: for matrices, and for files of other programs, as far as they do not hold it. A mapping has its
        fields but `n`, which is then the number of columns. `p` is by default q.
    labels_path : path, optional
        With a matrix: the labels b of shape (N,).
    secret_path : path, optional
        The secret of shape (n,), where it is known.
    rounding : {"down", "nearest"}, optional
        How labels are rounded; by default as the file says, else to the nearest if there are labels p, else down.
    column : int
        Where b has several columns, each of a secret of its own: the one that is read, from 1.

    Notes
    -----
    A may be transposed, (n, N): the length of b shows it, unless A is square; then its rows are the samples. Files of
    other programs may name q (or modulus), p (or levels), alpha or sigma (of the errors), and s or secret.

    Labels that are not rounded (p = q), and a uniform matrix, may be given centred, between -q/2 and q/2; they are
    reduced mod q. In a ternary matrix q - 1 may stand for -1. Modulo 2, entries that are all -1 or 1 are refused: they
    are the same mod 2, and which of them stands for 0 is not known. Whole numbers in floating point and truth values
    are accepted. Whether the secret explains the labels is not checked. The LWE challenges have uniform secrets and
    discrete Gaussian errors of standard deviation alpha q; they are read as normal errors rounded to whole numbers.

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
    path, kind = Path(path), kind_of_file(path)
    if (labels_path is None) == (kind == "matrix"):
        needed = (
            "a matrix: labels_path is needed, too" if kind == "matrix" else "no matrix: leave labels_path out"
        )
        raise ValueError(f"{path} is {needed}.")
    stored: LWEParameters | None = None
    arrays: dict[str, Any] = {}
    if labels_path is not None:
        public, labels = read_matrix(path), read_matrix(labels_path)
    elif kind == "challenge":
        stored, public, labels = _read_challenge(path)
    else:
        arrays = named_values(path) if kind == "text" else read_npz(path)
        names = next((pair for pair in _NAMES if set(pair) <= set(arrays)), None)
        if names is None:
            raise wrong(path, f"it has the arrays {', '.join(arrays)[:200]}: A and b, or X and y, are needed")
        public, labels = np.asarray(arrays[names[0]]), np.asarray(arrays[names[1]])
        if "parameters" in arrays:
            text = str(arrays["parameters"])
            stored = guarded(
                path, "its parameters are wrong", lambda: LWEParameters.from_json(strict_json(text))
            )
    if stored is not None and parameters is not None:
        raise ValueError(
            f"{path} says itself that it is {stored}: leave parameters, such as the modulus, out."
        )
    public, labels = _oriented(public, labels)
    columns = labels.shape[1] if labels.ndim == 2 else 1
    if column > columns:
        raise ValueError(f"column is {column}: b has {columns}.")
    labels = labels[:, column - 1] if labels.ndim == 2 else labels
    known = stored or parameters
    if not isinstance(known, LWEParameters):
        known = _problem(path, public, arrays, dict(known or {}))
    stated = rounding is not None or stored is not None or "rounding" in arrays
    if (
        known.p < known.q and not stated and np.any(labels == known.p)
    ):  # p stands for 0 after rounding to the nearest
        rounding, stated = "nearest", True
    samples = _fitting(path, public, labels, known, _rounding(path, arrays, rounding), labels_path)
    secret = arrays.get("secret", arrays.get("s")) if secret_path is None else read_matrix(secret_path)
    if secret is not None:
        secret = _fitting_secret(secret_path or path, np.asarray(secret), known, columns, column)
    return StoredSamples(samples, known, secret, columns, stated or known.p == known.q)


@checked
def read_matrix(path: str | Path) -> np.ndarray:
    """The array of an .npy file, or the matrix or vector of whole numbers in a text such as [[1 2][3 4]] or [1 2].

    The text is that of fplll and fpylll; commas and line breaks may stand between numbers and rows, and the outer
    brackets, or all of them, may be missing if each row has a line. FileFormatError if the file holds no such thing.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return read_npy(path)
    return matrix_of_text(path, read_text(path))


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
        write_whole(path, f"{text_of_array(found)}\n".encode())


def kind_of_file(path: str | Path) -> Literal["matrix", "npz", "challenge", "text"] | None:
    """What a file looks like; None if it looks like none of these or is not there."""
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        return "matrix" if path.suffix == ".npy" else "npz"
    start = b""
    if os.path.isfile(path):
        with path.open("rb") as file:
            start = file.read(_START)
    if b"\0" in start[:8]:  # the length of a safetensors header
        return None
    first = start.strip()[:1]
    if first.isdigit() or first == b"-":
        rows = b"[" not in start and len(start.strip().split(b"\n")[0].replace(b",", b" ").split()) > 1
        return "matrix" if rows else "challenge"
    return "matrix" if first == b"[" else "text" if names_samples(start) else None


def _oriented(public: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A with a row for each label, and b with a column for each secret if there are several."""
    if labels.ndim == 2:
        # a row of labels for each secret, or a row for each sample
        across = len(labels) not in public.shape or (
            len(labels) != len(public) and labels.shape[1] == len(public)
        )
        labels = labels.T if across else labels
        labels = labels[:, 0] if labels.shape[1:] == (1,) else labels
    number = len(labels) if labels.ndim else 0
    transposed = public.ndim == 2 and len(public) != number and public.shape[1] == number
    return (public.T if transposed else public), labels


def _problem(
    path: Path, public: np.ndarray, arrays: Mapping[str, Any], given: dict[str, Any]
) -> LWEParameters:
    """The problem that was given, completed by what the file says of it."""
    if public.ndim != 2 or not public.size:
        raise wrong(path, f"A has shape {public.shape}: a matrix of one row a sample is needed")
    says: dict[str, Any] = {}
    for name, value in arrays.items():
        if name in _FIELDS:
            use: Callable[[], int] = partial(_whole_number, name, value)
            says[_FIELDS[name]] = guarded(path, f"its {name} is no whole number", use)
    if "q" in given and says.get("q", given["q"]) != given["q"]:
        raise ValueError(f"{path} says that q is {says['q']}, not {given['q']}: leave the modulus out.")
    problem = ({"matrix": "uniform"} if says else {}) | says | given
    if "q" not in problem:
        raise ValueError(f"{path} does not say its modulus: give the modulus in parameters.")
    problem.setdefault("p", problem["q"])
    for name, scale in (("alpha", problem["q"]), ("sigma", 1)):
        if name in arrays and "Xe" not in given:
            law: Callable[[], Distribution] = partial(_errors, name, str(arrays[name]), scale)
            problem["Xe"] = guarded(path, f"its {name} is wrong", law)
    return LWEParameters(n=public.shape[1], **problem)


def _whole_number(name: str, value: Any) -> int:
    return int(whole_array(name, value))


def _errors(name: str, number: str, scale: int) -> Distribution:
    """The law of errors of standard deviation sigma, or alpha q."""
    if name == "alpha" and not Decimal(number) < 1:
        raise ValueError(f"alpha is {number}: the standard deviation as a share of q, below 1, is needed")
    sigma = float(Decimal(number) * scale)
    return DiscreteGaussian(sigma) if sigma else NO_NOISE


def _rounding(path: Path, arrays: Mapping[str, Any], given: Rounding | None) -> Rounding:
    says = str(arrays["rounding"]) if "rounding" in arrays else given or "down"
    if says not in get_args(Rounding):
        raise wrong(path, f"its rounding is {says[:20]!r}: {' or '.join(get_args(Rounding))} is needed")
    if given not in (None, says):
        raise ValueError(f"{path} says itself that labels are rounded {says}: leave rounding out.")
    return "nearest" if says == "nearest" else "down"


def _fitting(
    path: str | Path,
    public: np.ndarray,
    labels: np.ndarray,
    parameters: LWEParameters,
    rounding: Rounding,
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
    # rounded to the nearest, residues near q have the label p, which is 0
    _require_range(labels_path, "b", labels, *((0, p - 1 + (rounding == "nearest")) if p < q else residues))
    for own, name, array in ((path, "A", public), (labels_path, "b", labels)):
        try:
            require_no_signs(name, array, q)
        except ValueError as error:
            raise FileFormatError(f"{own}: {error}") from None
    return LWRSamples(
        np.mod(public, q) if entries == residues else public, np.mod(labels, p if p < q else q), rounding
    )


def _fitting_secret(
    path: str | Path, secret: np.ndarray, parameters: LWEParameters, columns: int = 1, column: int = 1
) -> Int[np.ndarray, " n"]:
    n = parameters.n
    if secret.ndim == 2 and columns > 1 and secret.shape in ((n, columns), (columns, n)):
        secret = secret[:, column - 1] if secret.shape == (n, columns) else secret[column - 1]
    secret = _whole(path, "The secret", secret.ravel() if 1 in secret.shape else secret, (n,))
    _require_range(path, "The secret", secret, -parameters.q + 1, parameters.q - 1)
    return centred(secret, parameters.q)


def _whole(path: str | Path, name: str, array: np.ndarray, shape: tuple[int | str, ...]) -> np.ndarray:
    try:
        array = whole_array(name, array.astype(np.int64) if array.dtype == bool else array)
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    if array.ndim != len(shape) or array.shape[-1] != shape[-1] or not array.size:
        needed = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise FileFormatError(f"{path}: {name} has shape {array.shape}: {needed} is needed.")
    return array


def _require_range(path: str | Path, name: str, array: np.ndarray, least: int, most: int) -> None:
    low, high = int(array.min()), int(array.max())
    if low < least or high > most:
        raise FileFormatError(
            f"{path}: {name} has entries from {low} to {high}: from {least} to {most} is allowed."
        )


def _read_challenge(path: Path) -> tuple[LWEParameters, np.ndarray, np.ndarray]:
    """The parameters, A and b of the text of an LWE challenge."""
    head, _, rest = read_text(path).partition("[")
    vector, closed, rest = rest.partition("]")
    numbers = head.split()
    if len(numbers) != 4 or not closed or not rest.strip(" \t\r\n,"):
        raise wrong(
            path,
            "an LWE challenge has lines with n, m, q and alpha, then b as [1 2 ...] and A as [[1 2 ...] ...]",
        )

    def read() -> tuple[int, LWEParameters]:
        n, m, q = map(int, numbers[:3])
        count("q", q, least=2, most=LARGEST_MODULUS)
        return m, LWEParameters(n, q, q, "uniform", Xe=_errors("alpha", numbers[3], q))

    m, parameters = guarded(path, "its n, m, q or alpha is wrong", read)
    public, labels = matrix_of_text(path, rest.strip(" ,\t\r\n")), matrix_of_text(path, f"[{vector}]")
    public = np.atleast_2d(public)
    if len(public) != m:
        raise wrong(path, f"it has {len(public)} rows of A and says that m is {m}")
    return parameters, public, labels


def _alpha(sigma: float, modulus: int) -> str:
    """The shortest text of sigma / q that gives sigma back."""
    short = repr(sigma / modulus)
    return short if float(Decimal(short) * modulus) == sigma else str(Decimal(sigma) / modulus)
