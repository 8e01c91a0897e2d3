"""Samples as files: .npz, the text of the LWE challenges, and matrices as .npy or as the text of fplll."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention import FileFormatError
from attention.files import write_whole
from attention.foreign import guarded, require_file, strict_json, wrong
from attention.numpy_files import read_npy, read_npz
from attention.validation import checked
from lwe.distributions import NO_NOISE, DiscreteGaussian
from lwe.parameters import LWEParameters
from lwe.residues import LARGEST_MODULUS, centred, whole_array
from lwe.samples import LWRSamples, Rounding, require_no_signs

_START = 1 << 16  # bytes that show what a file is


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """The content of a file of samples."""

    samples: LWRSamples
    parameters: LWEParameters
    secret: Int[np.ndarray, " n"] | None  #: the secret, centred mod q, if the file has it
    rounding_known: bool = True  #: whether the file or the caller says how labels are rounded


@checked
def save_samples(
    path: str | Path,
    samples: LWRSamples,
    parameters: LWEParameters,
    *,
    secret: ArrayLike | None = None,
    labels_path: str | Path | None = None,
) -> None:
    """Write samples as a file that `read_samples` reads back unchanged: .npz, or .txt as in the LWE challenges.

    .npz has the arrays A and b, the parameters as a JSON text, and the secret if it is given. .txt has lines with n, m,
    q and alpha, the vector b and the matrix A in brackets; alpha q is the standard deviation of the errors. It holds
    only learning with errors with a uniform matrix and secret, and Gaussian errors or none. With a `labels_path` the
    two files are the matrices A and b alone, as .npy or, for any other ending, in the text of fplll. ValueError if a
    file cannot hold the problem, the ending is another one, or the samples do not fit the parameters.

    Examples
    --------
    >>> import tempfile
    >>> from lwe import make_samples
    >>> parameters = LWEParameters(4, 17, 17, "uniform", Xe=DiscreteGaussian(1.5))
    >>> samples, _ = make_samples(parameters, 5, rng=0)
    >>> path = Path(tempfile.mkdtemp()) / "challenge.txt"
    >>> save_samples(path, samples, parameters)
    >>> path.read_text().splitlines()[:5]
    ['4', '5', '17', '0.08823529411764705882352941176', '[7 0 12 4 1]']
    >>> again = read_samples(path)
    >>> again.parameters == parameters, bool((again.samples.public == samples.public).all())
    (True, True)
    """
    path = Path(path)
    own = _fitting(path, path, samples.public, samples.labels, parameters, samples.rounding)
    if secret is not None and (labels_path is not None or path.suffix == ".txt"):
        raise ValueError(f"{path}: a matrix, or the text of an LWE challenge, holds no secret; take .npz.")
    if labels_path is not None:
        write_matrix(path, own.public)
        write_matrix(labels_path, own.labels)
    elif path.suffix == ".txt":
        write_whole(path, _challenge(path, own, parameters).encode())
    elif path.suffix == ".npz":
        text = json.dumps(parameters.to_json())
        arrays: dict[str, Any] = {"A": own.public, "b": own.labels, "parameters": text}
        if own.rounding != "down":
            arrays["rounding"] = own.rounding
        if secret is not None:
            arrays["secret"] = _fitting_secret(path, whole_array("secret", secret), parameters)
        written = io.BytesIO()
        np.savez_compressed(written, **arrays)
        write_whole(path, written.getvalue())
    else:
        raise ValueError(
            f"{path}: samples are written as .npz, or as .txt in the format of the LWE challenges."
        )


@checked
def read_samples(
    path: str | Path,
    parameters: LWEParameters | Mapping[str, Any] | None = None,
    *,
    labels_path: str | Path | None = None,
    secret_path: str | Path | None = None,
    rounding: Rounding | None = None,
) -> StoredSamples:
    """Samples of .npz with A and b; of an LWE challenge; or of matrices, one a file.

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

    Notes
    -----
    A may be transposed, (n, N): the length of b shows it, unless A is square; then its rows are the samples.

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
    >>> stored = read_samples(folder / "A.npy", problem, labels_path=folder / "b.txt")
    >>> stored.samples.public.tolist(), stored.samples.labels.tolist(), str(stored.parameters)
    ([[1, 5], [3, 0], [0, 1]], [6, 3, 1], 'LWE n=2 q=7 p=7 uniform')
    """
    path, kind = Path(path), kind_of_file(path)
    if kind == "matrix" and labels_path is None:
        raise ValueError(f"{path} is a matrix: labels_path is needed, too.")
    if kind != "matrix" and labels_path is not None:
        raise ValueError(f"{path} is no matrix: leave labels_path out.")
    stored: LWEParameters | None = None
    arrays: dict[str, Any] = {}
    if labels_path is not None:
        public, labels = read_matrix(path), read_matrix(labels_path)
    elif kind == "challenge":
        stored, public, labels = _read_challenge(path)
    else:
        arrays = read_npz(path)
        if not {"A", "b"} <= set(arrays):
            raise wrong(path, f"it has the arrays {', '.join(arrays)[:200]}: A and b are needed")
        public, labels = np.asarray(arrays["A"]), np.asarray(arrays["b"])
        if "parameters" in arrays:
            text = str(arrays["parameters"])
            stored = guarded(
                path, "its parameters are wrong", lambda: LWEParameters.from_json(strict_json(text))
            )
    if stored is not None and parameters is not None:
        raise ValueError(
            f"{path} says itself that it is {stored}: leave parameters, such as the modulus, out."
        )
    labels = labels.ravel() if 1 in labels.shape else labels
    if public.ndim == 2 and labels.size == public.shape[1] != len(public):
        public = public.T
    known = stored or parameters
    if not isinstance(known, LWEParameters):
        if public.ndim != 2 or not public.size:
            raise wrong(path, f"A has shape {public.shape}: a matrix of one row a sample is needed")
        if not known or "q" not in known:
            raise ValueError(f"{path} does not say its modulus: give the modulus in parameters.")
        known = LWEParameters(n=public.shape[1], **known)
    stated = rounding is not None or stored is not None or "rounding" in arrays
    if (
        known.p < known.q and not stated and np.any(labels == known.p)
    ):  # p stands for 0 after rounding to the nearest
        rounding, stated = "nearest", True
    samples = _fitting(path, labels_path or path, public, labels, known, _rounding(path, arrays, rounding))
    secret = arrays.get("secret") if secret_path is None else read_matrix(secret_path)
    if secret is not None:
        secret = _fitting_secret(secret_path or path, np.asarray(secret), known)
    return StoredSamples(samples, known, secret, stated or known.p == known.q)


@checked
def read_matrix(path: str | Path) -> np.ndarray:
    """The array of an .npy file, or the matrix or vector of whole numbers in a text such as [[1 2][3 4]] or [1 2].

    The text is that of fplll and fpylll; commas and line breaks may stand between numbers and rows, and the outer
    brackets, or all of them, may be missing if each row has a line. FileFormatError if the file holds no such thing.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return read_npy(path)
    text = _read_text(path)
    rows = _rows(path, text)
    return rows[0] if len(rows) == 1 and not text.lstrip().startswith("[[") else rows


