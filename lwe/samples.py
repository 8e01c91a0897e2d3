"""Samples (A, b) of learning with rounding or with errors, the input of attacks: drawn, or read from .npy files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention import FileFormatError
from attention._arrays import shown
from attention.files import read_npy
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, count, random_generator
from lwe.parameters import LWRParameters, centred, rounded
from lwe.residues import inner_products, whole_array

__all__ = ["LWRSamples", "inner_products", "make_samples", "read_samples"]


@dataclass(frozen=True, eq=False)
class LWRSamples:
    """Rows a of a public matrix and the labels b = floor(p ((<a, s> + e) mod q) / q) of an unknown secret s."""

    #: A. Entries are 0 and 1, -1, 0 and 1, or residues mod q, as `LWRParameters.matrix` says.
    public: Int[np.ndarray, "N n"]
    #: b, from 0 to p - 1; p = q where labels are not rounded (learning with errors)
    labels: Int[np.ndarray, " N"]

    def __post_init__(self) -> None:
        for name in ("public", "labels"):
            array = whole_array(name, getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.public.ndim != 2 or self.labels.shape != self.public.shape[:1] or 0 in self.public.shape:
            raise ValueError(
                f"public has shape {self.public.shape} and labels {self.labels.shape}: (N, n) and (N,), one label for "
                "each row and neither of them empty, are needed."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def secret_dim(self) -> int:
        """The number n of columns."""
        return int(self.public.shape[1])

    def take(self, number: int) -> "LWRSamples":
        """The first `number` of them."""
        number = count("number", number, most=len(self))
        return LWRSamples(self.public[:number], self.labels[:number])

    def held_out(self, number: int) -> "tuple[LWRSamples, LWRSamples]":
        """All but the last `number` samples, and the last `number`; each part has at least one."""
        number = count("number", number, most=len(self) - 1)
        return self.take(len(self) - number), LWRSamples(self.public[-number:], self.labels[-number:])


@checked
def make_samples(
    parameters: LWRParameters, number: PositiveInt, *, secret: ArrayLike | None = None, rng: Rng = None
) -> tuple[LWRSamples, Int[np.ndarray, " n"]]:
    """Draw samples without attention heads; return them and the secret centred mod q, which is given or drawn.

    Parameters
    ----------
    parameters : LWRParameters
        The problem. The gadget's public matrix is returned as residues G a, not as the bits a.
    number : int
        The number of samples.
    secret : array of int (n,), optional
        The secret, any representatives mod q.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret, the matrix and the errors.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=8, modulus=64, levels=2)
    >>> samples, secret = make_samples(parameters, 100, rng=0)
    >>> samples.public.shape, len(secret), np.unique(samples.labels).tolist()
    ((100, 8), 8, [0, 1])
    """
    n, q, p = parameters.secret_dim, parameters.modulus, parameters.levels
    require_memory(f"number is {shown(number)}: such samples", 8 * number * (3 * n + 4), advice="take fewer")
    generator = random_generator(rng)
    own = parameters.secret.draw(n, q, rng=generator) if secret is None else centred(secret, q)
    if own.shape != (n,):
        raise ValueError(f"secret has shape {own.shape}: ({n},) is needed.")
    public = generator.integers(2 if parameters.matrix in ("binary", "ternary") else q, size=(number, n))
    if parameters.matrix == "ternary":
        public -= generator.integers(2, size=(number, n))
    errors = parameters.noise.draw(number, q, rng=generator)
    return LWRSamples(public, rounded(inner_products(public, own, q) + errors, q, p)), own


@checked
def read_samples(
    public_path: str | Path,
    labels_path: str | Path,
    parameters: LWRParameters,
    *,
    secret_path: str | Path | None = None,
) -> tuple[LWRSamples, Int[np.ndarray, " n"] | None]:
    """Samples from .npy files of whole numbers: A of shape (N, n), b of shape (N,), the secret of shape (n,).

    FileFormatError if a file is missing, damaged, no .npy file, holds Python objects (which are never unpickled),
    numbers that are not whole, an array of another shape, or a number out of range.

    Parameters
    ----------
    public_path, labels_path : path
        The files of A, one row a sample, and of b.
    parameters : LWRParameters
        The problem: the modulus, the levels and the kind of the rows of A.
    secret_path : path, optional
        The file of the secret, where it is known.

    Returns
    -------
    samples : LWRSamples
        A and b. Labels that are not rounded (p = q), and a uniform matrix, may be given centred, between -q/2 and
        q/2; they are reduced mod q. In a ternary matrix q - 1 may stand for -1. Whole numbers in floating point are
        accepted. Whether the secret explains the labels is not checked.
    secret : array of int (n,) or None
        The secret, centred mod q, if a file was given.

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
    q, p, n = parameters.modulus, parameters.levels, parameters.secret_dim
    residues = (-(q // 2), q - 1)
    entries = {"binary": (0, 1), "ternary": (-1, 1)}.get(parameters.matrix, residues)
    public = _read(public_path, "A", ("N", n))
    if parameters.matrix == "ternary" and q > 2:
        public = np.where(public == q - 1, -1, public)
    _require_range(public_path, "A", public, *entries)
    labels = _read(labels_path, "b", (len(public),))
    _require_range(labels_path, "b", labels, *((0, p - 1) if p < q else residues))
    samples = LWRSamples(np.mod(public, q) if entries == residues else public, np.mod(labels, q))
    if secret_path is None:
        return samples, None
    secret = _read(secret_path, "The secret", (n,))
    _require_range(secret_path, "The secret", secret, -q + 1, q - 1)
    return samples, centred(secret, q)


def _read(path: str | Path, name: str, shape: tuple[int | str, ...]) -> np.ndarray:
    array = read_npy(Path(path))
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
