"""Samples (A, b) from plain .npy files and to them, so that public benchmark data can be attacked and compared."""

from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention import FileFormatError
from attention._containers import read_npy
from attention.files import write_whole
from attention.validation import as_path, require_instance
from lwe.parameters import LWRParameters, centred, require_parameters
from lwe.samples import LWRSamples

__all__ = ["read_samples", "write_samples"]


def read_samples(
    public_path: str | Path,
    labels_path: str | Path,
    parameters: LWRParameters,
    *,
    secret_path: str | Path | None = None,
) -> tuple[LWRSamples, Int[np.ndarray, " n"] | None]:
    """Samples from .npy files of whole numbers: A of shape (N, n), b of shape (N,), the secret of shape (n,).

    Parameters
    ----------
    public_path, labels_path : path
        The files of A, one row a sample, and of b.
    parameters : LWRParameters
        What they are samples of: the modulus, the levels and what rows of A are.
    secret_path : path, optional
        The file of the secret, where it is known.

    Returns
    -------
    samples : LWRSamples
        A and b. Labels that are not rounded (p = q), and a uniform matrix, may be given centred, between -q/2 and
        q/2; they are reduced mod q. Whole numbers in floating point are accepted.
    secret : array of int (n,) or None
        The secret, centred mod q, if a file was given.

    Raises
    ------
    FileFormatError
        If a file is missing, damaged, no .npy file, holds Python objects (which are never unpickled), numbers that
        are not whole, an array of another shape, or a number out of range.

    Notes
    -----
    Reads each file whole. Labels of learning with rounding (p < q) must be from 0 to p - 1, entries of a binary matrix
    0 and 1, of a ternary one -1, 0 and 1 (or q - 1 for -1). Whether a secret explains the labels is not checked.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "A.npy", np.array([[1, -2], [3, 0], [0, 1]]))
    >>> np.save(folder / "b.npy", np.array([-1, 3, 1]))
    >>> parameters = LWRParameters(secret_dim=2, modulus=7, levels=7, matrix="uniform")
    >>> samples, secret = read_samples(folder / "A.npy", folder / "b.npy", parameters)
    >>> samples.public.tolist(), samples.labels.tolist(), secret
    ([[1, 5], [3, 0], [0, 1]], [6, 3, 1], None)
    """
    require_parameters(parameters)
    q, n = parameters.modulus, parameters.secret_dim
    public_path, labels_path = as_path(public_path), as_path(labels_path)
    public = _whole_numbers(public_path, "A")
    if public.ndim != 2 or public.shape[1] != n or not len(public):
        transposed = (
            "; it looks transposed: save A.T"
            if public.ndim == 2 and public.shape[0] == n and public.shape[1] > 0
            else ""
        )
        raise FileFormatError(
            f"{public_path}: A has shape {public.shape}: (N, n), one row a sample and n = {n} columns, is needed for "
            f"{parameters}{transposed}."
        )
    labels = _whole_numbers(labels_path, "b")
    if labels.shape != (len(public),):
        raise FileFormatError(
            f"{labels_path}: b has shape {labels.shape}: ({len(public)},), one label for each row of A, is needed."
        )
    samples = LWRSamples(_entries(public_path, public, parameters), _labels(labels_path, labels, parameters))
    if secret_path is None:
        return samples, None
    secret = _whole_numbers(Path(secret_path), "The secret")
    if secret.shape != (n,):
        raise FileFormatError(f"{secret_path}: The secret has shape {secret.shape}: ({n},) is needed.")
    return samples, centred(_in_range(Path(secret_path), "The secret", secret, -q + 1, q - 1), q)


def write_samples(
    public_path: str | Path,
    labels_path: str | Path,
    samples: LWRSamples,
    *,
    secret_path: str | Path | None = None,
    secret: ArrayLike | None = None,
) -> None:
    """Write samples as .npy files of 64-bit integers; `read_samples` gives them back.

    Parameters
    ----------
    public_path, labels_path : path
        Where to write A of shape (N, n) and b of shape (N,).
    samples : LWRSamples
        What to write.
    secret_path : path, optional
        Where to write the secret.
    secret : array of int (n,), optional
        The secret; given if and only if there is a path for it.

    Raises
    ------
    ValueError
        If of a secret and its path only one is given, or the secret is not n whole numbers, or two paths are one.
    """
    require_instance(
        "samples", samples, LWRSamples, needed="LWRSamples, as make_samples or read_samples give them,"
    )
    if (secret is None) != (secret_path is None):
        raise ValueError(
            "Of secret and secret_path one is given: both are needed to write a secret, or neither."
        )
    arrays: dict[Path, np.ndarray] = {
        as_path(public_path): samples.public,
        as_path(labels_path): samples.labels,
    }
    if secret is not None and secret_path is not None:
        own = np.asarray(secret)
        if own.shape != (samples.secret_dim,) or own.dtype.kind not in "iu":
            raise ValueError(
                f"secret has shape {own.shape} of {own.dtype}: {samples.secret_dim} whole numbers are needed."
            )
        arrays[Path(secret_path)] = own.astype(np.int64)
    if len(arrays) < (2 if secret is None else 3):
        raise ValueError("Two of the paths are the same file: A, b and the secret need one each.")
    for path, array in arrays.items():
        buffer = BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_whole(path, buffer.getvalue())


def _whole_numbers(path: Path, name: str) -> np.ndarray:
    array = read_npy(path)
    if array.dtype.kind == "f":
        if (
            not np.all(np.isfinite(array))
            or np.any(array != np.floor(array))
            or np.any(np.abs(array) >= 2**53)
        ):
            raise FileFormatError(
                f"{path}: {name} is of {array.dtype} with entries that are not whole: whole numbers are needed."
            )
    elif array.dtype.kind not in "iu" or (array.size and array.max() > np.iinfo(np.int64).max):
        raise FileFormatError(
            f"{path}: {name} is of {array.dtype}: whole numbers that fit into 64 bits are needed."
        )
    return array.astype(np.int64)


def _entries(path: Path, public: np.ndarray, parameters: LWRParameters) -> np.ndarray:
    q = parameters.modulus
    if parameters.matrix == "binary":
        return _in_range(path, "A", public, 0, 1)
    if parameters.matrix == "ternary":
        if q > 2:
            public = np.where(public == q - 1, -1, public)
        return _in_range(path, "A", public, -1, 1)
    return np.mod(_in_range(path, "A", public, -(q // 2), q - 1), q)


def _labels(path: Path, labels: np.ndarray, parameters: LWRParameters) -> np.ndarray:
    q, p = parameters.modulus, parameters.levels
    if p < q:
        return _in_range(path, "b", labels, 0, p - 1)
    return np.mod(_in_range(path, "b", labels, -(q // 2), q - 1), q)


def _in_range(path: Path, name: str, array: np.ndarray, least: int, most: int) -> np.ndarray:
    low, high = int(array.min()), int(array.max())
    if low < least or high > most:
        raise FileFormatError(
            f"{path}: {name} has entries from {low} to {high}: from {least} to {most} is allowed."
        )
    return array