@checked
def write_matrix(path: str | Path, array: ArrayLike) -> None:
    """Write a matrix or a vector of whole numbers, as .npy or, for any other ending, in the text of fplll."""
    array = whole_array("array", array)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"array has shape {array.shape}: a matrix or a vector with entries is needed.")
    if Path(path).suffix == ".npy":
        written = io.BytesIO()
        np.save(written, array, allow_pickle=False)
        write_whole(path, written.getvalue())
    else:
        write_whole(path, f"{_text_of_array(array)}\n".encode())


def kind_of_file(path: str | Path) -> Literal["matrix", "npz", "challenge"] | None:
    """What a file looks like; None if it looks like none of these or is not there."""
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        return "matrix" if path.suffix == ".npy" else "npz"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(_START)
    text = start.strip()
    if (
        b"\0" in start[:8] or text[:1] not in b"[-0123456789" or not text
    ):  # the length of a safetensors header
        return None
    return "challenge" if b"[" in text[1:] and text[:1] != b"[" else "matrix"


def _rounding(path: Path, arrays: Mapping[str, Any], given: Rounding | None) -> Rounding:
    says = str(arrays["rounding"]) if "rounding" in arrays else given or "down"
    if says not in get_args(Rounding):
        raise wrong(path, f"its rounding is {says[:20]!r}: {' or '.join(get_args(Rounding))} is needed")
    if given not in (None, says):
        raise ValueError(f"{path} says itself that labels are rounded {says}: leave rounding out.")
    return "nearest" if says == "nearest" else "down"


