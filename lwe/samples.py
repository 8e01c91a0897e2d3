"""Samples (A, b) of learning with rounding or with errors: what every attack is given."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator
from lwe.parameters import LWRParameters, centred, require_parameters, rounded
from lwe.residues import LARGEST_MODULUS, whole_array

__all__ = ["LWRSamples", "inner_products", "make_samples"]


@dataclass(frozen=True, eq=False)
class LWRSamples:
    """Rows a of a public matrix and the labels b = floor(p ((<a, s> + e) mod q) / q) of an unknown secret s.

    Attributes
    ----------
    public : array of int (N, n)
        A. Entries are 0 and 1, -1, 0 and 1, or residues mod q, as `LWRParameters.matrix` says.
    labels : array of int (N,)
        b, from 0 to p - 1; p = q where labels are not rounded (learning with errors).

    Raises
    ------
    ValueError
        If the shapes do not fit together, or an entry is no whole number.

    Examples
    --------
    >>> samples = LWRSamples(public=np.array([[0, 1], [1, 1]]), labels=np.array([1, 0]))
    >>> len(samples), samples.secret_dim, samples.take(1).labels.tolist()
    (2, 2, [1])
    """

    public: Int[np.ndarray, "N n"]
    labels: Int[np.ndarray, " N"]

    def __post_init__(self) -> None:
        for name in ("public", "labels"):
            object.__setattr__(self, name, _whole_numbers(name, getattr(self, name)))
        shapes = f"public has shape {self.public.shape} and labels {self.labels.shape}"
        if self.public.ndim != 2 or self.labels.ndim != 1 or 0 in self.public.shape:
            raise ValueError(f"{shapes}: (N, n) and (N,), neither of them empty, are needed.")
        if len(self.public) != len(self.labels):
            raise ValueError(f"{shapes}: one label for each row is needed.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def secret_dim(self) -> int:
        """The number n of columns."""
        return int(self.public.shape[1])

    def take(self, number: int) -> "LWRSamples":
        """The first `number` of them.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        number = count("number", number)
        if number > len(self):
            raise ValueError(f"number is {number}: there are {len(self)} samples, take at most as many.")
        return LWRSamples(self.public[:number], self.labels[:number])

    def held_out(self, number: int) -> "tuple[LWRSamples, LWRSamples]":
        """All but the last `number`, and those.

        Raises
        ------
        ValueError
            If that leaves none.
        """
        number = count("number", number)
        if number >= len(self):
            raise ValueError(
                f"number is {number}: there are {len(self)} samples, and at least one must stay."
            )
        return self.take(len(self) - number), LWRSamples(self.public[-number:], self.labels[-number:])


def make_samples(
    parameters: LWRParameters, number: int, *, secret: ArrayLike | None = None, rng: Rng = None
) -> tuple[LWRSamples, Int[np.ndarray, " n"]]:
    """Draw samples, of a secret that is given or drawn; without any attention heads.

    Parameters
    ----------
    parameters : LWRParameters
        Of what; the gadget's public matrix is given as residues, G a and not the bits a.
    number : int
        How many.
    secret : array of int (n,), optional
        The secret, any representatives mod q.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret, the matrix and the errors.

    Returns
    -------
    samples : LWRSamples
        The samples.
    secret : array of int (n,)
        The secret, centred mod q.

    Raises
    ------
    ValueError
        If the number is below 1, or the secret does not fit.

    Notes
    -----
    O(N n).

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=8, modulus=64, levels=2)
    >>> samples, secret = make_samples(parameters, 100, rng=0)
    >>> samples.public.shape, len(secret), np.unique(samples.labels).tolist()
    ((100, 8), 8, [0, 1])
    """
    require_parameters(parameters)
    number = count("number", number, least=1)
    require_memory(
        f"number is {shown(number)}: such samples",
        8 * number * (3 * parameters.secret_dim + 4),
        advice="take fewer",
    )
    generator = random_generator(rng)
    n, q, p = parameters.secret_dim, parameters.modulus, parameters.levels
    if secret is None:
        own = parameters.secret.draw(n, q, rng=generator)
    else:
        own = centred(_whole_numbers("secret", secret), q)
        if own.shape != (n,):
            raise ValueError(f"secret has shape {own.shape}: ({n},) is needed.")
    if parameters.matrix == "binary":
        public = generator.integers(2, size=(number, n))
    elif parameters.matrix == "ternary":
        public = generator.integers(2, size=(number, n)) - generator.integers(2, size=(number, n))
    else:
        public = generator.integers(q, size=(number, n))
    errors = parameters.noise.draw(number, q, rng=generator)
    return LWRSamples(public, rounded(inner_products(public, own, q) + errors, q, p)), own


def inner_products(
    public: Int[np.ndarray, "N n"], secret: Int[np.ndarray, " n"], modulus: int
) -> Int[np.ndarray, " N"]:
    """<a, s> mod q for every row a, without overflow for q up to 2^31."""
    public, secret = whole_array("public", public), whole_array("secret", secret)
    if public.ndim != 2 or secret.shape != public.shape[1:]:
        raise ValueError(
            f"public has shape {public.shape} and secret {secret.shape}: (N, n) and (n,) are needed."
        )
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    public, secret = np.mod(public, modulus), np.mod(secret, modulus)
    if public.shape[1] * modulus**2 < 2**62:
        return np.mod(public @ secret, modulus)
    total = np.zeros(len(public), dtype=np.int64)
    for column, entry in zip(public.T, secret, strict=True):
        total = (total + column * entry) % modulus
    return total


def _whole_numbers(name: str, values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    # 2^53 is no number of float16
    if (
        array.dtype.kind == "f"
        and np.all(array == np.floor(array))
        and np.all(np.abs(array.astype(float)) < 2**53)
    ):
        array = array.astype(np.int64)  # many files hold residues as floating-point numbers
    if array.dtype.kind not in "iu" or (array.size and array.max() > np.iinfo(np.int64).max):
        raise ValueError(f"{name} is of {array.dtype}: whole numbers that fit into 64 bits are needed.")
    array = np.array(array, dtype=np.int64)
    array.flags.writeable = False
    return array