def _fitting(
    path: str | Path,
    labels_path: str | Path,
    public: np.ndarray,
    labels: np.ndarray,
    parameters: LWEParameters,
    rounding: Rounding,
) -> LWRSamples:
    """The samples, reduced mod q where the parameters allow it; FileFormatError unless they fit the parameters."""
    q, p, residues = parameters.q, parameters.p, (-(parameters.q // 2), parameters.q - 1)
    entries = {"binary": (0, 1), "ternary": (-1, 1)}.get(parameters.matrix, residues)
    if parameters.matrix == "ternary" and q > 2:
        public = np.where(public == q - 1, -1, public)
    public = _whole(path, "A", public, ("N", parameters.n), entries)
    # rounded to the nearest, residues near q have the label p, which is 0
    values = (0, p - 1 + (rounding == "nearest")) if p < q else residues
    labels = _whole(labels_path, "b", labels, (len(public),), values)
    for own, name, array in ((path, "A", public), (labels_path, "b", labels)):
        try:
            require_no_signs(name, array, q)
        except ValueError as error:
            raise FileFormatError(f"{own}: {error}") from None
    public = np.mod(public, q) if entries == residues else public
    return LWRSamples(public, np.mod(labels, p if p < q else q), rounding)


def _fitting_secret(path: str | Path, secret: np.ndarray, parameters: LWEParameters) -> Int[np.ndarray, " n"]:
    secret, q = secret.ravel() if 1 in secret.shape else secret, parameters.q
    return centred(_whole(path, "The secret", secret, (parameters.n,), (1 - q, q - 1)), q)


def _whole(
    path: str | Path, name: str, array: np.ndarray, shape: tuple[int | str, ...], allowed: tuple[int, int]
) -> np.ndarray:
    """The array as whole numbers; FileFormatError if it has others, another shape, or numbers out of range."""
    try:
        array = whole_array(name, array.astype(np.int64) if array.dtype == bool else array)
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    if array.ndim != len(shape) or array.shape[-1:] != shape[-1:] or not array.size:
        needed = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise FileFormatError(f"{path}: {name} has shape {array.shape}: {needed} is needed.")
    low, high = int(array.min()), int(array.max())
    if low < allowed[0] or high > allowed[1]:
        raise FileFormatError(
            f"{path}: {name} has entries from {low} to {high}: from {allowed[0]} to {allowed[1]} is allowed."
        )
    return array


def _challenge(path: Path, samples: LWRSamples, parameters: LWEParameters) -> str:
    """The text of an LWE challenge; ValueError if it cannot hold the problem."""
    n, q, errors = parameters.n, parameters.q, parameters.Xe
    sigma = errors.sigma if isinstance(errors, DiscreteGaussian) else 0.0
    if parameters.updated(m=None, tag="") != _challenge_parameters(n, q, sigma) or sigma >= q:
        raise ValueError(
            f"{path}: the text of the LWE challenges is for unrounded labels, a uniform matrix and secret, and "
            f"Gaussian errors narrower than q or none; {parameters} needs .npz."
        )
    head = f"{n}\n{len(samples)}\n{q}\n{Decimal(sigma) / q}\n"
    return f"{head}{_text_of_array(samples.labels)}\n{_text_of_array(samples.public)}\n"


def _challenge_parameters(n: int, q: int, sigma: float) -> LWEParameters:
    return LWEParameters(n, q, q, "uniform", Xe=DiscreteGaussian(sigma) if sigma else NO_NOISE)


def _read_challenge(path: Path) -> tuple[LWEParameters, np.ndarray, np.ndarray]:
    """The parameters, A and b of the text of an LWE challenge."""
    head, _, rest = _read_text(path).partition("[")
    vector, _, matrix = rest.partition("]")
    numbers = head.split()
    if len(numbers) != 4 or not matrix.strip(" \t\r\n,"):
        raise wrong(
            path,
            "an LWE challenge has lines with n, m, q and alpha, then b as [1 2 ...] and A as [[1 2 ...] ...]",
        )

    def read() -> tuple[int, LWEParameters]:
        n, m, q = map(int, numbers[:3])
        alpha = Decimal(numbers[3])
        if q > LARGEST_MODULUS or not 0 <= alpha < 1:
            raise ValueError(
                f"q is {q} and alpha is {alpha}: at most 2^52, and from 0 to below 1, is allowed"
            )
        return m, _challenge_parameters(n, q, float(alpha * q))

    m, parameters = guarded(path, "its n, m, q or alpha is wrong", read)
    public = _rows(path, matrix)
    if len(public) != m:
        raise wrong(path, f"it has {len(public)} rows of A and says that m is {m}")
    return parameters, public, _rows(path, vector)[0]


def _read_text(path: Path) -> str:
    require_file(path)
    text: str = guarded(path, "the file is no valid text", lambda: path.read_text(encoding="ascii"))
    return text


def _rows(path: Path, text: str) -> Int[np.ndarray, "rows columns"]:
    """The rows of whole numbers in a text: each in brackets, or else each in a line."""
    if text.count("[") != text.count("]"):
        raise wrong(
            path, "the file is no valid .npy file and no matrix such as [[1 2][3 4]]: a bracket is missing"
        )
    parts = text.replace("[", " ").split("]") if "[" in text else text.splitlines()
    rows = [row for part in parts if (row := part.replace(",", " ").split())]
    if len({len(row) for row in rows}) != 1:
        raise wrong(path, "its rows have different lengths, or there are none")
    matrix: np.ndarray = guarded(
        path,
        "the file is no valid .npy file, and its entries are not whole numbers of at most 64 bits",
        lambda: np.array([[int(entry) for entry in row] for row in rows], dtype=np.int64),
    )
    return matrix


def _text_of_array(array: np.ndarray) -> str:
    """A vector or a matrix of whole numbers in brackets, without commas."""
    if array.ndim == 1:
        return f"[{' '.join(map(str, array.tolist()))}]"
    return "[" + "\n".join(map(_text_of_array, array)) + "]"
